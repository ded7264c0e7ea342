"""Runs one automaton of flows in this process: a UDP socket, timers, cells on disk. Several may share an event loop.

Whoever sends the datagram ``isotone flow status`` is answered with one JSON object.

Implements: the shell's half of the automaton contract (`isotone.core.contract`). Deviations: none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import msgspec

from isotone.core.addresses import join_address, split_address
from isotone.core.contract import (
    Action,
    Address,
    Automaton,
    CancelTimer,
    DatagramsReceived,
    DatagramsRefused,
    Event,
    Record,
    SendDatagrams,
    SetTimer,
    Started,
    Stop,
    Stopping,
    Storage,
    TimerFired,
    TimerKey,
    Write,
)
from isotone.core.errors import InputError, MachineError
from isotone.daemon.engine import Engine, Lane
from isotone.daemon.sockets import bind_datagrams
from isotone.daemon.storage import Disk, StateDirectory
from isotone.daemon.timers import Timers

STATUS_QUESTION = b"isotone flow status"
LABEL = "flows"
PLACES_MAX = 1_000
READS_MAX = 128  # datagrams at one turn of the loop
DATAGRAM_BYTES_MAX = 65_535
BUFFER_BYTES = 4 * 1024 * 1024
"""Of the socket: an authority hears hundreds of members at once. What does not fit is lost, and members are taken for
dead."""


class FlowProcess(asyncio.DatagramProtocol):
    """One automaton at one UDP port. ``make`` builds it, once the address is known; ``performers`` carry out what the
    client is told; ``status`` says how it stands."""

    def __init__(
        self,
        make: Callable[[Address, int], Automaton],
        *,
        state: Path | None = None,
        performers: Mapping[type[Action], Callable[[Any], None]] | None = None,
        status: Callable[[Automaton], object] | None = None,
        looked: Callable[[Automaton], None] | None = None,
    ) -> None:
        self._make, self._status = make, status
        self._told = dict(performers or {})
        self._state = StateDirectory(state) if state else None
        self._disk: Disk | None = None
        self._transport: asyncio.DatagramTransport | None = None
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[str] = self._loop.create_future()
        self._places: dict[Address, tuple[str, int] | None] = {}
        self._engine = Engine(self._now, submit=self._submit, failed=self._failed)
        if looked is not None:
            self._engine.after.append(lambda lane, event, actions: looked(lane.automaton))
        self._timers = Timers(self._loop, self._now, self._fire)
        self.address = Address("")

    @staticmethod
    def _now() -> int:
        return time.monotonic_ns() // 1_000

    async def start(self, host: str, port: int) -> None:
        """Bind, build the automaton, and tell it that it started."""
        storage, incarnation = Storage(), time.time_ns() // 1_000
        if self._state is not None:
            _, incarnation = self._state.open("flows")
            storage = self._state.storage()
            self._disk = Disk(self._state)
        self._socket = bind_datagrams(host, port, receive_bytes=BUFFER_BYTES, send_bytes=BUFFER_BYTES)
        await self._loop.create_datagram_endpoint(lambda: self, sock=self._socket)
        assert self._transport is not None
        found = self._transport.get_extra_info("sockname")
        if ip_address(found[0]).is_unspecified:
            self._transport.close()
            raise InputError(f"bind to an address that other nodes can reach, not {host}")
        self.address = join_address(found[0], found[1])
        self.automaton = self._make(self.address, incarnation)
        self._lane = Lane(LABEL, self.automaton)
        self._lane.performers = {
            SetTimer: lambda lane, action: self._timers.set(lane, action.key, action.after_us),
            CancelTimer: lambda lane, action: self._timers.cancel(lane, action.key),
            SendDatagrams: self._send,
            Record: lambda lane, action: None,
            Stop: self._on_stop,
            **{kind: partial(_told, call) for kind, call in self._told.items()},
        }
        self._engine.take(self._lane, Started(self._now(), storage))

    def tell(self, make: Callable[[int], Event]) -> None:
        """Hand an event to the automaton, behind what it is handling now."""
        self._engine.take(self._lane, make(self._now()))

    def close(self) -> None:
        """Say good-bye, and give everything back."""
        if self._transport is not None and not self._transport.is_closing():
            self._engine.take(self._lane, Stopping(self._now()))
            self._transport.close()
        self._timers.close()
        self._engine.end([self._lane])
        if self._disk is not None:
            self._disk.close()
        if self._state is not None:
            self._state.close()

    # --- datagrams -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Of asyncio: the socket is there."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        """Of asyncio, which hands over one datagram in each turn of its loop: take all that wait."""
        self._on_datagram(data, addr)
        for _ in range(READS_MAX):
            try:
                data, addr = self._socket.recvfrom(DATAGRAM_BYTES_MAX)
            except OSError:  # no more, or closed meanwhile
                return
            self._on_datagram(data, addr)

    def _on_datagram(self, data: bytes, addr: tuple[Any, ...]) -> None:
        if data == STATUS_QUESTION:
            assert self._transport is not None
            told = self._status(self.automaton) if self._status else {}
            self._transport.sendto(msgspec.json.encode(told), addr)
        elif data:
            source = join_address(addr[0], addr[1])
            self._engine.take(self._lane, DatagramsReceived(self._now(), source, data, len(data)))

    def error_received(self, exc: Exception) -> None:
        """Of asyncio: nobody listens somewhere; it does not say where."""
        self._engine.take(self._lane, DatagramsRefused(self._now(), Address("")))

    def _send(self, lane: Lane, action: SendDatagrams) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        where = self._socket_address(action.destination)
        if where is None:
            return
        for parts in action.datagrams:
            self._transport.sendto(b"".join(parts), where)

    def _socket_address(self, destination: Address) -> tuple[str, int] | None:
        """None for what a peer wrongly calls its address: names are not looked up."""
        if destination not in self._places:
            if len(self._places) >= PLACES_MAX:
                self._places.clear()
            try:
                host, port = split_address(destination)
                self._places[destination] = (str(ip_address(host)), port)
            except (InputError, ValueError):
                self._places[destination] = None
        return self._places[destination]

    # --- the engine ------------------------------------------------------------------------------------------------

    def _submit(self, lane: Lane, ticket: int, writes: Sequence[Write]) -> None:
        assert self._disk is not None, "this automaton needs a state directory"
        answered = partial(self._engine.persisted, lane, lane.failures, ticket)
        self._disk.submit(writes, partial(self._loop.call_soon_threadsafe, answered))

    def _fire(self, lane: Lane, key: TimerKey) -> None:
        self._engine.take(lane, TimerFired(self._now(), key))

    def _failed(self, lane: Lane, event: object, error: BaseException) -> None:
        self._loop.call_exception_handler({"message": f"a flow automaton failed on {event}", "exception": error})
        self._end(lane, f"it failed: {error}")

    def _on_stop(self, lane: Lane, action: Stop) -> None:
        self._end(lane, action.reason)

    def _end(self, lane: Lane, reason: str) -> None:
        """It can go on no more: whoever waits for `ended` hears why."""
        lane.stopped = True
        if not self.ended.done():
            self.ended.set_result(reason)


def _told(call: Callable[[Any], None], lane: Lane, action: Any) -> None:
    call(action)


async def ask_status(where: str, within_s: float) -> Any:
    """The answer of a node or an authority; a `MachineError` if none comes in time."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()

    class Question(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
            if not answer.done():
                answer.set_result(data)

    transport, _ = await loop.create_datagram_endpoint(Question, remote_addr=split_address(where))
    try:
        for _ in range(4):
            transport.sendto(STATUS_QUESTION)
            done, _ = await asyncio.wait([answer], timeout=within_s / 4)
            if done:
                return msgspec.json.decode(answer.result())
    finally:
        transport.close()
    raise MachineError(f"nobody answers at {where}")
