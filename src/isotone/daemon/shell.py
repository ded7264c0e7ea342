"""The parts of one daemon's process, put together on this page: which event reaches which automaton, and back.

```
 streams ─▶ Router ─┬──────────────▶ gateway for Spread's clients ◀─┐
                    │                                              Boundary (B4, carried and recorded)
 datagrams ─▶ Faults ─▶ guard, where there is one ◀──▶ Stack ◀──────┘
                             │                          │
                             └── sockets, streams ◀── Effects ──▶ timers, disk, record
```
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from isotone.core.addresses import host_of
from isotone.core.boundary import Ask
from isotone.core.contract import (
    Action,
    Address,
    DatagramsReceived,
    DatagramsRefused,
    Event,
    Started,
    Stopping,
    Storage,
    TimerFired,
    TimerKey,
    Write,
)
from isotone.core.ids import ClientId, DaemonId
from isotone.daemon.boundary import Boundary
from isotone.daemon.complaints import SPREAD_MARK, Complaints, is_of_spread
from isotone.daemon.composition import Composition, Hooks, prepared
from isotone.daemon.effects import Effects
from isotone.daemon.engine import Engine, Lane
from isotone.daemon.faults import Faults
from isotone.daemon.gaps import Gaps
from isotone.daemon.holding import Holding
from isotone.daemon.node_settings import NodeSettings
from isotone.daemon.places import MAIN, TLS_CLIENTS, Places
from isotone.daemon.recording import Recording
from isotone.daemon.routing import Router
from isotone.daemon.security.events import Note, Outgoing, Pass, ViewWatch
from isotone.daemon.sockets import Datagrams
from isotone.daemon.spread.actions import PauseReading, Remark, ResumeReading
from isotone.daemon.storage import Disk
from isotone.daemon.streams import Streams
from isotone.daemon.suiting import suited
from isotone.daemon.timers import Timers
from isotone.evs.membership.peers import Peer
from isotone.evs.sessions.notices import ClientsDismissed, RoomChanged
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.stack import Stack
from isotone.trace.events import FaultsSet

if TYPE_CHECKING:
    from isotone.daemon.journal import Journal

log = logging.getLogger("isotone.daemon")

STACK, GUARD, SPREAD = "stack", "guard", "spread"
SECRET_BYTES = 32


class Shell:
    """One incarnation's machinery. ``stop`` hears that an automaton ends, ``failed`` that one is broken."""

    def __init__(
        self,
        settings: NodeSettings,
        hooks: Hooks,
        places: Places,
        disk: Disk,
        *,
        me: DaemonId,
        identity: bytes,
        address: Address,
        now: Callable[[], int],
        stop: Callable[[str], None],
        failed: Callable[[Lane, object, BaseException], None],
    ) -> None:
        self.me, self.identity, self.address, self.now = me, identity, address, now
        self.disk = disk
        self._settings, self._hooks = settings, hooks
        self._loop = asyncio.get_running_loop()
        self.engine = Engine(now, submit=self._submit, failed=failed)
        self.recording = Recording(settings.trace, me.name, me.incarnation, now)
        self.timers = Timers(self._loop, now, self._fire)
        self.gaps = Gaps(self._loop, now)
        self.journal = self._make_journal()
        self.stack = self._make_stack(places.datagrams)
        self.stack_lane = Lane(STACK, self.stack)
        self.guard_lane = self._made(GUARD, hooks.guard)
        self.spread_lane = self._made(SPREAD, hooks.spread)
        self.below = self.guard_lane or self.stack_lane
        self.lanes = [each for each in (self.guard_lane, self.stack_lane, self.spread_lane) if each is not None]
        self.datagrams = self._make_datagrams(places)
        self.streams = Streams(
            self._loop,
            self.datagrams.book,
            tell=self._on_stream,
            now=now,
            streams_max=settings.streams_max,
            handshakes_max=settings.sessions.handshakes_max,
        )
        self.router = self._make_router()
        self.faults = self._make_faults() if settings.faults else None
        self._connect(stop)

    # --- making ----------------------------------------------------------------------------------------------------

    def _make_journal(self) -> Journal | None:
        if self._settings.journal is None:
            return None
        from isotone.daemon.journal import Journal  # with the simulator's half of it: only for those who want one

        return Journal.begin(self._settings.journal, self.me, identity=self.identity, address=self.address)

    def _make_stack(self, sock: socket.socket) -> Stack:
        settings, hooks = self._settings, self._hooks
        secret = os.urandom(SECRET_BYTES)
        stack_settings = prepared(settings)
        stack_settings = suited(stack_settings, sock)
        admit, permit = hooks.admit, hooks.permit
        if self.journal is not None:
            admit, permit = self.journal.judging(admit, permit)
            self.journal.compose(site=settings.site, stack=stack_settings, sessions=settings.sessions, secret=secret)
        return Stack(
            me=self.me,
            identity=self.identity,
            site=settings.site,
            address=self.address,
            settings=stack_settings,
            sessions=ServerSessions(self.me, secret=secret, settings=settings.sessions, admit=admit, permit=permit),
        )

    def _made(self, label: str, build: Callable[[Composition], object] | None) -> Lane | None:
        if build is None:
            return None
        around = Composition(
            me=self.me,
            identity=self.identity,
            address=self.address,
            stack=self.stack,
            next_id=self.next_id,
            name_in_use=lambda name: name in self.stack.groups.roster.open,
        )
        return Lane(label, build(around))  # type: ignore[arg-type]

    def next_id(self, name: str) -> ClientId:
        """The id of a new session of this name."""
        assert self.stack.sessions is not None
        if self.journal is not None:
            self.journal.numbered(self.now(), name)
        return self.stack.sessions.next_id(name)

    def _make_datagrams(self, places: Places) -> Datagrams:
        datagrams = Datagrams(
            self._loop,
            places.datagrams,
            received=self._on_datagrams,
            refused=self._on_refusal,
            drained=self.engine.drain,
            use_offload=self._settings.offload,
        )
        if places.group is not None:
            datagrams.join(places.group, self._settings.multicast)
        return datagrams

    def _make_router(self) -> Router:
        return Router(
            self._loop,
            self.engine,
            stack=self.stack_lane,
            below=self.below,
            spread=self.spread_lane,
            shares_port=self._settings.spread_shares_port,
            clients_on_main=not any(listener.tls for listener in self._settings.listeners),
            door_of=lambda number: self.streams.by_number[number].door,
            write=self.streams.write,
            close=self.streams.close_stream,
            refused=self._on_client_without_tls,
        )

    def _on_client_without_tls(self, peer: Address) -> None:
        if self._hooks.tls_refused is not None:
            self._hooks.tls_refused("no TLS", "a client without TLS at the door of the daemons", peer)

    def _make_faults(self) -> Faults:
        return Faults(
            self._loop,
            name_of=self._name_at,
            is_known=lambda name: name in self.stack.membership.node.peers.by_name,
            send=self.datagrams.send,
            changed=self._faults_changed,
        )

    def enable_faults(self, enabled: bool) -> None:
        """Let faults be injected from now on, or not any more: those that stand are healed first."""
        if self.faults is not None:
            self.faults.heal()
        self.faults = self._make_faults() if enabled else None
        self._heed_faults()

    def _heed_faults(self) -> None:
        self._effects.faults = self.faults
        self.streams.is_cut = None if self.faults is None else self.faults.is_cut

    def _connect(self, stop: Callable[[str], None]) -> None:
        engine, spread = self.engine, self.spread_lane
        self.boundary = Boundary(engine, self.stack_lane, self.recording)
        effects = Effects(
            engine,
            timers=self.timers,
            datagrams=self.datagrams,
            streams=self.streams,
            boundary=self.boundary,
            recording=self.recording,
            neighbours=self._neighbours,
            stop=stop,
        )
        self._effects = effects
        for lane in self.lanes:
            effects.plain(lane)
        if self.guard_lane is not None:
            effects.guarded(self.stack_lane, self.guard_lane, self.router, Outgoing)
            self.guard_lane.performers |= {Pass: self._pass, Note: self._note}
            self._watch = ViewWatch()
            engine.after.append(self._watch_view)
        if spread is not None:
            spread.performers[Ask] = self._ask_of_gateway
            spread.performers |= {PauseReading: self._pause, ResumeReading: self._resume, Remark: self._remark}
            self._told_room: int | None = None
            engine.settlers += [self._tell_room, Holding(engine, self.stack_lane, spread).settle]
        self._heed_faults()
        if self.journal is not None:
            self.journal.attach(engine, self.stack_lane)
        self._complaints = Complaints(self.me)
        engine.on_refused = self._complaints.refused

    # --- life ------------------------------------------------------------------------------------------------------

    def listen(self, places: Places) -> None:
        """Let clients and daemons call."""
        self.streams.on_certificate, self.streams.on_gone = self._hooks.certified, self._hooks.gone
        self.streams.on_tls_refused = self._hooks.tls_refused
        self.streams.listen(places.main, places.address, MAIN)
        for sock, address, door in places.doors:
            if door == TLS_CLIENTS:
                assert self._hooks.tls is not None, "a listener with TLS needs a context"
                self.streams.listen_tls(sock, address, door, self._hooks.tls)
            else:
                self.streams.listen(sock, address, door)

    def start(self, storage: Storage) -> None:
        """Begin."""
        self._tell_all(Started(self.now(), storage))

    def dismiss(self) -> None:
        """No client comes any more, and those that are here go."""
        self.streams.stop_listening()
        if self.spread_lane is not None:
            self.engine.post(self.spread_lane, Stopping(self.now()))
        self.engine.post(self.stack_lane, ClientsDismissed(self.now()))
        self.engine.drain()

    def stop(self) -> None:
        """Ask the stack to say good-bye to the other daemons."""
        self.engine.post(self.stack_lane, Stopping(self.now()))
        self.engine.drain()

    def _tell_all(self, event: Event) -> None:
        for lane in (self.spread_lane, self.stack_lane):
            if lane is not None:
                self.engine.post(lane, event)
        self.engine.drain()

    @property
    def is_quiet(self) -> bool:
        """Whether all that was said is on its way."""
        return not self.streams.by_number and not any(lane.held for lane in self.lanes)

    def close(self, *, clean: bool) -> None:
        """Nothing happens any more."""
        self.engine.end(self.lanes)
        self.timers.close()
        self.gaps.close()
        self.streams.close()
        self.datagrams.close()
        if self.journal is not None:
            self.journal.close(clean=clean)

    # --- from the outside ------------------------------------------------------------------------------------------

    def _on_datagrams(self, source: Address, data: bytes, segment_size: int) -> None:
        if source == self.address or (self.faults is not None and self.faults.loses(source)):
            return  # our own multicast comes back
        if data[0] >= SPREAD_MARK and is_of_spread(data):
            self._complaints.heard_spread(source, self.now())
            return
        self.engine.post(self.below, DatagramsReceived(self.now(), source, data, segment_size))

    def _on_refusal(self, destination: Address) -> None:
        self.engine.take(self.below, DatagramsRefused(self.now(), destination))

    def _on_stream(self, event: Event) -> None:
        self.router.tell(event)  # type: ignore[arg-type]

    def _fire(self, lane: Lane, key: TimerKey) -> None:
        self.engine.take(lane, TimerFired(self.now(), key))

    def _submit(self, lane: Lane, ticket: int, writes: Sequence[Write]) -> None:
        answered = partial(self.engine.persisted, lane, lane.failures, ticket)
        self.disk.submit(writes, partial(self._loop.call_soon_threadsafe, answered))

    # --- daemons by address ----------------------------------------------------------------------------------------

    def _peers(self) -> dict[str, Peer]:
        return self.stack.membership.node.peers.by_name

    def _neighbours(self, site: str) -> list[Address]:
        return [
            peer.address
            for peer in self._peers().values()
            if peer.site == site and peer.address and peer.address != self.address
        ]

    def _name_at(self, address: Address) -> str:
        peer = self.stack.membership.node.peers.by_address.get(address)
        if peer is not None:
            return peer.name
        host = host_of(address)
        there = [peer.name for peer in self._peers().values() if host_of(peer.address) == host]
        return there[0] if len(there) == 1 and host != host_of(self.address) else ""

    def _faults_changed(self) -> None:
        assert self.faults is not None
        told = "; ".join(rule.told for rule in self.faults.rules())
        log.warning("daemon %s: faults are %s", self.me, told or "none")
        self.recording.record(FaultsSet(str(self.me), told))
        for stream in list(self.streams.by_number.values()):
            if self.faults.is_cut(stream.peer):
                stream.pause()
            else:
                stream.resume()

    # --- the guard and the gateway ---------------------------------------------------------------------------------

    def _pass(self, lane: Lane, action: Pass) -> None:
        del lane
        self.engine.post(self.stack_lane, action.event)

    def _note(self, lane: Lane, action: Note) -> None:
        del lane
        log.warning("daemon %s: %s (%s, %s)", self.me, action.text, action.peer, action.reason)

    def _watch_view(self, lane: Lane, event: Event, actions: Sequence[Action]) -> None:
        del event, actions
        if lane is self.stack_lane and (changed := self._watch.look(self.stack, self.now())) is not None:
            assert self.guard_lane is not None
            self.engine.post(self.guard_lane, changed)

    def _pause(self, lane: Lane, action: PauseReading) -> None:
        del lane
        if (stream := self.streams.by_number.get(action.stream)) is not None:
            stream.pause_reading()

    def _resume(self, lane: Lane, action: ResumeReading) -> None:
        del lane
        if (stream := self.streams.by_number.get(action.stream)) is not None:
            stream.resume_reading()

    def _remark(self, lane: Lane, action: Remark) -> None:
        del lane
        host = host_of(action.peer)  # the port is another one each time
        if self._complaints.is_news(host, action.code, self.now()):
            log.info("daemon %s: client at %s: %s (%s)", self.me, action.peer, action.reason, action.code)

    def _ask_of_gateway(self, lane: Lane, action: Ask) -> None:
        self._told_room = None  # it counts down what it was told
        self.boundary.ask(lane, action)

    def _tell_room(self, at: int) -> None:
        """Nothing that the gateway asked is under way now, so the room is what it may use."""
        room = self.stack.room
        if room != self._told_room and self.spread_lane is not None:
            self._told_room = room
            self.engine.post(self.spread_lane, RoomChanged(at, room))
