"""The toolkit's layer on a view-synchronous group: primary views, the table of groups, and what is refused."""

from __future__ import annotations

import pytest

from isotone.core.contract import Event
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import DaemonId
from isotone.isis.settings import IsisSettings
from isotone.isis.toolkit.evs_groups import NUMBERS, Groups
from isotone.isis.toolkit.evs_layer import EvsLayer
from isotone.isis.toolkit.evs_primary import Attempt, Decision, decide
from isotone.isis.toolkit.evs_wire import Enter, Exit, GroupFlushed, Hello, Instant
from isotone.isis.toolkit.layer import CastWanted, Exited, Heard, Order, Over, Viewed
from isotone.isis.toolkit.member import ViewChanged
from isotone.isis.toolkit.process import CallWanted, OpenWanted, Toolkit, ToolUsed
from isotone.isis.toolkit.programs import SYSTEM_GROUP
from tests.isis.nets import SITES, SimulatedNet, call

# --- which view is primary -------------------------------------------------------------------------------------------


def new(attempted: int = 0, base: int = 0) -> Hello:
    """A process that was in no primary view."""
    return Hello(0, (), attempted, base, False)


def old(established: int, together: str, attempted: int = 0, base: int = 0) -> Hello:
    """One that was; ``attempted``: the last one that it took part in, if it came to nothing."""
    return Hello(established, tuple(together), attempted or established, base, True)


def test_processes_that_know_nothing_begin() -> None:
    assert decide({"a": new(), "b": new()}) == Decision(Attempt(1, 0), ())


def test_who_came_along_since_the_last_primary_view_goes_on() -> None:
    hellos = {"a": old(3, "ab"), "b": old(3, "ab"), "c": old(3, "c"), "d": old(2, "d"), "e": new(2)}
    assert decide(hellos) == Decision(Attempt(4, 3), ("a", "b"))


def test_of_two_sides_the_larger_goes_on_and_of_two_equal_ones_the_first_by_name() -> None:
    assert decide({"a": old(3, "a"), "b": old(3, "bc"), "c": old(3, "bc")}).survivors == ("b", "c")
    assert decide({"a": old(3, "a"), "b": old(3, "b")}).survivors == ("a",)


def test_nobody_goes_on_behind_a_primary_view_of_others() -> None:
    """Site b remembers that it took part in 4, and lost what it had there; c is still in 3."""
    assert decide({"b": new(4, 3), "c": old(3, "c")}) == Decision(Attempt(5, 4), ())


def test_an_attempt_that_somebody_here_has_not_established_is_void() -> None:
    """Then who was in the view that it stood on goes on; nobody else."""
    assert decide({"b": old(3, "b", 4, 3), "c": old(3, "c")}) == Decision(Attempt(5, 3), ("b",))
    assert decide({"b": old(2, "b", 4, 3), "c": old(2, "c")}) == Decision(Attempt(5, 3), ())


# --- groups ----------------------------------------------------------------------------------------------------------

A, B = "a.1/tools", "b.1/tools"


def test_a_change_waits_until_all_members_have_flushed() -> None:
    groups = Groups(A)
    groups.hear(A, Enter("g"))
    assert groups.heard == [Viewed("g", 2, (A,))]
    groups.hear(B, Enter("g"))
    assert groups.is_blocked("g") and groups.flushes == [GroupFlushed("g", 3)]
    groups.hear(A, groups.flushes.pop())
    assert groups.heard[1:] == [Viewed("g", 4, (A, B))] and not groups.is_blocked("g")
    groups.hear(B, Instant("g", b"now"))
    groups.hear(A, Exit("g"))
    for flush in (5, 6):
        for process in (A, B):
            groups.hear(process, GroupFlushed("g", flush))
    assert groups.heard[2:] == [Heard("g", B, b"now"), Exited("g")]
    assert groups.table.groups["g"].members == (B,)


def test_a_primary_view_is_a_flush_of_all_groups() -> None:
    groups = Groups(A)
    for process in (A, B):
        groups.hear(process, Enter("g"))
        groups.hear(A, GroupFlushed("g", 3))
    groups.hear(B, Instant("g", b"last"))
    groups.hear(B, Enter("h"))
    again = Groups()
    again.load(groups.encoded())
    for each in (groups, again):
        each.enter_primary(7, {"a": A}, {A})
    assert groups.heard[2:] == [Heard("g", B, b"last"), Viewed("g", 7 * NUMBERS + 1, (A,))]
    assert again.table == groups.table and not again.heard and set(again.table.groups) == {"g"}


# --- the layer -------------------------------------------------------------------------------------------------------


def test_a_label_is_refused() -> None:
    layer = EvsLayer(DaemonId("a", 1), IsisSettings(site="a", sites=SITES))
    with pytest.raises(LocalProtocolError, match="labels need ISIS kernels"):
        layer.handle(CastWanted(0, "g", Order.TOTAL, b"", label="x"))
    assert layer.handle(CastWanted(0, "g", Order.TOTAL, b"")) == []  # it waits


def test_sites_have_names() -> None:
    with pytest.raises(LocalProtocolError, match="do not have 'd' once"):
        EvsLayer(DaemonId("d", 1), IsisSettings(site="d", sites=SITES))


def test_a_call_before_the_first_primary_view_is_refused() -> None:
    layer = EvsLayer(DaemonId("a", 1), IsisSettings(site="a", sites=SITES))
    toolkit = Toolkit(layer, lambda group: None)
    with pytest.raises(LocalProtocolError, match="not operational: it has no session with a daemon yet"):
        toolkit.handle(CallWanted(0, 1, "g", b""))


def test_a_minority_waits_and_is_over_when_the_others_have_gone_on() -> None:
    net = SimulatedNet("evs")
    a, b, c = net.names
    for me in net.names:
        net.tell(me, OpenWanted(0, "counter"))
    net.world.partition(("a",), ("b", "c", "d", "e"))
    net.run(200)
    assert net.toolkits[a].layer.trouble == "only a of 5 sites can be reached, and a primary view has 3"
    net.tell(a, CallWanted(0, 1, "counter", call("add", "x", 1)))
    assert not net.answers(a) and not any(isinstance(each, Over) for each in net.said[a])
    net.tell(b, CallWanted(0, 1, "counter", call("add", "y", 1)))
    assert len(net.answers(b)) == 1 and net.toolkits[b].layer.trouble == ""
    net.world.heal()
    net.run(200)
    (over,) = [each for each in net.said[a] if isinstance(each, Over)]
    assert over.reason.endswith("has gone on without it")
    assert "declared dead" in net.answers(a)[0].problem
    assert net.toolkits[a].me.startswith("a.") and net.toolkits[a].me != a
    states = [net.tool(me, "counter", "object").state() for me in net.names]
    assert states == [{"by": {"y": 1}, "total": 1}] * 3
    assert c in net.member(a, "counter").view.members


def test_a_group_goes_on_where_nobody_has_gone_on_without_it() -> None:
    """Apart and together again, with no majority in between."""
    net = SimulatedNet("evs")
    a, b, _ = net.names
    events: list[Event] = [OpenWanted(0, SYSTEM_GROUP), OpenWanted(0, "counter")]
    for me in net.names:
        net.tell(me, *events)
    net.world.partition(("a", "b"), ("c", "d"), ("e",))
    net.run(200)
    net.begin(a, ToolUsed(0, "counter", "", "set_property", ("k", b"v")))
    net.world.heal()
    net.run(200)
    assert [net.member(me, "counter").properties for me in (a, b)] == [{"k": b"v"}] * 2
    assert not any(isinstance(each, Over) for me in (a, b) for each in net.said[me])
    views = [each for each in net.said[a] if isinstance(each, ViewChanged) and each.group == "counter"]
    assert views[-1].members[:2] == (a, b) and len(views[-1].members) == 3  # c has begun anew
