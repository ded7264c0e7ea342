"""The explorer: visits every interleaving of a small system and counts its distinct states.

Breadth first, so a counterexample is a shortest one. A model says where it begins, which steps lead on from a state,
what identifies a state and what is wrong with it. `isotone.sim.automata_model` is the model for automata.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

import msgspec

State = TypeVar("State")
Explored = TypeVar("Explored")


class Model(Protocol[State]):
    """A system whose states can be visited."""

    def initial(self) -> Iterable[State]:
        """Where it may begin."""
        ...

    def steps(self, state: State) -> Iterable[tuple[str, State]]:
        """What may happen next, in a fixed order, and where it leads."""
        ...

    def identity(self, state: State) -> bytes:
        """Equal for states that are the same; see `isotone.sim.canonical`."""
        ...

    def problem(self, state: State) -> str | None:
        """What is wrong with this state, if anything is."""
        ...

    def may_end(self, state: State) -> bool:
        """Whether a state without further steps is a proper end."""
        ...


class Counterexample(msgspec.Struct, frozen=True):
    """A shortest way to a state that is wrong."""

    problem: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{number:3}. {step}" for number, step in enumerate(self.steps, start=1)]
        return "\n".join([*lines, f"  => {self.problem}"])


class Exploration(msgspec.Struct, frozen=True):
    """What was found. ``complete``: every reachable state was visited; no bound cut the search."""

    states: int
    transitions: int
    ends: int
    deadlocks: int
    depth: int
    complete: bool
    violation: Counterexample | None


def explore(model: Model[Explored], depth: int | None = None, limit: int | None = None) -> Exploration:
    """Visit the states of a model, at most ``depth`` steps away and at most ``limit`` of them."""
    return _Search(model).run(depth, limit)


class _Search(Generic[Explored]):
    """One search: the parents of all states seen, and the states whose steps are not taken yet."""

    def __init__(self, model: Model[Explored]) -> None:
        self._model = model
        self._ways: dict[bytes, tuple[bytes, str] | None] = {}  # state to the one before it and the step between
        self._frontier: list[tuple[bytes, Explored]] = []
        self._violation: Counterexample | None = None
        self._transitions = self._ends = self._deadlocks = 0

    def run(self, depth: int | None, limit: int | None) -> Exploration:
        for state in self._model.initial():
            self._visit(state, None)
        level, complete = 0, True
        while self._frontier and complete and self._violation is None:
            if depth is not None and level >= depth:
                complete = False
            else:
                complete = self._expand_all(limit)
                level += bool(self._frontier)
        return Exploration(
            states=len(self._ways),
            transitions=self._transitions,
            ends=self._ends,
            deadlocks=self._deadlocks,
            depth=level,
            complete=complete and self._violation is None,
            violation=self._violation,
        )

    def _expand_all(self, limit: int | None) -> bool:
        """Take the steps of all states at this distance; False when the limit stopped it."""
        frontier, self._frontier = self._frontier, []
        for identity, state in frontier:
            if limit is not None and len(self._ways) >= limit:
                return False
            self._expand(identity, state)
            if self._violation is not None:
                break
        return True

    def _expand(self, identity: bytes, state: Explored) -> None:
        taken = 0
        for step, after in self._model.steps(state):
            taken += 1
            self._transitions += 1
            self._visit(after, (identity, step))
            if self._violation is not None:
                return
        if not taken:
            self._ends += 1
            self._deadlocks += not self._model.may_end(state)

    def _visit(self, state: Explored, way: tuple[bytes, str] | None) -> None:
        identity = blake2b(self._model.identity(state), digest_size=16).digest()
        if identity in self._ways:
            return
        self._ways[identity] = way
        problem = self._model.problem(state)
        if problem is None:
            self._frontier.append((identity, state))
        elif self._violation is None:
            self._violation = Counterexample(problem, self._way_to(identity))

    def _way_to(self, identity: bytes) -> tuple[str, ...]:
        steps: list[str] = []
        way = self._ways[identity]
        while way is not None:
            before, step = way
            steps.append(step)
            way = self._ways[before]
        return tuple(reversed(steps))
