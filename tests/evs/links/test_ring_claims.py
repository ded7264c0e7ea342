"""What a ring claims that all have: what the token left with and comes back with. And how its windows are shared.

Reference: [Spread 4.1], the lesser of this round's and the previous round's all-received-up-to; D-claim, D-share.
"""

from __future__ import annotations

import msgspec
import pytest

from isotone.core.choice import Choice
from isotone.core.contract import Action, Address, DatagramsReceived, SendDatagrams, Started
from isotone.evs.links.ring import Ring, RingSettings
from isotone.evs.links.ring.events import SiteLineRose
from isotone.evs.links.ring.token import NOBODY, PACKET, PacketKind, Token, decode_token, encode_token, lower_or_raise
from tests.evs.links.ring_pair import Lan, Numbers, lan_of

RING = 99
BLANK = Token(0, 0, 0, NOBODY, 0, 0, 0, 0, NOBODY, 0, 0, 0)
PACKETS = 5


class Member:
    """The second member of three, in the hands of the test: it has received every packet that there is."""

    def __init__(self) -> None:
        self.origin = Numbers(1)
        addresses = {member: Address(str(member)) for member in range(3)}
        self.ring = Ring(
            ring=RING,
            site="lan",
            members=range(3),
            me=1,
            addresses=addresses,
            origin=self.origin,
            settings=RingSettings(),
        )
        self.ring.handle(Started(0))
        for number in range(1, PACKETS + 1):
            self.hear(PacketKind.DATA, number, b"")
            self.origin.take(number, number)

    def hear(self, kind: PacketKind, number: int, body: bytes) -> list[Action]:
        data = PACKET.pack(kind, 0, 0, RING, number) + body
        return self.ring.handle(DatagramsReceived(0, Address("0"), data, len(data)))

    def visit(self, visit: int, *, line: int, jumped_at: int = 0, held_by: int = NOBODY) -> list[int]:
        """The token comes with these lines, which this member holds down; what is claimed."""
        token = msgspec.structs.replace(
            BLANK,
            visit=visit,
            link_sequence=PACKETS,
            received=line,
            received_modifier=held_by,
            site_line=line,
            site_line_modifier=held_by,
            jumped_at=jumped_at,
        )
        actions = self.hear(PacketKind.TOKEN, visit, encode_token(token))
        return [action.line for action in actions if isinstance(action, SiteLineRose)]

    @property
    def kept(self) -> int:
        return len(self.ring._packets)


def test_one_visit_claims_nothing() -> None:
    """The member before raised the line to its own; whoever comes behind us was not asked yet."""
    member = Member()
    assert member.visit(1, line=PACKETS) == []
    assert member.kept == PACKETS, "somebody may still ask for them"


def test_what_two_visits_show_is_claimed() -> None:
    member = Member()
    member.visit(1, line=PACKETS)
    assert member.visit(4, line=PACKETS) == [PACKETS]
    assert member.kept == 0


@pytest.mark.parametrize(("first", "second"), [(5, 2), (2, 5)])
def test_of_two_visits_the_lesser_line_counts(first: int, second: int) -> None:
    member = Member()
    member.visit(1, line=first, held_by=2)
    assert member.visit(4, line=second, held_by=2) == [2]
    assert member.kept == PACKETS - 2
    assert member.visit(7, line=5) == [second][second < 5 :], "then the second visit is the earlier one"


def test_who_raised_a_line_claims_it_when_the_token_comes_back_with_it() -> None:
    """Everybody was asked since: one rotation is enough."""
    member = Member()
    assert member.visit(1, line=2) == [], "it goes on with 5"
    assert member.visit(4, line=5) == [5]


def test_nothing_is_claimed_that_somebody_lacks_whatever_happens_between_visits() -> None:
    """Against rings in which packets come at any moment: lines rise at random, and the token goes round."""
    choice, claimed_in_all = Choice("claims"), 0
    for _ in range(300):
        count = choice.between(2, 5)
        own, left, top, line, modifier = [0] * count, [0] * count, 0, 0, NOBODY
        for visit in range(12 * count):
            me = visit % count
            for member in range(count):
                own[member] = choice.between(own[member], top) if choice.chance(0.5) else own[member]
            if choice.chance(0.3):
                top += choice.between(1, 3)
                own[me] = top if choice.chance(0.5) else own[me]
            claim = min(left[me], line) if visit >= count else 0
            assert claim <= min(own)
            claimed_in_all += claim
            line, modifier = lower_or_raise(line, modifier, mine=own[me], top=top, me=me)
            left[me] = line
    assert claimed_in_all > 10_000


def test_a_token_that_left_the_order_between_two_visits_shows_nothing() -> None:
    member = Member()
    member.visit(1, line=PACKETS)
    assert member.visit(3, line=PACKETS, jumped_at=3) == []
    assert member.visit(6, line=PACKETS, jumped_at=3) == [PACKETS], "since then it kept to the order"


def test_nothing_is_claimed_while_one_member_lacks_it() -> None:
    """Everybody but the last has everything, visit after visit."""
    lan = lan_of(3, 1)
    lan.run(100_000)
    lan.deaf.add(2)
    lan.submit(0, b"one", b"two")
    lan.run(lan.now + 150_000)
    assert lan.origins[1].line == 2 and lan.origins[2].line == 0
    assert lan.lines == {} and len(lan.rings[0]._packets) > 0
    lan.deaf.clear()
    lan.run(lan.now + 1_000_000)
    assert lan.lines == {0: 2, 1: 2, 2: 2}


def test_the_line_is_raised_only_by_who_holds_it_down() -> None:
    """The token that goes on: this member lacks nothing, but another one lowered the line."""
    member = Member()
    token = msgspec.structs.replace(
        BLANK, visit=1, link_sequence=PACKETS, received=2, received_modifier=2, site_line=2, site_line_modifier=2
    )
    actions = member.hear(PacketKind.TOKEN, 1, encode_token(token))
    (sent,) = [action for action in actions if isinstance(action, SendDatagrams)]
    onward = decode_token(memoryview(sent.datagrams[0][1]))
    assert (onward.received, onward.received_modifier, onward.site_line, onward.site_line_modifier) == (2, 2, 2, 2)


def saturated(settings: RingSettings) -> Lan:
    lan = lan_of(4, 2, settings=settings)
    for member in lan.rings:
        lan.submit(member, *[b"x" * 1_300] * 2_000)
    lan.run(lan.now + 60_000)
    return lan


def test_no_member_starves_when_all_have_more_than_the_window() -> None:
    """Reference: D-share. Two members of a full window each would leave nothing to the others, for ever."""
    lan = saturated(RingSettings(personal_window=20, global_window=40))
    shares = [len(origin.stamped) for origin in lan.origins.values()]
    assert min(shares) > 0 and max(shares) <= 1.5 * min(shares)


def test_a_member_alone_takes_what_the_others_leave() -> None:
    settings = RingSettings(personal_window=20, global_window=40)
    assert settings.allowance(members=4, others=0, unsettled=0) == 20
    assert settings.allowance(members=4, others=25, unsettled=0) == 15
    assert settings.allowance(members=4, others=40, unsettled=0) == 10, "its share"
    assert settings.allowance(members=100, others=40, unsettled=0) == 1
    assert settings.allowance(members=4, others=0, unsettled=settings.unsettled_max - 3) == 3
