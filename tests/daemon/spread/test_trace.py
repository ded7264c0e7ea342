"""What Spread's clients do, judged by the checkers as all clients are: through a split, a crash and a merge."""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.services import Service
from isotone.spec.check import check
from tests.daemon.spread.house import Guest, House
from tests.spread_client.protocol import AGREED, FIFO, SAFE, SELF_DISCARD


def talk(guests: list[Guest], round: int) -> None:
    for place, guest in enumerate(guests):
        client = guest.client
        for service in (FIFO, AGREED, SAFE, AGREED | SELF_DISCARD):
            guest.write(client.multicast(service, ("g1", "g2"), f"{round}.{place}".encode(), round))
        if place == round % len(guests):
            guest.write(client.leave("g1") + client.join("g1") + client.join("g2") + client.leave("g2"))


def test_no_property_is_violated() -> None:
    house = House("d1", "d2", "d3")
    guests = [house.connect(f"u{n}", f"d{1 + n % 3}", order="big" if n % 2 else "little") for n in range(6)]
    native = house.native("d1")
    native.ask(b4.Join("g1"))
    house.gather(*guests)
    for round in range(12):
        talk(guests, round)
        native.send(Service.AGREED, ("g1",), b"a", b"b", b"c")
        if round == 3:
            house.world.partition(["d1", "d2"], ["d3"])
        elif round == 6:
            house.world.heal()
        elif round == 9:
            house.world.crash("d2")
            guests = [guest for guest in guests if guest.daemon != "d2"]
        house.world.run_for(700_000)
    house.until(lambda: house.is_together("d1", "d3"))
    house.world.run_for(3_000_000)
    report = check(house.rows)
    assert report.violations == {}
    received = [guest.pull().received[-1] for guest in guests]
    assert len(received) == 4
    views = [
        next(each for each in reversed(guest.client.received) if each.is_view and each.name == "g1") for guest in guests
    ]
    assert {view.groups for view in views} == {("#native#d1", "#u0#d1", "#u3#d1", "#u2#d3", "#u5#d3")}
