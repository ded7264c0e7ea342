"""What the automata of a daemon ask for, carried out: which action leads to which part of the shell.

With a guard, what the stack wants to send goes to the guard first, all that one step said as one batch.

Datagrams and small writes to streams wait until everything of this wake-up is handled: the network could have kept them
as long. Then few readers here come first, because what others are sent wakes those others, and on a busy machine the
readers here would wait behind them: the own delivery of a lone message takes a quarter less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from isotone.core.boundary import Ask, Indicate
from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    CloseStream,
    MulticastDatagrams,
    OpenStream,
    Record,
    SendDatagrams,
    SetTimer,
    Stop,
    WriteStream,
)
from isotone.daemon.boundary import Boundary
from isotone.daemon.engine import Engine, Lane
from isotone.daemon.faults import Faults
from isotone.daemon.offload import Parts
from isotone.daemon.recording import Recording
from isotone.daemon.routing import Router
from isotone.daemon.sockets import Datagrams
from isotone.daemon.stream import GATHERED_BYTES_MAX
from isotone.daemon.streams import Streams
from isotone.daemon.timers import Timers
from isotone.trace.events import Entry

FIRST_MAX = 16
"""So many streams are flushed before the datagrams: the token of a busy ring must not wait for all readers here."""

Neighbours = Callable[[str], Sequence[Address]]
"""The addresses of the daemons of a site that are known."""


class Effects:
    """The performers of all lanes; each lane gets its own table."""

    def __init__(
        self,
        engine: Engine,
        *,
        timers: Timers,
        datagrams: Datagrams,
        streams: Streams,
        boundary: Boundary,
        recording: Recording,
        neighbours: Neighbours,
        stop: Callable[[str], None],
    ) -> None:
        self.faults: Faults | None = None
        self._engine, self._timers, self._datagrams, self._streams = engine, timers, datagrams, streams
        self._boundary, self._recording = boundary, recording
        self._neighbours, self._stop = neighbours, stop
        self._guard: Lane | None = None
        self._wrap: Callable[[int, Sequence[Action]], Any] | None = None
        self._outgoing: list[Action] = []  # of the stack, for the guard
        self._router: Router | None = None
        self._sending: list[tuple[Address | None, Sequence[Parts]]] = []  # in this wake-up; None is the LAN's group
        engine.when_drained.append(self._flush)
        engine.read_packets, engine.send_packets = datagrams.read, self._flush_datagrams

    # --- tables ----------------------------------------------------------------------------------------------------

    def plain(self, lane: Lane) -> None:
        """An automaton whose packets and streams are the sockets'."""
        lane.performers.update(
            {
                SetTimer: self._set_timer,
                CancelTimer: self._cancel_timer,
                Ask: self._boundary.ask,
                Indicate: self._boundary.indicate,
                Record: self._record,
                SendDatagrams: self._send,
                MulticastDatagrams: self._multicast,
                OpenStream: self._open,
                WriteStream: self._write,
                CloseStream: self._close,
                Stop: self._on_stop,
            }
        )

    def guarded(self, stack: Lane, guard: Lane, router: Router, wrap: Callable[[int, Sequence[Action]], Any]) -> None:
        """What the stack sends goes to the guard, but for the streams of clients at doors of their own."""
        self._guard, self._wrap, self._router = guard, wrap, router
        stack.performers |= dict.fromkeys((SendDatagrams, MulticastDatagrams, OpenStream), self._to_guard)
        stack.performers |= dict.fromkeys((WriteStream, CloseStream), self._stream_to_guard)
        self._engine.when_performed = self._flush_guard

    # --- timers, records, the end ----------------------------------------------------------------------------------

    def _set_timer(self, lane: Lane, action: SetTimer) -> None:
        self._timers.set(lane, action.key, action.after_us)

    def _cancel_timer(self, lane: Lane, action: CancelTimer) -> None:
        self._timers.cancel(lane, action.key)

    def _record(self, lane: Lane, action: Record) -> None:
        del lane
        self._recording.record(cast(Entry, action.entry))

    def _on_stop(self, lane: Lane, action: Stop) -> None:
        lane.stopped = True
        lane.held.clear()
        self._stop(action.reason)

    # --- the network -----------------------------------------------------------------------------------------------

    def _send(self, lane: Lane, action: SendDatagrams) -> None:
        del lane
        if self.faults is not None and self.faults.takes(action.destination, action.datagrams):
            return
        self._sending.append((action.destination, action.datagrams))

    def _multicast(self, lane: Lane, action: MulticastDatagrams) -> None:
        if self._datagrams.has_group and (self.faults is None or not self.faults.standing):
            self._sending.append((None, action.datagrams))
            return
        for address in self._neighbours(action.site):
            self._send(lane, SendDatagrams(address, action.datagrams))

    def _open(self, lane: Lane, action: OpenStream) -> None:
        del lane
        self._streams.open(action.stream, action.destination)

    def _write(self, lane: Lane, action: WriteStream) -> None:
        del lane
        if self._sending and sum(map(len, action.data)) > GATHERED_BYTES_MAX:
            self._flush_datagrams()  # this goes to the kernel at once
        self._streams.gather(action.stream, action.data)

    def _flush(self, at: int) -> None:
        del at
        if self._streams.gathering > FIRST_MAX:
            self._flush_datagrams()
        self._streams.flush()
        self._flush_datagrams()

    def _flush_datagrams(self) -> None:
        sending, self._sending = self._sending, []
        for destination, datagrams in sending:
            if destination is None:
                self._datagrams.send_to_group(datagrams)
            else:
                self._datagrams.send(destination, datagrams)

    def _close(self, lane: Lane, action: CloseStream) -> None:
        del lane
        self._streams.close_stream(action.stream)

    # --- the guard -------------------------------------------------------------------------------------------------

    def _to_guard(self, lane: Lane, action: Action) -> None:
        del lane
        self._outgoing.append(action)

    def _stream_to_guard(self, lane: Lane, action: WriteStream | CloseStream) -> None:
        assert self._router is not None
        if self._router.owner(action.stream) is lane:
            performer = self._write if isinstance(action, WriteStream) else self._close
            performer(lane, cast(Any, action))
        else:
            self._outgoing.append(action)

    def _flush_guard(self, lane: Lane) -> None:
        del lane
        if self._outgoing:
            assert self._guard is not None and self._wrap is not None
            outgoing, self._outgoing = self._outgoing, []
            self._engine.post(self._guard, self._wrap(self._engine.now(), outgoing))
