"""Many daemons start, restart, part and meet: how many daemon views that takes; many groups, and who hears what."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from isotone.core.boundary import Indicate, Transitional, View
from isotone.core.contract import Address, MulticastDatagrams, SendDatagrams
from isotone.core.errors import InputError
from isotone.core.ids import ClientId, DaemonId
from isotone.evs.membership.messages import MARK, Alive, Envelope, Probe
from isotone.sim.figures import figure_named
from isotone.sim.figures.fleet import SECOND, Fleet, Tally
from isotone.sim.figures.many_groups import Crowd, check_heard
from tests.sim.membership_bounds import violations

VIEWS_MAX = 3  # of one daemon in a cold start, its own first one not counted


def rows_of(name: str, **parameters: Any) -> list[dict[str, Any]]:
    return figure_named(name, **parameters).rows


# --- daemons -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_a_cold_start_of_16_daemons_takes_at_most_three_views(seed: int) -> None:
    rows = rows_of("cold-start", daemons=16, sites=4, spreads_us=(0, 100_000), seed=seed)
    assert [(row["daemons"], row["sites"]) for row in rows] == [(16, 4)] * 2
    for row in rows:
        assert 1 <= row["views_most"] <= VIEWS_MAX
        assert row["views_median"] >= 1
        assert row["seconds"] < 2


def test_a_cold_start_is_the_same_every_time() -> None:
    twice = [figure_named("cold-start", daemons=6, sites=2) for _ in range(2)]
    assert msgspec.json.encode(twice[0]) == msgspec.json.encode(twice[1])


def test_every_restart_of_a_rolling_restart_is_two_views() -> None:
    (row,) = rows_of("rolling-restart", daemons=4, sites=2)
    assert row["formed"] == 8, "nothing but a view without it, and a view with it"
    assert row["views_most"] == 7, "of its own restart a daemon installs the second only"
    assert row["leave_most_s"] < 2 and row["return_most_s"] < 2


def test_a_lost_site_is_one_view_and_so_is_its_return() -> None:
    rows = rows_of("site-loss", daemons=6, sites=3)
    assert [row["step"] for row in rows] == ["site1 lost", "site1 back", "site3 lost", "site3 back"]
    assert all(row["views_most"] == row["views_median"] == row["formed"] == 1 for row in rows)


def test_a_split_in_three_is_one_view_a_side_and_the_merge_one_for_all() -> None:
    split, merge, both = rows_of("split-and-merge", daemons=6, sites=3)
    assert split["formed"] == 3 and merge["formed"] == 1
    assert split["views_most"] == merge["views_most"] == 1
    assert 1 <= both["views_most"] <= VIEWS_MAX and both["step"] == "split, merge at once"


def test_idle_daemons_keep_alive_and_nothing_else() -> None:
    (row,) = rows_of("idle-daemons", daemons=4, sites=2)
    assert row["keep_alive_packets"] > 0
    assert row["views_most"] == row["formed"] == row["change_packets"] == row["link_packets"] == 0


def test_a_figure_says_which_parameters_it_has() -> None:
    with pytest.raises(InputError, match="cold-start has no probes; it has daemons, sites"):
        figure_named("cold-start", probes=3)


def test_packets_are_told_apart() -> None:
    fleet, envelope, tally = Fleet(daemons=2, sites=1), Envelope("isotone"), Tally()
    fleet.world.restart("d01")
    fleet.run(SECOND)
    card = fleet.watched("d01").stack.membership.node.card()
    probe, alive = envelope.seal(Probe(card, 7)), envelope.seal(Alive(card))
    tally.note(SendDatagrams(Address("x"), [probe, probe]))
    tally.note(MulticastDatagrams("lan", [alive]))
    tally.note(SendDatagrams(Address("x"), [[b"\x01....", memoryview(b"data")]]))
    assert MARK != 1
    assert {name: count for name, count in tally.counted.items() if "packets" in name} == {
        "keep-alive packets": 2,
        "change packets": 1,
        "link packets": 1,
    }
    assert tally.counted["link bytes"] == 9
    assert tally.counted["change bytes"] == sum(map(len, alive))


def test_the_first_view_of_an_incarnation_does_not_count() -> None:
    fleet = Fleet(daemons=2, sites=1)
    fleet.world.restart("d01")
    fleet.run(SECOND)
    assert fleet.tallies["d01"].views == 0
    fleet.world.restart("d02")
    fleet.run_until_together(fleet.names)
    assert [tally.views for tally in fleet.tallies.values()] == [1, 1]
    assert not fleet.is_together(["d01"]), "a daemon alone is not in a view of two"


# --- groups --------------------------------------------------------------------------------------------------------


def test_groups_that_a_change_does_not_touch_hear_nothing() -> None:
    figure = figure_named("many-groups", groups=300, clients=60, daemons=4)
    assert figure.parameters["memberships"] > 600
    meet, cut, back = figure.rows
    assert all(row["touched"] + row["untouched"] == 300 and row["untouched"] >= 20 for row in figure.rows)
    assert cut["touched"] == back["touched"] < meet["touched"]
    assert cut["signals"] == cut["views"] == back["views"] and meet["signals"] == back["signals"] == 0


@pytest.fixture(scope="module")
def crowd() -> Crowd:
    """Four daemons that have just met."""
    crowd = Crowd(daemons=4, sites=2, clients=12, groups=30, seed=1)
    crowd.run(3 * SECOND)
    crowd.join_all()
    crowd.run(5 * SECOND)
    crowd.forget()
    crowd.world.heal()
    crowd.run_until_together(crowd.names)
    return crowd


def judged(crowd: Crowd) -> dict[str, Any]:
    alone = {name: place for place, name in enumerate(crowd.names)}
    return check_heard(crowd, alone, dict.fromkeys(crowd.names, 0))


def test_what_members_hear_is_looked_at(crowd: Crowd) -> None:
    assert judged(crowd)["touched"] > 10
    touched = next(group for group, each in crowd.groups.items() if each[0].daemon != each[-1].daemon)
    untouched = next(group for group, each in crowd.groups.items() if each[0].daemon == each[-1].daemon)
    heard = crowd.heard_at(crowd.groups[touched][0].daemon.name)
    (right,) = heard[touched]
    assert isinstance(right.indication, View)
    view = right.indication.view
    elsewhere = crowd.heard_at(crowd.groups[untouched][0].daemon.name)
    stranger = ClientId(DaemonId("d01", 1), "zz", 1)
    wrong: list[tuple[Indicate, str]] = [
        (changed(right, members=view.members[:-1]), touched),
        (changed(right, members=(*view.members, stranger)), touched),
        (changed(right, transitional=view.members), "came from"),
        (changed(right, id=msgspec.structs.replace(view.id, daemon_view=view.id.next_daemon_view)), "several views"),
        (Indicate(right.receivers, Transitional(touched, view.id)), "a member hears"),
        (Indicate((stranger,), right.indication), "not all members"),
    ]
    for indicate, complaint in wrong:
        heard[touched] = [indicate]
        with pytest.raises(AssertionError, match=complaint):
            judged(crowd)
    heard[touched] = [right, right]
    with pytest.raises(AssertionError, match="a member hears"):
        judged(crowd)
    heard[touched] = [right]
    elsewhere[untouched] = [right]
    with pytest.raises(AssertionError, match="nothing to do with the change"):
        judged(crowd)
    del elsewhere[untouched]
    judged(crowd)


def changed(indicate: Indicate, **fields: Any) -> Indicate:
    assert isinstance(indicate.indication, View)
    return Indicate(indicate.receivers, View(msgspec.structs.replace(indicate.indication.view, **fields)))


# --- bounds --------------------------------------------------------------------------------------------------------


def test_rows_beyond_their_bounds_are_violations() -> None:
    good = {"views_most": 3, "seconds": 1.0}
    assert violations([good], views_max=3) == []
    assert violations([good], views_max=1) == ["cold start: a daemon installed 3 daemon views, at most 1 are allowed"]
    assert violations([{**good, "step": "merge", "seconds": 31.0}], views_max=3) == ["merge: together after 31.0 s"]
