"""What clients of replicated objects did and heard, as entries of the trace.

``wall`` is a clock that all who record share: the simulator's, or that of one machine. Whether one operation was over
before another began is judged by it, and by nothing else. Operations have names of their own.

Implements: [DESIGN 4]; docs/protocols/replicated.md "How it is judged".
"""

from __future__ import annotations

from isotone.trace.events import Entry


class ObjectCalled(Entry, frozen=True, gc=False, tag="ocall"):
    """A program began an operation on an object, or on one key of it."""

    server: str
    operation: str
    kind_of: str
    name: str
    method: str
    key: str
    argument: str
    wall: int


class ObjectAnswered(Entry, frozen=True, gc=False, tag="oreturn"):
    """It was answered: ``done`` with this result, or ``not`` done for certain. Without such a row nobody knows."""

    server: str
    operation: str
    answer: str
    result: str
    wall: int


class ObjectHeld(Entry, frozen=True, gc=False, tag="ohold"):
    """A program holds something from here on: a lock, a leadership, an item of a queue."""

    server: str
    operation: str
    kind_of: str
    name: str
    fence: int
    shared: bool
    permits: int
    wall: int


class ObjectLost(Entry, frozen=True, gc=False, tag="olost"):
    """It took itself for the holder until ``wall``; ``how`` it ended: released, lost, done or crashed."""

    server: str
    operation: str
    fence: int
    how: str
    wall: int


class StateReached(Entry, frozen=True, gc=False, tag="ostate"):
    """A replica's whole state at this place of the order has this digest."""

    server: str
    place: int
    digest: int


class CommandOrdered(Entry, frozen=True, gc=False, tag="oorder"):
    """A replica met a command of an object at this place of the order. It counts for nothing where its session is over,
    or where some server does not know the command.
    """

    server: str
    place: int
    name: str
    call: str
    command: str
    counts: bool


class ItemsLeft(Entry, frozen=True, gc=False, tag="oleft"):
    """When all was quiet these items of a queue were not finished."""

    server: str
    name: str
    items: tuple[str, ...]
