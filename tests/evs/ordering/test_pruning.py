"""What a source's gateway remembers of pruned units, and when a receiver's line may pass metadata."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest

import pytest

from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.ordering import pruning
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.lines import Lines, SiteLine
from isotone.evs.ordering.pruning import OWED_MAX, Cleared, Pruner, decode_cleared, encode_cleared, mask_of
from isotone.evs.ordering.units import Unit, UnitKind, decode_unit, encode_unit


def unit(sequence: int, service: Service = Service.AGREED, body: bytes = b"content") -> Unit:
    past = () if service.is_agreed else (0, 0)
    return Unit(UnitKind.BUNDLE, service, 0, 0, sequence, 10 * sequence, 0, body, past)


def test_a_joiner_gets_what_was_pruned_and_is_not_stable() -> None:
    pruner = Pruner(0)
    for sequence in (1, 2, 3):
        pruner.pruned(unit(sequence), ("g",) if sequence != 2 else ("h",), mask_of([0]))
    pruner.stable_through(10)
    assert [each.sequence for each in pruner.joined(1, "g")] == [3], "the first is stable, the second for others"
    assert pruner.joined(1, "g") == [], "once"
    assert pruner.is_due(30) and pruner.clear(30) == Cleared(0, 30, ((3, 2),))
    assert not pruner.is_due(100), "nothing beyond was pruned"
    pruner.stable_through(30)
    pruner.pruned(unit(4), ("g",), 1)
    assert pruner.clear(40) == Cleared(0, 40)


def test_weak_units_are_not_owed_to_who_was_not_known() -> None:
    pruner = Pruner(0)
    pruner.pruned(unit(1, Service.CAUSAL), ("g",), 1)
    assert pruner.joined(1, "g") == [] and not pruner.is_due(100)


def test_a_line_stands_below_metadata_until_it_is_cleared() -> None:
    line = SiteLine()
    line.bare(1, 10)
    line.advance(1, 10)
    line.promise(1, 50)
    assert (line.heard, line.line) == (50, 9)
    line.clear(9, [])
    assert line.line == 9
    line.clear(10, [])
    assert line.line == 50


def test_a_line_waits_for_content_that_is_owed_even_when_it_is_cleared() -> None:
    line = SiteLine()
    line.clear(20, [2])
    line.bare(1, 10)
    line.advance(1, 10)
    line.bare(2, 20)
    line.advance(2, 20)
    assert line.line == 19
    line.filled(2)
    assert line.line == 20


def test_content_takes_the_place_of_metadata_or_comes_first() -> None:
    first, second = unit(1), unit(2)
    delivery = Delivery(Lines.of(1))
    assert delivery.take([first.pruned()]) == []
    assert delivery.fill(first) == [first]
    assert delivery.fill(second) == [second], "before its metadata"
    assert delivery.has_received(second.pruned()) and delivery.fill(first) == []
    delivery.lines.report(0, 20)
    delivery.lines_moved()
    assert delivery.kept_bytes == 0


def test_metadata_holds_its_place_in_the_chain_of_its_session() -> None:
    """FIFO across groups does not stall behind what is not for this site, and does not overtake what is."""
    delivery = Delivery(Lines.of(1))
    chain = [Unit(UnitKind.BUNDLE, Service.FIFO, 0, 0, place, place, place - 1, b"x", (0,)) for place in (1, 2, 3)]
    assert delivery.take([chain[1].pruned(), chain[2]]) == []
    assert [each.sequence for each in delivery.take([chain[0]])] == [1, 2, 3]


def test_clearances_survive_the_wire_and_bad_ones_are_refused() -> None:
    cleared = Cleared(1, 2, ((3, 4), (5, 6)))
    body = encode_cleared(cleared).body()
    assert decode_cleared(body, sites=2) == cleared
    for bad, sites in ((body, 1), (body[:-1], 2), (body[:5], 2)):
        with pytest.raises(RemoteProtocolError):
            decode_cleared(bad, sites=sites)


@pytest.mark.parametrize("previous", [0, 1, 7, 99_990, 99_999])
@pytest.mark.parametrize("service", [Service.FIFO, Service.AGREED])
def test_metadata_is_small_and_survives_the_wire(previous: int, service: Service) -> None:
    past = ((1, 2), (5, 0)) if service is Service.FIFO else ()
    whole = Unit(UnitKind.BUNDLE, service, 1, 3, 100_000, 1 << 40, previous, b"content", *past)
    header, body = encode_unit(whole.pruned())
    assert len(header) <= 32 + (36 if past else 0) and body == b""
    assert decode_unit(memoryview(header), sites=2, daemons=4) == whole.pruned()
    for bad in (header[:-1], header + b"x"):
        with pytest.raises(RemoteProtocolError):
            decode_unit(memoryview(bad), sites=2, daemons=4)


def test_units_that_come_to_the_gateway_out_of_order_are_all_cleared() -> None:
    """Those of another daemon of the site may come behind later ones of the gateway itself."""
    pruner = Pruner(0)
    for sequence in (2, 1):
        pruner.pruned(unit(sequence), ("g",), 1)
    pruner.clear(10)
    assert pruner.is_due(20)
    pruner.stable_through(10)
    assert [each.sequence for each in pruner.joined(1, "g")] == [2]


def test_what_is_owed_is_looked_up_once_however_often_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """While more is owed than a clearance names, every event asks whether more can be cleared."""
    looked: list[int] = []

    def counted(count: int, owed: Iterable[int]) -> list[int]:
        looked.append(count)
        return nsmallest(count, owed)

    monkeypatch.setattr(pruning, "nsmallest", counted)
    pruner = Pruner(0)
    for sequence in range(1, OWED_MAX + 3):
        pruner.pruned(unit(sequence), ("g",), 1)
    pruner.joined(1, "g")
    cleared = pruner.clear(10_000_000)
    assert [sequence for sequence, _ in cleared.owed] == list(range(1, OWED_MAX + 1))
    assert not any(pruner.is_due(10_000_000) for _ in range(100))
    assert len(looked) == 1
    pruner.stable_through(unit(5).lamport)
    assert pruner.is_due(10_000_000)
    assert len(pruner.clear(10_000_000).owed) == OWED_MAX - 3 and len(looked) == 2
