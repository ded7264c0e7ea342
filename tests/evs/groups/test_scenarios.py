"""Histories that the rules of docs/protocols/groups.md exist for, played on the EVS-S model, judged by the checkers."""

from __future__ import annotations

from isotone.core.boundary import Indicate
from isotone.core.ids import ClientId
from isotone.core.services import Service
from isotone.evs.ordering.units import Unit
from tests.evs.groups.bench import text_of
from tests.evs.groups.model import World
from tests.evs.groups.test_random_runs import broken


class Play(World):
    """A world in which everything happens by hand; without pruning."""

    def __init__(self, *names: str) -> None:
        super().__init__("by hand", list(names))
        self.pruning = 0.0
        for name in names:
            self.start(name)
        self.together(*names)

    def together(self, *names: str) -> None:
        """These form a daemon view, and everything is delivered that is on the way in all views."""
        self.change(*names)
        self.drain()

    def change(self, *names: str) -> None:
        self.form(list(names))
        for name in names:
            self.install(self.nodes[name])

    def member(self, daemon: str, name: str, *groups: str) -> ClientId:
        client = self.connect(daemon, name)
        for group in groups:
            self.join(client, group)
        return client

    def reach(self, sender: str, *receivers: str) -> None:
        """What the sender has waiting is stamped, and received by these alone."""
        node = self.nodes[sender]
        while any(node.drafts.values()):
            self.stamp(node)
            place = node.place
            assert place is not None
            unit = [sent.unit for sent in place.view.log.values() if sent.unit.daemon == node.index][-1]
            for name in receivers:
                self._receive(self.nodes[name], unit)

    def bring(self, name: str, unit: Unit) -> None:
        """This daemon receives a unit, if it has not."""
        place = self.nodes[name].place
        assert place is not None
        if unit.position not in place.received:
            self._receive(self.nodes[name], unit)

    def agree(self, name: str) -> None:
        """This daemon hears that nobody stamps anything below what it has, and who has that; it does not tell."""
        node = self.nodes[name]
        place = node.place
        assert place is not None
        for other in self.nodes.values():
            if other.place is not None and other.place.view is place.view:
                other.clock = max(other.clock, node.clock)
                place.promised[other.index] = node.clock
        place.agreed = node.clock
        others = [
            other.place for other in self.nodes.values() if other.place is not None and other.place.view is place.view
        ]
        missed = [position[0] for each in others for position in place.received - each.received]
        place.stable = max(place.stable, min([node.clock, *(time - 1 for time in missed)]))
        self._walk(node)

    def drain_apart(self) -> None:
        """The same where every daemon is alone."""
        for name in self.names:
            self.reach(name)
            self.agree(name)

    def told(self, client: ClientId) -> list[str]:
        lines = [Indicate((client,), indication) for receivers, indication in self.heard if client in receivers]
        return [text_of(line).partition(": ")[2] for line in lines]

    def judged(self) -> list[str]:
        self.settle()
        return broken(self)


def test_nobody_hears_of_a_join_that_somebody_has_not_received() -> None:
    """So no view is lost where others go on: what b sends is sent in the view that p has too [2.9.1, 2.18]."""
    play = Play("d1", "d2", "d3")
    p, b = play.member("d1", "p", "g"), play.member("d2", "b", "g")
    play.drain()
    play.member("d3", "c", "g")
    play.reach("d3", "d2")
    play.agree("d2")
    assert "join b2" in play.told(b)[-1]
    play.send(b, Service.AGREED, "g", bodies=[b"x"])
    play.reach("d2", "d1")
    play.change("d1")
    play.change("d2", "d3")
    assert [line.split()[0] for line in play.told(p)[-5:]] == ["signal", "view", "signal", "x", "view"]
    assert [line.split()[0] for line in play.told(b)[-5:]] == ["signal", "view", "signal", "x", "view"]
    assert play.judged() == []


def test_a_weak_bundle_that_knew_the_join_waits_for_it_and_one_that_did_not_goes_ahead_everywhere() -> None:
    """p sends before its daemon has the join of j, and in the view that has j in it [2.7, 2.17, 2.18]."""
    for service in (Service.RELIABLE, Service.FIFO, Service.CAUSAL):
        play = Play("d1", "d2")
        p, q = play.member("d1", "p", "g"), play.member("d2", "q", "g")
        play.drain()
        play.nodes["d1"].clock += 9  # what it sends stands behind the join in the total order
        play.send(p, service, "g", bodies=[b"early"])
        play.reach("d1")
        j = play.member("d2", "j", "g")
        play.reach("d2", "d1")
        play.agree("d1")
        assert "join j2" in play.told(p)[-1]
        play.send(p, service, "g", bodies=[b"late"])
        play.reach("d1", "d2")
        assert play.told(j) == ["connected"] and "join q2" in play.told(q)[-1]
        for sent in play.nodes["d2"].place.view.log.values():  # type: ignore[union-attr]
            play.bring("d2", sent.unit)
        play.agree("d2")
        assert [line.split()[0] for line in play.told(q)[-3:]] == ["early", "view", "late"]
        assert [line.split()[0] for line in play.told(j)] == ["connected", "view", "late"]
        assert play.judged() == []


def test_a_daemon_that_never_came_has_parted() -> None:
    """d2 was to come along to the second view, where d1 goes on without a gathering; d2 comes to the third only."""
    play = Play("d1", "d2")
    p, q = play.member("d1", "p", "g"), play.member("d2", "q", "g")
    play.drain()
    play.form(["d1", "d2"])
    play.install(play.nodes["d1"])
    play.send(p, Service.AGREED, "g", bodies=[b"x"])
    play.reach("d1")
    play.change("d1", "d2")
    play.drain()
    assert [line.split()[0] for line in play.told(p)[-4:]] == ["signal", "x", "view", "view"]
    assert [line.split()[0] for line in play.told(q)[-3:]] == ["signal", "view", "view"]
    assert play.judged() == []


def test_both_sides_lost_a_member_and_came_back_after_a_gathering_that_failed() -> None:
    play = Play("d1", "d2", "d3", "d4")
    clients = [play.member(f"d{number}", "c", "g") for number in (1, 2, 3, 4)]
    play.drain()
    play.change("d1", "d2")
    play.change("d3", "d4")
    play.change("d1", "d3")  # nobody hears the other's GROUPS
    play.change("d1", "d2", "d3", "d4")
    play.drain()
    last = [play.told(client)[-1] for client in clients]
    assert all("[c1 c2 c3 c4 |" in line for line in last)
    assert last[0].endswith("= c1 + c2 + c3 + c4") and last[0] == last[0]
    assert play.judged() == []


def test_a_group_that_empties_and_returns_across_a_partition() -> None:
    play = Play("d1", "d2")
    p, q = play.member("d1", "p", "g"), play.member("d2", "q", "g")
    play.drain()
    play.change("d1")
    play.change("d2")
    play.leave(p, "g")
    play.leave(q, "g")
    play.drain_apart()
    play.join(p, "g")
    play.join(q, "g")
    play.drain_apart()
    play.together("d1", "d2")
    assert play.told(p)[-1].split("[")[1] == play.told(q)[-1].split("[")[1].replace("| q2", "| p1")
    assert play.judged() == []


def test_a_name_that_comes_back_on_another_way_out_of_the_daemon_view() -> None:
    """a sent x, ended and came back, all in one daemon view; its two parts go on to different ones [2.9.2]."""
    play = Play("d1", "d2")
    a, q = play.member("d1", "a", "g"), play.member("d2", "q", "g")
    play.drain()
    play.send(a, Service.AGREED, "g", bodies=[b"x"])
    play.reach("d1", "d2")
    play.disconnect(a)
    back = play.member("d1", "a", "g")
    play.reach("d1")
    play.change("d1")
    play.change("d2")
    assert "join a1" in play.told(back)[1]
    assert [line.split()[0] for line in play.told(q)[-5:]] == ["signal", "view", "signal", "x", "view"]
    assert play.judged() == []
