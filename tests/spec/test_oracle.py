"""The oracle by hand, in a world without needless freedom: what clients ask and what they hear."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.bundles import BUNDLE_BYTES_MAX, Bundle, bundle_of
from isotone.core.ids import NO_DAEMON_VIEW, NO_STAMP, ClientId, DaemonId, Stamp
from isotone.core.services import Service
from isotone.core.views import Cause, GroupView
from tests.spec.oracle_driver import OracleWorld


def calm_world(*names: str) -> OracleWorld:
    """Daemons in one component, whose oracle owes progress from the beginning."""
    world = OracleWorld("calm")
    for name in names:
        world.start(name)
    world.stabilise(names)
    world.end()
    return world


def heard_by(world: OracleWorld, client: ClientId) -> list[b4.Indication]:
    return [indication for receivers, indication in world.heard if client in receivers]


def views_of(world: OracleWorld, client: ClientId, group: str) -> list[GroupView]:
    heard = heard_by(world, client)
    return [each.view for each in heard if isinstance(each, b4.View) and each.view.group == group]


def messages_of(world: OracleWorld, client: ClientId) -> list[tuple[ClientId, int]]:
    heard = heard_by(world, client)
    return [(each.bundle.sender, each.bundle.first_sequence) for each in heard if isinstance(each, b4.Message)]


def signals_of(world: OracleWorld, client: ClientId) -> list[str]:
    return [each.group for each in heard_by(world, client) if isinstance(each, b4.Transitional)]


# --- joins, leaves, messages ---------------------------------------------------------------------------------------


def test_a_joiner_comes_alone_and_the_others_stay() -> None:
    world = calm_world("d1", "d2")
    a, b = world.connect("d1", "a"), world.connect("d2", "b")
    world.join(a, "g")
    assert world.end()
    world.join(b, "g")
    assert world.end()
    first, second = views_of(world, a, "g")
    assert (first.members, first.transitional, first.cause, first.subject) == ((a,), (a,), Cause.JOIN, a)
    assert (second.members, second.transitional, second.cause, second.subject) == ((a, b), (a,), Cause.JOIN, b)
    (mine,) = views_of(world, b, "g")
    assert (mine.members, mine.transitional, mine.id) == ((a, b), (b,), second.id)
    assert first.id < second.id
    assert first.id.next_daemon_view == NO_DAEMON_VIEW and first.id.stamp != NO_STAMP


def test_a_leave_takes_effect_in_the_order() -> None:
    world = calm_world("d1", "d2")
    a, b = world.connect("d1", "a"), world.connect("d2", "b")
    world.join(a, "g")
    world.join(b, "g")
    world.end()
    world.leave(a, "g")
    world.end()
    world.send(b, Service.AGREED, "g")
    world.end()
    assert heard_by(world, a)[-1] == b4.SelfLeave("g")
    last = views_of(world, b, "g")[-1]
    assert (last.members, last.transitional, last.cause, last.subject) == ((b,), (b,), Cause.LEAVE, a)
    assert messages_of(world, a) == [] and messages_of(world, b) == [(b, 1)]


def test_a_disconnect_leaves_all_groups_after_what_was_sent() -> None:
    world = calm_world("d1", "d2")
    a, b = world.connect("d1", "a"), world.connect("d2", "b")
    for group in ("g", "h"):
        world.join(a, group)
        world.join(b, group)
    world.end()
    world.send(a, Service.RELIABLE, "g")
    world.disconnect(a)
    world.end()
    assert heard_by(world, a)[-1] == b4.Disconnected("asked for")
    assert messages_of(world, b) == [(a, 1)]
    for group in ("g", "h"):
        last = views_of(world, b, group)[-1]
        assert (last.members, last.cause, last.subject) == ((b,), Cause.DISCONNECT, a)
    assert world.ask(a, b4.Join("g")) == [b4.Refused("join", "not connected", "g")]


def test_a_bundle_reaches_each_member_once() -> None:
    world = calm_world("d1", "d2")
    a, b, c = world.connect("d1", "a"), world.connect("d2", "b"), world.connect("d2", "c")
    world.join(b, "g")
    world.join(b, "h")
    world.join(c, "h")
    world.end()
    world.send(a, Service.AGREED, "g", "h", "nobody", count=3)
    world.end()
    assert messages_of(world, a) == []
    assert messages_of(world, b) == [(a, 1)] == messages_of(world, c)
    together = [receivers for receivers, each in world.heard if isinstance(each, b4.Message)]
    assert together == [(b, c)], "one action for all receivers at a daemon"


def test_a_private_group_reaches_its_client_alone() -> None:
    world = calm_world("d1", "d2")
    a, b, c = world.connect("d1", "a"), world.connect("d2", "b"), world.connect("d2", "c")
    world.send(a, Service.FIFO, b.private_group, "#nobody#d2", "#b#d1")
    world.end()
    assert messages_of(world, b) == [(a, 1)] and messages_of(world, c) == []


# --- refusals ------------------------------------------------------------------------------------------------------


def request_of(kind: str, client: ClientId) -> b4.Request:
    good = bundle_of(client, 1, Service.AGREED, ["g"], [b"x"])
    return {
        "connect twice": b4.Connect(),
        "join twice": b4.Join("g"),
        "join a private group": b4.Join(client.private_group),
        "join a bad name": b4.Join("no spaces"),
        "leave without a join": b4.Leave("h"),
        "a sequence too high": b4.Send(bundle_of(client, 2, Service.AGREED, ["g"], [b"x"])),
        "no groups": b4.Send(bundle_of(client, 1, Service.AGREED, [], [b"x"])),
        "a group twice": b4.Send(Bundle(client, 1, Service.AGREED, ("g", "g"), (1,), (0,), b"x")),
        "a bad group": b4.Send(bundle_of(client, 1, Service.AGREED, ["#only"], [b"x"])),
        "another's name": b4.Send(Bundle(ClientId(client.daemon, "z", 9), 1, *_fields_of(good))),
        "no messages": b4.Send(Bundle(client, 1, Service.AGREED, ("g",), (), (), b"")),
        "wrong lengths": b4.Send(Bundle(client, 1, Service.AGREED, ("g",), (2,), (0,), b"x")),
        "too long": b4.Send(bundle_of(client, 1, Service.AGREED, ["g"], [b"x" * (BUNDLE_BYTES_MAX + 1)])),
    }[kind]


def _fields_of(bundle: Bundle) -> tuple[object, ...]:
    return bundle.service, bundle.groups, bundle.lengths, bundle.types, bundle.payload


@pytest.mark.parametrize(
    "kind",
    [
        "connect twice",
        "join twice",
        "join a private group",
        "join a bad name",
        "leave without a join",
        "a sequence too high",
        "no groups",
        "a group twice",
        "a bad group",
        "another's name",
        "no messages",
        "wrong lengths",
        "too long",
    ],
)
def test_an_illegal_request_is_refused_and_the_session_stays(kind: str) -> None:
    world = calm_world("d1")
    a = world.connect("d1", "a")
    world.join(a, "g")
    request = request_of(kind, a)
    (answer,) = world.ask(a, request)
    assert isinstance(answer, b4.Refused)
    assert answer.request == type(request).__name__.lower() and answer.reason
    world.send(a, Service.AGREED, "g")
    world.end()
    assert messages_of(world, a) == [(a, 1)]


def test_requests_before_a_connect_are_refused() -> None:
    world = calm_world("d1")
    stranger = ClientId(world.daemons["d1"], "a", 1)
    for request in (b4.Join("g"), b4.Leave("g"), b4.Disconnect(), request_of("a sequence too high", stranger)):
        (answer,) = world.ask(stranger, request)
        assert answer == b4.refusal(request, "not connected")


def test_a_name_is_used_once_and_sessions_grow() -> None:
    world = calm_world("d1")
    a = world.connect("d1", "a")
    second = ClientId(a.daemon, "a", a.session + 1)
    assert world.ask(second, b4.Connect()) == [b4.Refused("connect", "the name is in use")]
    world.disconnect(a)
    assert isinstance(world.ask(a, b4.Connect())[0], b4.Refused)
    assert world.ask(second, b4.Connect()) == [b4.Connected()]
    bad = ClientId(a.daemon, "much too long a name", 1)
    assert isinstance(world.ask(bad, b4.Connect())[0], b4.Refused)


def test_nobody_answers_for_a_daemon_that_is_gone() -> None:
    world = calm_world("d1", "d2")
    a = world.connect("d1", "a")
    world.crash("d1")
    assert world.handle(b4.Requested(world.now, a, b4.Join("g"))) == []
    unknown = ClientId(DaemonId("d9", 1), "a", 1)
    assert world.handle(b4.Requested(world.now, unknown, b4.Connect())) == []


# --- daemon views --------------------------------------------------------------------------------------------------


def test_a_partition_signals_only_groups_that_lose_members() -> None:
    world = calm_world("d1", "d2", "d3")
    a, b, c = world.connect("d1", "a"), world.connect("d2", "b"), world.connect("d3", "c")
    for client in (a, b, c):
        world.join(client, "all")
    world.join(a, "two")
    world.join(b, "two")
    world.end()
    before = len(views_of(world, a, "two"))
    world.connect_links(("d1", "d2"), ("d3",))
    world.end()
    assert signals_of(world, a) == ["all"] == signals_of(world, c)
    assert len(views_of(world, a, "two")) == before, "a group that nothing happened to sees nothing"
    view = views_of(world, a, "all")[-1]
    assert (view.members, view.transitional, view.cause) == ((a, b), (a, b), Cause.NETWORK)
    assert view.id.stamp == NO_STAMP
    assert views_of(world, c, "all")[-1].members == (c,)


def test_a_merge_brings_sets_together_without_a_signal() -> None:
    world = calm_world("d1", "d2", "d3")
    a, b, c = world.connect("d1", "a"), world.connect("d2", "b"), world.connect("d3", "c")
    for client in (a, b, c):
        world.join(client, "g")
    world.end()
    world.connect_links(("d1", "d2"), ("d3",))
    world.end()
    signals = len(signals_of(world, a))
    world.connect_links(("d1", "d2", "d3"))
    world.end()
    assert len(signals_of(world, a)) == signals
    here, there = views_of(world, a, "g")[-1], views_of(world, c, "g")[-1]
    assert (here.id, here.members, here.together) == (there.id, there.members, there.together)
    assert here.members == (a, b, c) and here.together == ((a, b), (c,))
    assert here.transitional == (a, b) and there.transitional == (c,)


def test_what_is_asked_during_a_change_is_done_after_it() -> None:
    world = calm_world("d1", "d2")
    a, b = world.connect("d1", "a"), world.connect("d2", "b")
    world.join(a, "g")
    world.join(b, "g")
    world.end()
    world.connect_links(("d1",), ("d2",))
    world.send(a, Service.SAFE, "g")
    world.end()
    assert messages_of(world, a) == [(a, 1)], "self delivery"
    assert messages_of(world, b) == []


def test_a_crash_takes_the_members_away_and_ids_grow_over_a_restart() -> None:
    world = calm_world("d1", "d2")
    a, b = world.connect("d1", "a"), world.connect("d2", "b")
    world.join(a, "g")
    world.join(b, "g")
    world.send(a, Service.AGREED, "g")
    world.end()
    old = views_of(world, a, "g")[-1].id
    stamp = next(each.stamp for each in heard_by(world, a) if isinstance(each, b4.Message))
    world.crash("d1")
    world.end()
    assert views_of(world, b, "g")[-1].members == (b,)
    world.start("d1")
    again = world.connect("d1", "a")
    world.join(again, "g")
    world.end()
    assert views_of(world, again, "g")[0].id > old
    assert views_of(world, again, "g")[-1].members == views_of(world, b, "g")[-1].members == (again, b)
    world.send(again, Service.AGREED, "g")
    world.end()
    later = [each.stamp for each in heard_by(world, again) if isinstance(each, b4.Message)]
    assert later[-1] > Stamp(stamp.lamport, DaemonId("d1", 9))


def test_a_paused_daemon_hears_nothing_and_is_excluded() -> None:
    world = calm_world("d1", "d2")
    a, b = world.connect("d1", "a"), world.connect("d2", "b")
    world.join(a, "g")
    world.join(b, "g")
    world.end()
    world.pause("d2")
    world.send(a, Service.SAFE, "g")
    told = len(heard_by(world, b))
    world.run_until(world.now + world.oracle._world.settings.patience_us_max)
    world.end()
    assert len(heard_by(world, b)) == told
    assert views_of(world, a, "g")[-1].members == (a,)
    assert messages_of(world, a) == [(a, 1)]
    world.resume("d2")
    world.end()
    assert views_of(world, a, "g")[-1].members == (a, b) == views_of(world, b, "g")[-1].members


def test_a_daemon_that_no_component_names_is_alone() -> None:
    world = calm_world("d1", "d2")
    a, b = world.connect("d1", "a"), world.connect("d2", "b")
    world.join(a, "g")
    world.join(b, "g")
    world.connect_links(("d1", "unknown"))
    world.end()
    assert views_of(world, a, "g")[-1].members == (a,)
    assert views_of(world, b, "g")[-1].members == (b,)
