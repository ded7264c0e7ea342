"""`seeds` by itself, and under pytest with the plug-in."""

from __future__ import annotations

from typing import Any

import pytest

from isotone.core.errors import LocalProtocolError
from isotone.testing import Cluster, seeds
from tests.testing import plugin
from tests.testing.virtual import pause

pytest_plugins = ("pytester",)


def test_a_plain_function_gets_every_seed() -> None:
    seen: list[int] = []

    @seeds(5)
    def test(seed: int) -> None:
        seen.append(seed)

    test()
    assert seen == [0, 1, 2, 3, 4]


def test_an_async_function_runs_in_virtual_time_with_its_cluster() -> None:
    seen: list[tuple[Any, ...]] = []

    @seeds(2, daemons=2)
    async def test(seed: int, cluster: Cluster) -> None:
        await pause(100)
        seen.append((seed, cluster.seed, cluster.daemons))

    test()
    assert seen == [(0, 0, ("d1", "d2")), (1, 1, ("d1", "d2"))]


def test_the_first_seed_that_fails_ends_it_and_is_named() -> None:
    seen: list[int] = []

    @seeds(10)
    async def test(seed: int) -> None:
        seen.append(seed)
        assert seed != 3, "mine"

    with pytest.raises(AssertionError, match="mine") as caught:
        test()
    assert seen == [0, 1, 2, 3]
    assert "seed 3 fails" in caught.value.__notes__[-1]


def test_misuse_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="at least one"):
        seeds(0)
    with pytest.raises(LocalProtocolError, match="no argument cluster"):

        @seeds(1, daemons=2)
        async def one(seed: int) -> None: ...

    with pytest.raises(LocalProtocolError, match="async"):

        @seeds(1)
        def two(cluster: Cluster) -> None: ...


SUITE = """
import asyncio
import pytest
from isotone.testing import seeds

@pytest.fixture
def word():
    return "fixture"

@seeds(30)
async def test_bad(seed, word):
    await asyncio.sleep(1000)
    assert word == "fixture"
    print("this is seed", seed)
    assert seed != 17

@pytest.mark.parametrize("case", ["a b", "c"])
@seeds(4)
def test_cases(case, seed):
    assert case != "a b" or seed < 2

class TestClass:
    @seeds(3)
    async def test_method(self, cluster):
        assert len(cluster.daemons) == 3

def test_plain():
    pass
"""


def suite(pytester: pytest.Pytester, *more: str) -> pytest.RunResult:
    pytester.makepyfile(SUITE)
    run = pytester.runpytest_subprocess if "-n" in more else pytester.runpytest_inprocess
    return run(*plugin.arguments(), "-p", "no:cacheprovider", *more)


def test_pytest_names_the_lines_that_replay(pytester: pytest.Pytester) -> None:
    result = suite(pytester)
    result.assert_outcomes(passed=4, failed=2)
    name = "test_pytest_names_the_lines_that_replay.py"
    result.stdout.fnmatch_lines(
        [
            "*isotone: replay the failing seeds*",
            f"pytest {name}::test_bad --isotone-seed=17",
            f"pytest '{name}::test_cases[[]a b[]]' --isotone-seed=2",
        ]
    )
    result.stdout.fnmatch_lines(["*isotone: seed 17 fails (25 to run)*"])
    result.stdout.fnmatch_lines(["*this is seed 16*"])


def test_the_options_choose_the_seeds(pytester: pytest.Pytester) -> None:
    result = suite(pytester, "--isotone-seed=17")
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.no_fnmatch_line("*this is seed 16*")
    suite(pytester, "--isotone-seeds=2").assert_outcomes(passed=5)
    result = suite(pytester, "--isotone-seeds=-1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_replay_lines_come_through_xdist(pytester: pytest.Pytester) -> None:
    result = suite(pytester, "-n", "2")
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(["pytest *::test_bad --isotone-seed=17"])


STORMY = """
from isotone.testing import seeds

@seeds(60)
async def test_many_seeds(seed):
    pass

@seeds(1, daemons=3)
async def test_fragile(cluster):
    await cluster.storm(6.0, faults=("partition", "crash"))
    crashes = [what for at, what in cluster.deeds if what.startswith("crash")]
    assert not crashes
"""


def test_a_failure_tells_its_story_and_is_shrunk(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(STORMY)
    result = pytester.runpytest_inprocess(*plugin.arguments(), "-p", "no:cacheprovider", "--isotone-shrink", "-v")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*::test_many_seeds[[]seeds25-49[]] PASSED*"])
    result.stdout.fnmatch_lines(["*isotone: what happened until * virtual seconds:", "*fault: crash *", "*d1 *>*"])
    result.stdout.fnmatch_lines(["*isotone: shrunk in * runs: it needs 1 of the * faults of its storms"])


def test_a_long_test_tells_how_far_it_is(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import isotone.testing.pytest_plugin as plugin
        from isotone.testing import seeds
        plugin.PROGRESS_S = 0.0

        @seeds(3)
        def test_long(seed):
            pass
        """
    )
    result = pytester.runpytest_subprocess(*plugin.arguments())
    result.stdout.fnmatch_lines(["isotone: test_long: 1 of 3 seeds", "*", "isotone: test_long: 2 of 3 seeds"])
    result.assert_outcomes(passed=1)
