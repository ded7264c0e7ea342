"""The operation of [ISIS 5.4] on three real processes of this machine: a replicated lock, k updates, one answer.

``python -m isotone.bench.toolkit`` prints a table of milliseconds until the caller has a sure answer, by layer, mode
and k, as JSON with ``--json``. In the asynchronous mode an update is one CBCAST; in the synchronous one the coordinator
waits behind each until it is at all sites. The median of many operations; `isotone sim figure isis-5.4` has the same
table with latencies like those of the paper.

Implements: [ISIS 5.4]. Deviations: none.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

import click

import isotone
from isotone import isis
from isotone.daemon.ports import LOOPBACK, free_ports

NAMES = ("a", "b", "c")
LAYERS = {"ISIS kernels": False, "view-synchronous group": True}
MODES = ("asynchronous", "synchronous")
PAPER = {"asynchronous": (0.3, 0.1), "synchronous": (0.85, 0.5)}
READY = "ready"


async def member(
    name: str, peers: dict[str, str], updates_max: int, operations: int, *, view_synchronous: bool
) -> None:
    """One process; the first one measures when all are there, the others serve until they are ended."""
    others = list(peers.items())
    async with isotone.node(name=name, address=peers[name], peers=others) as node:
        running = isis.tools("bench", name=name, sites=NAMES, node=node, view_synchronous=view_synchronous)
        async with running as tools:
            group = await tools.group("file")

            async def update(data: bytes) -> bytes:
                count, synchronous = json.loads(data)
                async with group.lock("item"):
                    for place in range(count):
                        group.put("item", b"%d" % place)
                        if synchronous:
                            await tools.flush()
                return b""

            group.handle(update)
            while len(group.members) < len(NAMES):
                await group.changed()
            print(READY, flush=True)
            if name != NAMES[0]:
                await asyncio.Event().wait()
            for mode in MODES:
                for updates in range(1, updates_max + 1):
                    took = [await timed(group, updates, synchronous=mode == "synchronous") for _ in range(operations)]
                    print(json.dumps([mode, updates, statistics.median(took)]), flush=True)


async def timed(group: isis.ToolGroup, updates: int, *, synchronous: bool) -> float:
    """Milliseconds of one operation."""
    began = time.perf_counter()
    await group.ask(json.dumps([updates, synchronous]).encode())
    return (time.perf_counter() - began) * 1000


def measure(updates_max: int, operations: int) -> list[dict[str, Any]]:
    """A row for each layer, mode and number of updates."""
    rows: list[dict[str, Any]] = []
    for layer, view_synchronous in LAYERS.items():
        with ExitStack() as stack:
            peers = [f"{name}={LOOPBACK}:{port}" for name, port in zip(NAMES, free_ports(len(NAMES)), strict=True)]
            processes = []
            for name in NAMES:
                order = json.dumps([name, peers, updates_max, operations, view_synchronous])
                command = [sys.executable, "-m", "isotone.bench.toolkit", "--member", order]
                process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                stack.enter_context(process)
                stack.callback(process.kill)
                processes.append(process)
            told = processes[0].stdout
            assert told is not None
            for line in told:
                if line.strip() != READY:
                    mode, updates, took_ms = json.loads(line)
                    at_first, more = PAPER[mode]
                    paper_ms = round(1000 * (at_first + more * (updates - 1)))
                    row = {"layer": layer, "mode": mode, "updates": updates, "answer_ms": round(took_ms, 2)}
                    rows.append(row | {"paper_answer_ms": paper_ms})
            assert len(rows) % (len(MODES) * updates_max) == 0, f"the processes on {layer} ended early"
    return rows


@click.command()
@click.option("--updates", default=4, show_default=True, help="From one update for an operation up to so many.")
@click.option("--operations", default=50, show_default=True, help="Operations for each figure.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")
@click.option("--member", "order", default="", hidden=True)
def main(updates: int, operations: int, as_json: bool, order: str) -> None:
    """Measure an operation of the ISIS toolkit on three processes."""
    if order:
        name, peers, updates_max, count, view_synchronous = json.loads(order)
        known = dict(each.split("=", 1) for each in peers)
        asyncio.run(member(name, known, updates_max, count, view_synchronous=view_synchronous))
        return
    rows = measure(updates, operations)
    if as_json:
        click.echo(json.dumps(rows))
        return
    click.echo("layer                   mode          updates  ms      paper ms")
    for row in rows:
        layer, mode = f"{row['layer']:22}", f"{row['mode']:12}"
        click.echo(f"{layer}  {mode}  {row['updates']:7}  {row['answer_ms']:6.2f}  {row['paper_answer_ms']:8}")


if __name__ == "__main__":
    main()
