"""Plays every scenario file here, compares its trace exactly and checks it; ``pytest --rewrite`` writes it anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.sim.cluster import Cluster
from isotone.sim.scenario import Scenario, build_cluster, difference, parse, play, rewritten
from isotone.spec.check import check

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_scenario_file(path: Path, rewrite: bool) -> None:
    scenario = parse(path.read_text(encoding="utf-8"), path.name)
    clusters: list[Cluster] = []

    def build(scenario: Scenario) -> Cluster:
        clusters.append(build_cluster(scenario))
        return clusters[0]

    trace = play(scenario, build)
    assert not check(clusters[0].rows).violations
    if rewrite:
        path.write_text(rewritten(scenario, trace), encoding="utf-8")
        return
    different = difference(scenario, trace)
    assert not different, f"{different}\nto accept it: pytest --rewrite {path.name}, then review the diff"


def test_there_are_scenarios() -> None:
    assert FILES
