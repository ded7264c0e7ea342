"""The exact limits of a ring: one member in the hands of the test, which plays the others, token by token."""

from __future__ import annotations

import msgspec
import pytest

from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    DatagramsReceived,
    MulticastDatagrams,
    SendDatagrams,
    SetTimer,
    Started,
    TimerFired,
)
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import (
    FRAME_HEADER_BYTES,
    DeclareFailed,
    FramesArrived,
    FramesOffered,
    LinkRoomy,
    frame_of,
)
from isotone.evs.links.ring import Ring, RingSettings
from isotone.evs.links.ring.events import LINGER_TIMER, REQUEST_TIMER, RESTING, TOKEN_TIMER, TokenWanted
from isotone.evs.links.ring.packets import PacketStore
from isotone.evs.links.ring.token import NOBODY, PACKET, PacketKind, Token, decode_token, encode_token, lower_or_raise
from tests.evs.links.ring_pair import Numbers

RING = 99
BLANK = Token(0, 0, 0, NOBODY, 0, 0, 0, 0, NOBODY, 0, 0, 0)
SETTINGS = RingSettings()
CALM = 1_000  # a visit long after the last that somebody waited for


class Member:
    """The member 1 of 0, 1, 2; what it did is kept, decoded."""

    def __init__(self, settings: RingSettings = SETTINGS, me: int = 1, count: int = 3) -> None:
        self.origin = Numbers(me)
        members = range(count)
        self.ring = Ring(
            ring=RING,
            site="lan",
            members=members,
            me=me,
            addresses={each: Address(str(each)) for each in members},
            origin=self.origin,
            settings=settings,
        )
        self.did: list[Action] = []
        self.give(Started(0))

    def give(self, event: object) -> list[Action]:
        self.did = self.ring.handle(event)  # type: ignore[arg-type]
        return self.did

    def hear(
        self, kind: int, number: int, body: bytes = b"", *, sender: int = 0, flags: int = 0, ring: int = RING
    ) -> None:
        data = PACKET.pack(kind, flags, sender, ring, number) + body
        self.give(DatagramsReceived(0, Address(str(sender)), data, len(data)))

    def token(self, visit: int, **fields: object) -> None:
        """The token comes."""
        token = msgspec.structs.replace(BLANK, visit=visit, **fields)
        self.hear(PacketKind.TOKEN, visit, encode_token(token), sender=0 if self.origin.member else 2)

    def say(self, *sizes: int) -> None:
        self.origin.waiting.extend(bytes(size) for size in sizes)

    @property
    def packets(self) -> list[tuple[str, int, int, int]]:
        """Where each went, its kind, its flags and its number."""
        out = []
        for action in self.did:
            if isinstance(action, SendDatagrams | MulticastDatagrams):
                where = str(action.destination) if isinstance(action, SendDatagrams) else "all"
                for datagram in action.datagrams:
                    kind, flags, sender, ring, number = PACKET.unpack_from(b"".join(datagram))
                    assert ring == RING and (sender == self.origin.member or kind == PacketKind.DATA)
                    out.append((where, kind, flags, number))
        return out

    @property
    def onward(self) -> tuple[str, Token]:
        """Where the token went."""
        for action in self.did:
            if isinstance(action, SendDatagrams):
                data = b"".join(action.datagrams[0])
                if data[0] == PacketKind.TOKEN:
                    return str(action.destination), decode_token(memoryview(data)[PACKET.size :])
        raise AssertionError("no token")

    @property
    def timers(self) -> dict[object, int]:
        return {each.key: each.after_us for each in self.did if isinstance(each, SetTimer)}


# --- a visit -------------------------------------------------------------------------------------------------------


def test_the_token_goes_on_with_what_this_member_adds() -> None:
    member = Member()
    member.say(10, 10)
    member.token(4, link_sequence=7, received=7, flow=3, site_sequence=5, site_lamport=9, site_line=9, rest_with=2)
    where, token = member.onward
    assert where == "2" and member.timers[TOKEN_TIMER] == SETTINGS.token_retry_us
    assert (token.visit, token.link_sequence, token.flow, token.rest_with) == (5, 8, 4, 1)
    assert (token.site_sequence, token.site_lamport) == (7, 11)
    assert (token.received, token.received_modifier) == (0, 1), "this member has none of the seven"
    assert token.missing == (), "nobody promised them to it at an earlier visit"
    assert (token.calm, token.jumped_at, token.urgent_at) == (0, 0, 0)
    data = [each for each in member.packets if each[1] == PacketKind.DATA]
    assert data == [("all", PacketKind.DATA, 0, 8)], "both frames in one packet"
    counters = member.ring.counters
    assert (counters.packets_sent, counters.packets_received, counters.malformed) == (2, 1, 0)


def test_packets_of_large_frames_have_plain_headers_too() -> None:
    member = Member()
    member.say(5_000)
    member.token(4)
    data = [each for each in member.packets if each[1] == PacketKind.DATA]
    assert [each[2] for each in data] == [0] * 4 and [each[3] for each in data] == [1, 2, 3, 4]
    assert member.ring.counters.bytes_sent > 5_000


def test_what_the_token_promised_at_the_visit_before_is_asked_for() -> None:
    member = Member(RingSettings(requests_max=3))
    member.token(1, link_sequence=2, received=0)
    assert member.onward[1].missing == ()
    member.hear(PacketKind.DATA, 2)
    member.token(4, link_sequence=9, received=0)
    assert member.onward[1].missing == (1,) and member.ring.counters.requests_sent == 1
    member.token(7, link_sequence=9, received=0, missing=(5,))
    assert member.onward[1].missing == (1, 3, 4), "three at most, the lowest"


def test_what_others_miss_is_sent_again_and_counts_in_the_flow() -> None:
    member = Member()
    for number in (1, 2):
        member.hear(PacketKind.DATA, number)
    member.token(1, link_sequence=2, received=0, received_modifier=2, missing=(2, 3), flow=5)
    token = member.onward[1]
    assert [each for each in member.packets if each[1] == PacketKind.DATA] == [("all", PacketKind.DATA, 0, 2)]
    assert token.missing == (3,) and token.flow == 6 and token.urgent_at == 2
    assert member.ring.counters.packets_resent == 1
    member.token(4, link_sequence=3, received=0, received_modifier=2, flow=4)
    assert member.onward[1].flow == 3, "what this member sent at its last visit is over"


def test_a_visit_has_an_allowance_and_late_packets_leave_behind_the_token() -> None:
    member = Member(RingSettings(personal_window=5, late_window=2))
    member.say(*[1_300] * 9)
    member.token(4)
    kinds = [each[1] for each in member.packets]
    assert kinds == [PacketKind.DATA] * 3 + [PacketKind.TOKEN] + [PacketKind.DATA] * 2
    assert len(member.origin.waiting) == 3, "one more is stamped than there are packets, since bytes are counted"
    full = Member(RingSettings(unsettled_max=4, personal_window=5))
    full.say(*[1_300] * 9)
    full.token(4, link_sequence=2)
    assert full.onward[1].link_sequence == 4, "two are not received by all"


def test_a_line_rises_when_nobody_else_holds_it_down() -> None:
    assert lower_or_raise(5, NOBODY, mine=5, top=9, me=1) == (5, 1)
    assert lower_or_raise(5, 2, mine=5, top=9, me=1) == (5, 2)
    assert lower_or_raise(5, 2, mine=4, top=9, me=1) == (4, 1)
    assert lower_or_raise(5, NOBODY, mine=9, top=9, me=1) == (9, NOBODY)


def test_a_token_that_contradicts_itself_is_refused() -> None:
    good = msgspec.structs.replace(BLANK, visit=5, link_sequence=3, received=3, jumped_at=6, urgent_at=6)
    assert decode_token(memoryview(encode_token(good))) == good
    for bad in ({"received": 4}, {"jumped_at": 7}, {"urgent_at": 7}):
        with pytest.raises(RemoteProtocolError):
            decode_token(memoryview(encode_token(msgspec.structs.replace(good, **bad))))


# --- rest ----------------------------------------------------------------------------------------------------------


def test_the_token_rests_with_who_sent_last_after_two_calm_rounds() -> None:
    for calm, rests in ((4, False), (5, True)):
        member = Member()
        member.token(CALM, rest_with=1, calm=calm)
        assert (member.ring._custody.at_rest is not None) is rests
        if rests:
            assert member.packets == [("all", PacketKind.SEEN, RESTING, CALM + 1)]
            assert CancelTimer(TOKEN_TIMER) in member.did
        else:
            assert member.onward[1].calm == 5
    elsewhere = Member()
    elsewhere.token(CALM, rest_with=2, calm=50)
    assert elsewhere.onward[0] == "2"


def test_anything_that_changes_ends_the_calm() -> None:
    member = Member()
    member.say(5)
    member.token(CALM, rest_with=2, calm=50)
    assert member.onward[1].calm == 0


def resting() -> Member:
    member = Member()
    member.token(CALM, rest_with=1, calm=5)
    return member


def test_a_resting_token_goes_to_who_asks_and_that_is_a_jump_unless_it_is_the_next() -> None:
    for sender, jumped_at in ((2, 0), (0, CALM + 2)):
        member = resting()
        member.hear(PacketKind.REQUEST, 3, sender=sender)
        where, token = member.onward
        assert (where, token.jumped_at, token.calm) == (str(sender), jumped_at, 0)
        assert member.timers == {TOKEN_TIMER: SETTINGS.token_retry_us}
        member.hear(PacketKind.REQUEST, 3, sender=sender)
        assert member.did == [], "it is gone"


def test_who_has_it_at_rest_sends_at_once_and_keeps_it_for_a_while() -> None:
    member = resting()
    member.say(5)
    member.give(TokenWanted(0))
    assert [each[1] for each in member.packets] == [PacketKind.DATA]
    assert member.timers == {LINGER_TIMER: SETTINGS.linger_us}
    member.say(5)
    member.give(TokenWanted(0))
    assert [each[1] for each in member.packets] == [PacketKind.DATA] and member.timers == {}, "from the first on"
    member.give(TimerFired(0, LINGER_TIMER))
    where, token = member.onward
    assert where == "2" and token.jumped_at == token.visit + 1
    assert member.give(TimerFired(0, LINGER_TIMER)) == []


def test_a_token_that_lingers_goes_to_who_asks_and_the_timer_ends() -> None:
    member = resting()
    member.say(5)
    member.give(TokenWanted(0))
    member.hear(PacketKind.REQUEST, 3, sender=0)
    assert member.onward[0] == "0" and CancelTimer(LINGER_TIMER) in member.did


def test_who_is_not_alone_to_send_passes_the_token_on() -> None:
    """It came round: others may be waiting for it, unless this member alone sent in the last round."""
    for fields, keeps in (
        ({"rest_with": 1}, True),
        ({"rest_with": 2}, False),
        ({"rest_with": 1, "flow": 1}, False),
        ({"rest_with": 1, "link_sequence": 1, "received": 0, "received_modifier": 2}, False),
        ({"rest_with": 1, "urgent_at": CALM - 7}, False),
        ({"rest_with": 1, "urgent_at": CALM - 8}, True),
    ):
        member = Member()
        member.say(5)
        member.token(CALM, **fields)
        assert (member.ring._custody.at_rest is not None) is keeps, fields
        if keeps:
            kinds = [each[1] for each in member.packets]
            assert kinds == [PacketKind.DATA, PacketKind.SEEN], "whoever passed it on hears of it"


def test_much_is_not_kept_back() -> None:
    settings = RingSettings(unsettled_max=16)
    for count, keeps in ((2, True), (3, False)):
        member = Member(settings)
        member.say(*[1_300] * count)
        member.token(CALM, rest_with=1)
        assert (member.ring._custody.at_rest is not None) is keeps


# --- the token under way -------------------------------------------------------------------------------------------


def test_an_old_token_is_answered_and_not_taken() -> None:
    member = Member()
    member.token(4)
    for visit in (4, 5):
        member.token(visit)
        assert member.packets == [("0", PacketKind.SEEN, 0, 5)]
    assert member.ring.counters.duplicates == 2
    member.token(6)
    assert member.onward[1].visit == 7


def test_a_token_without_a_sign_of_life_is_sent_again_and_then_the_ring_fails() -> None:
    member = Member(RingSettings(token_retries_max=2))
    member.token(4)
    for _ in range(2):
        member.give(TimerFired(0, TOKEN_TIMER))
        assert member.onward[1].visit == 5 and member.timers == {TOKEN_TIMER: SETTINGS.token_retry_us}
    member.give(TimerFired(0, TOKEN_TIMER))
    assert member.did[-1] == DeclareFailed("the token was lost on its way to daemon 2")
    assert CancelTimer(TOKEN_TIMER) in member.did and CancelTimer(LINGER_TIMER) in member.did
    assert member.give(TimerFired(0, TOKEN_TIMER)) == []


def test_a_sign_of_life_ends_the_wait_and_the_count_of_retries() -> None:
    member = Member(RingSettings(token_retries_max=1))
    member.token(4)
    member.hear(PacketKind.SEEN, 4, sender=2)
    assert member.did == [], "of an earlier one"
    member.give(TimerFired(0, TOKEN_TIMER))
    member.hear(PacketKind.SEEN, 5, sender=2)
    assert member.did == [CancelTimer(TOKEN_TIMER)]
    assert member.give(TimerFired(0, TOKEN_TIMER)) == []
    member.token(7)
    member.give(TimerFired(0, TOKEN_TIMER))
    assert member.onward[1].visit == 8, "it is counted anew"


def test_data_behind_the_token_is_a_sign_of_life() -> None:
    for number, alive in ((5, False), (6, True)):
        member = Member(RingSettings(token_retries_max=0))
        member.token(4, link_sequence=5)
        member.hear(PacketKind.DATA, number, sender=2)
        member.give(TimerFired(0, TOKEN_TIMER))
        assert (member.did == []) is alive


def test_who_wants_the_token_asks_when_it_rests_and_else_when_it_does_not_come() -> None:
    member = Member(RingSettings(requests_unanswered_max=2))
    member.say(5)
    member.give(TokenWanted(0))
    assert member.packets == [("all", PacketKind.REQUEST, 0, 0)], "at the beginning it rests with the first"
    assert member.timers == {REQUEST_TIMER: SETTINGS.request_retry_us} and member.ring.is_awaited
    assert member.give(TokenWanted(0)) == []
    member.give(TimerFired(0, REQUEST_TIMER))
    assert member.packets == [("all", PacketKind.REQUEST, 0, 0)]
    member.give(TimerFired(0, REQUEST_TIMER))
    assert member.did[-1] == DeclareFailed("the token did not come after 2 requests")
    assert CancelTimer(REQUEST_TIMER) in member.did


def test_a_visit_ends_the_asking_and_begins_its_count_anew() -> None:
    member = Member(RingSettings(requests_unanswered_max=1))
    for visit in (4, 7, 10):
        member.say(5)
        member.give(TokenWanted(0))
        assert member.ring.is_awaited
        if visit > 4:
            assert member.packets == [] and member.timers == {REQUEST_TIMER: SETTINGS.request_retry_us}, "on its way"
            member.hear(PacketKind.SEEN, visit - 4, sender=0, flags=RESTING)
            assert member.packets == [], "an old word"
            member.hear(PacketKind.SEEN, visit - 2, sender=0, flags=RESTING)
            assert [each[1] for each in member.packets] == [PacketKind.REQUEST], "it rests: at once"
        member.token(visit, rest_with=0)
        assert CancelTimer(REQUEST_TIMER) in member.did and not member.ring.is_awaited
        assert member.give(TimerFired(0, REQUEST_TIMER)) == []


# --- packets -------------------------------------------------------------------------------------------------------


def test_packets_of_other_rings_and_broken_ones_are_counted() -> None:
    member = Member()
    member.hear(PacketKind.DATA, 1, ring=RING + 1)
    member.hear(PacketKind.DATA, 1, sender=7)
    member.hear(9, 1)
    member.hear(PacketKind.TOKEN, 1, b"short")
    member.give(DatagramsReceived(0, Address("0"), bytes(PACKET.size - 1), 100))
    assert member.ring.counters.malformed == 5 and member.ring.counters.packets_received == 2
    member.hear(PacketKind.DATA, 1)
    member.hear(PacketKind.DATA, 1)
    member.hear(PacketKind.DATA, 3)
    member.hear(PacketKind.DATA, 3)
    assert member.ring.counters.duplicates == 2 and member.ring.counters.bytes_received == 6 * PACKET.size + 5


def test_a_packet_far_beyond_the_window_is_refused() -> None:
    member = Member(RingSettings(unsettled_max=10, global_window=5))
    member.hear(PacketKind.DATA, 26)
    assert member.ring.counters.malformed == 1
    member.hear(PacketKind.DATA, 25)
    assert member.ring.counters.malformed == 1 and len(member.ring._packets) == 1


def test_frames_of_one_buffer_go_up_together_and_in_order() -> None:
    sender, member = Member(me=0), Member()
    sender.say(10, 4_000, 20)
    sender.token(4)
    datagrams = [
        b"".join(data) for each in sender.did if isinstance(each, MulticastDatagrams) for data in each.datagrams
    ]
    data = [each for each in datagrams if each[0] == PacketKind.DATA]
    assert len({len(each) for each in data[:-1]}) <= 2
    frames = []
    for each in data:
        member.give(DatagramsReceived(0, Address("0"), each, len(each)))
        frames += [frame.size for action in member.did if isinstance(action, FramesArrived) for frame in action.frames]
    assert sorted(frames) == sorted(size + len(b"%d %d 0 " % (n, n)) for n, size in ((1, 10), (2, 4_000), (3, 20)))


# --- the store and the queue ---------------------------------------------------------------------------------------


def test_a_store_knows_what_it_has_and_forgets_what_is_settled() -> None:
    store = PacketStore()
    assert store.is_whole and not store.add(0, ())
    assert store.add(2, ()) and not store.is_whole and (store.through, store.top) == (0, 2)
    assert store.missing(2, 9) == [1] and store.missing(1, 9) == [1] and store.missing(0, 9) == []
    assert store.add(1, ()) and store.is_whole and store.through == 2
    store.extend(3, [(), ()])
    assert (store.through, store.top, len(store)) == (4, 4, 4)
    store.settle(3)
    assert len(store) == 1 and not store.has(3) and store.has(4) and store.settled == 3
    store.settle(2)
    assert store.settled == 3
    store.settle(5)  # a token that says too much
    assert (store.settled, len(store)) == (4, 0)


def test_room_is_told_of_when_half_of_the_queue_is_empty() -> None:
    settings = RingSettings(queue_bytes_max=4_000, personal_window=1)
    member = Member(settings)
    size = 1_000 - FRAME_HEADER_BYTES
    member.give(FramesOffered(0, [frame_of(7, bytes(size)) for _ in range(2)]))
    assert member.ring.room == 2_000
    member.token(4)
    assert not any(isinstance(each, LinkRoomy) for each in member.did), "it never was short"
    member.give(FramesOffered(0, [frame_of(7, bytes(size)) for _ in range(2)]))
    assert member.ring.room == 1_000
    member.token(7)
    assert [each.room for each in member.did if isinstance(each, LinkRoomy)] == [2_000]
    member.token(10)
    assert not any(isinstance(each, LinkRoomy) for each in member.did), "once"
    assert member.ring.counters.buffered_bytes == 1_000


def test_what_is_offered_makes_the_visit_urgent() -> None:
    member = Member()
    member.give(FramesOffered(0, [frame_of(7, b"x")]))
    member.token(CALM, rest_with=1)
    assert member.onward[1].urgent_at == CALM + 1


def test_bounds_follow_from_the_settings() -> None:
    settings = RingSettings(unsettled_max=10, global_window=5, queue_bytes_max=100, body_bytes=200)
    assert settings.window_max == 15 and settings.linger_max == 1
    assert RingSettings(linger_us=0).linger_max == -1
    assert Member(settings).ring.memory_max == 100 + 2 * 15 * (200 + PACKET.size)
    assert (settings.failure_bound_us(), settings.wait_bound_us()) == (220_000, 1_010_000)


def test_what_this_member_sent_in_the_last_round_does_not_count_against_it() -> None:
    member = Member(RingSettings(personal_window=20, global_window=20))
    member.say(*[1_300] * 100)
    member.token(1)
    assert member.onward[1].link_sequence == 20
    member.token(4, link_sequence=20, received=20, flow=20)
    assert member.onward[1].link_sequence == 40, "nobody else sent anything"
    member.token(7, link_sequence=50, received=40, flow=30, received_modifier=2)
    assert member.onward[1].link_sequence == 60, "others sent ten: ten are left"
    assert member.onward[1].flow == 20


def test_the_first_member_makes_the_token_and_sends_it_round() -> None:
    first = Member(me=0)
    where, token = first.onward
    assert where == "1" and token == msgspec.structs.replace(BLANK, visit=1, calm=1)
    assert Member(me=1).did == Member(me=2).did == [], "the others wait"
