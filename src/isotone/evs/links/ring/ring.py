"""The token ring: packet-level reliable multicast and flow control within one site, and the site's message line.

Implements: [Spread 4.1]. Deviations:
D-accelerated  the token leaves before the last packets of the visit do, so that the next member begins while they are
               still on the wire; hence a member asks only for what the previous visit's token promised.
D-rest         at idle the token rests with who sent last. A member that wants it asks, and it goes there directly; who
               has it at rest sends at once.
D-claim        a line on the token counts when two visits in a row show it and the token did not leave the ring's order
               between them, since only then was every member asked.
docs/protocols/ring.md has the rules on receipt and the reasons for each bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    DatagramsReceived,
    Event,
    MulticastDatagrams,
    SendDatagrams,
    SetTimer,
    Started,
    TimerFired,
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
from isotone.evs.links.packing import Packer, Unpacker
from isotone.evs.links.ring.events import REQUEST_TIMER, RESTING, TOKEN_TIMER, SiteLineRose, TokenWanted
from isotone.evs.links.ring.packets import Datagram, PacketStore
from isotone.evs.links.ring.settings import RingSettings
from isotone.evs.links.ring.token import (
    NOBODY,
    PACKET,
    Origin,
    Origination,
    PacketKind,
    Token,
    decode_token,
    encode_token,
    lower_or_raise,
)


class Ring:
    """One member of the ring; ``members`` are indices of the daemon view in the ring's order."""

    def __init__(
        self,
        *,
        ring: int,
        site: str,
        members: Sequence[int],
        me: int,
        addresses: Mapping[int, Address],
        origin: Origin,
        settings: RingSettings,
    ) -> None:
        assert me in members and ring < 1 << 64
        self.counters = LinkCounters()
        self._ring, self._site, self._members, self._me = ring, site, tuple(members), me
        self._addresses, self._origin, self._settings = addresses, origin, settings
        self._successor = self._members[(self._members.index(me) + 1) % len(self._members)]
        self._packer = Packer(settings.body_bytes)
        self._unpackers = {member: self._new_unpacker() for member in members}
        self._packets = PacketStore()
        self._token: Token | None = None  # at rest here
        self._visit = 0  # of the last token seen
        self._before: Token | None = None  # as it came at the visit before this one
        self._passed: tuple[Token, int] | None = None  # sent to whom, no sign of life since
        self._sent_last = 0  # packets of mine in the rotation that the token's flow counts
        self._retries = 0
        self._resting = 0  # the last visit after which somebody announced that the token rests
        self._asking = False
        self._asked = 0  # times since the last visit
        self._short = False  # of room, and nobody was told yet that it returned
        self._failed = False
        self.site_line = 0  # invariant: the last `SiteLineRose`

    @property
    def room(self) -> int:
        """Bytes of frames that may be offered now."""
        return max(0, self._settings.queue_bytes_max - self._packer.queued_bytes)

    @property
    def memory_max(self) -> int:
        """Queue, packets that not all have received, and frames of which parts are missing."""
        return self._settings.queue_bytes_max + 2 * self._settings.window_max * (
            self._settings.body_bytes + PACKET.size
        )

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        if self._failed:
            return []
        match event:
            case DatagramsReceived():
                return self._on_datagrams(event)
            case TokenWanted():
                return self._on_wanted()
            case FramesOffered(frames=frames):
                return self._on_offered(frames)
            case TimerFired(key=key):
                return self._on_timer(key)
            case Started():
                return self._on_started()
            case _:
                raise AssertionError(f"a ring knows no {type(event).__name__}")

    # --- what the layer above wants --------------------------------------------------------------------------------

    def _on_started(self) -> list[Action]:
        """The first member makes the token; it rests there."""
        if self._me != self._members[0]:
            return self._on_wanted() if self._origin.is_waiting() else []
        blank = Token(0, 0, 0, NOBODY, 0, 0, 0, 0, NOBODY, self._me, 0, 0)
        return self._visit_now(blank)

    def _on_offered(self, frames: Sequence[Frame]) -> list[Action]:
        self._packer.offer(frames)
        self._short = self._short or self.room < self._settings.queue_bytes_max // 2
        return self._on_wanted()

    def _on_wanted(self) -> list[Action]:
        """Use the token if it rests here; ask for it if it rests elsewhere; else it is on its way."""
        if self._token is not None:
            return self._visit_now(self._token)
        if self._asking:
            return []
        self._asking = True
        if self._resting >= self._visit:
            return self._ask()
        return [SetTimer(REQUEST_TIMER, self._settings.request_retry_us)]

    def _ask(self) -> list[Action]:
        """Whoever has the token may be gone without anybody else noticing: asking has an end."""
        self._asked += 1
        if self._asked > self._settings.requests_unanswered_max:
            return self._enter_failed(f"the token did not come after {self._asked - 1} requests")
        return [
            *self._to_all([[self._header(PacketKind.REQUEST, self._visit)]]),
            SetTimer(REQUEST_TIMER, self._settings.request_retry_us),
        ]

    # --- a visit of the token --------------------------------------------------------------------------------------

    def _visit_now(self, came: Token) -> list[Action]:
        """Repair, originate, pass the token on before the last packets leave, then claim what its lines allow."""
        self._visit = came.visit + 1
        self._token, self._passed, self._retries = None, None, 0
        resent = self._resend(came.missing)
        allowed = self._allowance(came) - len(resent)
        origination = self._origin.originate(
            site_sequence=came.site_sequence,
            site_lamport=came.site_lamport,
            bytes_max=max(0, allowed * self._settings.body_bytes - self._packer.queued_bytes),
        )
        if len(self._members) > 1:
            self._packer.offer(origination.frames)
        fresh = self._pack(came.link_sequence, allowed)
        up = self._claim(came)
        onward = self._updated(came, origination, resent=resent, fresh=len(fresh))
        self._before, self._sent_last = came, len(resent) + len(fresh)
        cut = max(0, len(fresh) - self._settings.late_window)
        early = self._to_all([*(self._packets.held(each) for each in resent), *fresh[:cut]])
        return [*early, *self._pass_on(onward), *self._to_all(fresh[cut:]), *up, *self._roomy()]

    def _resend(self, missing: Sequence[int]) -> list[int]:
        """What was asked for and is here."""
        found = [sequence for sequence in missing if self._packets.has(sequence)]
        self.counters.packets_resent += len(found)
        return found

    def _allowance(self, came: Token) -> int:
        """Packets for this visit: one's own window, what the ring's leaves, and what is not yet received by all."""
        others = max(0, came.flow - self._sent_last)
        return self._settings.allowance(others=others, unsettled=came.link_sequence - came.received)

    def _pack(self, sequence: int, count_max: int) -> list[Datagram]:
        """Queued frames as packets with the next sequences of the ring."""
        fresh: list[Datagram] = []
        while self._packer and len(fresh) < count_max:
            parts, size = self._packer.next_body()
            sequence += 1
            datagram = [self._header(PacketKind.DATA, sequence), *parts]
            self._packets.add(sequence, datagram)
            fresh.append(datagram)
            self.counters.bytes_sent += size
        self.counters.packets_sent += len(fresh)
        return fresh

    def _claim(self, came: Token) -> list[Action]:
        """Two visits in a row show the lines, and everyone was visited between them: D-claim."""
        before = self._before
        if len(self._members) == 1:
            came = before = msgspec.structs.replace(
                came, received=self._packets.through, site_line=self._origin.agreed_line()
            )
        if before is None or came.jumped_at > before.visit + 1:
            return []
        self._packets.settle(min(came.received, before.received))
        line = min(came.site_line, before.site_line)
        if line <= self.site_line:
            return []
        self.site_line = line
        return [SiteLineRose(line)]

    def _updated(self, came: Token, origination: Origination, *, resent: list[int], fresh: int) -> Token:
        top = came.link_sequence + fresh
        promised = 0 if self._before is None else self._before.link_sequence
        missing = self._packets.missing(promised, self._settings.requests_max)
        self.counters.requests_sent += len(missing)
        unserved = [sequence for sequence in came.missing if sequence not in set(resent)]
        received, modifier = lower_or_raise(
            came.received, came.received_modifier, mine=self._packets.through, top=top, me=self._me
        )
        line, line_modifier = lower_or_raise(
            came.site_line,
            came.site_line_modifier,
            mine=self._origin.agreed_line(),
            top=origination.site_lamport,
            me=self._me,
        )
        token = Token(
            visit=came.visit + 1,
            link_sequence=top,
            received=received,
            received_modifier=modifier,
            flow=max(0, came.flow - self._sent_last) + len(resent) + fresh,
            site_sequence=origination.site_sequence,
            site_lamport=origination.site_lamport,
            site_line=line,
            site_line_modifier=line_modifier,
            rest_with=self._me if fresh else came.rest_with,
            jumped_at=came.jumped_at,
            calm=0,
            missing=tuple(sorted({*unserved, *missing}))[: self._settings.requests_max],
        )
        return msgspec.structs.replace(token, calm=came.calm + 1) if self._is_calm(came, token) else token

    def _is_calm(self, came: Token, onward: Token) -> bool:
        """Nothing but the count of visits changed, and nothing waits."""
        same = msgspec.structs.replace(onward, visit=came.visit, calm=came.calm)
        return same == came and not self._packer and not self._origin.is_waiting() and not onward.missing

    def _pass_on(self, onward: Token) -> list[Action]:
        """Keep the token at rest, or hand it to the successor."""
        quiet = onward.calm >= 2 * len(self._members) and onward.rest_with == self._me
        if len(self._members) == 1 or quiet:
            self._token = onward
            return [*self._stop_asking(), CancelTimer(TOKEN_TIMER), *self._announce()]
        return [*self._stop_asking(), *self._hand_to(self._successor, onward)]

    def _stop_asking(self) -> list[Action]:
        self._asked = 0
        if not self._asking:
            return []
        self._asking = False
        return [CancelTimer(REQUEST_TIMER)]

    def _hand_to(self, member: int, token: Token) -> list[Action]:
        self._token = None
        self._passed = (token, member)
        self.counters.packets_sent += 1
        return [
            SendDatagrams(
                self._addresses[member], [[self._header(PacketKind.TOKEN, token.visit), encode_token(token)]]
            ),
            SetTimer(TOKEN_TIMER, self._settings.token_retry_us),
        ]

    def _announce(self) -> list[Action]:
        """The token rests here: whoever passed it on waits for a sign of life, whoever wants it should ask at once."""
        return self._to_all([[self._header(PacketKind.SEEN, self._visit, RESTING)]])

    # --- packets ---------------------------------------------------------------------------------------------------

    def _on_datagrams(self, event: DatagramsReceived) -> list[Action]:
        """One receive buffer of many packets; frames go up in one action."""
        whole = memoryview(event.data)
        frames: list[Frame] = []
        actions: list[Action] = []
        for start in range(0, len(whole), event.segment_size):
            try:
                actions += self._on_packet(whole[start : start + event.segment_size], frames)
            except RemoteProtocolError:
                self.counters.malformed += 1
        for unpacker in self._unpackers.values():
            unpacker.settle()
        return [FramesArrived(frames), *actions] if frames else actions

    def _on_packet(self, packet: memoryview, frames: list[Frame]) -> list[Action]:
        if len(packet) < PACKET.size:
            raise RemoteProtocolError("a ring packet without a header")
        kind, flags, sender, ring, number = PACKET.unpack_from(packet)
        if ring != self._ring or sender not in self._unpackers or sender == self._me:
            raise RemoteProtocolError("a packet of another ring")
        self.counters.packets_received += 1
        self.counters.bytes_received += len(packet)
        if kind == PacketKind.DATA:
            self._on_data(number, sender, packet, frames)
            return []
        if kind == PacketKind.TOKEN:
            return self._on_token(decode_token(packet[PACKET.size :]), sender)
        if kind == PacketKind.REQUEST:
            return self._on_request(sender)
        if kind == PacketKind.SEEN:
            return self._on_seen(number, flags)
        raise RemoteProtocolError(f"a ring packet of unknown kind {kind}")

    def _on_data(self, sequence: int, sender: int, packet: memoryview, frames: list[Frame]) -> None:
        if sequence > self._packets.settled + 2 * self._settings.unsettled_max + self._settings.global_window:
            raise RemoteProtocolError("a packet far beyond the window")
        if self._passed is not None and sequence > self._passed[0].link_sequence:
            self._passed, self._retries = None, 0  # somebody sends behind our token: it arrived
        if self._packets.has(sequence) or sequence <= self._packets.through:
            self.counters.duplicates += 1
            return
        self._unpackers[sender].unpack(packet[PACKET.size :], frames)
        self._packets.add(sequence, (packet,))

    def _on_token(self, token: Token, sender: int) -> list[Action]:
        if token.visit <= self._visit:
            self.counters.duplicates += 1
            return [SendDatagrams(self._addresses[sender], [[self._header(PacketKind.SEEN, self._visit)]])]
        return self._visit_now(token)

    def _on_request(self, sender: int) -> list[Action]:
        """A resting token goes to whoever asks: D-rest."""
        if self._token is None:
            return []
        token = self._token
        jumped_at = token.jumped_at if sender == self._successor else token.visit + 1
        return self._hand_to(sender, msgspec.structs.replace(token, calm=0, jumped_at=jumped_at))

    def _on_seen(self, visit: int, flags: int) -> list[Action]:
        if flags & RESTING:
            self._resting = max(self._resting, visit)
        if self._passed is not None and visit >= self._passed[0].visit:
            self._passed, self._retries = None, 0
            return [CancelTimer(TOKEN_TIMER)]
        return []

    # --- timers ----------------------------------------------------------------------------------------------------

    def _on_timer(self, key: object) -> list[Action]:
        if key == REQUEST_TIMER:
            return self._ask() if self._asking else []
        assert key == TOKEN_TIMER, key
        if self._passed is None:
            return []
        token, member = self._passed
        self._retries += 1
        if self._retries > self._settings.token_retries_max:
            return self._enter_failed(f"the token was lost on its way to daemon {member}")
        return self._hand_to(member, token)

    def _enter_failed(self, reason: str) -> list[Action]:
        self._failed = True
        self._packer.clear()
        for unpacker in self._unpackers.values():
            unpacker.clear()
        return [*self._stop_asking(), CancelTimer(TOKEN_TIMER), DeclareFailed(reason)]

    def _new_unpacker(self) -> Unpacker:
        held_max = self._settings.window_max * self._settings.body_bytes
        return Unpacker(frame_bytes_max=self._settings.frame_bytes_max, held_bytes_max=held_max)

    # --- sending ---------------------------------------------------------------------------------------------------

    def _header(self, kind: PacketKind, number: int, flags: int = 0) -> bytes:
        return PACKET.pack(kind, flags, self._me, self._ring, number)

    def _to_all(self, datagrams: list[Datagram]) -> list[Action]:
        others = [member for member in self._members if member != self._me]
        if not datagrams or not others:
            return []
        if self._settings.multicast:
            return [MulticastDatagrams(self._site, datagrams)]
        return [SendDatagrams(self._addresses[member], datagrams) for member in others]

    def _roomy(self) -> list[Action]:
        self.counters.buffered_bytes = self._packer.queued_bytes
        if not self._short or self.room < self._settings.queue_bytes_max // 2:
            return []
        self._short = False
        return [LinkRoomy(self.room)]
