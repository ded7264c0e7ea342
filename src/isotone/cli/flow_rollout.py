"""``isotone flow rollout``, and many nodes on this machine, over real sockets."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
from rich.table import Table

from isotone.cli.flow import program_text
from isotone.cli.output import json_option, live_display, print_json, results
from isotone.core.errors import MachineError
from isotone.flows.hierarchy import grown, leaves_of, ring_settings
from isotone.host.flow_invitations import Invitation
from isotone.host.flow_nodes import RunningNode, Tell, start_authority
from isotone.host.flow_process import FlowProcess

LOOK_S = 0.2
TOGETHER = 64
"""Nodes that start at once: whoever is not answered asks its authority again, ten times a second."""
HOST = "127.0.0.1"
JOIN_WITHIN_S = 120.0
TOKEN_MS, TOKENS_PER_S_MAX = 50, 2_000
"""Tokens that nodes that one process passes on in a second: each costs about 270 us, its sign of life included."""


def token_interval_ms(nodes: int, wanted: int | None) -> int:
    """Time between tokens that this machine bears, where nobody says another."""
    return wanted or max(TOKEN_MS, 1_000 * nodes // TOKENS_PER_S_MAX)


class LocalNodes:
    """An authority and nodes in this process, each with a socket of its own."""

    def __init__(self, tell: Tell | None = None) -> None:
        self.nodes: list[RunningNode] = []
        self._tell = tell
        self._authority: FlowProcess | None = None

    async def start(
        self, program: str, nodes: int, fan_out: int, token_ms: int, *, state: Path, within_s: float
    ) -> None:
        """Start the authority and every node."""
        try:
            async with asyncio.timeout(within_s):
                await self._start(program, nodes, fan_out, token_ms, state)
        except TimeoutError:
            told = f"only {len(self.nodes)} of {nodes} nodes could join within {within_s:g} s"
            raise MachineError(f"{told}; more --token-ms asks less of this machine") from None

    async def _start(self, program: str, nodes: int, fan_out: int, token_ms: int, state: Path) -> None:
        names = grown(nodes, fan_out)
        self._authority = await start_authority(
            lambda address: ring_settings(names, program, address, token_us=token_ms * 1_000, ranges_max=100),
            HOST,
            0,
            state,
        )
        leaves = leaves_of(names)
        for number in range(nodes):
            ring = leaves[number * len(leaves) // nodes]
            node = RunningNode(Invitation(ring, self._authority.address, program), f"n{number + 1}", self._tell)
            await node.start(HOST, 0)
            self.nodes.append(node)
            if len(self.nodes) % TOGETHER == 0:
                while not all(each.is_admitted for each in self.nodes[-TOGETHER:]):
                    await asyncio.sleep(LOOK_S)

    def close(self) -> None:
        """Stop what `start` began."""
        for node in self.nodes:
            node.close()
        if self._authority is not None:
            self._authority.close()


async def confirmed(version: int) -> bool:
    """Nothing is to be done for a version but to confirm it."""
    return True


class Progress:
    """Which version each node confirmed, and what must not happen: a node begins one before all confirmed the last."""

    def __init__(self, nodes: int) -> None:
        self.began = time.monotonic()
        self.begun = self.begun_early = self.left_out = 0
        self.versions_at_once_max = 1
        self._last: dict[str, int] = {}
        self._having = Counter({0: nodes})  # how many confirmed this version, and no later one

    def hear(self, name: str, what: str, told: object) -> None:
        """What a node tells."""
        if what == "left_out":
            self.left_out += 1
        elif what == "applying" and isinstance(told, int):
            lowest = min(self._having)
            self.begun += 1
            self.begun_early += lowest < told - 1
            self.versions_at_once_max = max(self.versions_at_once_max, told - lowest)
        elif what == "confirmed" and isinstance(told, int):
            before, self._last[name] = self._last.get(name, 0), told
            self._having[told] += 1
            self._having[before] -= 1
            if not self._having[before]:
                del self._having[before]

    def is_at(self, version: int) -> bool:
        """Whether all nodes confirmed it."""
        return min(self._having) >= version

    def table(self) -> Table:
        """How many nodes confirmed which version."""
        table = Table(box=None, title=f"{time.monotonic() - self.began:.1f} s")
        table.add_column("version", justify="right")
        table.add_column("confirmed by")
        nodes = self._having.total()
        for version, count in sorted(self._having.items()):
            table.add_row(str(version), f"{'█' * (40 * count // nodes)} {count}")
        return table


async def roll_out(
    nodes: int, versions: int, *, fan_out: int, token_ms: int, within_s: float, show: Callable[[Table], None]
) -> dict[str, object]:
    """Versions 1 to the last over all nodes, once all are counted; what was seen on the way."""
    progress = Progress(nodes)
    local = LocalNodes(progress.hear)

    async def wait(reached: Callable[[], bool], what: str) -> float:
        while not reached():
            if time.monotonic() - progress.began > within_s:
                raise MachineError(f"not all nodes {what} within {within_s:g} s")
            await asyncio.sleep(LOOK_S)
            show(progress.table())
        return round(time.monotonic() - progress.began, 2)

    with tempfile.TemporaryDirectory(prefix="isotone-flow-") as directory:
        try:
            await local.start(
                program_text("phases"), nodes, fan_out, token_ms, state=Path(directory), within_s=within_s
            )
            joined_s = await wait(lambda: all(node.is_counted for node in local.nodes), "were counted")
            for node in local.nodes:
                node.follow_versions(versions, confirmed)
            done_s = await wait(lambda: progress.is_at(versions), f"confirmed version {versions}")
        finally:
            local.close()
    return {
        "nodes": nodes,
        "versions": versions,
        "joined_s": joined_s,
        "seconds": round(done_s - joined_s, 2),
        "versions_at_once_max": progress.versions_at_once_max,
        "begun": progress.begun,
        "begun_early": progress.begun_early,
        "left_out": progress.left_out,
    }


@click.command("rollout")
@click.option("--nodes", type=click.IntRange(1, 4096), default=64, show_default=True, help="How many nodes.")
@click.option("--versions", type=click.IntRange(1), default=5, show_default=True, help="Roll out 1 to this.")
@click.option("--fan-out", type=click.IntRange(2), default=8, show_default=True, help="Members of a ring, at most.")
@click.option(
    "--token-ms", type=click.IntRange(1), help="Time between tokens.  [default: 50, or half of the number of nodes]"
)
@click.option("--within", type=float, default=300.0, show_default=True, help="Seconds, at most.")
@json_option
def rollout_command(
    *, nodes: int, versions: int, fan_out: int, token_ms: int | None, within: float, as_json: bool
) -> None:
    """Roll versions out: no node starts version k+1 before all nodes that are counted confirmed k.

    A node is counted while its ring counts it and the rings above count its ring: not while it is taken for dead, and
    not while a ring above waits for the new leader of a ring whose leader died.

    \b
    Examples:
      isotone flow rollout --nodes 64 --versions 5
    """
    roll = partial(
        roll_out, nodes, versions, fan_out=fan_out, token_ms=token_interval_ms(nodes, token_ms), within_s=within
    )
    if as_json:
        print_json(asyncio.run(roll(show=lambda table: None)))
        return
    console = results()
    if console.is_terminal:
        with live_display() as live:
            done = asyncio.run(roll(show=partial(live.update, refresh=True)))
    else:
        done = asyncio.run(roll(show=lambda table: None))
    console.print(f"{nodes} nodes were counted after {done['joined_s']} s")
    console.print(f"all confirmed versions 1 to {versions} in {done['seconds']} s")
    if not done["begun_early"]:
        console.print("none began a version before all had confirmed the one before")
    else:
        console.print(
            f"{done['begun_early']} times a node began a version before all had confirmed the one before; "
            f"{done['left_out']} times a node was not counted for a while"
        )
