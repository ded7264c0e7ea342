"""Turns actions into effects: timers, datagrams, disk, boundary B4, records.

The actions of one automaton form one FIFO stream (its lane). Without an unfinished `Persist` they are done at once; a
`Persist` goes to the disk at once too, even behind another, so that many commit together, and everything else behind
it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from isotone.core.boundary import Ask, Connect, Disconnect, Disconnected, Indicate, Indicated, Indication, Requested
from isotone.core.contract import (
    Action,
    CancelTimer,
    CloseStream,
    MulticastDatagrams,
    OpenStream,
    Persist,
    Persisted,
    PersistFailed,
    Record,
    SendDatagrams,
    SetTimer,
    Stop,
    TimerFired,
    WriteStream,
)
from isotone.core.ids import ClientId
from isotone.sim.disk import Submission
from isotone.sim.process import SERVICE_LABEL, Lane, Phase, Process, Timer
from isotone.trace.boundary import entries_of_indication, entry_of_indication, entry_of_request
from isotone.trace.events import Entry

if TYPE_CHECKING:
    from isotone.sim.world import World

Performer = Callable[[Lane, Any], None]


HANGING_LOOK_US = 5_000
"""So often it is looked whether a disk that hangs answers again."""
NEVER = Stop("ended")
"""Stands first in the lanes of an ended process, so that nothing behind it is done."""


class Effects:
    """Carries out what automata ask for."""

    def __init__(self, world: World) -> None:
        self.service: Lane | None = None  # the automaton that serves boundary B4 for all, if there is one
        self.disk_within_us = 0  # whose disk takes longer leaves its groups until it answers; 0: nobody does
        self.armed = 0  # how many timers are armed, without the periodic ones
        self._world = world
        self._agenda = world.agenda
        self._network = world.network
        self._performers: dict[type[Action], Performer] = {
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Ask: self._ask,
            Indicate: self._indicate,
            SendDatagrams: self._send_datagrams,
            MulticastDatagrams: self._multicast_datagrams,
            OpenStream: self._open_stream,
            WriteStream: self._write_stream,
            CloseStream: self._close_stream,
            Record: self._record,
            Persist: self._persist,
            Stop: self._stop,
        }

    def perform(self, lane: Lane, actions: Sequence[Action]) -> None:
        """Do what the automaton said, in order, as far as no `Persist` holds it back."""
        if lane.held:
            self._hold(lane, actions)
            return
        performers = self._performers
        for position, action in enumerate(actions):
            performer = performers.get(type(action))
            if performer is None:
                raise self._world.failure(lane, action, "not an action that the simulator knows")
            performer(lane, action)
            if lane.held:
                self._hold(lane, actions[position + 1 :])
                return
            if lane.stopped:
                return

    def _hold(self, lane: Lane, actions: Sequence[Action]) -> None:
        if lane.process.phase is Phase.ENDED:
            return
        for action in actions:
            if type(action) is Persist:
                self._persist(lane, action)
            else:
                lane.held.append(action)

    def forget(self, process: Process) -> None:
        """The process ended: nothing of it happens any more."""
        for lane in process.lanes.values():
            lane.held.clear()
            lane.held.append(NEVER)
            for timer in lane.timers.values():
                self._disarm(timer)
        process.inbox.clear()

    # --- timers --------------------------------------------------------------------------------------------------

    def _set_timer(self, lane: Lane, action: SetTimer) -> None:
        assert action.after_us >= 0, f"a timer {action.after_us} us ahead"
        clock = lane.process.clock
        due = clock.when(clock.read(self._agenda.now) + action.after_us)
        timer = lane.timers.get(action.key)
        if lane.firing:
            lane.firing.discard(action.key)
        if timer is None:
            lane.timers[action.key] = timer = Timer(lane, action.key)
        if timer.due < 0 and not timer.periodic:
            self.armed += 1
        timer.due = due
        if not 0 <= timer.entry <= due:
            timer.entry = due
            self._agenda.push_timer(due, self._ring, timer)

    def _cancel_timer(self, lane: Lane, action: CancelTimer) -> None:
        timer = lane.timers.get(action.key)
        lane.firing.discard(action.key)
        if timer is not None:
            self._disarm(timer)

    def _disarm(self, timer: Timer) -> None:
        if timer.due >= 0:
            timer.due = -1
            if not timer.periodic:
                self.armed -= 1

    def _ring(self, timer: Timer) -> None:
        agenda, lane = self._agenda, timer.lane
        agenda.timers -= 1
        if timer.entry != agenda.now:
            return  # an earlier entry took its place
        if timer.due > agenda.now:
            timer.entry = timer.due
            agenda.push_timer(timer.due, self._ring, timer)
            return
        timer.entry = -1
        if lane.timers.get(timer.key) is timer:
            del lane.timers[timer.key]
        if timer.due >= 0:
            self._disarm(timer)
            lane.firing.add(timer.key)
            self._world.post(lane, TimerFired(lane.process.clock.read(agenda.now), timer.key))

    # --- network -------------------------------------------------------------------------------------------------

    def _send_datagrams(self, lane: Lane, action: SendDatagrams) -> None:
        self._network.send(lane, action.destination, action.datagrams)

    def _multicast_datagrams(self, lane: Lane, action: MulticastDatagrams) -> None:
        self._network.multicast(lane, action.site, action.datagrams)

    def _open_stream(self, lane: Lane, action: OpenStream) -> None:
        self._network.streams.open(lane, action.stream, action.destination)

    def _write_stream(self, lane: Lane, action: WriteStream) -> None:
        self._network.streams.write(lane, action.stream, action.data)

    def _close_stream(self, lane: Lane, action: CloseStream) -> None:
        self._network.streams.close(lane, action.stream)

    # --- disk ----------------------------------------------------------------------------------------------------

    def _persist(self, lane: Lane, action: Persist) -> None:
        lane.held.append(action)
        lane.process.node.disk.submit(Submission(lane.label, action.ticket, action.writes))
        self._sync_if_due(lane.process)

    def _sync_if_due(self, process: Process) -> None:
        disk = process.node.disk
        if disk.is_due:
            self._agenda.push(self._agenda.now + disk.begin_sync(), self._end_sync, process)
            if self.disk_within_us:
                self._agenda.push(self._agenda.now + self.disk_within_us, self._watch_disk, (process, disk.syncs))

    def _watch_disk(self, watched: tuple[Process, int]) -> None:
        """A sync has had its time: if it runs still, the process leaves its groups, as a host does."""
        process, syncs = watched
        disk = process.node.disk
        if process.phase is Phase.ENDED or not disk.syncing or disk.syncs != syncs:
            return
        if process.phase is Phase.PAUSED:
            process.inbox.append((self._watch_disk, watched))
            return
        self._agenda.push(self._agenda.now + self.disk_within_us // 4, self._watch_disk, watched)
        for client in sorted(process.sessions):
            lane = process.player(client.name)
            if lane is not None and lane.held:
                self._part(lane, client)

    def _part(self, lane: Lane, client: ClientId) -> None:
        """End a session beside the lane; what the lane still asks in it is not asked."""
        process = lane.process
        self._ask(lane, Ask(client, Disconnect()))
        process.sessions.discard(client)
        process.ousted.add(client)
        at = process.clock.read(self._agenda.now)
        self._world.post(lane, Indicated(at, (client,), Disconnected("the disk does not answer")))

    def _end_sync(self, process: Process) -> None:
        if process.phase is Phase.ENDED:
            return
        if process.phase is Phase.PAUSED:  # it learns of it when it goes on; a crash before that loses it
            process.inbox.append((self._end_sync, process))
            return
        if process.node.disk.settings.hangs:
            self._agenda.push(self._agenda.now + HANGING_LOOK_US, self._end_sync, process)
            return
        covered, reason = process.node.disk.end_sync()
        for submission in covered:
            lane = process.lanes[submission.label]
            if lane.held and lane.held[0] is NEVER:
                return
            if reason:
                self._fail(lane, reason)
            else:
                self._release(lane, submission.ticket)
        if process.node.process is process:
            self._sync_if_due(process)
            self._world.end_when_done(process)

    def _release(self, lane: Lane, ticket: int) -> None:
        """The first `Persist` of the lane is durable: do what stands behind it, up to the next."""
        held = lane.held
        head = cast(Persist, held.popleft())
        assert type(head) is Persist and head.ticket == ticket
        self._world.post(lane, Persisted(lane.process.clock.read(self._agenda.now), ticket))
        while held and type(held[0]) is not Persist and held[0] is not NEVER and not lane.stopped:
            action = held.popleft()
            performer = self._performers.get(type(action))
            if performer is None:
                raise self._world.failure(lane, action, "not an action that the simulator knows")
            performer(lane, action)

    def _fail(self, lane: Lane, reason: str) -> None:
        """All that is held fails or is not done; a later sync of the same lane then finds nothing to answer."""
        lane.process.node.disk.forget(lane.label)
        at = lane.process.clock.read(self._agenda.now)
        for action in lane.held:
            if type(action) is Persist:
                self._world.post(lane, PersistFailed(at, action.ticket, reason))
        lane.held.clear()

    # --- boundary B4 ---------------------------------------------------------------------------------------------

    def _ask(self, lane: Lane, action: Ask) -> None:
        process = lane.process
        if action.client in process.ousted:
            return
        if action.client.daemon != process.daemon:
            raise self._world.failure(lane, action, f"{action.client} is no client of {process.daemon}")
        service = self.service or process.lanes.get(SERVICE_LABEL)
        if service is None:
            raise self._world.failure(lane, action, "there is no service")
        at = service.process.clock.read(self._agenda.now)
        self._world.post(service, Requested(at, action.client, action.request))

    def take_request(self, event: Requested) -> bool:
        """Record what a client asks, as its service takes it; False when the client's process is gone meanwhile."""
        process = self._process_of(event.client)
        if process is None:
            return False
        entry = entry_of_request(event.client, event.request)
        if entry is not None:
            self._world.record(process.node.name, entry)
        if type(event.request) is Connect:
            process.sessions.add(event.client)
        if type(event.request) is Disconnect:
            process.sessions.discard(event.client)
            process.parted.add(event.client)
            service = self.service or process.lanes[SERVICE_LABEL]
            if service.held or process.inbox:
                process.late.add(event.client)
        return True

    def _indicate(self, lane: Lane, action: Indicate) -> None:
        receivers = action.receivers
        daemon = receivers[0].daemon
        for receiver in receivers:
            if receiver.daemon is not daemon and receiver.daemon != daemon:
                self._indicate_apart(lane, action)
                return
        self._indicate_at((receivers, action.indication))

    def _indicate_apart(self, lane: Lane, action: Indicate) -> None:
        """Receivers at several daemons: one indication at each, in the order of their first receivers."""
        places: dict[object, list[ClientId]] = {}
        for receiver in action.receivers:
            places.setdefault(receiver.daemon, []).append(receiver)
        for receivers in places.values():
            self._indicate_at((tuple(receivers), action.indication))

    def _indicate_at(self, indicated: tuple[tuple[ClientId, ...], Indication]) -> None:
        receivers, indication = indicated
        process = self._process_of(receivers[0])
        if process is None:
            return
        if process.phase is Phase.PAUSED:
            process.inbox.append((self._indicate_at, indicated))
            return
        if process.late and type(indication) is not Disconnected:
            receivers = tuple(receiver for receiver in receivers if receiver not in process.late)
            if not receivers:
                return
        for entry in self._entries(process, receivers, indication):
            self._world.record(process.node.name, entry)
        at = process.clock.read(self._agenda.now)
        if not process.players:
            lane = process.player("")
            if lane is not None:
                self._world.post(lane, Indicated(at, receivers, indication))
            return
        shares: dict[Lane | None, list[ClientId]] = {}
        for receiver in receivers:
            shares.setdefault(process.player(receiver.name), []).append(receiver)
        for lane, share in shares.items():
            if lane is not None:
                self._world.post(lane, Indicated(at, tuple(share), indication))

    def _entries(self, process: Process, receivers: tuple[ClientId, ...], indication: Indication) -> Sequence[Entry]:
        if type(indication) is Disconnected:  # the record has one end per session: the first of asking and hearing
            receivers = tuple(receiver for receiver in receivers if receiver not in process.parted)
            return entries_of_indication(receivers, indication)
        if len(receivers) > 1:
            return entries_of_indication(receivers, indication)
        entry = entry_of_indication(receivers, indication)
        return () if entry is None else (entry,)

    def _process_of(self, client: ClientId) -> Process | None:
        node = self._world.nodes.get(client.daemon.name)
        process = None if node is None else node.process
        return process if process is not None and process.daemon == client.daemon else None

    # --- the rest ------------------------------------------------------------------------------------------------

    def _record(self, lane: Lane, action: Record) -> None:
        self._world.record(lane.process.node.name, cast(Entry, action.entry))

    def _stop(self, lane: Lane, action: Stop) -> None:
        """This automaton is done; the process ends when nothing of the others waits for the disk any more."""
        lane.stopped = True
        lane.held.clear()
        lane.process.stopping = True
        self._world.end_when_done(lane.process)
