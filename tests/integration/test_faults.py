"""Real daemons are killed, stopped, moved, restarted, cut apart: judged, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

from click.testing import CliRunner

from isotone.cli.main import commands
from tests.integration.cluster import RealCluster, real_cluster, run
from tests.integration.people import (
    Person,
    assert_all_end_in_one_view,
    assert_nothing_acknowledged_is_lost,
    person,
)

NAMES = ("ada", "ben", "cia")
ATTEMPTS_MAX = 10  # a busy machine may let daemons suspect each other once more


async def settle(cluster: RealCluster) -> list[Person]:
    """A person at each daemon, all in one view, all talking."""
    people = [await person(name, cluster.address(daemon)) for name, daemon in zip(NAMES, cluster.names, strict=True)]
    await asyncio.gather(*(each.sees(*NAMES) for each in people))
    for each in people:
        each.talk()
    return people


async def hush(people: list[Person], *names: str) -> None:
    """All are silent, and then say a last word in one view that lasts, which all of them hear."""
    await asyncio.gather(*(each.silence() for each in people))
    for attempt in range(ATTEMPTS_MAX):
        await asyncio.gather(*(each.sees(*names) for each in people))
        before = {each.views[-1].id for each in people}
        words = [b"last word %d of %s" % (attempt, each.name.encode()) for each in people]
        await asyncio.gather(*(each.confirm(word) for each, word in zip(people, words, strict=True)))
        all_are_told = all(word in each.acknowledged for each, word in zip(people, words, strict=True))
        if all_are_told and len(before) == 1 and before == {each.views[-1].id for each in people}:
            await asyncio.gather(*(each.hears(*words) for each in people))
            return
    raise AssertionError("the views do not come to rest")


def test_a_daemon_is_killed_and_comes_back_at_another_port(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_cluster(tmp_path) as cluster:
            ada, ben, cia = people = await settle(cluster)
            lost = cia.session.id
            await cluster.kill("d3")
            await asyncio.gather(ada.sees("ada", "ben"), ben.sees("ada", "ben"))
            await cia.close()
            cluster.move("d3")
            cluster.start("d3")
            await cluster.together()
            again = await person("cia", cluster.address("d3"))
            assert again.session.id.daemon.incarnation == 2
            again.talk()
            await hush([ada, ben, again], *NAMES)
            assert_all_end_in_one_view([ada, ben, again])
            assert assert_nothing_acknowledged_is_lost([*people, again], dead=[lost]) > 3
            verdicts = await cluster.end_quietly()
            for name in ("EVS-2.7", "EVS-2.13.2", "EVS-2.14.2", "EVS-2.15", "EVS-2.16", "EVS-2.17", "EVS-2.22"):
                assert verdicts[name] == "holds", name
            for each in (ada, ben, again):
                await each.close()

    run(main())


def test_a_daemon_that_is_killed_for_good_leaves_nothing_open(tmp_path: Path) -> None:
    """Its record has no end, and no later incarnation tells that it died; that the process is gone does."""

    async def main() -> None:
        async with real_cluster(tmp_path) as cluster:
            ada, ben, cia = people = await settle(cluster)
            lost = cia.session.id
            await ada.until(lambda: len(ada.acknowledged) > 3, "some acknowledgements")
            await cluster.kill("d3")
            await cia.close()
            await hush([ada, ben], "ada", "ben")
            assert assert_nothing_acknowledged_is_lost(people, dead=[lost]) > 3
            verdicts = await cluster.end_quietly()
            for name in ("EVS-2.7", "EVS-2.13.2", "EVS-2.14.2", "EVS-2.16", "EVS-2.17"):
                assert verdicts[name] == "holds", name
            for each in (ada, ben):
                await each.close()

    run(main())


def test_a_stopped_daemon_is_excluded_and_comes_back_by_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_cluster(tmp_path) as cluster:
            ada, ben, cia = people = await settle(cluster)
            cluster.signal("d2", signal.SIGSTOP)
            await asyncio.gather(ada.sees("ada", "cia"), cia.sees("ada", "cia"))
            cluster.signal("d2", signal.SIGCONT)
            await cluster.together()
            await hush(people, *NAMES)
            assert_all_end_in_one_view(people)
            assert not ben.reconnected, "its session goes on: the daemon is the same"
            assert assert_nothing_acknowledged_is_lost(people) > 3
            await cluster.end_quietly()
            for each in people:
                await each.close()

    run(main())


def test_sides_of_a_cut_go_on_lose_a_daemon_and_merge(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_cluster(tmp_path) as cluster:
            ada, ben, cia = people = await settle(cluster)
            lost = ben.session.id
            await cluster.cut(["d1", "d2"], ["d3"])
            await asyncio.gather(ada.sees("ada", "ben"), ben.sees("ada", "ben"), cia.sees("cia"))
            before = len(ada.acknowledged), len(cia.acknowledged)
            await ada.until(lambda: len(ada.acknowledged) > before[0], "an acknowledgement on this side")
            await cia.until(lambda: len(cia.acknowledged) > before[1], "an acknowledgement on that side")
            await cluster.kill("d2")
            await ada.sees("ada")
            await cluster.cut()
            await asyncio.gather(ada.sees("ada", "cia"), cia.sees("ada", "cia"))
            cluster.start("d2")
            await cluster.together()
            await hush(people, *NAMES)
            assert len(ben.reconnected) == 1, "its daemon was another one"
            assert_all_end_in_one_view(people)
            assert assert_nothing_acknowledged_is_lost(people, dead=[lost]) > 5
            await cluster.end_quietly()
            for each in people:
                await each.close()

    run(main())
    journals = sorted((tmp_path / "state").glob("*/journal/*.journal"))
    assert [path.name for path in journals] == [f"{name}.journal" for name in ("d1-1", "d2-1", "d2-2", "d3-1")]
    for path in journals:
        result = CliRunner().invoke(commands, ["sim", "replay", str(path), "--json"])
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert found["differs_at"] is None
        assert found["compared"] > 100
        assert found["compared"] == found["events"] or path.name == "d2-1.journal", "it was killed"


def test_a_rolling_restart_loses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_cluster(tmp_path) as cluster:
            people = await settle(cluster)
            dead = []
            for each, name in zip(people, cluster.names, strict=True):
                dead.append(each.session.id)
                await cluster.stop(name)
                cluster.start(name)
                await cluster.together()
                await asyncio.gather(*(other.sees(*NAMES) for other in people))
            await hush(people, *NAMES)
            assert [len(each.reconnected) for each in people] == [1, 1, 1]
            assert_all_end_in_one_view(people)
            assert assert_nothing_acknowledged_is_lost(people, dead=dead) > 5
            await cluster.end_quietly()
            for each in people:
                await each.close()

    run(main())
