"""How real daemons find and reach each other: by a multicast group of their LAN, and by seeds without being listed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.integration.cluster import RealCluster, real_cluster, run
from tests.integration.people import assert_all_end_in_one_view, person
from tests.ports import free_port


async def assert_they_talk(cluster: RealCluster) -> None:
    """A client at each: one view, one order, nothing acknowledged is lost."""
    people = [await person(f"p{name}", cluster.address(name)) for name in cluster.names]
    await asyncio.gather(*(each.sees(*(other.name for other in people)) for each in people))
    await asyncio.gather(*(each.confirm(each.name.encode() * 5_000) for each in people))
    bodies = [each.name.encode() * 5_000 for each in people]
    await asyncio.gather(*(each.hears(*bodies) for each in people))
    assert all(each.acknowledged for each in people)
    assert len({tuple(each.bodies) for each in people}) == 1
    assert_all_end_in_one_view(people)
    await cluster.end_quietly()
    for each in people:
        await each.close()


def with_settings_of_its_own(cluster: RealCluster, name: str, *changes: tuple[str, str]) -> None:
    """Start a daemon from a file that names no other."""
    whole = cluster.daemons
    cluster.daemons = {name: whole[name]}
    text = cluster.text()
    cluster.daemons = whole
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    whole[name].settings = cluster.directory / f"{name}.toml"
    whole[name].settings.write_text(text, encoding="utf-8")
    whole[name].start()


def test_daemons_of_a_lan_find_each_other_by_multicast_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_cluster(tmp_path, {"d1": "s1", "d2": "s1", "d3": "s1"}, start=False) as cluster:
            group = ('[[site]]\nname = "s1"', f'[[site]]\nname = "s1"\nmulticast = "239.192.77.7:{free_port()}"')
            for name in cluster.names:
                with_settings_of_its_own(cluster, name, group)
            await cluster.together()
            await assert_they_talk(cluster)

    run(main())


def test_a_daemon_that_nobody_lists_comes_by_a_seed(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_cluster(tmp_path, {"d1": "s1", "d2": "s1", "d3": "s1"}, start=False) as cluster:
            seed = f"localhost:{cluster.daemons['d1'].place.port}"
            with_settings_of_its_own(cluster, "d1")
            for name in ("d2", "d3"):
                with_settings_of_its_own(cluster, name, ("[cluster]\n", f'[cluster]\nseeds = ["{seed}"]\n'))
            await cluster.together()
            await assert_they_talk(cluster)

    run(main())
