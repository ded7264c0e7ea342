"""The automaton contract: events in, actions out. Written down in ``docs/contracts.md``; a test pins both.

An automaton is a plain object with ``handle(event) -> list[Action]``. It does no IO, reads no clock, starts no thread
and draws no random number that was not handed in. A shell (simulator, daemon, host, test) turns actions into effects
and effects into events:

* Time: every event carries ``at``, this node's monotonic microseconds. No safety property depends on it.
* Effects: the actions of one automaton form one FIFO stream across calls. A `Persist` holds back everything behind it
  in that stream until it is durable. A crash loses everything behind an unfinished `Persist`.
* Timers: `SetTimer` on a key that is armed replaces it; `CancelTimer` on one that is not is no error. A timer that was
  replaced or cancelled never fires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NewType, Protocol

import msgspec

Address = NewType("Address", str)
"""Where a process can be reached: opaque to automata, a hint that may change."""

TimerKey = str | tuple[str | int, ...]


class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that happened; ``at`` is this node's monotonic time in microseconds."""

    at: int


class Action(msgspec.Struct, frozen=True, gc=False):
    """Something that the shell shall do."""


class Automaton(Protocol):
    """A protocol as a value."""

    def handle(self, event: Event) -> list[Action]:
        """Take one event, change state, say what to do."""
        ...


# --- life ----------------------------------------------------------------------------------------------------------


class StoredLog(msgspec.Struct, frozen=True):
    """An append-only log as found on disk: a torn tail is already cut, damage elsewhere is listed."""

    first: int
    records: Sequence[bytes]
    damaged: tuple[int, ...] = ()


class Storage(msgspec.Struct, frozen=True):
    """All that earlier incarnations made durable."""

    cells: Mapping[str, bytes] = {}
    logs: Mapping[str, StoredLog] = {}


class Started(Event, frozen=True, gc=False):
    """The first event of an incarnation."""

    storage: Storage = Storage()


class Stopping(Event, frozen=True, gc=False):
    """A clean stop was asked for; actions returned now are still carried out."""


class Stop(Action, frozen=True, gc=False):
    """End this process, and say why."""

    reason: str


# --- timers --------------------------------------------------------------------------------------------------------


class TimerFired(Event, frozen=True, gc=False):
    """The timer with this key ran out and is no longer armed."""

    key: TimerKey


class SetTimer(Action, frozen=True, gc=False):
    """Arm, or arm anew, the timer with this key."""

    key: TimerKey
    after_us: int


class CancelTimer(Action, frozen=True, gc=False):
    """Disarm the timer with this key, if it is armed."""

    key: TimerKey


# --- datagrams -----------------------------------------------------------------------------------------------------


class DatagramsReceived(Event, frozen=True, gc=False):
    """One receive buffer: datagrams of ``segment_size`` bytes from one source, the last may be shorter."""

    source: Address
    data: bytes | memoryview
    segment_size: int


class DatagramsRefused(Event, frozen=True, gc=False):
    """The host at this address says that nobody listens there. Anybody can forge it: evidence, never proof."""

    destination: Address


class SendDatagrams(Action, frozen=True, gc=False):
    """Send datagrams to one address: each element is one datagram, given as the parts to be joined."""

    destination: Address
    datagrams: Sequence[Sequence[bytes | memoryview]]


class MulticastDatagrams(Action, frozen=True, gc=False):
    """Send datagrams to all others on the LAN of this site."""

    site: str
    datagrams: Sequence[Sequence[bytes | memoryview]]


# --- byte streams --------------------------------------------------------------------------------------------------


class OpenStream(Action, frozen=True, gc=False):
    """Connect to an address; ``stream`` names the stream at this process from now on."""

    stream: int
    destination: Address


class WriteStream(Action, frozen=True, gc=False):
    """Write bytes; the shell answers `StreamWritable` when it took them all."""

    stream: int
    data: Sequence[bytes | memoryview]


class CloseStream(Action, frozen=True, gc=False):
    """Close in both directions after what was written is flushed."""

    stream: int


class StreamOpened(Event, frozen=True, gc=False):
    """A stream is ready: one that we opened, or (``accepted``) one that a peer opened to us."""

    stream: int
    peer: Address
    accepted: bool


class StreamReceived(Event, frozen=True, gc=False):
    """Bytes arrived; their cut is arbitrary."""

    stream: int
    data: bytes | memoryview


class StreamWritable(Event, frozen=True, gc=False):
    """Everything written so far was taken over by the system below."""

    stream: int


class StreamClosed(Event, frozen=True, gc=False):
    """The stream is gone; no further event names it."""

    stream: int
    reason: str


# --- disk ----------------------------------------------------------------------------------------------------------


class Put(msgspec.Struct, frozen=True, gc=False):
    """Replace a small named cell, atomically: after a crash it holds the old value or the new one."""

    cell: str
    value: bytes


class Append(msgspec.Struct, frozen=True, gc=False):
    """Append a record to a log; records are numbered densely and survive a crash as a prefix."""

    log: str
    record: bytes


class CutHead(msgspec.Struct, frozen=True, gc=False):
    """Forget the records of a log before this number."""

    log: str
    before: int


class CutTail(msgspec.Struct, frozen=True, gc=False):
    """Forget the records of a log from this number on."""

    log: str
    start: int


Write = Put | Append | CutHead | CutTail


class Persist(Action, frozen=True, gc=False):
    """Make the writes durable, in order; holds back every action behind it in the stream of its automaton."""

    ticket: int
    writes: Sequence[Write]


class Persisted(Event, frozen=True, gc=False):
    """The writes of this ticket, and of all before it, are durable."""

    ticket: int


class PersistFailed(Event, frozen=True, gc=False):
    """The disk refused; nothing is known about the writes of this ticket and what stood behind it is not done."""

    ticket: int
    reason: str


# --- record --------------------------------------------------------------------------------------------------------


class Record(Action, frozen=True, gc=False):
    """Add an entry of the trace vocabulary (`isotone.trace.events`) to this node's record."""

    entry: msgspec.Struct
