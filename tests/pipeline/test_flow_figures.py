"""Figure 10 as a sweep gives what the simulator gives, point by point, and the mean over seeds."""

from __future__ import annotations

from statistics import mean

from pyspark.sql import SparkSession

from isotone.pipeline.flow_figures import figure_rows, means, phase_sweep
from isotone.sim.figures.catalogue import findings_of
from isotone.sim.flows.figures import phase_points, phase_row
from tests.cli.running import told


def test_the_sweep_is_the_figure(spark: SparkSession) -> None:
    rows = figure_rows(means(phase_sweep(spark, 64, [1, 2], 4)))
    for point, row in zip(phase_points(64), rows, strict=True):
        assert (row["nodes"], row["mttf_s"], row["detection_s"]) == (point[0], point[1] or "never", point[2])
        alone = [phase_row(*point, seed, 4)["phase_s"] for seed in (1, 2)]
        assert abs(row["phase_s"] - mean(alone)) < 0.001
    assert len(findings_of("flows-10", rows)) == 3


def test_the_command_tells_rows_findings_and_how_long_it_took(spark: SparkSession) -> None:
    found = told("pipeline", "figure", "flows-10", "--daemons", "8", "--probes", "4")
    assert [row["mttf_s"] for row in found["rows"]] == ["never", 100.0, 10.0, 10.0]
    assert found["parameters"]["took_s"] >= 0 and found["findings"]
