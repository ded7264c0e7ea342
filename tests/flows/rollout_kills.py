"""A roll-out over 32 real nodes in three layers while processes are killed and come back, and what must hold of it.

    python -m tests.flows.rollout_kills --seconds 600 --out rollout.jsonl

goes on where it stopped: each round of kills is one line of the file. Exits with 1 when something was violated.
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
from pathlib import Path
from threading import Condition, Thread
from typing import Any, NamedTuple

from isotone.host.flow_process import ask_status
from tests.flows.flow_children import LONG_S, Child

RINGS = "r,r.1,r.2,r.1.1,r.1.2,r.2.1,r.2.2"
LEAVES = ("r.1.1", "r.1.2", "r.2.1", "r.2.2")
NODES_EACH = 8
STEPS = 3  # versions that all must get on by before the next deed


class Happened(NamedTuple):
    """One line of a node, or what was done to nodes."""

    at: int
    node: str
    what: str
    value: Any


class RollOut:
    """An authority and four processes of eight nodes each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.happened: list[Happened] = []
        self._news = Condition()
        self.authority = self._start_authority("127.0.0.1:0")
        self.address = self.authority.line()["ready"]
        self.places: dict[str, list[str]] = {}  # of the nodes of each process
        self.confirmed: dict[str, int] = {}
        self.groups = {ring: self._start_nodes(ring) for ring in LEAVES}

    def _start_authority(self, bind: str) -> Child:
        state, invitations = str(self._directory / "state"), str(self._directory / "invitations")
        options = ["--rings", RINGS, "--bind", bind, "--token-ms", "20", "--state", state, "--adapt", "125000"]
        return Child("authority", "phases", *options, "--invitations", invitations)

    def _start_nodes(self, ring: str) -> Child:
        invitation = str(self._directory / "invitations" / ring)
        child = Child("node", invitation, "--count", str(NODES_EACH), "--versions", "1000000000", "--name", f"{ring}-")
        self.confirmed[ring] = 0
        child.reader = Thread(target=self._read, args=(child, ring), daemon=True)
        child.reader.start()
        return child

    def _read(self, child: Child, ring: str) -> None:
        assert child.process.stdout is not None
        for text in child.process.stdout:
            try:
                line = json.loads(text)
            except ValueError:
                continue  # cut off by the kill
            if "ready" in line:
                self.places[ring] = line["ready"]
            for what in ("applying", "confirmed", "left_out"):
                if what in line:
                    self.happened.append(Happened(line["at"], line["node"], what, line[what]))
            if "confirmed" in line and ring in self.confirmed:
                with self._news:
                    self.confirmed[ring] = max(self.confirmed[ring], line["confirmed"])
                    self._news.notify_all()

    def get_on(self) -> None:
        """Until nodes of all processes confirmed a few versions more."""
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
        places = [place for ring in self.groups for place in self.places.get(ring, [])]
        if len(places) < NODES_EACH * len(LEAVES):
            return False
        told = await asyncio.gather(*(ask_status(place, LONG_S) for place in places))
        return all(ring["regular"] for each in told for ring in each["rings"])

    def _note(self, what: str) -> None:
        self.happened.append(Happened(time.monotonic_ns(), "", what, None))

    def kill(self, ring: str) -> None:
        """One process, with eight nodes; the others go on; it comes back."""
        self._note("deed")
        self.groups[ring].end(signal.SIGKILL)
        del self.confirmed[ring], self.places[ring]
        self.get_on()
        self.groups[ring] = self._start_nodes(ring)
        self.rest()

    def kill_authority(self) -> None:
        """The register is there: nothing is decided before it is back, with all that it had decided."""
        self._note("deed")
        self.authority.end(signal.SIGKILL)
        self.authority = self._start_authority(self.address)
        self.authority.line()
        self.rest()

    def close(self) -> None:
        for child in (*self.groups.values(), self.authority):
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
                if number % 3 == 2:
                    run.kill_authority()
                else:
                    run.kill(choice.choice(LEAVES))
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--kills", type=int, default=6, help="in each round")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    while sum(each["seconds"] for each in done) < options.seconds:
        done.append(run_round(len(done) + 1, options.kills))
        with options.out.open("a") as file:
            file.write(json.dumps(done[-1]) + "\n")
    return 1 if any(each["violations"] for each in done) else 0


if __name__ == "__main__":
    sys.exit(main())
