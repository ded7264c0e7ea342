"""The token ring: packet-level reliable multicast and flow control within one site, and the site's message line.

This module is a visit of the token, from its coming to its going; `custody` knows where the token is in between,
`inbound` reads what comes.

Implements: [Spread 4.1]. Deviations:
D-accelerated  the token leaves before the last packets of the visit do, so that the next member begins while they are
               still on the wire; hence a member asks only for what the previous visit's token promised.
D-rest         at idle the token rests with who sent last. A member that wants it asks, and it goes there directly; who
               has it at rest sends at once.
D-linger       who has it at rest, or is alone to send, and sends a little keeps it a little longer, so that the next
               message finds it there and most cost no rotation; not if somebody asks, or waits for lines to rise.
D-share        an equal share of the global window is everybody's, whatever others sent.
D-hurry        a packet or two that somebody waits for to be everywhere leave before the token, so that the members
               that it comes to next have them.
D-claim        a line that a member let the token go with counts when it comes back with it and did not leave the
               ring's order in between, since only then was every member asked.
docs/protocols/ring.md has the rules on receipt and the reasons for each bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from isotone.core.contract import (
    Action,
    Address,
    DatagramsReceived,
    Event,
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
from isotone.evs.links.packing import PART, Packer
from isotone.evs.links.ring.custody import Custody, TokenLost
from isotone.evs.links.ring.dispatch import Dispatch
from isotone.evs.links.ring.events import LINGER_TIMER, REQUEST_TIMER, TOKEN_TIMER, SiteLineRose, TokenWanted
from isotone.evs.links.ring.inbound import Inbound, Word
from isotone.evs.links.ring.packets import Datagram, PacketStore
from isotone.evs.links.ring.settings import RingSettings
from isotone.evs.links.ring.token import (
    LONE_PART,
    NOBODY,
    PACKET,
    Origin,
    Origination,
    PacketKind,
    Token,
    decode_token,
    lower_or_raise,
)

URGENT_ROTATIONS = 3  # after which all have claimed the lines that somebody waited for
HURRIED_MAX = 2  # packets: D-hurry


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
        self._ring, self._members, self._me = ring, tuple(members), me
        self._origin, self._settings = origin, settings
        self._successor = self._members[(self._members.index(me) + 1) % len(self._members)]
        others = [member for member in members if member != me]
        self._dispatch = Dispatch(
            ring=ring,
            site=site,
            me=me,
            others=others,
            addresses=addresses,
            multicast=settings.multicast,
            counters=self.counters,
        )
        self._custody = Custody(self._dispatch, settings)
        self._packets = PacketStore()
        self._inbound = Inbound(
            ring=ring, others=others, packets=self._packets, settings=settings, counters=self.counters
        )
        self._packer = Packer(settings.body_bytes, fills=True)
        self._before: Token | None = None  # as it came at the visit before this one
        self._left = (0, 0)  # as it left then: the lines of packets and of messages
        self._sent_last = 0  # packets of mine in the rotation that the token's flow counts
        self._short = False  # of room, and nobody was told yet that it returned
        self._failed = False
        self.site_line = 0  # invariant: the last `SiteLineRose`

    @property
    def room(self) -> int:
        """Bytes of frames that may be offered now."""
        return max(0, self._settings.queue_bytes_max - self._packer.queued_bytes)

    @property
    def is_awaited(self) -> bool:
        """Whether the token was asked for and did not come yet."""
        return self._custody.is_asking

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
        try:
            return self._handle(event)
        except TokenLost as lost:
            return self._enter_failed(str(lost))

    def _handle(self, event: Event) -> list[Action]:
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
        """Use the token if it rests here, else have it come."""
        token = self._custody.at_rest
        return self._custody.want() if token is None else self._visit_now(token)

    # --- a visit of the token --------------------------------------------------------------------------------------

    def _visit_now(self, came: Token) -> list[Action]:
        """Repair, originate, pass the token on before the last packets leave, then claim what its lines allow."""
        rested, offered = self._custody.at_rest is came, bool(self._packer)
        self._custody.visited(came)
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
        onward = self._updated(came, origination, resent=resent, fresh=len(fresh), offered=offered)
        lingers = bool(fresh) and self._may_linger(came, onward, rested=rested)
        self._before, self._sent_last = came, len(resent) + len(fresh)
        self._left = (onward.received, onward.site_line)
        hurries = onward.urgent_at == onward.visit and len(fresh) <= HURRIED_MAX
        cut = len(fresh) if hurries else max(0, len(fresh) - self._settings.late_window)
        if lingers:
            lingering = self._custody.linger(onward, announce=not rested)
            return [*self._dispatch.to_all(fresh), *lingering, *up, *self._roomy()]
        early = self._dispatch.to_all([*(self._packets.held(each) for each in resent), *fresh[:cut]])
        return [*early, *self._pass_on(onward), *self._dispatch.to_all(fresh[cut:]), *up, *self._roomy()]

    def _may_linger(self, came: Token, onward: Token, *, rested: bool) -> bool:
        """Whether nobody else sends or waits for lines to rise, and little would have to be sent again: D-linger."""
        others = came.rest_with != self._me or came.flow > self._sent_last or came.received < came.link_sequence
        if len(self._members) == 1 or onward.missing or (others and not rested):
            return False
        if onward.visit - onward.urgent_at < URGENT_ROTATIONS * len(self._members):
            return False
        idle = not self._packer and not self._origin.is_waiting()
        return idle and len(self._packets) <= self._settings.linger_max

    def _resend(self, missing: Sequence[int]) -> list[int]:
        """What was asked for and is here."""
        found = [sequence for sequence in missing if self._packets.has(sequence)]
        if found:
            copies, counters = self._dispatch.copies, self.counters
            counters.packets_resent += len(found) * copies
            counters.packets_sent += len(found) * copies
            counters.bytes_sent += sum(sum(map(len, self._packets.held(each))) for each in found) * copies
        return found

    def _allowance(self, came: Token) -> int:
        """Packets for this visit: one's own window, what the ring's leaves, and what is not yet received by all."""
        others = max(0, came.flow - self._sent_last)
        unsettled = came.link_sequence - came.received
        return self._settings.allowance(members=len(self._members), others=others, unsettled=unsettled)

    def _pack(self, sequence: int, count_max: int) -> list[Datagram]:
        """Queued frames as packets with the next sequences of the ring."""
        fresh: list[Datagram] = []
        packer, add, kind, me, ring = self._packer, self._packets.add, PacketKind.DATA, self._me, self._ring
        sent_bytes = 0
        head = LONE_PART.pack
        while packer and len(fresh) < count_max:
            pieces, run_bytes = packer.next_run(count_max - len(fresh))
            for piece_kind, piece_size, total, number, offset, piece in pieces:
                sequence += 1
                header = head(kind, 0, me, ring, sequence, piece_kind, PART, piece_size, total, number, offset)
                lone: Datagram = (header, piece)
                add(sequence, lone)
                fresh.append(lone)
            sent_bytes += run_bytes
            if pieces:
                continue
            datagram, size = packer.next_body()
            sequence += 1
            datagram.insert(0, PACKET.pack(kind, 0, me, ring, sequence))
            add(sequence, datagram)
            fresh.append(datagram)
            sent_bytes += size
        copies = self._dispatch.copies
        self.counters.bytes_sent += (sent_bytes + len(fresh) * PACKET.size) * copies
        self.counters.packets_sent += len(fresh) * copies
        return fresh

    def _claim(self, came: Token) -> list[Action]:
        """The token left with these lines, and everyone was visited since: D-claim.

        Who has less than a line lowers it, and nobody but the last who did raises it again in the same rotation.
        """
        before, (received, line) = self._before, self._left
        if len(self._members) == 1:
            received, line = self._packets.through, self._origin.agreed_line()
        elif before is None or came.jumped_at > before.visit + 1:
            return []
        else:
            received, line = min(came.received, received), min(came.site_line, line)
        self._packets.settle(received)
        if line <= self.site_line:
            return []
        self.site_line = line
        return [SiteLineRose(line)]

    def _updated(self, came: Token, origination: Origination, *, resent: list[int], fresh: int, offered: bool) -> Token:
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
            urgent_at=came.visit + 1 if origination.urgent or offered or resent else came.urgent_at,
        )
        return msgspec.structs.replace(token, calm=came.calm + 1) if self._is_calm(came, token) else token

    def _is_calm(self, came: Token, onward: Token) -> bool:
        """Nothing changed that anybody waits to see twice, and nothing waits."""
        same = msgspec.structs.replace(onward, visit=came.visit, calm=came.calm, flow=came.flow)
        return same == came and not self._packer and not self._origin.is_waiting() and not onward.missing

    def _pass_on(self, onward: Token) -> list[Action]:
        """Keep the token at rest, or hand it to the successor."""
        quiet = onward.calm >= 2 * len(self._members) and onward.rest_with == self._me
        if len(self._members) == 1 or quiet:
            return self._custody.keep(onward)
        return self._custody.pass_on(self._successor, onward)

    # --- packets ---------------------------------------------------------------------------------------------------

    def _on_datagrams(self, event: DatagramsReceived) -> list[Action]:
        """One receive buffer of many packets; frames go up in one action."""
        frames, words = self._inbound.take(event)
        self._custody.data_came(self._packets.top)
        actions: list[Action] = [FramesArrived(frames)] if frames else []
        for word in words:
            try:
                actions += self._on_word(word)
            except RemoteProtocolError:
                self.counters.malformed += 1
        return actions

    def _on_word(self, word: Word) -> list[Action]:
        kind, flags, sender, number, body = word
        if kind == PacketKind.TOKEN:
            return self._on_token(decode_token(body), sender)
        if kind == PacketKind.REQUEST:
            return self._custody.on_request(sender, self._successor)
        if kind == PacketKind.SEEN:
            return self._custody.on_seen(number, flags)
        raise RemoteProtocolError(f"a ring packet of unknown kind {kind}")

    def _on_token(self, token: Token, sender: int) -> list[Action]:
        if token.visit <= self._custody.visit:
            self.counters.duplicates += 1
            return [self._dispatch.word_to(sender, PacketKind.SEEN, self._custody.visit)]
        return self._visit_now(token)

    # --- timers, failure, room -------------------------------------------------------------------------------------

    def _on_timer(self, key: object) -> list[Action]:
        if key == REQUEST_TIMER:
            return self._custody.on_request_timer()
        if key == LINGER_TIMER:
            return self._custody.on_linger_timer(self._successor)
        assert key == TOKEN_TIMER, key
        return self._custody.on_token_timer()

    def _enter_failed(self, reason: str) -> list[Action]:
        self._failed = True
        self._packer.clear()
        self._inbound.clear()
        return [*self._custody.abandon(), DeclareFailed(reason)]

    def _roomy(self) -> list[Action]:
        self.counters.buffered_bytes = self._packer.queued_bytes
        if not self._short or self.room < self._settings.queue_bytes_max // 2:
            return []
        self._short = False
        return [LinkRoomy(self.room)]
