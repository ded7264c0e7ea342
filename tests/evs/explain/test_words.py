"""What people read: lengths of time, and what has no room."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from isotone.core.services import Service
from isotone.evs.explain import Wait, words
from isotone.evs.explain.views import _recovering
from isotone.evs.explain.words import listed, span
from isotone.evs.membership.node import Node
from isotone.evs.stack import Stack
from tests.evs.explain.house import House


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0 ms"), (-5, "0 ms"), (250, "0.25 ms"), (80_000, "80 ms"), (1_000_000, "1 s"), (12_340_000, "12.3 s")],
)
def test_a_length_of_time(us: int, text: str) -> None:
    assert span(us) == text


def test_a_full_link_has_no_room_for_anything_more() -> None:
    house = House("a c").start()
    house.world.partition("a", "c")
    many = [house.send("a", Service.AGREED, 60_000) for _ in range(40)]
    house.run(40)
    assert "no room for more on a~c" in house.message("a", many[-1]).text


def test_room_for_one_unit_is_room_and_the_token_is_what_is_missing() -> None:
    house = House("ab").start()
    house.world.pause("b")
    house.run(5)
    message = house.send("a", Service.AGREED)
    stamper = house.network("a").transport.stamper
    stamper.room = 1
    assert [each.wait for each in house.message("a", message).blockers] == [Wait.TOKEN]
    stamper.room = 0
    assert [each.wait for each in house.message("a", message).blockers] == [Wait.LINK]


def test_how_long_a_peer_is_silent_can_be_seen() -> None:
    house = House("a b").start()
    house.world.partition("a", "b")
    before = house.status("a").peers[0].silent_us
    house.run(200)
    assert 199_000 < house.status("a").peers[0].silent_us - before < 201_000, "by a clock that drifts"


@pytest.mark.parametrize(
    ("lacking", "resends", "done", "told"),
    [(3, 0, False, True), (0, 2, False, True), (3, 2, False, True), (0, 0, False, False), (3, 2, True, False)],
)
def test_a_recovery_waits_for_what_has_to_come_or_to_be_sent(
    lacking: int, resends: int, done: bool, told: bool
) -> None:
    past = SimpleNamespace(recovery=SimpleNamespace(_lacking=lacking))
    recovering = SimpleNamespace(node=SimpleNamespace(past=past), _resends=[None] * resends, _done=done)
    stack = cast(Stack, SimpleNamespace(membership=SimpleNamespace(recovering=recovering)))
    texts = [each.text for each in _recovering(stack)]
    wanted = f"{lacking} units of the last daemon view have yet to come, {resends} have yet to be sent again"
    assert texts == ([wanted] if told else [])


def test_a_list_of_nobody() -> None:
    assert listed([]) == "nobody" and listed(["a", "b"]) == "a, b"


@pytest.mark.parametrize(("late_us", "told"), [(0, False), (1, True)])
def test_probes_are_unanswered_once_their_answer_is_late(
    late_us: int, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = SimpleNamespace(answer_within_us=5_000)
    report = SimpleNamespace(
        suspected=(), silent_us=90_000, unanswered_us=5_000 + late_us, limits=limits, suspected_in_us=None
    )
    monkeypatch.setattr(words, "peer_report", lambda node, name, at: report)
    text, at = words.silence_of(cast(Node, None), "b", 0)
    assert (text.startswith("b was heard 90 ms ago"), "unanswered" in text, at) == (True, told, None)
