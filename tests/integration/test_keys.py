"""Daemons with keys: three that believe each other, and one that says it is d4 with a key that nobody listed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from isotone.cli.local_cluster import quoted
from isotone.daemon.security.credentials import add_credential
from isotone.daemon.security.keys import generate_key
from tests.integration.cluster import PATIENT, RealCluster, real_cluster, run
from tests.integration.people import assert_all_end_in_one_view, person

NAMES = ("d1", "d2", "d3", "d4")


def secure(cluster: RealCluster, directory: Path) -> None:
    """A key for each, in the settings of all; an operator who may look."""
    cluster.credential = add_credential(directory / "credentials", "operator")
    for name in NAMES:
        cluster.per_daemon[name] = [f'public_key = "{generate_key(directory / f"{name}.key").text}"']
    cluster.extra = f"""
[security]
mode = "keys"
private_key_file = {quoted(directory / "{name}.key")}
credentials_file = {quoted(directory / "credentials")}
[[security.access]]
allow = ["connect", "join", "send"]
[[security.access]]
principals = ["operator"]
allow = ["admin"]
{PATIENT}"""


def test_a_daemon_with_a_wrong_key_stays_outside(tmp_path: Path) -> None:
    async def main() -> None:
        sites = {"d1": "s1", "d2": "s1", "d3": "s2", "d4": "s1"}
        async with real_cluster(tmp_path, sites, start=False, open=False) as cluster:
            secure(cluster, tmp_path)
            right = cluster.per_daemon["d4"]
            cluster.start("d1", "d2", "d3")
            await cluster.together("d1", "d2", "d3")
            people = [await person(f"p{name}", cluster.address(name)) for name in ("d1", "d2", "d3")]
            await asyncio.gather(*(each.sees("pd1", "pd2", "pd3") for each in people))
            views = [len(each.views) for each in people]

            (tmp_path / "d4.key").unlink()
            cluster.per_daemon["d4"] = [f'public_key = "{generate_key(tmp_path / "d4.key").text}"']
            false = cluster.daemons["d4"]
            false.settings = tmp_path / "false.toml"
            false.settings.write_text(cluster.text(), encoding="utf-8")
            cluster.per_daemon["d4"] = right
            false.start()
            await cluster.until(lambda: cluster.members("d4") == ("d4",), "it runs, alone")
            await cluster.until(
                lambda: any("wrong key" in cluster.log(name) for name in ("d1", "d2", "d3")), "it is refused"
            )
            for each in people:
                await each.confirm(b"hello of " + each.name.encode())
                assert each.acknowledged
            bodies = [each.acknowledged[0] for each in people]
            await asyncio.gather(*(each.hears(*bodies) for each in people))
            guards = [cluster.admin(name).get("/status")["counts"]["guard"] for name in ("d1", "d2", "d3")]
            assert sum(guard.get("refused.wrong key", 0) for guard in guards) >= 1, "counted"
            for name in ("d1", "d2", "d3"):
                assert cluster.members(name) == ("d1", "d2", "d3")
                lines = [line for line in cluster.log(name).splitlines() if "wrong key" in line]
                assert len(lines) == len({line.partition(" warning ")[2] for line in lines}), "logged once"
            assert [len(each.views) for each in people] == views, "no view changed"
            assert_all_end_in_one_view(people)
            await cluster.stop("d4")
            for path in (cluster.trace / "d4").rglob("*"):
                if path.is_file():
                    path.unlink()  # not of this cluster
            await cluster.end_quietly()
            for each in people:
                await each.close()

    run(main())
