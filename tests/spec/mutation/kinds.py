"""The list of corruptions: a kind says where it can be applied in a run, and applies itself at one such place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from isotone.core.choice import Choice
from isotone.core.ids import GroupViewId
from isotone.trace.events import Row
from tests.spec.mutation.record import Recording

Message = tuple[str, int]


@dataclass(frozen=True)
class Corrupted:
    """A run with one thing wrong in it, and what that is: enough for an excuse to look at it in the original run."""

    rows: list[Row]
    what: str
    processes: tuple[str, ...] = ()
    """At whom something was altered."""
    messages: tuple[Message, ...] = ()
    """Which messages were lost, doubled, moved or altered."""
    group: str = ""
    """In which group, where that matters."""
    view: GroupViewId | None = None
    """In which view, or which view itself."""
    subject: str = ""
    """Who was added to a set or removed from it."""


@dataclass(frozen=True)
class Kind:
    """One way to spoil a run."""

    name: str
    places: Callable[[Recording], Sequence[Any]]
    corrupt: Callable[[Recording, Any, Choice], Corrupted]

    def apply(self, run: Recording, choice: Choice) -> Corrupted | None:
        """Spoil the run at a random place; nothing if there is none."""
        if self.name not in run.found:
            run.found[self.name] = list(self.places(run))
        places = run.found[self.name]
        return self.corrupt(run, choice.pick(places), choice) if places else None


KINDS: dict[str, Kind] = {}

Corrupt = Callable[[Recording, Any, Choice], Corrupted]


def kind(name: str, places: Callable[[Recording], Sequence[Any]]) -> Callable[[Corrupt], Corrupt]:
    """Add a corruption to the list."""

    def register(corrupt: Corrupt) -> Corrupt:
        assert name not in KINDS
        KINDS[name] = Kind(name, places, corrupt)
        return corrupt

    return register
