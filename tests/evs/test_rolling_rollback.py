"""The way back: every daemon of a cluster at version 2 gets the old program again, one by one, under faults."""

from __future__ import annotations

import pytest

from isotone.core.choice import Choice
from tests.evs.test_rolling_upgrade import ALL, FAULTS, SITES, change, check_the_end, upgraded_apart
from tests.evs.upgrade_cluster import NEW, OLD, UpgradeCluster, teach_version_2


@pytest.fixture(autouse=True)
def _two_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    teach_version_2(monkeypatch)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_rollback_of_every_daemon_under_faults(seed: int) -> None:
    """Each with another fault; the first lowers the version of the daemon view, and it stays low until the last."""
    cluster, choice = UpgradeCluster(SITES, seed=seed), Choice(f"rollback/{seed}")
    order, faults = [*ALL], [*FAULTS]
    choice.shuffle(order)
    choice.shuffle(faults)
    if faults[0] is upgraded_apart:  # nobody is rolled back yet
        faults.reverse()
    for name in ALL:
        cluster.restart_at(name, NEW)
    cluster.run_until_together(*ALL)
    assert cluster.versions_run(*ALL) == {2}
    cluster.talk_for(200)
    for name, fault in zip(order, faults, strict=True):
        change(cluster, name, choice, fault)
        assert cluster.versions[name] == OLD and cluster.versions_run(*ALL) == {1}
    assert set(cluster.versions.values()) == {OLD}
    check_the_end(cluster)
