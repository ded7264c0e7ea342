"""Two sites that are connected by gateways only: one daemon view, groups across, merges, and the loss of a gateway."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest

import isotone
from isotone.core.contract import Action, Address, SendDatagrams
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.evs.membership import MembershipSettings, relays
from isotone.evs.membership.messages import Alive, Probe, Relay, contact, decode_inner, encode_inner
from isotone.evs.membership.network import Network
from isotone.evs.membership.node import Node
from isotone.evs.membership.settings import SiteGateways
from isotone.evs.membership.states import Reason
from isotone.evs.overlay.topology import make_link, make_site, make_topology
from isotone.evs.stack import StackSettings
from isotone.evs.transport.view import TransportView
from isotone.testing import Cluster, NotSettled, cluster, run
from tests.testing.virtual import pause

SITES = {"a1": "A", "a2": "A", "b1": "B", "b2": "B"}
EVERYBODY = tuple(SITES)
APART = {**dict.fromkeys(("a1", "a2"), ("a1", "a2")), **dict.fromkeys(("b1", "b2"), ("b1", "b2"))}


def wall(within: Cluster, *gates: tuple[str, str]) -> None:
    """Only these pairs of daemons of different sites reach each other."""
    for one, other in product(SITES, SITES):
        if SITES[one] < SITES[other] and (one, other) not in gates:
            within.cut(one, other)


@pytest.mark.parametrize("gate", list(product(("a1", "a2"), ("b1", "b2"))))
def test_one_pair_is_enough_whichever_it_is(gate: tuple[str, str]) -> None:
    async def program() -> None:
        async with cluster(daemons=SITES, seed=3) as within:
            wall(within, gate)
            await pause(10)
            assert set((await within.views()).values()) == {EVERYBODY}
            async with (
                isotone.connect(within.address("a1"), name="here") as here,
                isotone.connect(within.address("b2"), name="there") as there,
            ):
                group = await there.join("g")
                await here.send("g", b"hello", service=isotone.SAFE)
                async for event in group:
                    if isinstance(event, isotone.Message):
                        assert event.body == b"hello"
                        break

    run(program)


def test_sites_part_with_their_last_pair_and_merge_with_it() -> None:
    async def program() -> None:
        async with cluster(daemons=SITES, seed=5) as within:
            wall(within, ("a2", "b2"))
            await pause(10)
            assert set((await within.views()).values()) == {EVERYBODY}
            within.cut("a2", "b2")
            await pause(10)
            assert await within.views() == APART
            within.heal()
            wall(within, ("a1", "b2"))
            await pause(10)
            assert set((await within.views()).values()) == {EVERYBODY}

    run(program)


def test_another_pair_takes_the_place_of_a_gateway_that_dies() -> None:
    async def program() -> None:
        async with cluster(daemons=SITES, seed=7) as within:
            wall(within, ("a1", "b1"), ("a2", "b2"))
            await pause(10)
            assert set((await within.views()).values()) == {EVERYBODY}
            within.crash("a1")
            await pause(10)
            assert set((await within.views()).values()) == {("a2", "b1", "b2")}
            within.restart("a1")
            await pause(10)
            assert set((await within.views()).values()) == {EVERYBODY}

    run(program)


def test_settings_say_who_may_be_a_gateway() -> None:
    """The pairs of the others reach each other too, and are not taken."""

    async def program() -> None:
        gateways = (SiteGateways("A", ("a2",)), SiteGateways("B", ("b2",)))
        settings = StackSettings(membership=MembershipSettings(gateways=gateways))
        async with cluster(daemons=SITES, seed=9, settings=settings) as within:
            await pause(5)
            assert set((await within.views()).values()) == {EVERYBODY}
            within.cut("a2", "b2")
            await pause(10)
            with pytest.raises(NotSettled, match="b1 is in a site, B, without a gateway that reaches"):
                await within.settled()

    run(program)


# --- one daemon by hand ----------------------------------------------------------------------------------------------


def node_of(name: str, site: str) -> Node:
    identity = name.encode().ljust(16)
    return Node(
        me=DaemonId(name, 1), identity=identity, site=site, address=Address(name), settings=MembershipSettings()
    )


def node() -> Node:
    return node_of("a1", "A")


def test_a_word_that_leads_nowhere_is_dropped_and_counted() -> None:
    here = node()
    assert here.relays.take(Relay(here.card(), "nobody", 2, encode_inner(Alive(here.card())))) is None
    assert here.relays.dropped == 1 and here.out == []


def test_nobody_hands_on_a_probe() -> None:
    here = node()
    for inner in (Probe(here.card(), 7), Relay(here.card(), "a1", 0, b"")):
        with pytest.raises(RemoteProtocolError):
            here.relays.take(Relay(here.card(), "a1", 0, encode_inner(inner)))


def whose_card(here: Node, sent: Action) -> str:
    """The daemon of a card that is passed on."""
    assert isinstance(sent, SendDatagrams)
    word = here.envelope.open(memoryview(b"".join(sent.datagrams[0])))
    assert isinstance(word, Relay)
    return decode_inner(word.inner).card.name


def test_cards_take_turns_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "PASSED_MAX", 2)
    here = node()
    far, cut = node_of("b1", "B"), tuple(f"a{number}" for number in range(2, 7))
    for name in cut:
        here.learn(node_of(name, "A").card(), Address(name))
    here.learn(msgspec.structs.replace(far.card(), cut=cut), Address("b1"))
    told = []
    for _ in range(3):
        here.out.clear()
        here.relays.tell(here.peers.by_name["b1"])
        told += [whose_card(here, sent) for sent in here.out]
    assert told == ["a2", "a3", "a4", "a5", "a6", "a2"]


def test_who_is_not_suspected_yet_is_a_way_to_others() -> None:
    """Of another site only c1 reaches c2; who suspects c2 before it suspects c1 still knows the way."""
    here = node()
    for name, cut in {"a2": ("c2",), "c1": ("a1",), "c2": ("a1", "a2")}.items():
        card = node_of(name, name[0].upper()).card()
        here.learn(msgspec.structs.replace(card, cut=cut), Address(name))
    here.watch.answered(here.peers.by_name["a2"], 1, 0)
    assert here.watch.reached == ["a2"] and here.relays.linked() == set()
    here.peers.by_name["c2"].suspected = "silence"
    assert here.relays.linked() == {"c2"}
    here.peers.by_name["c1"].suspected = "silence"
    assert here.relays.linked() == {"c1", "c2"}


def heard_of(here: Node, sent: list[Action]) -> list[tuple[str, str]]:
    """Who is told whose card."""
    return [(str(each.destination), whose_card(here, each)) for each in sent if isinstance(each, SendDatagrams)]


def test_members_of_a_daemon_view_that_forms_hear_of_each_other_at_once() -> None:
    """Also without a look since they met: a daemon that started a moment ago suspects whom it does not reach soon."""
    here = node()
    for name, cut in {"a2": ("b1",), "b1": ("a2", "a3"), "a3": ("b1",)}.items():
        card = node_of(name, name[0].upper()).card()
        here.learn(msgspec.structs.replace(card, cut=cut), Address(name))
    for nonce, name in enumerate(("a2", "b1", "a3"), start=1):
        here.watch.answered(here.peers.by_name[name], nonce, 0)
    here.out.clear()
    here.relays.tell_members([DaemonId(name, 1) for name in ("a1", "a2", "b1")])
    assert heard_of(here, here.out) == [("a2", "b1"), ("b1", "a2")]
    here.out.clear()
    here.learn(msgspec.structs.replace(node_of("a2", "A").card(), count=9, cut=("b1",)), Address("a2"))
    assert heard_of(here, here.out) == [("b1", "a2")], "and of what changes"


def test_a_member_of_whom_no_card_came_yet_is_not_taken_for_lost() -> None:
    """Who is nearer to it says so if it is; of one's own site everybody is near."""
    here = node()
    here.mention([contact(DaemonId(name, 1), name[0].upper(), Address(name)) for name in ("a2", "b1", "b2")])
    sites = [make_site("A", ["a1", "a2"], gateway="a2"), make_site("B", ["b1", "b2"])]
    members = tuple(DaemonId(name, 1) for name in ("a1", "a2", "b1", "b2"))
    id = DaemonViewId(1, members[0])
    topology = make_topology(sites, [make_link("A", "B", 1)])
    view = TransportView(id, members, topology, {each.name: Address(each.name) for each in members})
    here.network = Network(here.me, view, version=1, settings=here.settings, lamport=0, first_stream=1)
    here.peers.by_name["b2"].suspected = "silence"
    assert here.broken_by() is None
    here.learn(node_of("b2", "B").card(), Address("b2"))
    here.peers.by_name["b2"].suspected = "silence"
    assert here.broken_by() == (Reason.MEMBER_SUSPECTED, "b2")
    here.peers.by_name["b2"].suspected = ""
    here.peers.by_name["a2"].suspected = "silence"
    assert here.broken_by() == (Reason.MEMBER_SUSPECTED, "a2")
