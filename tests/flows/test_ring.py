"""One ring by hand: candidates, promotion, views, recovery; tokens that must be dropped."""

from __future__ import annotations

import pytest

from isotone.core.codec.control import ControlMessage
from isotone.core.contract import Address, DatagramsReceived, SendDatagrams, Started, TimerFired
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.flows.authority import Authority, RingSettings
from isotone.flows.client import InputGiven
from isotone.flows.compiler import compile_text
from isotone.flows.library import MULTICAST, PHASES
from isotone.flows.messages import (
    CODEC,
    MEMBERS_MAX,
    Bootstrap,
    Enrol,
    RingToken,
    RingView,
    WireMember,
    token_from_wire,
    token_to_wire,
)
from isotone.flows.node import DEPTH_MAX, FlowNode
from isotone.flows.ring import Member, Ring, Standing, Token
from isotone.flows.root import Decision, Root
from isotone.flows.values import range_set

RULES = compile_text(PHASES)
A, B = Address("a"), Address("b")


def ring_of(names: str, number: int = 1, since: int = 1) -> list[Ring]:
    """Rings in a view, each with the value 5."""
    members = [Member(name, name, since) for name in names]
    found = [Ring(name, RULES) for name in names]
    for ring in found:
        ring.take_view(number, members)
        ring.values = (5,)
    return found


def circle(rings: list[Ring]) -> tuple[list[Standing], bool]:
    """One token round; how each took part, the leader last, and whether the round is complete."""
    if rings[0].recovering:
        rings[0].floor_known = True
    token = rings[0].begin_round(0)
    assert token is not None
    standings = [ring.add_to(token) for ring in rings[1:] if ring.may_pass(token)]
    assert rings[0].may_finish(token)
    standing, complete = rings[0].finish_round(token)
    return [*standings, standing], complete


def regular_ring(names: str) -> list[Ring]:
    rings = ring_of(names)
    assert circle(rings) == ([Standing.BESIDE] * len(names), False) and rings[0].recovering
    assert circle(rings) == ([Standing.ADMITTED] * len(names), True)
    circle(rings)
    assert all(ring.regular for ring in rings)
    return rings


def test_a_ring_of_candidates_recovers() -> None:
    regular_ring("abc")


def test_a_recovery_keeps_those_below_the_floor_out() -> None:
    rings = ring_of("abc")
    rings[1].values = (3,)
    circle(rings)
    rings[0].floor = (4,)
    assert circle(rings) == ([Standing.BESIDE, Standing.ADMITTED, Standing.ADMITTED], True)
    assert rings[0].results == (5,)


def test_a_candidate_waits_until_it_is_not_below_and_is_promoted_by_the_result() -> None:
    rings = regular_ring("ab")
    members = [Member("a", "a", 1), Member("b", "b", 1), Member("c", "c", 2)]
    newcomer = Ring("c", RULES)
    newcomer.values = (3,)
    for ring in (*rings, newcomer):
        ring.take_view(2, members)
    everybody = [*rings, newcomer]
    assert circle(everybody)[0][1] is Standing.BESIDE  # it knows of no round before
    assert circle(everybody)[0][1] is Standing.BESIDE  # 3 is below 5
    newcomer.values = (6,)
    assert circle(everybody)[0][1] is Standing.ADMITTED and not newcomer.regular
    assert circle(everybody)[0][1] is Standing.REGULAR


def test_who_was_left_out_of_a_view_is_a_candidate_again() -> None:
    rings = regular_ring("ab")
    rings[1].take_view(3, [Member("a", "a", 1), Member("b", "b", 3)])
    assert not rings[1].regular
    rings[0].take_view(3, [Member("a", "a", 1), Member("b", "b", 3)])
    assert rings[0].regular and not rings[0].take_view(2, [])


def test_old_and_foreign_tokens_are_dropped() -> None:
    rings = regular_ring("ab")
    token = rings[0].begin_round(0)
    assert token is not None
    later = rings[0].begin_round(0)
    assert later is not None
    rings[1].add_to(later)
    assert not rings[1].may_pass(token) and not rings[1].may_pass(later)
    rings[1].take_view(2, rings[1].members)
    assert not rings[1].may_pass(later)


def test_one_recovery_token_at_a_time() -> None:
    rings = ring_of("ab")
    circle(rings)
    assert rings[0].begin_round(2) is None  # no floor yet
    rings[0].floor_known = True
    first = rings[0].begin_round(2)
    assert first is not None and rings[0].begin_round(2) is None and rings[0].begin_round(2) is None
    second = rings[0].begin_round(2)  # the first one is taken for lost
    assert second is not None and not rings[0].may_finish(first) and rings[0].may_finish(second)


def test_a_root_decides_only_behind_the_last_decision() -> None:
    root = Root(RULES)
    assert root.take_result((1, 1), (4,)) is None  # the register was not read
    made = root.learn(Decision())
    assert made == root.pending == Decision((1, 1), (4,), {"L'": 4, "N": 5})
    assert root.take_result((1, 2), (5,)) is None  # one at a time
    assert root.learn(Decision()) is made  # an answer to the first question
    other = Decision((1, 3), (6,), {"L'": 6, "N": 7})
    assert root.learn(other) is None and root.last == other  # another root was first: ours is dropped
    assert root.take_result((1, 2), (7,)) is None and root.take_result((1, 4), (6,)) is None  # old; nothing new


def sent(actions: object) -> list[ControlMessage]:
    return [CODEC.decode(b"".join(a.datagrams[0])) for a in actions if isinstance(a, SendDatagrams)]  # type: ignore[attr-defined]


def test_a_full_ring_refuses_newcomers() -> None:
    authority = Authority({"r": RingSettings("r", "", "", PHASES)})
    for number in range(MEMBERS_MAX):
        message = CODEC.encode(Enrol("r", f"m{number}", "a"))
        authority.handle(DatagramsReceived(number, A, message, len(message)))
    message = CODEC.encode(Enrol("r", "late", "a"))
    with pytest.raises(RemoteProtocolError, match="full"):
        authority.handle(DatagramsReceived(999, A, message, len(message)))
    foreign = CODEC.encode(Enrol("x", "late", "a"))
    with pytest.raises(RemoteProtocolError, match="not served"):
        authority.handle(DatagramsReceived(999, A, foreign, len(foreign)))


def test_a_chain_of_rings_without_end_is_refused() -> None:
    node = FlowNode(me="n", address=A, ring="r0", authority=B, rules=RULES)
    node.handle(Started(0))

    def hear(message: ControlMessage) -> None:
        data = CODEC.encode(message)
        node.handle(DatagramsReceived(1, B, data, len(data)))

    def climb(depth: int) -> None:
        me = node.stack[-1].me
        hear(Bootstrap(f"r{depth}", me, f"r{depth + 1}", "b", 1_000, 100, 0, PHASES))
        hear(RingView(f"r{depth}", 1, (WireMember(me, "a", 1),)))

    for depth in range(DEPTH_MAX - 1):
        climb(depth)
    with pytest.raises(RemoteProtocolError, match=f"more than {DEPTH_MAX} rings"):
        climb(DEPTH_MAX - 1)


def test_inputs_are_checked() -> None:
    node = FlowNode(me="n", address=A, ring="r", authority=B, rules=RULES)
    node.handle(Started(0))
    node.handle(InputGiven(1, {"L": 4}))
    for values in ({"L": 3}, {"M": 1}, {"L": range_set((1,))}):
        with pytest.raises(LocalProtocolError):
            node.handle(InputGiven(2, values))
    assert sent(node.handle(TimerFired(3, "alive")))


@pytest.mark.parametrize("body", [b"", b"\x90", b"\xc1", b"\x9b" + b"\x00" * 11])
def test_malformed_tokens_are_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        token_from_wire(RingToken("r", 1, 1, 0, body), RULES)


def test_tokens_of_another_program_are_refused() -> None:
    other = compile_text(MULTICAST)
    token = Token("r", 1, 1, [range_set((1, 3)), range_set(()), None], reach=[1, 0, 0])
    wire = token_to_wire("r", token, 0)
    assert token_from_wire(wire, other) == token
    with pytest.raises(RemoteProtocolError):
        token_from_wire(wire, RULES)
