"""``isotone flow rollout`` itself, and what it counts."""

from __future__ import annotations

import pytest

from isotone.cli.flow_rollout import Progress, token_interval_ms
from tests.cli.running import isotone, told


def test_the_command_rolls_versions_out_over_three_layers() -> None:
    found = told("flow", "rollout", "--nodes", "12", "--fan-out", "3", "--versions", "4", "--token-ms", "10")
    assert (found["nodes"], found["versions"]) == (12, 4)
    assert 12 <= found["begun"] <= 12 * 4
    if not found["left_out"]:  # whoever is taken for dead on a slow machine may skip versions, and holds nobody back
        assert (found["begun"], found["begun_early"], found["versions_at_once_max"]) == (12 * 4, 0, 1)


def test_the_command_says_when_all_confirmed() -> None:
    result = isotone("flow", "rollout", "--nodes", "3", "--versions", "2", "--token-ms", "10")
    assert result.exit_code == 0
    assert [line.partition(" ")[0] for line in result.output.splitlines()][:2] == ["3", "all"], "no display in a pipe"
    assert "all confirmed versions 1 to 2" in result.output


def test_who_does_not_get_there_in_time_is_an_error() -> None:
    result = isotone("flow", "rollout", "--nodes", "2", "--versions", "1000000", "--token-ms", "10", "--within", "1")
    assert result.exit_code == 3 and "within 1 s" in result.output


def test_a_version_begun_before_all_confirmed_the_last_is_counted() -> None:
    progress = Progress(2)
    for name, what, version in [("a", "applying", 1), ("b", "applying", 1), ("a", "confirmed", 1)]:
        progress.hear(name, what, version)
    assert (progress.begun, progress.begun_early, progress.is_at(1)) == (2, 0, False)
    progress.hear("a", "applying", 2)
    progress.hear("b", "left_out", 1)
    progress.hear("b", "confirmed", 1)
    assert (progress.begun_early, progress.left_out, progress.versions_at_once_max) == (1, 1, 2)
    assert progress.is_at(1) and not progress.is_at(2)


def test_nodes_that_cannot_join_in_time_are_an_error() -> None:
    result = isotone("flow", "rollout", "--nodes", "200", "--versions", "1", "--within", "0.05")
    assert result.exit_code == 3 and "of 200 nodes could join within 0.05 s; more --token-ms" in result.output


@pytest.mark.parametrize(("nodes", "wanted", "ms"), [(64, None, 50), (2_000, None, 1_000), (4_096, 70, 70)])
def test_many_nodes_of_one_process_send_tokens_more_rarely(nodes: int, wanted: int | None, ms: int) -> None:
    assert token_interval_ms(nodes, wanted) == ms
