"""Pruning in the composition: bytes saved, joins that race with sends, order kept."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from isotone.core.choice import Choice
from isotone.core.services import Service
from isotone.evs.ordering.pruning import CONTENT_FRAME, Peeked, encode_masked
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.overlay.interest import InterestChanged
from isotone.evs.transport import DeliverUnits, Submitted, TransportSettings
from isotone.evs.transport.events import InterestStated
from isotone.evs.transport.incoming import Arrival, Incoming
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from tests.evs.overlay.needing import sites_needing
from tests.evs.transport.cluster import Cluster


def peek(unit: Unit) -> Peeked:
    """Bodies of these tests: "j g" joins g, "m g …" is for g."""
    words = bytes(unit.body[:3]).split()
    if len(words) < 2:
        return Peeked()
    return Peeked(None, (words[1].decode(),)) if words[0] == b"j" else Peeked((words[1].decode(),))


class Pruned(Cluster):
    def __init__(
        self,
        sites: str,
        links: str,
        *,
        members: str = "",
        network: NetworkSettings | None = None,
        delta_us: int = 5_000,
    ) -> None:
        super().__init__(sites, links, settings=TransportSettings(peek=peek, delta_us=delta_us), network=network)
        for site in sites.split():
            for name in self.names:
                groups = ("g",) if site[0] in members else ()
                self.world.tell(name, "speaker", InterestStated(0, site, groups))
        self.content: dict[tuple[int, int], Unit] = {}  # by position, from whoever had it
        self.heard_units: dict[str, list[Unit]] = {name: [] for name in self.names}
        for name in self.names:
            self._listen(name)
        self.run()

    def _listen(self, name: str) -> None:
        def told(actions: list, at: int) -> list:  # type: ignore[type-arg]
            for action in actions:
                if isinstance(action, DeliverUnits):
                    self.heard_units[name] += action.units
                    whole = [unit for unit in action.units if unit.kind is not UnitKind.PRUNED]
                    self.content.update((unit.position, unit) for unit in whole)
            return [action for action in actions if not isinstance(action, DeliverUnits)]

        self.speaker(name)._told = told  # type: ignore[method-assign]

    def say(self, name: str, body: bytes, service: Service = Service.AGREED) -> None:
        self.world.tell(name, "speaker", Submitted(0, [Draft("s", UnitKind.BUNDLE, service, body)]))


@pytest.mark.parametrize(("burst", "gap_us"), [(20, 20_000), (1, 1_000)])
@pytest.mark.parametrize("service", [Service.RELIABLE, Service.AGREED, Service.SAFE])
def test_a_site_without_members_gets_below_five_per_cent_of_the_bytes(
    service: Service, burst: int, gap_us: int
) -> None:
    """1 KiB messages, a thousand in a second, at the default delta; line updates, clearances and all else included."""
    sent = {}
    for members in ("abc", "ab"):
        cluster = Pruned("a b c", "a-b b-c", members=members, delta_us=0)
        gateway = cluster.transport("b").gateway
        assert gateway is not None
        counters = next(trunk.link.counters for trunk in gateway.trunks if trunk.name == "b~c")
        before = counters.bytes_sent
        for _ in range(1_000 // burst):
            for _ in range(burst):
                cluster.say("a", b"m g".ljust(1024, b"."), service)
            cluster.world.run_for(gap_us)
        cluster.run()
        sent[members] = counters.bytes_sent - before
        assert [unit.sequence for unit in cluster.heard_units["c"]] == list(range(1, 1_001))
        assert {unit.kind for unit in cluster.heard_units["b"]} == {UnitKind.BUNDLE}
    assert sent["ab"] < 0.05 * sent["abc"], sent


@pytest.mark.parametrize("offset_us", range(0, 60_000, 3_000))
@pytest.mark.parametrize("service", [Service.AGREED, Service.SAFE])
def test_a_join_that_races_with_sends_misses_nothing_that_it_is_owed(offset_us: int, service: Service) -> None:
    """The joiner is owed every AGREED and SAFE message of the group that is ordered behind its join."""
    cluster = Pruned("a bd c", "a-b b-c", members="a")
    for turn in range(12):
        cluster.world.at(cluster.world.now + 5_000 * turn, lambda: cluster.say("a", b"m g", service))
    cluster.world.at(cluster.world.now + offset_us, lambda: cluster.say("c", b"j g"))
    assert cluster.run()
    for name in cluster.names:
        units = cluster.heard_units[name]
        assert [unit.position for unit in units] == sorted(unit.position for unit in units) and len(units) == 13
        assert cluster.transport(name).delivery.kept_bytes == 0
    heard = cluster.heard_units["c"]
    joined = next(place for place, unit in enumerate(heard) if bytes(unit.body) == b"j g")
    assert all(unit.kind is UnitKind.BUNDLE for unit in heard[joined:]), "all content behind the join"


def test_pruned_units_keep_their_place_in_every_order() -> None:
    cluster = Pruned("a b c d", "a-b b-c c-d", members="ad")
    for turn in range(40):
        cluster.say("abcd"[turn % 4], b"m g" if turn % 3 else b"m h", list(Service)[1 + turn % 5])
        cluster.world.run_for(4_000)
    assert cluster.run()
    agreed = [
        [msgspec.structs.replace(unit, kind=UnitKind.PRUNED, body=b"") for unit in units if unit.service.is_agreed]
        for units in cluster.heard_units.values()
    ]
    assert all(each == agreed[0] for each in agreed)
    assert all(len(units) == 40 for units in cluster.heard_units.values())
    there = [unit for unit in cluster.heard_units["d"] if unit.kind is UnitKind.BUNDLE and unit.site != 3]
    assert all(
        bytes(unit.body) == b"m g" for unit in there if unit.service.is_agreed or unit.agreed_before == (0, 0)
    ), "below AGREED, what stands behind an agreed unit that is under way goes to all: a join may stand between"


@pytest.mark.parametrize("seed", range(20))
def test_joins_among_sends_of_many_through_loss_and_reordering(seed: int) -> None:
    """Whoever joins, wherever: all AGREED and SAFE content of the group behind the site's own first join."""
    choice = Choice(f"pruning/{seed}")
    sites, links = choice.pick([("ab c d", "a-c c-d"), ("a b c d", "a-b b-c b-d"), ("ab cd ef", "a-c c-e e-a")])
    weather = LinkSettings(latency_us=8_000, jitter_us=4_000, loss=choice.pick([0.0, 0.1, 0.2]), reorder=0.2)
    lan = LinkSettings(loss=weather.loss, reorder=0.1)
    cluster = Pruned(sites, links, network=NetworkSettings(lan=lan, wan=weather))
    start = cluster.world.now
    for _ in range(150):
        name, group = choice.pick(cluster.names), choice.pick([b"g", b"h"])
        service = choice.pick([Service.AGREED, Service.SAFE, Service.FIFO, Service.CAUSAL])
        kind = b"j " if choice.chance(0.05) else b"m "
        body, service = kind + group, Service.AGREED if kind == b"j " else service
        cluster.world.at(start + choice.below(400_000), partial(cluster.say, name, body, service))
    assert cluster.run(100) and not any(cluster.transport(name).failed for name in cluster.names)
    for name in cluster.names:
        site = cluster.transport(name)._site
        joined: set[str] = set()
        assert len(cluster.heard_units[name]) == 150 and cluster.transport(name).delivery.kept_bytes == 0
        for unit in cluster.heard_units[name]:
            if unit.service.is_agreed and unit.kind is UnitKind.BUNDLE:
                joined |= set(peek(unit).joins) if unit.site == site else set()
            if unit.service.is_agreed and unit.kind is UnitKind.PRUNED:
                original = cluster.content[unit.position]
                assert not joined & set(peek(original).groups or ()), f"{name} lacks {original.body!r}"


def test_content_that_comes_before_its_metadata_moves_the_clock() -> None:
    """Otherwise the site would never promise a time above it, and everybody would wait for that."""
    cluster = Pruned("a b", "a-b")
    transport = cluster.transport("b")
    unit = Unit(UnitKind.BUNDLE, Service.AGREED, 0, 0, 1, 5_000, 0, b"m g")
    transport._take(Incoming(contents=[Arrival(unit, encode_masked(CONTENT_FRAME, 2, unit), 2)]), 0)
    assert transport.stamper.lamport == 5_000


def test_a_leave_does_not_undo_a_later_join_that_is_not_delivered_yet() -> None:
    cluster = Pruned("a b", "a-b")
    gateway = cluster.transport("a").gateway
    assert gateway is not None
    joins = [Unit(UnitKind.BUNDLE, Service.AGREED, 1, 1, place, 1_000 * place, 0, b"j g") for place in (1, 2)]
    gateway.note_joins(joins, 0)
    left = InterestChanged(0, "b", "g", interested=False)
    for delivered in ((500, 1), (1_500, 1)):
        gateway.interest_changed(left, delivered)
        assert sites_needing(gateway.interest, "g") == ("b",), "the second join is still to come"
    gateway.interest_changed(left, (2_500, 1))
    assert sites_needing(gateway.interest, "g") == ()
