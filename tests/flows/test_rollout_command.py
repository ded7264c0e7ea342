"""``isotone flow rollout`` itself, and what it counts."""

from __future__ import annotations

from isotone.cli.flow_rollout import Progress
from tests.cli.running import isotone, told


def test_the_command_rolls_versions_out_over_three_layers() -> None:
    found = told("flow", "rollout", "--nodes", "12", "--fan-out", "3", "--versions", "4", "--token-ms", "10")
    assert (found["nodes"], found["versions"]) == (12, 4)
    assert 12 <= found["begun"] <= 12 * 4
    if not found["left_out"]:  # whoever is taken for dead on a slow machine may skip versions, and holds nobody back
        assert (found["begun"], found["begun_early"], found["versions_at_once_max"]) == (12 * 4, 0, 1)


def test_the_command_says_when_all_confirmed() -> None:
    result = isotone("flow", "rollout", "--nodes", "3", "--versions", "2", "--token-ms", "10")
    assert result.exit_code == 0 and "all confirmed versions 1 to 2" in result.output


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
