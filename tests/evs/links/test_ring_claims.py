"""What a ring claims that all have: only what two visits of the token in a row showed. And how its windows are shared.

Reference: [Spread 4.1], the lesser of this round's and the previous round's all-received-up-to; D-claim, D-share.
"""

from __future__ import annotations

import msgspec
import pytest

from isotone.core.contract import Action, Address, DatagramsReceived, SendDatagrams, Started
from isotone.evs.links.ring import Ring, RingSettings
from isotone.evs.links.ring.events import SiteLineRose
from isotone.evs.links.ring.token import NOBODY, PACKET, PacketKind, Token, decode_token, encode_token
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

    def visit(self, visit: int, *, line: int, jumped_at: int = 0) -> list[int]:
        """The token comes with these lines; what is claimed."""
        token = msgspec.structs.replace(
            BLANK, visit=visit, link_sequence=PACKETS, received=line, site_line=line, jumped_at=jumped_at
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
    member.visit(1, line=first)
    assert member.visit(4, line=second) == [2]
    assert member.kept == PACKETS - 2
    assert member.visit(7, line=5) == [second][second < 5 :], "then the second visit is the earlier one"


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
