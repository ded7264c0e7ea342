"""Commands at red: what is on this server's disk and in no final order yet, applied to a copy where it commutes.

Where there is no quorum, commands are red: known, and not ordered. Those that a class declares commutative come to the
same in every order, so a reader may see them already. They go to a copy of the object and never into the state, and
count for good when they are green.

Implements: [COReL 2.4], commutative operations; [COReL 8.2], a partially correct view with red transactions.
Deviations: D-commute only commands that commute are applied at red, and never those that wait for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from isotone.core.errors import InputError, LocalProtocolError
from isotone.corel.message import Message, Origin
from isotone.replicated.class_state import Classes, ClassState, commuting_of
from isotone.replicated.outcome import CommandRefused, Context
from isotone.replicated.records import Called, decode
from isotone.replicated.small_states import CounterState

Commuting = CounterState | ClassState


class Provisional(msgspec.Struct, frozen=True):
    """A value that may still change: so many commands in it are red. With none it is what is green here."""

    value: Any
    red: int


class RedMessages:
    """The messages that a server has told as red and not yet as green, in the order in which they came."""

    def __init__(self) -> None:
        self._messages: dict[tuple[Origin, int], Message] = {}

    def take(self, messages: Iterable[Message]) -> None:
        """They are on this server's disk."""
        self._messages.update((message.name, message) for message in messages)

    def greened(self, messages: Iterable[Message]) -> None:
        """They are in the order."""
        for message in messages:
            self._messages.pop(message.name, None)

    def passed(self, has: Callable[[tuple[Origin, int]], bool]) -> None:
        """A snapshot stands for those of these names."""
        self._messages = {name: message for name, message in self._messages.items() if not has(name)}

    def records(self) -> list[bytes]:
        """All of their records."""
        return [record for message in self._messages.values() for record in message.records]


def red_calls(records: Iterable[bytes], name: str, kind: str) -> list[Called]:
    """Commands of one object, each once however often it was sent; a record that nobody can read is passed over."""
    found: dict[tuple[int, int], Called] = {}
    for record in records:
        try:
            call = decode(record)
        except InputError:
            continue
        if isinstance(call, Called) and (call.name, call.kind) == (name, kind):
            found.setdefault((call.session, call.request), call)
    return list(found.values())


def apply_red(state: Commuting, calls: Iterable[Called], classes: Classes) -> int:
    """Apply those that commute to this copy; how many. One that is refused now may not be when it is green."""
    applied = 0
    for call in calls:
        if call.method in commuting(state, classes):
            context = Context(0, call.session, call.request, classes, None, b"", 0)
            try:
                state.apply(context, call.method, call.arguments)
                applied += 1
            except CommandRefused:
                continue
    return applied


def commuting(state: Commuting, classes: Classes) -> tuple[str, ...]:
    """The commands of an object that come to the same in every order."""
    if isinstance(state, CounterState):
        return ("add",)
    cls = classes.of(state.kind)
    return () if cls is None else commuting_of(cls)


def check_commutes(state: Commuting, copy: Commuting, calls: list[Called], classes: Classes) -> None:
    """For tests: the other way round it must come to the same."""
    apply_red(copy, reversed(calls), classes)
    if copy != state:
        names = ", ".join(sorted({call.method for call in calls if call.method in commuting(state, classes)}))
        raise LocalProtocolError(
            f"commands are declared commutative and are not ({names}): in another order they came to another state. "
            "See docs/guide/replicated.md, 'Commands that commute'."
        )
