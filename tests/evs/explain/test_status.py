"""A daemon at a glance."""

from __future__ import annotations

from isotone.core.services import Service
from isotone.evs.membership import State
from tests.evs.explain.house import House


def test_a_gateway_tells_of_its_view_sites_links_and_peers() -> None:
    house = House("ab c d").start()
    house.run(500)
    said = house.status("a")
    assert (said.daemon, said.site, said.version) == ("a#1", "ab", 1)
    assert said.view.members == ("a", "b", "c", "d")
    assert [(site.name, site.daemons, site.gateway) for site in said.sites] == [
        ("ab", ("a", "b"), "a"),
        ("c", ("c",), "c"),
        ("d", ("d",), "d"),
    ]
    assert all(site.received == site.known for site in said.sites)
    assert [(link.name, link.protocol, link.to) for link in said.links] == [
        ("ab", "ring", ("b",)),
        ("ab~c", "hop", ("c",)),
        ("ab~d", "hop", ("d",)),
    ]
    assert all(link.counters.packets_sent for link in said.links)
    far = said.links[1].counters.round_trip_us
    assert 20_000 <= far <= 40_000
    assert [(peer.name, peer.reached, peer.suspected) for peer in said.peers] == [
        ("b", True, ""),
        ("c", True, ""),
        ("d", True, ""),
    ]
    assert said.peers[0].round_trip_us < said.peers[1].round_trip_us
    assert "keep-alive interval" in said.peers[0].timeouts["silence"].text
    assert said.entries["INSTALLED"] == 1
    assert said.room > 0


def test_who_is_no_gateway_has_its_ring_alone() -> None:
    house = House("ab c").start()
    assert [link.protocol for link in house.status("b").links] == ["ring"]


def test_lines_and_memory_show_what_waits() -> None:
    house = House("a b c").start()
    before = house.status("a")
    assert before.memory.kept == before.memory.undelivered == 0
    assert before.lines is not None and before.lines.agreed_since is None
    house.world.partition("ab", "c")
    sent_at = house.now("a")
    house.send("a", Service.AGREED, 1_000)
    house.run(80)
    said = house.status("a")
    assert said.lines is not None
    assert said.lines.slowest == ("c",)
    assert said.lines.agreed_since == sent_at
    assert said.lines.stable <= said.lines.agreed < said.lines.lamport
    assert said.memory.kept > 1_000 and said.memory.undelivered == 1
    assert said.memory.unstable > 1_000
    waiting = next(site for site in said.sites if site.name == "c")
    assert waiting.line == said.lines.agreed and waiting.acknowledged <= waiting.line


def test_without_a_daemon_view_there_are_no_lines_but_queues() -> None:
    house = House("a b").start()
    house.world.partition("a", "b")
    house.until(lambda: house.stack("a").membership.state is State.SEG)
    house.send("a", Service.AGREED, 500)
    said = house.status("a")
    assert (said.version, said.sites, said.links, said.lines) == (None, (), (), None)
    assert said.memory.queued > 500
    assert not said.view.is_working


def test_groups_and_sessions_are_counted() -> None:
    house = House("a b").start()
    said = house.status("a").groups
    assert (said.state, said.groups, said.sessions, said.memberships, said.joining) == ("GOP", 1, 1, 1, 0)
    assert said.refused == {}
