"""The figures of [HAB 4]: what is counted from the trace, for one to seven processes in each centre."""

from __future__ import annotations

from isotone.sim.figures.catalogue import figure_named
from tests.cli.running import told

CHAIN = "abcd"


def test_table_1() -> None:
    """Reference: [HAB Table 1]."""
    rows = told("sim", "figure", "hab-table-1")["rows"]
    assert {row["m"] for row in rows} == set(range(1, 8)) and len(rows) == 7 * 7
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
            case "Hierarchical ABcast, batched" | "Hierarchical ABcast, sustained load":
                assert 0 < row["messages"] < 2
            case "OPT-broadcast":
                assert row["formula"] == 2 * m * m + m and row["messages"] is None
            case other:
                raise AssertionError(other)


def test_latency_over_the_chain() -> None:
    """From every centre to every other, in delays of one link; a leads, and d is farthest from it."""
    rows = figure_named("hab-latency").rows
    delays = {(row["step"], row["source"], row["centre"]): row["delays"] for row in rows}
    for place, source in enumerate(CHAIN):  # as many links from a
        for distance, centre in enumerate(CHAIN):
            there_and_back = distance or 2 * 3  # a backup delivers what it stores; the primary waits for the farthest
            assert delays.pop(("deliver", source, centre)) == place + there_and_back
    take_over = {step: delay for (step, source, _), delay in delays.items() if source == "c"}
    assert take_over == {
        "effective": 2,  # at c, when b and d have recorded it and said so
        "transition": 3,  # at b, the next one, when d's word has come, two links away
        "primary": 3 + 4,  # when d has told its state
        "first delivery in the new primary": 3 + 4 + 4,  # when d has stored it
    }
    handed_over = {(step, centre): delay for (step, source, centre), delay in delays.items() if source == "a"}
    leads, follows = "hand-over: the next one leads", "hand-over: the one before follows"
    assert handed_over.pop((leads, "d")) == 3 and handed_over.pop((follows, "a")) == 2 * 3  # one round trip
    assert handed_over == {
        ("hand-over: a broadcast of d is delivered", "a"): 3 + 3,  # d stores it everywhere as soon as it leads
        ("hand-over: a broadcast of d is delivered", "d"): 3 + 6,
        ("hand-over: a broadcast of a is delivered", "a"): 6 + 6,  # a sends it to d as soon as it follows
        ("hand-over: a broadcast of a is delivered", "d"): 6 + 3 + 6,
    }
