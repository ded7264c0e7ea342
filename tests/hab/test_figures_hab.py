"""The figures of [HAB 4]: what is counted from the trace, for one to seven processes in each centre."""

from __future__ import annotations

from isotone.sim.figures.catalogue import figure_named


def test_table_1() -> None:
    """Reference: [HAB Table 1]."""
    rows = figure_named("hab-table-1").rows
    assert {row["m"] for row in rows} == set(range(1, 8))
    for row in rows:
        m, counted = row["m"], (row["messages"], row["steps"])
        match row["protocol"]:
            case "Hierarchical ABcast, from the primary":
                assert counted == (2, 2)
            case "Hierarchical ABcast, from the backup":
                assert counted == (4, 3)
            case "CT-broadcast, until the coordinator decides":
                assert counted == (3 * m, 2)  # the paper has 3 steps: here broadcast and proposal travel together
            case "CT-broadcast, until all deliver":
                assert row["messages"] >= 4 * m and row["steps"] == 3
            case "Hierarchical ABcast, batched":
                assert row["messages"] < 2
            case "OPT-broadcast":
                assert row["formula"] == 2 * m * m + m and row["messages"] is None


def test_latency_over_the_chain() -> None:
    rows = figure_named("hab-latency").rows
    delays = {(row["step"], row["source"], row["centre"]): row["delays"] for row in rows}
    assert delays["deliver", "a", "d"] == 3  # one way to the farthest backup
    assert delays["deliver", "a", "a"] == 6  # and back: the primary waits for it
    assert delays["deliver", "d", "a"] == 9
    steps = [row["step"] for row in rows if row["step"] != "deliver"]
    assert steps == ["effective", "transition", "primary", "first delivery in the new primary"]
