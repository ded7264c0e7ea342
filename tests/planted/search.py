"""Look for planted faults afresh: for each, the first seed at which every property that it must break is broken.

    python -m tests.planted.search oracle --seeds 1..40 --only 01-safe-on-agreed
    python -m tests.planted.search evs --write         new seeds into the patches, after the source has changed
    python -m tests.planted.search evs --places 5..9   for a soak: each place is one fault at seeds of its own

Exits with 1 when a fault was not found.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.planted.harness import Command, Planted, copy_source, failures_of, planted_in, run_with, swarm_command

HERE = Path(__file__).parent
SEEDS = 300
SEEDS_AT_A_PLACE = {"corel": 5_000}  # where some faults show at one seed of several hundred; SEEDS elsewhere
STEP = 10  # seeds in one process

SWARMS: dict[str, Command] = {
    "oracle": swarm_command("--system", "evs", "--stack", "oracle", "--workers", "1"),
    "evs": swarm_command("--system", "evs", "--stack", "full", "--workers", "1"),
    "corel": swarm_command("--system", "corel", "--stack", "oracle", "--workers", "1"),
    "transport": swarm_command("--system", "evs", "--stack", "transport", "--workers", "1"),
    "isis": swarm_command("--system", "isis", "--stack", "oracle", "--workers", "1"),
    "toolkit": swarm_command("--system", "toolkit", "--stack", "isis", "--workers", "1"),
    "toolkit_evs": swarm_command("--system", "toolkit", "--stack", "evs", "--workers", "1"),
    "replicated": swarm_command("--system", "replicated", "--stack", "oracle", "--workers", "1"),
    "flows": swarm_command("--system", "flows", "--stack", "rings", "--workers", "1"),
    "hab": swarm_command("--system", "hab", "--stack", "consensus", "--workers", "1"),
    "detector": lambda planted, seeds: [sys.executable, str(HERE / "sleepers.py"), "--seeds", seeds],
}
"""By the directory of the patches."""


@dataclass(frozen=True)
class Hunt:
    """One fault, and the seeds at which it is looked for."""

    planted: Planted
    first: int
    last: int


def found_at(hunt: Hunt, command: Command) -> int | None:
    """The first seed that breaks all of its properties."""
    planted = hunt.planted
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        source = copy_source(Path(directory), planted.diff)
        for first in range(hunt.first, hunt.last + 1, STEP):
            seeds = f"{first}..{min(hunt.last, first + STEP - 1)}"
            broken = failures_of(run_with(source, command(planted, seeds)))
            for seed in sorted(broken):
                if set(planted.raises) <= broken[seed]:
                    return seed
    return None


def hunts_at(everything: list[Planted], first: int, last: int, seeds: int = SEEDS) -> Iterator[Hunt]:
    """For a soak: the faults take turns, and no two places have a seed in common."""
    for place in range(first, last + 1):
        yield Hunt(everything[place % len(everything)], place * seeds + 1, (place + 1) * seeds)


def write_seed(planted: Planted, seed: int) -> None:
    """Into the head of the patch."""
    text = planted.path.read_text()
    planted.path.write_text(re.sub(r"^Seed: .*$", f"Seed: {seed}", text, count=1, flags=re.MULTILINE))


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("..")
    return int(first), int(last or first)


def main() -> int:
    """Hunt, say what was found where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=sorted(SWARMS))
    parser.add_argument("--seeds", type=_range, default=(1, SEEDS))
    parser.add_argument("--places", type=_range, help="instead of seeds")
    parser.add_argument("--only", action="append", default=[], help="a fault by name; may be repeated")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    everything = [each for each in planted_in(HERE / options.which) if not options.only or each.name in options.only]
    hunts = [Hunt(planted, *options.seeds) for planted in everything]
    if options.places:
        hunts = list(hunts_at(everything, *options.places, SEEDS_AT_A_PLACE.get(options.which, SEEDS)))
    lost = 0
    for hunt in hunts:
        seed = found_at(hunt, SWARMS[options.which])
        lost += seed is None
        where = f"not in {hunt.first}..{hunt.last}" if seed is None else f"seed {seed}"
        print(f"{hunt.planted.name}: {where} ({', '.join(hunt.planted.raises)})", flush=True)
        if seed is not None and options.write:
            write_seed(hunt.planted, seed)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
