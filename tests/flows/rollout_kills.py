"""A roll-out over 32 real nodes in three layers while processes are killed and come back, and what must hold of it.

    python -m tests.flows.rollout_kills --seconds 600 --out rollout.jsonl

goes on where it stopped: each round of kills is one line of the file. Exits with 1 when something was violated.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from tests.flows.flow_children import LONG_S, Child

RINGS = "r,r.1,r.2,r.1.1,r.1.2,r.2.1,r.2.2"
LEAVES = ("r.1.1", "r.1.2", "r.2.1", "r.2.2")
NODES_EACH = 8
STEPS = 3  # versions that all must get on by before the next deed


class Happened(NamedTuple):
    """One line of a node: ``life`` tells one process from the next of the same nodes."""

    at: int
    life: str
    what: str
    value: Any


class RollOut:
    """An authority and four processes of eight nodes each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.happened: list[Happened] = []
        self.authority = self._start_authority("127.0.0.1:0")
        self.address = self.authority.line()["ready"]
        self._lives = 0
        self.confirmed: dict[str, int] = {}
        self.groups = {ring: self._start_nodes(ring) for ring in LEAVES}

    def _start_authority(self, bind: str) -> Child:
        state, invitations = str(self._directory / "state"), str(self._directory / "invitations")
        options = ["--rings", RINGS, "--bind", bind, "--token-ms", "20", "--state", state, "--adapt", "125000"]
        return Child("authority", "phases", *options, "--invitations", invitations)

    def _start_nodes(self, ring: str) -> Child:
        invitation = str(self._directory / "invitations" / ring)
        child = Child("node", invitation, "--count", str(NODES_EACH), "--versions", "1000000000", "--name", f"{ring}-")
        self._lives += 1
        self.confirmed[ring] = 0
        Thread(target=self._read, args=(child, ring, self._lives), daemon=True).start()
        return child

    def _read(self, child: Child, ring: str, life: int) -> None:
        assert child.process.stdout is not None
        for text in child.process.stdout:
            try:
                line = json.loads(text)
            except ValueError:
                continue  # cut off by the kill
            for what in ("applying", "confirmed", "regular"):
                if what in line:
                    self.happened.append(Happened(line["at"], f"{line['node']}/{life}", what, line[what]))
            if "confirmed" in line:
                self.confirmed[ring] = max(self.confirmed[ring], line["confirmed"])

    def get_on(self) -> None:
        """Until nodes of all processes confirmed a few versions more."""
        wanted = max(self.confirmed.values()) + STEPS
        end = time.monotonic() + LONG_S
        while min(self.confirmed.values()) < wanted:
            assert time.monotonic() < end, f"no progress: {self.confirmed}, wanted {wanted}"
            time.sleep(0.02)

    def kill(self, ring: str, choice: random.Random) -> None:
        """One process, with eight nodes; the others go on; it comes back."""
        self.groups[ring].end(signal.SIGKILL)
        del self.confirmed[ring]
        self.happened.append(Happened(time.monotonic_ns(), ring, "killed", None))
        self.get_on()
        self.groups[ring] = self._start_nodes(ring)
        self.get_on()

    def kill_authority(self) -> None:
        """Nothing forms anew meanwhile, all else goes on."""
        self.authority.end(signal.SIGKILL)
        self.get_on()
        self.authority = self._start_authority(self.address)
        self.authority.line()
        self.get_on()

    def close(self) -> None:
        for child in (*self.groups.values(), self.authority):
            child.end(signal.SIGKILL)


def violations(happened: list[Happened]) -> list[str]:
    """No node may begin version k+1 while one that counts has not confirmed k; one that is left out soon is no more."""
    found: list[str] = []
    events = sorted(happened, key=lambda each: each.at)
    confirmed: dict[str, int] = {}
    counted: set[str] = set()
    suspects: dict[str, str] = {}
    for each in events:
        match each.what:
            case "confirmed":
                confirmed[each.life] = each.value
            case "regular" if each.value:
                counted.add(each.life)
            case "regular":
                counted.discard(each.life)
                suspects.pop(each.life, None)
            case "killed":
                gone = {life for life in counted if life.startswith(f"{each.life}-")}
                counted -= gone
                suspects = {life: why for life, why in suspects.items() if life not in gone}
            case "applying":
                for life in counted:
                    if confirmed.get(life, 0) < each.value - 1:
                        suspects.setdefault(
                            life, f"{each.life} begins {each.value}, {life} is at {confirmed.get(life, 0)}"
                        )
    found += suspects.values()
    return found


def run_round(seed: int, kills: int) -> dict[str, Any]:
    """Start all, kill as often, judge."""
    choice, began = random.Random(seed), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="flow-kills-") as directory:
        run = RollOut(Path(directory))
        try:
            run.get_on()
            for number in range(kills):
                if number % 3 == 2:
                    run.kill_authority()
                else:
                    run.kill(choice.choice(LEAVES), choice)
        finally:
            run.close()
    return {
        "seed": seed,
        "kills": kills,
        "versions": max(run.confirmed.values()),
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
