"""Names that are too long for Spread's clients: told in a short form, and what is sent to it arrives."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service
from isotone.daemon.spread import short_names
from isotone.daemon.spread.short_names import ShortNames, short_name
from tests.daemon.spread import house as houses
from tests.daemon.spread.house import House
from tests.spread_client.protocol import AGREED

LONG = "inventory-service-of-the-northern-warehouse"
LONG_GROUP = "prices-of-all-articles-in-all-northern-warehouses"


@pytest.mark.parametrize("name", ["g", "g" * 31, "#" + "c" * 10 + "#" + "d" * 19])
def test_a_name_that_fits_stays_as_it_is(name: str) -> None:
    assert short_name(name) == name


@pytest.mark.parametrize("name", ["g" * 32, "#" + "c" * 11 + "#d", "#c#" + "d" * 64, "#" + "c" * 64 + "#" + "d" * 64])
def test_a_short_form_fits_into_a_slot_and_says_where_it_comes_from(name: str) -> None:
    short = short_name(name)
    assert len(short) <= 31 and short[:4] == name[:4] and short.count("#") == name.count("#")


def test_the_oldest_short_forms_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_names, "KNOWN_MAX", 2)
    names, known = [letter * 40 for letter in "abc"], ShortNames()
    for name in names:
        known.note(name)
    assert [known.full_name(short_name(name)) for name in names] == [short_name(names[0]), *names[1:]]
    known.note("short")
    assert known.full_name("short") == "short"


def test_a_spread_client_answers_a_native_client_with_a_long_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(houses, "NATIVE", LONG)
    house = House()
    (alice,) = house.joined("alice")
    native = house.native()
    native.ask(b4.Join("g1"))
    short = short_name(ClientId(DaemonId("d1", 1), LONG, 1).private_group)
    assert alice.expect_view().groups == ("#alice#d1", short)
    native.send(Service.AGREED, ("g1", LONG_GROUP), b"who has apples?")
    asked = alice.expect()
    assert (asked.name, set(asked.groups)) == (short, {"g1", short_name(LONG_GROUP)})
    alice.write(alice.client.multicast(AGREED, asked.name, b"I have"))
    house.until(lambda: b"I have" in [bytes(each.bundle.payload) for each in native.messages()])
