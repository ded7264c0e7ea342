"""The exact limits of groups at one daemon: rosters, requests that wait, and what is held back."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.ids import NO_DAEMON_VIEW, ClientId, GroupViewId
from isotone.core.services import Service
from isotone.core.views import DaemonView
from isotone.evs.boundary import DeliverDaemonView
from isotone.evs.groups import Groups, GroupsSettings, Submit
from isotone.evs.groups import roster as roster_module
from isotone.evs.groups.roster import Roster
from isotone.evs.ordering.large import HEAD_BYTES, PIECE_BYTES_MAX
from isotone.evs.overlay.topology import LinkLimits, LinkProtocol, Site, Topology, make_link
from isotone.evs.transport.view import fragment_bytes
from tests.evs.groups.bench import A1, A2, A3, B1, B2, D1, D2, D3, started, view_id

ID = GroupViewId(NO_DAEMON_VIEW)


def roster_of(*members: tuple[ClientId, str]) -> Roster:
    roster = Roster(D1)
    for client in (A1, B1):
        roster.connect(client)
    for client, name in members:
        roster.add(client, roster.group(name, ID))
    return roster


def test_whose_clients_are_in_a_group() -> None:
    roster = roster_of((A2, "g"), (B2, "g"), (A1, "h"))
    group = roster.by_name["g"]
    assert [group.has_member_at(daemon) for daemon in (D1, D2, D3)] == [False, True, False]
    assert group.members == [A2, B2] and group.told == () and roster.by_name["h"].told == (A1,)
    assert roster.clients_at(D2) == [A2, B2] and sorted(roster.daemons()) == [D1, D2]
    roster.remove(A2, group)
    assert group.has_member_at(D2) and roster.clients_at(D2) == [B2] and not roster.has(A2, "g")
    roster.remove(B2, group)
    assert "g" not in roster.by_name and roster.daemons() == [D1] and roster.groups_of(B2) == []


def test_who_does_not_come_along_does_not_stay() -> None:
    roster = roster_of((A1, "g"), (A2, "g"), (A3, "g"))
    group = roster.by_name["g"]
    assert group.staying() == (A1, A2, A3)
    group.absent.add(A2)
    assert group.staying() == (A1, A3)
    roster.mark(group)
    assert group.marked and list(roster.marked) == ["g"]
    roster.unmark(group)
    assert not group.marked and roster.marked == {}


def test_a_bundle_reaches_every_open_session_once() -> None:
    roster = roster_of((A1, "g"), (B1, "g"), (A1, "h"), (A2, "h"))
    assert roster.receivers(("g",)) == (A1, B1) and roster.receivers(("h",)) == (A1,)
    assert roster.receivers(("g", "h")) == (A1, B1) and roster.receivers(("nobody",)) == ()
    assert roster.receivers((f"#{B1.name}#{D1.name}",)) == (B1,)
    assert roster.receivers((f"#{B1.name}#{D2.name}",)) == () == roster.receivers((f"#nobody#{D1.name}",))
    assert roster.receivers((f"#{B1.name}#{D1.name}", "h")) == (B1, A1)
    roster.disconnect(A1)
    assert roster.receivers(("g", "h")) == (B1,) and roster.receivers(("h",)) == () and not roster.is_open(A1)
    assert roster.has(A1, "g"), "until its kill is delivered"


def test_receivers_of_several_groups_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster_module, "_UNIONS_MAX", 3)
    roster = roster_of((A1, "g"))
    for number in range(10):
        assert roster.receivers(("g", f"x{number}")) == (A1,)
        assert len(roster._unions) <= 3
    roster.add(B1, roster.by_name["g"])
    assert roster.receivers(("g", "x9")) == (A1, B1)


def test_requests_wait_until_groups_are_known_and_too_many_are_refused() -> None:
    def waiting(most: int) -> Groups:
        groups = Groups(D1, GroupsSettings(waiting_bytes_max=most))
        groups.handle(b4.Requested(0, A1, b4.Connect()))
        assert groups.handle(b4.Requested(0, A1, b4.Join("g"))) == []
        return groups

    size = waiting(1 << 20).waiting_bytes
    assert size > 0
    for most, refused in ((size, False), (size - 1, True)):
        groups = waiting(most)
        answers = groups.handle(b4.Requested(0, A1, b4.Join("h")))
        assert [each.indication for each in answers if isinstance(each, b4.Indicate)] == (
            [b4.Refused("join", "the daemon is busy", "h")] if refused else []
        )
        assert groups.waiting_bytes == (1 if refused else 2) * size


def test_a_disconnect_is_told_to_others_only_if_they_can_know_of_the_session() -> None:
    bench = started(A1, B1)
    bench.ask(B1, b4.Disconnect())
    assert not any(isinstance(each, Submit) for each in bench.actions)
    bench.ask(A1, b4.Join("g"))
    bench.ask(A1, b4.Disconnect())
    (submit,) = [each for each in bench.actions if isinstance(each, Submit)]
    assert [draft.service for draft in submit.drafts] == [Service.SAFE]


def test_a_piece_of_a_large_message_fits_into_a_fragment_of_the_overlay_with_its_head() -> None:
    """The slowest link says how large a fragment may be; without links it is a bundle."""
    bench = started(A1)
    assert bench.groups.desk.piece_bytes == PIECE_BYTES_MAX
    sites = (Site("s", ("d1",), "d1"), Site("t", ("d2",), "d2"))
    slow = make_link("s", "t", 1, LinkProtocol.HOP, LinkLimits(2_000_000, 10_000))
    topology = Topology(sites, (slow,))
    bench.signal(2, D1)
    view = DaemonView(view_id(2), (D1, D2), (D1,))
    bench.groups.on_daemon_view(DeliverDaemonView(view, topology, 1, 0), 0)
    assert bench.groups.desk.piece_bytes + HEAD_BYTES == fragment_bytes(topology) < PIECE_BYTES_MAX
