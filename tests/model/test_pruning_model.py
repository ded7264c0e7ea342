"""A join that races with pruned sends, in every interleaving: a source, a joiner, and links that keep no order.

The source's memory and the joiner's line are the classes that the daemon runs. Whatever the joiner passes in the total
order behind its own join must have come with content. The thesis' rule, to send content as soon as the join is seen,
fails; so does sending what is owed without waiting for the source's word.

Reference: [Spread 3.4.2]; D-clear.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field

import pytest

from isotone.core.services import Service
from isotone.evs.ordering.lines import SiteLine
from isotone.evs.ordering.pruning import Pruner
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.sim.explorer import Exploration, explore

SOURCE, JOINER = 0, 1
Message = tuple[object, ...]


@dataclass
class State:
    """Both sites and everything on its way; what is underway has no order."""

    to_joiner: list[Message] = field(default_factory=list)
    to_source: list[Message] = field(default_factory=list)
    source_clock: int = 0
    sent: int = 0
    knows: bool = False  # the source has seen the join
    pruner: Pruner = field(default_factory=lambda: Pruner(SOURCE))
    joiner_line: SiteLine = field(default_factory=SiteLine)  # of the joiner's units, at the source
    joiner_clock: int = 0
    joined: int = 0  # the time of the join
    line: SiteLine = field(default_factory=SiteLine)  # of the source's units, at the joiner
    ahead: dict[int, tuple[int, bool]] = field(default_factory=dict)  # sequence to time and whether only metadata came
    times: dict[int, int] = field(default_factory=dict)  # of what is contiguous
    content: set[int] = field(default_factory=set)
    passed: int = 0
    wrong: str = ""


class Race:
    """The model; ``resends``: what is owed is sent when the join is seen; ``clears``: lines wait for the source."""

    def __init__(self, *, sends: int, resends: bool, clears: bool) -> None:
        self.sends, self.resends, self.clears = sends, resends, clears

    def initial(self) -> Iterable[State]:
        return [State()]

    def identity(self, state: State) -> bytes:
        ordered = deepcopy(state)
        ordered.to_joiner.sort(key=repr)
        ordered.to_source.sort(key=repr)
        return repr((ordered, sorted(state.content))).encode()

    def problem(self, state: State) -> str | None:
        return state.wrong or None

    def may_end(self, state: State) -> bool:
        return state.passed == self.sends and bool(state.joined)

    def steps(self, state: State) -> Iterable[tuple[str, State]]:
        if state.sent < self.sends:
            yield self._step(state, "send", self._send)
        if not state.joined:
            yield self._step(state, "join", self._join)
        for place, message in enumerate(state.to_joiner):
            yield self._step(state, f"joiner gets {message}", self._joiner_gets, place)
        for place, message in enumerate(state.to_source):
            yield self._step(state, f"source gets {message}", self._source_gets, place)

    def _step(self, state: State, name: str, change, *arguments: int) -> tuple[str, State]:  # type: ignore[no-untyped-def]
        after = deepcopy(state)
        change(after, *arguments)
        self._walk(after)
        return name, after

    # --- the source ------------------------------------------------------------------------------------------------

    def _send(self, state: State) -> None:
        state.sent += 1
        state.source_clock += 1
        unit = Unit(UnitKind.BUNDLE, Service.AGREED, SOURCE, SOURCE, state.sent, state.source_clock, 0, b"content")
        if not state.knows:
            state.pruner.pruned(unit, ("g",), 1 << SOURCE)
        state.to_joiner.append(("unit", unit.sequence, unit.lamport, state.knows))

    def _source_gets(self, state: State, place: int) -> None:
        kind, sequence, lamport = state.to_source.pop(place)
        assert isinstance(sequence, int) and isinstance(lamport, int)
        state.source_clock = max(state.source_clock, lamport)
        if kind == "join":
            state.joiner_line.advance(sequence, lamport)
            state.knows = True
            if self.resends:
                state.to_joiner += [("content", unit.sequence) for unit in state.pruner.joined(JOINER, "g")]
        else:
            state.joiner_line.promise(sequence, lamport)
        if self.clears and state.pruner.is_due(state.joiner_line.heard):
            cleared = state.pruner.clear(state.joiner_line.heard)
            state.to_joiner.append(("cleared", cleared.lamport, cleared.owed))

    # --- the joiner ------------------------------------------------------------------------------------------------

    def _join(self, state: State) -> None:
        state.joiner_clock += 1
        state.joined = state.joiner_clock
        state.to_source.append(("join", 1, state.joined))

    def _joiner_gets(self, state: State, place: int) -> None:
        match state.to_joiner.pop(place):
            case ("unit", int() as sequence, int() as lamport, bool() as whole):
                self._take(state, sequence, lamport, whole=whole)
            case ("content", int() as sequence):
                state.content.add(sequence)
                state.line.filled(sequence)
            case ("cleared", int() as lamport, tuple() as owed):
                state.line.clear(lamport, [sequence for sequence, mask in owed if mask >> JOINER & 1])
            case other:
                raise AssertionError(other)

    def _take(self, state: State, sequence: int, lamport: int, *, whole: bool) -> None:
        if whole:
            state.content.add(sequence)
        state.ahead[sequence] = (lamport, not whole)
        while (following := state.ahead.pop(state.line.contiguous + 1, None)) is not None:
            here = state.line.contiguous + 1
            time, bare = following
            if self.clears and bare and here not in state.content:
                state.line.bare(here, time)
            state.line.advance(here, time)
            state.times[here] = time
        state.joiner_clock = max(state.joiner_clock, lamport)
        state.to_source.append(("promise", int(bool(state.joined)), state.joiner_clock))

    def _walk(self, state: State) -> None:
        """Pass what stands below the line; behind the own join content is owed."""
        while state.passed < state.line.contiguous and state.times[state.passed + 1] <= state.line.line:
            state.passed += 1
            position = (state.times[state.passed], SOURCE)
            owed = state.joined and position > (state.joined, JOINER)
            if owed and state.passed not in state.content:
                state.wrong = f"message {state.passed} was passed without content, behind the join at {state.joined}"


def search(**rule: bool) -> Exploration:
    return explore(Race(sends=2, **rule), limit=200_000)


def test_ours_never_misses_what_is_owed_and_always_gets_on() -> None:
    found = search(resends=True, clears=True)
    assert found.complete and found.violation is None, found.violation
    assert found.deadlocks == 0
    assert (found.states, found.transitions) == (666, 1_707)


@pytest.mark.parametrize("resends", [False, True])
def test_the_rule_of_the_thesis_fails(resends: bool) -> None:
    """Content from the moment on in which the join is seen; and the same with what is owed sent late."""
    found = search(resends=resends, clears=False)
    assert found.violation is not None
    assert "without content" in found.violation.problem
    assert found.violation.steps == (
        "send",
        "send",
        "join",
        "joiner gets ('unit', 1, 1, False)",
        "joiner gets ('unit', 2, 2, False)",
    )
