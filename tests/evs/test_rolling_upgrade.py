"""Daemons of two protocol versions side by side, and daemons that say they are somebody else.

`tests.evs.upgrade_cluster` has the version 2 of these tests, and what counts as a breach.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from isotone.core.choice import Choice
from isotone.evs.explain import Ruling
from tests.evs.upgrade_cluster import LATER, NEW, OLD, UpgradeCluster, teach_version_2

SITES = {"a": "east", "b": "east", "c": "east", "d": "west", "e": "west"}
ALL = tuple(SITES)


@pytest.fixture(autouse=True)
def _two_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    teach_version_2(monkeypatch)


# --- faults --------------------------------------------------------------------------------------------------------


def split(cluster: UpgradeCluster, choice: Choice) -> None:
    names = [*ALL]
    choice.shuffle(names)
    cluster.partition(names[:2], names[2:])


def upgraded_apart(cluster: UpgradeCluster, choice: Choice) -> None:
    """Those who know version 2 are alone, and so use it, until they meet the others."""
    del choice
    cluster.partition([name for name in ALL if cluster.versions[name] == NEW])


def crash(cluster: UpgradeCluster, choice: Choice) -> None:
    cluster.crash(choice.pick(cluster.running))


def pause(cluster: UpgradeCluster, choice: Choice) -> None:
    cluster.pause(choice.pick(cluster.running))


def one_way(cluster: UpgradeCluster, choice: Choice) -> None:
    one = choice.pick(ALL)
    cluster.cut(one, choice.pick([name for name in ALL if name != one]), one_way=True)


FAULTS: tuple[Callable[[UpgradeCluster, Choice], None], ...] = (split, upgraded_apart, crash, pause, one_way)


def heal(cluster: UpgradeCluster) -> None:
    cluster.heal()
    for name in ALL:
        if not cluster.world.is_up(name):
            cluster.restart_at(name, cluster.versions[name])
        elif cluster.world.is_paused(name):
            cluster.resume(name)


def change(cluster: UpgradeCluster, name: str, choice: Choice, fault: Callable[[UpgradeCluster, Choice], None]) -> None:
    """One daemon gets the other program, before, while and after something fails."""
    new = OLD if cluster.versions[name] == NEW else NEW
    cluster.talk_for(80)
    fault(cluster, choice)
    cluster.talk_for(choice.between(0, 600))
    if cluster.world.is_up(name):
        cluster.world.resume(name)
    cluster.restart_at(name, new, crash=choice.below(2) == 0)
    cluster.talk_for(choice.between(100, 1_500))
    heal(cluster)
    cluster.talk_for(200)
    cluster.run_until_together(*ALL)
    cluster.talk_for(80)
    assert cluster.versions_run(*ALL) == {1 if OLD in cluster.versions.values() else 2}


def check_the_end(cluster: UpgradeCluster) -> None:
    """All are together, both versions were in use, and no promise was broken on the way."""
    assert cluster.finish()
    assert not cluster.breaches
    assert min(cluster.read.get(1, 0), cluster.read.get(2, 0)) > 100
    assert not cluster.unheard()
    assert not cluster.violations()
    assert cluster.are_together(ALL) and not cluster.world.refused


@pytest.mark.parametrize("seed", [1, 3])
def test_a_rolling_upgrade_and_a_rollback_under_faults(seed: int) -> None:
    cluster, choice = UpgradeCluster(SITES, seed=seed), Choice(f"upgrade/{seed}")
    order, faults = [*ALL], [*FAULTS]
    choice.shuffle(order)
    choice.shuffle(faults)
    if faults[0] is upgraded_apart:  # nobody is upgraded yet
        faults.reverse()
    cluster.run_until_together(*ALL)
    assert cluster.versions_run(*ALL) == {1}
    for name, fault in zip(order, faults):
        change(cluster, name, choice, fault)
    assert cluster.versions_run(*ALL) == {2}
    change(cluster, choice.pick(ALL), choice, choice.pick(FAULTS))
    assert cluster.versions_run(*ALL) == {1}
    cluster.talk_for(80)
    check_the_end(cluster)


# --- ranges that are disjoint --------------------------------------------------------------------------------------


def views_of(cluster: UpgradeCluster, names: tuple[str, ...]) -> dict[str, int]:
    return {name: len(cluster.installed[name]) for name in names}


@pytest.mark.parametrize("old", ["a", "c"])
@pytest.mark.parametrize("later", ["b", "e"])
def test_disjoint_ranges_are_refused_on_both_sides_until_the_old_one_is_upgraded(old: str, later: str) -> None:
    cluster = UpgradeCluster(SITES)
    for name in ALL:
        if name != old:
            cluster.restart_at(name, NEW)
    cluster.run_until_together(*ALL)
    cluster.restart_at(later, LATER)
    others = tuple(name for name in ALL if name != later)
    cluster.talk_for(400)
    cluster.run_until_together(*others)
    cluster.run_for(1_000)
    reason = f"{later} speaks versions 2, {old} 1: none in common"
    mirrored = f"{old} speaks versions 1, {later} 2: none in common"
    before = views_of(cluster, ALL)
    cluster.talk_for(400)
    cluster.run_for(15_000)
    assert cluster.why_excluded(old, later).ruling is Ruling.REFUSED
    assert reason in cluster.why_excluded(old, later).text and f"{later}: we refuse it: {reason}" in cluster.refusals(
        old
    )
    assert cluster.why_excluded(later, old).ruling is Ruling.REFUSED
    assert mirrored in cluster.why_excluded(later, old).text
    assert f"{old}: we refuse it: {mirrored}" in cluster.refusals(later)
    assert views_of(cluster, ALL) == before, "somebody comes and goes"
    assert cluster.versions_run(*others) == {1} and cluster.versions_run(later) == {2}
    cluster.restart_at(old, NEW)
    cluster.talk_for(400)
    cluster.run_until_together(*ALL)
    assert cluster.versions_run(*ALL) == {2}
    assert cluster.finish() and not cluster.breaches and not cluster.unheard() and not cluster.violations()


# --- names and identities that are taken ---------------------------------------------------------------------------

TAKEN = {
    ("a", "z"): "the name a is taken by a daemon with another identity",
    ("c", "z"): "the name c is taken by a daemon with another identity",
    ("z", "a"): "the identity of z is that of a",
    ("z", "e"): "the identity of z is that of e",
    ("a", "a"): "the name and the identity of a are those of a daemon at a.1",
    ("e", "e"): "the name and the identity of e are those of a daemon at e.1",
}


@pytest.mark.parametrize("site", ["east", "north"])
@pytest.mark.parametrize(("name", "identity"), TAKEN)
def test_a_name_or_an_identity_that_is_taken_is_refused_and_disturbs_nobody(
    site: str, name: str, identity: str
) -> None:
    cluster = UpgradeCluster(SITES)
    cluster.run_until_together(*ALL)
    before = views_of(cluster, ALL)
    cluster.add("z", site, name=name, identity=identity)
    for _ in range(12):
        cluster.talk_for(40)
        cluster.run_for(960)
    assert views_of(cluster, ALL) == before, "the others are disturbed"
    assert len(cluster.installed["z"]) == 1
    owner, reason = name if identity == "z" else identity, TAKEN[name, identity]
    for each in ALL:
        if each != owner:
            assert f"{name}: we refuse it at z.1: {reason}" in cluster.refusals(each)
            assert f"{each}: it refuses us: {reason}" in cluster.refusals("z")
            assert reason in cluster.why_excluded("z", each).text
    if name == "z":  # the owner hears of it too, for it is another name and so is asked
        assert cluster.why_excluded(owner, "z").text.endswith(f"z at z.1 has the identity of {owner}")
        assert f"{owner} at {owner}.1 has the identity of z" in cluster.why_excluded("z", owner).text
    cluster.crash("z")
    assert cluster.finish() and not cluster.breaches and not cluster.unheard() and not cluster.violations()


def test_who_was_refused_comes_in_when_the_owner_has_gone_and_nobody_speaks_of_it_any_more() -> None:
    cluster = UpgradeCluster(SITES)
    cluster.run_until_together(*ALL)
    cluster.add("z", "west", name="z", identity="c")
    cluster.run_for(3_000)
    assert cluster.refusals("z") and cluster.refusals("a")
    cluster.stop("c")
    cluster.run_until_together("a", "b", "d", "e", "z")
    assert cluster.refusals("a") == []
    assert [each for each in cluster.refusals("z") if "it refuses us" in each] == []


@pytest.mark.parametrize(("owner", "site"), [("a", "east"), ("c", "west")])
def test_a_copy_that_starts_later_takes_the_place_and_the_first_learns_why(owner: str, site: str) -> None:
    cluster = UpgradeCluster(SITES)
    cluster.run_until_together(*ALL)
    before = views_of(cluster, ALL)
    cluster.add("z", site, name=owner, identity=owner, incarnation=2)
    others = [name for name in ALL if name != owner]
    cluster.run_for(15_000)
    reason = f"a later incarnation of {owner} is at z.1"
    for each in others:
        assert cluster.view_names(each) == "".join(ALL) and len(cluster.installed[each]) == before[each] + 1
        assert f"{owner}: we refuse it at {owner}.1: {reason}" in cluster.refusals(each)
        assert f"{each}: it refuses us: {reason}" in cluster.refusals(owner)
    assert cluster.view_names(owner) == owner
