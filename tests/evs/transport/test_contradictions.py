"""What only a daemon that is not correct sends: dropped and counted, and nothing else happens to whoever hears it."""

from __future__ import annotations

from isotone.core.services import Service
from isotone.evs.links.contract import Frame, frame_of
from isotone.evs.links.ring.packets import PacketStore
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.stamper import UNIT_FRAME
from isotone.evs.ordering.units import Unit, UnitKind, encode_unit
from tests.evs.transport.cluster import Cluster


def unit(site: int, sequence: int, lamport: int) -> Unit:
    return Unit(UnitKind.BUNDLE, Service.AGREED, site, site, sequence, lamport, 0, b"x")


def frame(each: Unit) -> Frame:
    return frame_of(UNIT_FRAME, *encode_unit(each))


def test_a_unit_that_comes_twice_counts_once() -> None:
    cluster = Cluster("ab c", "a-c")
    transport = cluster.transport("b")
    for malformed in (0, 1):
        transport._take_near([frame(unit(1, 1, 10))], 0)
        assert transport.malformed == malformed
    assert len(transport.delivery.streams[1].queue) == 1


def test_what_is_foreign_and_not_from_the_gateway_is_dropped() -> None:
    cluster = Cluster("ab c", "a-c")
    transport = cluster.transport("a")
    transport._take_near([frame(unit(1, 1, 10)), frame(unit(0, 1, 10))], 0)
    assert transport.malformed == 1
    assert [stream.line.contiguous for stream in transport.delivery.streams] == [1, 0]


def test_a_time_that_does_not_grow_with_its_sequence_is_dropped() -> None:
    for late in (False, True):
        delivery = Delivery(Lines.of(1))
        units = [unit(0, 1, 10), unit(0, 2, 10), unit(0, 3, 30)]
        delivery.take([units[0], units[2], units[1]] if late else units)
        assert (delivery.contradicting, delivery.lines.sites[0].contiguous, delivery.kept_bytes) == (1, 1, 2)


def test_a_token_cannot_settle_what_has_not_come() -> None:
    packets = PacketStore()
    packets.add(1, (b"one",))
    packets.settle(5)
    assert packets.settled == packets.through == 1
