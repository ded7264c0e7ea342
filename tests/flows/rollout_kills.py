"""A roll-out over 32 processes in three layers of rings while some are killed and come back, and what must hold of it.

    python -m tests.flows.rollout_kills --seconds 600 --out rollout.jsonl

goes on where it stopped: each round of kills is one line of the file. It ends with a summary, and with 1 when something
was violated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import Any, NamedTuple

from isotone.host.flow_process import ask_status
from tests.flows.flow_children import LONG_S, Child

RINGS = "r,r.1,r.2,r.1.1,r.1.2,r.2.1,r.2.2"
LEAVES = ("r.1.1", "r.1.2", "r.2.1", "r.2.2")
NODES = tuple(f"{ring}-{number}" for ring in LEAVES for number in range(1, 9))
SEVERAL = 4  # nodes anywhere that are killed at once
STEPS = 3  # versions that all must get on by before the next deed


class Happened(NamedTuple):
    """One line of a node, or what was done to nodes."""

    at: int
    node: str
    what: str
    value: Any


class RollOut:
    """An authority and 32 nodes, each a process of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.happened: list[Happened] = []
        self._news = Condition()
        self.authority = self._start_authority("127.0.0.1:0")
        self.address = self.authority.line()["ready"]
        self.places: dict[str, str] = {}  # of nodes that are ready
        self.confirmed: dict[str, int] = {}  # of nodes that run
        self.nodes = {name: self._start_node(name) for name in NODES}

    def _start_authority(self, bind: str) -> Child:
        state, invitations = str(self._directory / "state"), str(self._directory / "invitations")
        options = ["--rings", RINGS, "--bind", bind, "--token-ms", "40", "--state", state, "--adapt", "4000"]
        return Child("authority", "phases", *options, "--invitations", invitations)

    def _start_node(self, name: str) -> Child:
        invitation = str(self._directory / "invitations" / name.partition("-")[0])
        child = Child("node", invitation, "--versions", "1000000000", "--name", name)
        self.confirmed[name] = 0
        child.reader = Thread(target=self._read, args=(child, name), daemon=True)
        child.reader.start()
        return child

    def _read(self, child: Child, name: str) -> None:
        assert child.process.stdout is not None
        for text in child.process.stdout:
            try:
                line = json.loads(text)
            except ValueError:
                continue  # cut off by the kill
            if "ready" in line:
                (self.places[name],) = line["ready"]
            for what in ("applying", "confirmed", "left_out"):
                if what in line:
                    self.happened.append(Happened(line["at"], name, what, line[what]))
            if "confirmed" in line:
                with self._news:
                    if name in self.confirmed:
                        self.confirmed[name] = max(self.confirmed[name], line["confirmed"])
                        self._news.notify_all()

    def get_on(self) -> None:
        """Until all nodes that run confirmed a few versions more."""
        wanted = max(self.confirmed.values()) + STEPS
        with self._news:
            done = self._news.wait_for(lambda: min(self.confirmed.values()) >= wanted, LONG_S)
        assert done, f"no progress: {self.confirmed}, wanted {wanted}"

    def rest(self) -> None:
        """Until all nodes count in all their rings; then a few versions more."""
        self.get_on()
        end = time.monotonic() + LONG_S
        while not asyncio.run(self._all_count()):
            assert time.monotonic() < end, "some node does not count"
        self._note("quiet")
        self.get_on()

    async def _all_count(self) -> bool:
        if len(self.places) < len(NODES):
            return False
        told = await asyncio.gather(*(ask_status(place, LONG_S) for place in list(self.places.values())))
        return all(ring["regular"] for each in told for ring in each["rings"])

    def _note(self, what: str) -> None:
        self.happened.append(Happened(time.monotonic_ns(), "", what, None))

    def kill(self, names: Sequence[str]) -> None:
        """These; the others go on; they come back."""
        self._note("deed")
        for name in names:
            self.nodes[name].process.kill()
        for name in names:
            self.nodes[name].end(signal.SIGKILL)
            with self._news:
                del self.confirmed[name]
            self.places.pop(name, None)
        self.get_on()
        for name in names:
            self.nodes[name] = self._start_node(name)
        self.rest()

    def kill_authority(self) -> None:
        """The register is there: nothing is decided before it is back, with all that it had decided."""
        self._note("deed")
        self.authority.end(signal.SIGKILL)
        self.authority = self._start_authority(self.address)
        self.authority.line()
        self.rest()

    def close(self) -> None:
        for child in (*self.nodes.values(), self.authority):
            child.process.kill()
        for child in (*self.nodes.values(), self.authority):
            child.end(signal.SIGKILL)


def violations(happened: list[Happened]) -> list[str]:
    """While all nodes count, and until the next is killed or left out, none begins k+1 before all confirmed k."""
    found: dict[str, str] = {}
    confirmed: dict[str, int] = {}
    is_quiet = False
    for each in sorted(happened, key=lambda each: each.at):
        match each.what:
            case "confirmed":
                confirmed[each.node] = each.value
            case "quiet":
                is_quiet = True
            case "deed" | "left_out":
                is_quiet = False
            case "applying" if is_quiet:
                for node, version in confirmed.items():
                    if version < each.value - 1:
                        found.setdefault(node, f"{each.node} begins {each.value}, {node} is at {version}")
    return list(found.values())


def run_round(seed: int, kills: int) -> dict[str, Any]:
    """Start all, kill as often, judge."""
    choice, began = random.Random(seed), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="flow-kills-") as directory:
        run = RollOut(Path(directory))
        try:
            run.rest()
            for number in range(kills):
                match number % 4:
                    case 0:
                        run.kill([choice.choice(NODES)])
                    case 1:
                        ring = choice.choice(LEAVES)  # and with it the leader, who is in the rings above
                        run.kill([name for name in NODES if name.startswith(ring)])
                    case 2:
                        run.kill_authority()
                    case _:
                        run.kill(choice.sample(NODES, SEVERAL))
        finally:
            run.close()
    return {
        "seed": seed,
        "kills": kills,
        "versions": max(run.confirmed.values()),
        "quiet": sum(each.what == "quiet" for each in run.happened),
        "left_out": sum(each.what == "left_out" for each in run.happened),
        "confirmations": sum(each.what == "confirmed" for each in run.happened),
        "seconds": round(time.monotonic() - began, 1),
        "violations": violations(run.happened),
    }


def summary(done: Sequence[dict[str, Any]]) -> str:
    """What `results/flows-rollout.txt` tells."""
    told = {
        "rounds": f"{len(done)}, in {sum(each['seconds'] for each in done):.0f} seconds",
        "kills": sum(each["kills"] for each in done),
        "versions begun": sum(each["versions"] for each in done),
        "confirmations": sum(each["confirmations"] for each in done),
        "times at which all were quiet again": sum(each["quiet"] for each in done),
        "nodes left out": sum(each["left_out"] for each in done),
        "violations": sum(len(each["violations"]) for each in done),
    }
    wrong = [f"seed {each['seed']}: {text}" for each in done for text in each["violations"]]
    head = (
        f"An authority and {len(NODES)} nodes in three layers, each a process: killed with SIGKILL, and started again"
    )
    return "\n".join([head, "", *(f"{name} {value}" for name, value in told.items()), *wrong])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--kills", type=int, default=8, help="in each round")
    parser.add_argument("--out", type=Path, help="what is done, to go on from")
    options = parser.parse_args()
    before = options.out is not None and options.out.exists()
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if before else []
    while sum(each["seconds"] for each in done) < options.seconds:
        done.append(run_round(len(done) + 1, options.kills))
        if options.out is not None:
            with options.out.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    print(summary(done))
    return 1 if any(each["violations"] for each in done) else 0


if __name__ == "__main__":
    sys.exit(main())
