"""A hop link: one peer, both directions, over datagrams that may be lost, doubled and reordered.

Frames go up as soon as they are complete, whatever is missing before them. Missing packets are asked for one by one,
lazily. Every packet carries an acknowledgement. Nothing is sent when nothing is outstanding. See docs/protocols/hop.md.

Implements: [Spread 4.3, Figures 4.1 and 4.2]. Deviations: Dh1 to Dh10 and Dh12, in the modules that this one composes;
Dh11 data packets tell the highest sequence number themselves, so the announcement of Figure 4.1, lines 8 to 12, is sent
only when an acknowledgement is overdue, because an idle link shall cost nothing.
"""

from __future__ import annotations

from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    DatagramsReceived,
    Event,
    SendDatagrams,
    SetTimer,
    TimerFired,
    TimerKey,
)
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import (
    DeclareFailed,
    Frame,
    FramesArrived,
    FramesOffered,
    LinkCounters,
    LinkRoomy,
)
from isotone.evs.links.hop.pacing import Timing
from isotone.evs.links.hop.queue import SendQueue
from isotone.evs.links.hop.receiver import Receiver
from isotone.evs.links.hop.regulator import Permission, Regulator
from isotone.evs.links.hop.sender import Sender
from isotone.evs.links.hop.settings import MICROSECONDS, HopSettings
from isotone.evs.links.hop.wire import (
    ANSWER,
    DATA,
    ECHO,
    FLAGS,
    FULL,
    HALF,
    HEADER,
    HEADER_BYTES,
    RANGE,
    RESENT,
    VERSION,
    WORD,
    expand,
    pack_ranges,
    ranges_of,
    read_ranges,
)
from isotone.evs.links.packing import Buffer, Unpacker

SILENT_ANNOUNCEMENTS = 2  # after so many without an answer the window is begun anew


class Hop:
    """One end of a hop link to one peer. Both ends are made with the same ``link`` number, which no other link had."""

    def __init__(self, *, peer: str, address: Address, link: int, settings: HopSettings | None = None) -> None:
        self.settings = settings or HopSettings()
        self.address = address  # where the peer was last known to be; may be changed at any time
        self.counters = LinkCounters()
        self.strangers = 0  # packets of other links
        self.failed: str | None = None
        self.timer: TimerKey = ("hop", peer, link)
        self._link = link & WORD
        self.timing = Timing(self.settings)
        self.regulator = Regulator(self.settings, self.timing)
        self.congestion = self.regulator.congestion
        self.sender = Sender(self.settings, self.timing)
        self.receiver = Receiver(self.settings, self.timing)
        self._queue = SendQueue(self.settings, self.congestion)
        self._unpacker = Unpacker(
            frame_bytes_max=self.settings.frame_bytes_max, held_bytes_max=self.settings.held_bytes_max
        )
        # Deadlines, and the one timer, which is never later than the first of them.
        self._armed_at: int | None = None
        self._pace_at: int | None = None
        self._acknowledge_at: int | None = None
        self._announce_at: int | None = None
        self._announced = 0  # the sequence number of the last announcement
        self._unanswered = 0  # announcements since the last progress
        self._progress_at = 0  # when the peer last made progress, or the first packet after idleness was sent
        self._acknowledged_at = -MICROSECONDS  # when the last packet left, each of which acknowledges
        self._acknowledgement: tuple[int, int] | None = None  # the last that came, as it came
        self._echo: tuple[int, int, int] | None = None  # to be sent back once: a time stamp, when it came, FULL or 0

    @property
    def room(self) -> int:
        """Bytes of frames that may be offered now; see `SendQueue`."""
        return 0 if self.failed else self._queue.room

    @property
    def waiting_bytes(self) -> int:
        """What was offered and has not left yet."""
        return self._queue.packer.queued_bytes

    @property
    def memory_max(self) -> int:
        """The bound that the buffers of this end never pass."""
        return self.settings.memory_max

    def handle(self, event: Event) -> list[Action]:
        """Take one event: `FramesOffered`, `DatagramsReceived` or `TimerFired`; others concern somebody else."""
        if self.failed:
            return []
        actions: list[Action] = []
        match event:
            case FramesOffered(at, frames):
                self._queue.offer(frames)
            case DatagramsReceived(at):
                self._on_datagrams(event, actions)
            case TimerFired(at, key) if key == self.timer:
                self._armed_at = None
            case _:
                return []
        self._conclude(at, actions)
        return actions

    # --- receiving -------------------------------------------------------------------------------------------------

    def _on_datagrams(self, event: DatagramsReceived, actions: list[Action]) -> None:
        frames: list[Frame] = []
        data = memoryview(event.data)
        assert event.segment_size > 0
        self.counters.bytes_received += len(data)
        for start in range(0, len(data) or 1, event.segment_size):
            self.counters.packets_received += 1
            try:
                self._on_packet(data[start : start + event.segment_size], event.at, frames)
            except RemoteProtocolError:
                self.counters.malformed += 1
        self._unpacker.settle()
        if frames:
            actions.append(FramesArrived(frames))

    def _on_packet(self, packet: memoryview, at: int, frames: list[Frame]) -> None:
        if len(packet) < HEADER_BYTES:
            raise RemoteProtocolError("a packet without a header")
        version, flags, count, link, word, up_to, highest, stamp, echo = HEADER.unpack_from(packet)
        if link != self._link:
            self.strangers += 1
            return
        body = len(packet) - HEADER_BYTES
        if version != VERSION or flags & ~FLAGS or (count if flags & DATA else body != count * RANGE.size):
            raise RemoteProtocolError("a header that no version 1 has")
        near = self.sender.acknowledged_up_to
        if (up_to, highest) != self._acknowledgement or self._unanswered:  # packets of one burst say the same
            self._on_acknowledgement(expand(up_to, near), expand(highest, near), at)
            self._acknowledgement = (up_to, highest)
        if flags & ECHO:
            self._on_echo((at - echo) & WORD, at, full=bool(flags & FULL))
        sequence = expand(word, self.receiver.next_expected)
        if flags & DATA:
            self._on_data(sequence, packet[HEADER_BYTES:], at, frames, resent=bool(flags & RESENT))
        else:
            self.receiver.announced(sequence, at)
            self._on_requests(read_ranges(packet, count, near), at)
        if flags & ANSWER:
            self._acknowledge_at = at
        full = FULL if 4 * len(packet) >= 3 * self.settings.packet_bytes else 0
        if self._echo is None or full >= self._echo[2]:
            self._echo = (stamp, at, full)

    def _on_data(self, sequence: int, body: memoryview, at: int, frames: list[Frame], *, resent: bool) -> None:
        receiver = self.receiver
        if not receiver.is_new(sequence):
            self.counters.duplicates += 1
            return
        self._unpacker.unpack(body, frames)
        receiver.take(sequence, at, resent=resent)
        if receiver.packets_since_acknowledged >= self.settings.acknowledge_packets:
            self._acknowledge_at = at
        elif self._acknowledge_at is None:
            self._acknowledge_at = max(at, self._acknowledged_at + self.timing.acknowledge_us)

    def _on_acknowledgement(self, up_to: int, highest_known: int, at: int) -> None:
        sender = self.sender
        before = sender.acknowledged_up_to
        left = sender.acknowledged(up_to, highest_known)
        self.congestion.progressed(
            left, sender.flight_bytes, highest_known=highest_known, highest_sent=sender.highest_sent, at=at
        )
        if left or sender.acknowledged_up_to > before or (self._unanswered and highest_known >= self._announced):
            self._unanswered = 0
            self._progress_at = at
            self._announce_at = at + self._announce_after_us if sender.outstanding else None

    def _on_requests(self, ranges: list[tuple[int, int]], at: int) -> None:
        lost = self.sender.requested(ranges, at)
        if lost:
            self.congestion.lost(lost, self.sender.highest_sent, at)

    def _on_echo(self, round_trip_us: int, at: int, *, full: bool) -> None:
        if round_trip_us < HALF:
            self.timing.take(round_trip_us, at)
            if full:
                self.congestion.sampled(round_trip_us, at)

    # --- time ------------------------------------------------------------------------------------------------------

    @property
    def _announce_after_us(self) -> int:
        """When an acknowledgement is overdue: a round trip, and what the peer may hold it back."""
        return self.timing.timeout_us + self.timing.acknowledge_us

    def _judge(self, at: int) -> str | None:
        """Why the link is to be failed, looked at whenever a request or an announcement is due."""
        if self.sender.failure:
            return self.sender.failure
        if self.receiver.next_due_at is not None and at >= self.receiver.next_due_at:
            reason = self.receiver.failure(at)
            if reason:
                return reason
        if self._announce_at is None or at < self._announce_at or self._unanswered <= self.settings.attempts_min:
            return None
        silent_us = at - self._progress_at
        if silent_us < self.settings.give_up_us(self.timing.timeout_us):
            return None
        return f"no acknowledgement for {silent_us // 1000} ms and {self._unanswered} announcements"

    # --- sending ---------------------------------------------------------------------------------------------------

    def _conclude(self, at: int, actions: list[Action]) -> None:
        """After every event: send what may be sent, tell of room, arm the timer."""
        reason = self._judge(at)
        if reason:
            self._enter_failed(reason, actions)
            return
        datagrams: list[list[Buffer]] = []
        self._send_packets(datagrams, at)
        self._send_control(datagrams, at)
        if datagrams:
            self.counters.packets_sent += len(datagrams)
            actions.append(SendDatagrams(self.address, datagrams))
        room = self._queue.returned_room()
        if room:
            actions.append(LinkRoomy(room))
        self._arm(at, actions)
        counters = self.counters
        counters.packets_resent = self.sender.packets_resent
        counters.round_trip_us = self.timing.smoothed_us if self.timing.measured else 0
        counters.buffered_bytes = self._queue.packer.queued_bytes + self.sender.stored_bytes + self._unpacker.held_bytes

    def _send_packets(self, datagrams: list[list[Buffer]], at: int) -> None:
        """Copies first, whatever the windows say, then new packets; all as the regulator allows."""
        sender, packer, regulator = self.sender, self._queue.packer, self.regulator
        self._pace_at = None
        if not sender.has_copies and not packer:
            return
        regulator.refill(at, idle=not sender.flight_bytes)
        while sender.has_copies or (packer and sender.window_open):
            if sender.has_copies:
                permission = regulator.copy()
            else:
                permission = regulator.fresh(sender.flight_bytes, urgent=packer.urgent)
            if permission is Permission.WAIT_FOR_PACE:
                self._pace_at = at + regulator.wait_us
                break
            if permission is Permission.WAIT_FOR_WINDOW:
                break
            size = self._send_packet(datagrams, at, whole_only=permission is Permission.WHOLE_FRAMES)
            self.counters.bytes_sent += size
            regulator.spend(size, sender.flight_bytes)

    def _send_packet(self, datagrams: list[list[Buffer]], at: int, *, whole_only: bool) -> int:
        sender = self.sender
        if sender.has_copies:
            sequence, packet = sender.send_copy(at)
            parts, size, flags = packet.parts, packet.size, DATA | RESENT
        else:
            parts, size = self._queue.packer.next_body(whole_only=whole_only)
            sequence, flags = sender.send(parts, size, at), DATA
            if self._announce_at is None:
                self._progress_at = at
                self._announce_at = at + self._announce_after_us
        datagrams.append([self._header(flags, 0, sequence, at), *parts])
        return size + HEADER_BYTES

    def _send_control(self, datagrams: list[list[Buffer]], at: int) -> None:
        """Requests that are due, an announcement that is due, and an acknowledgement that no data packet carried."""
        flags = 0
        if self._announce_at is not None and at >= self._announce_at:
            flags = ANSWER
            self._announced = self.sender.highest_sent
            self._unanswered += 1
            if self._unanswered == SILENT_ANNOUNCEMENTS:
                self.congestion.timed_out(self.sender.highest_sent)
            pause = self._announce_after_us * (2 + self._unanswered) // 2
            self._announce_at = at + min(pause, self.settings.retry_max_us(self.timing.timeout_us))
        missing = self.receiver.requests_due(at, self.settings.window_max)
        self.counters.requests_sent += len(missing)
        per_packet = self.settings.body_bytes // RANGE.size
        ranges = ranges_of(missing)
        for start in range(0, len(ranges), per_packet):
            some = ranges[start : start + per_packet]
            header = self._header(flags, len(some), self.sender.highest_sent, at)
            datagrams.append([header, pack_ranges(some)])
            self.counters.bytes_sent += HEADER_BYTES + len(some) * RANGE.size
        if ranges or (not flags and not self._acknowledgement_due(at)):
            return
        datagrams.append([self._header(flags, 0, self.sender.highest_sent, at)])
        self.counters.bytes_sent += HEADER_BYTES

    def _acknowledgement_due(self, at: int) -> bool:
        """At once when idle; a data packet that only waits for its pace will carry it."""
        due = self._acknowledge_at
        if due is None or at < due:
            return False
        if self._pace_at is None or self._pace_at > at + self.timing.acknowledge_us:
            return True
        self._acknowledge_at = self._pace_at
        return False

    def _header(self, flags: int, count: int, sequence: int, at: int) -> bytes:
        """The header of a packet that leaves now; it acknowledges, so none is due any more."""
        receiver = self.receiver
        echo = 0
        if self._echo is not None:
            stamp, came_at, full = self._echo
            echo = (stamp + at - came_at) & WORD
            flags |= ECHO | full
            self._echo = None
        self._acknowledge_at = None
        self._acknowledged_at = at
        receiver.packets_since_acknowledged = 0
        up_to = receiver.all_received_up_to & WORD
        highest = (receiver.next_expected - 1) & WORD
        return HEADER.pack(VERSION, flags, count, self._link, sequence & WORD, up_to, highest, at & WORD, echo)

    def _arm(self, at: int, actions: list[Action]) -> None:
        """Keep the one timer no later than the first deadline; an early one is harmless and finds nothing to do."""
        deadlines = (self._pace_at, self._acknowledge_at, self._announce_at, self.receiver.next_due_at)
        first = min((deadline for deadline in deadlines if deadline is not None), default=None)
        if first is not None and (self._armed_at is None or first < self._armed_at):
            self._armed_at = first
            actions.append(SetTimer(self.timer, max(0, first - at)))

    def _enter_failed(self, reason: str, actions: list[Action]) -> None:
        self.failed = reason
        self._queue.packer.clear()
        self._unpacker.clear()
        self.sender.clear()
        self.receiver.clear()
        self.counters.buffered_bytes = 0
        actions[:] = [action for action in actions if isinstance(action, FramesArrived)]
        actions += [CancelTimer(self.timer), DeclareFailed(reason)]
