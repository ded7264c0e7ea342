"""Metadata of several units in one frame: what goes in comes out, whatever is unusual about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.links.contract import Frame
from isotone.evs.ordering.metadata import METADATA_FRAME, RUN_MAX, decode_metadata, encode_metadata
from isotone.evs.ordering.stamper import TICK
from isotone.evs.ordering.units import Unit, UnitKind, decode_unit

SITES, DAEMONS, SITE = 3, 5, 1


def decoded(frames: list[Frame]) -> list[Unit]:
    units: list[Unit] = []
    for frame in frames:
        if frame.kind == METADATA_FRAME:
            units += decode_metadata(frame.body(), sites=SITES, daemons=DAEMONS)
        else:
            units.append(decode_unit(frame.body(), sites=SITES, daemons=DAEMONS))
    return units


def stream(service: Service, count: int) -> list[Unit]:
    """One session that sends in a row and hears nothing."""
    pasts = [() if service.is_agreed else ((7, place - 1, 0), (9, 2)) for place in range(1, count + 1)]
    return [
        Unit(UnitKind.BUNDLE, service, SITE, 2, place, place * TICK, place - 1, b"content", *past)
        for place, past in enumerate(pasts, start=1)
    ]


@pytest.mark.parametrize("service", [Service.RELIABLE, Service.CAUSAL, Service.AGREED, Service.SAFE])
def test_what_is_as_usual_takes_a_byte(service: Service) -> None:
    units = stream(service, 20)
    frames = encode_metadata(units)
    assert len(frames) == 1 and decoded(frames) == [unit.pruned() for unit in units]
    past = 0 if service.is_agreed else 20 + 8 * SITES
    assert frames[0].size <= 18 + 20 + 3 + 4 + 2 + past, "a header, a byte each, and the first spelt out"


def test_a_run_has_an_end() -> None:
    units = stream(Service.AGREED, RUN_MAX + 2)
    assert [frame.kind == METADATA_FRAME for frame in encode_metadata(units)] == [True, True]
    assert decoded(encode_metadata(units)) == [unit.pruned() for unit in units]


@st.composite
def units_of_a_site(draw: st.DrawFn) -> list[Unit]:
    units, sequence, lamport = [], draw(st.integers(0, 10)), draw(st.integers(0, 10))
    for _ in range(draw(st.integers(1, 12))):
        sequence += draw(st.sampled_from((1, 1, 2, 70_000)))
        lamport += draw(st.sampled_from((1, TICK, TICK, 5_000, 1 << 33)))
        service = draw(st.sampled_from([each for each in Service if each.is_reliable]))
        previous = draw(st.sampled_from((0, max(0, sequence - 1), max(0, sequence - 80_000))))
        weak = tuple(draw(st.integers(0, 5)) for _ in range(SITES))
        past = () if service.is_agreed else (weak, (draw(st.integers(0, 9)), 0))
        units.append(
            Unit(UnitKind.PRUNED, service, SITE, draw(st.integers(0, 4)), sequence, lamport, previous, b"", *past)
        )
    return draw(st.permutations(units)) if draw(st.booleans()) else units


@given(units_of_a_site())
def test_whatever_goes_in_comes_out(units: list[Unit]) -> None:
    assert decoded(encode_metadata(units)) == units


@given(st.data())
def test_bad_frames_are_refused_and_nothing_else_happens(data: st.DataObject) -> None:
    body = bytearray(encode_metadata(stream(Service.RELIABLE, 3))[0].body())
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    for bad in (bytes(body), bytes(body[:cut])):
        try:
            units = decode_metadata(memoryview(bad), sites=SITES, daemons=DAEMONS)
        except RemoteProtocolError:
            continue
        assert all(unit.site < SITES and unit.daemon < DAEMONS for unit in units)
