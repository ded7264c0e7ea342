"""Planted faults: apply a patch to a copy of the source, run it in a process of its own, expect a property to break.

A patch is a unified diff below `src/isotone`, with a head in plain lines:

    Fault: what is wrong, in one sentence.
    Raises: EVS-2.14.2, EVS-2.7
    Seed: 17
    Options: --size small

Every property under ``Raises`` must be violated at the seed. A patch that no longer applies, to the letter, is a
failure; only its lines may have moved. To look for seeds: `tests.planted.search`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
RUN_SECONDS_MAX = 300

Command = Callable[["Planted", str], list[str]]
"""The command that runs a system at these seeds (``first..last``) and prints the JSON object of a swarm."""


class PatchFailed(Exception):
    """The patch does not fit the source, or its head is not as it should be."""


@dataclass(frozen=True)
class Planted:
    """One fault."""

    path: Path
    fault: str
    raises: tuple[str, ...]
    seed: int
    options: tuple[str, ...]
    diff: str

    @property
    def name(self) -> str:
        return self.path.stem


def planted_in(directory: Path) -> list[Planted]:
    """All faults of a system, by name."""
    return [read_planted(path) for path in sorted(directory.glob("*.patch"))]


def read_planted(path: Path) -> Planted:
    """Read the head of a patch, and keep the diff as text."""
    head, mark, diff = path.read_text().partition("--- ")
    fields = dict(re.findall(r"^(Fault|Raises|Seed|Options): *(.*)$", head, re.MULTILINE))
    if not mark or not {"Fault", "Raises", "Seed"} <= fields.keys():
        raise PatchFailed(f"{path.name}: a planted fault says Fault, Raises and Seed above its diff")
    return Planted(
        path,
        fields["Fault"],
        tuple(re.split(r", *", fields["Raises"])),
        int(fields["Seed"]),
        tuple(fields.get("Options", "").split()),
        mark + diff,
    )


# --- patches -------------------------------------------------------------------------------------------------------


def apply_diff(diff: str, root: Path) -> None:
    """Apply a unified diff below this directory, without any fuzz."""
    parts = re.split(r"^--- (?:a/)?(\S+).*\n\+\+\+ .*\n", diff, flags=re.MULTILINE)
    for name, hunks in zip(parts[1::2], parts[2::2]):
        path = root / name
        if not path.is_file():
            raise PatchFailed(f"{name} is not there")
        lines = path.read_text().splitlines()
        path.write_text("\n".join(_patched(name, lines, hunks.splitlines())) + "\n")


def _patched(name: str, lines: list[str], text: list[str]) -> list[str]:
    out: list[str] = []
    cursor = 0
    for start, hunk in _hunks(text):
        old = [line[1:] for line in hunk if not line.startswith("+")]
        place = _place_of(name, lines, old, start)
        if place < cursor:
            raise PatchFailed(f"{name}: hunks out of order")
        out += lines[cursor:place]
        out += [line[1:] for line in hunk if not line.startswith("-")]
        cursor = place + len(old)
    return out + lines[cursor:]


def _hunks(text: list[str]) -> list[tuple[int, list[str]]]:
    """Where each begins by the diff's own word, and its lines."""
    found: list[tuple[int, list[str]]] = []
    for line in text:
        header = re.match(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@", line)
        if header:
            found.append((int(header[1]) - 1, []))
        elif found and (not line or line[0] in " +-"):
            found[-1][1].append(line)
    return found


def _place_of(name: str, lines: list[str], old: list[str], start: int) -> int:
    """Where it says so; or elsewhere, if the same lines stand in one place only: the source around it may grow."""
    if lines[start : start + len(old)] == old:
        return start
    places = [place for place in range(len(lines)) if lines[place : place + len(old)] == old]
    if len(places) != 1:
        raise PatchFailed(f"{name}: {len(places)} places say {old!r}, and not line {start + 1}")
    return places[0]


def copy_source(destination: Path, diff: str) -> Path:
    """The source tree with the fault in it, the rest of it linked; returns the directory for the path of imports."""
    source = destination / "src"
    changed = [destination / name for name in re.findall(r"^--- (?:a/)?(\S+)", diff, re.MULTILINE)]
    _copy(SOURCE, source, changed)
    apply_diff(diff, destination)
    return source


def _copy(original: Path, copy: Path, changed: Sequence[Path]) -> None:
    """What is changed as files, the directories above it as directories, all else as links: a copy is dear."""
    if copy in changed:
        shutil.copyfile(original, copy)
    elif any(copy in path.parents for path in changed):
        copy.mkdir()
        for each in original.iterdir():
            _copy(each, copy / each.name, changed)
    else:
        copy.symlink_to(original)


# --- runs ----------------------------------------------------------------------------------------------------------


def swarm_command(*fixed: str) -> Command:
    """The swarm with these options (``--system``, ``--stack``), and those of the patch."""

    def command(planted: Planted, seeds: str) -> list[str]:
        swarm = [sys.executable, "-m", "isotone.cli", "sim", "swarm", "--seeds", seeds, "--json"]
        return [*swarm, *fixed, *planted.options]

    return command


def violated_at(planted: Planted, command: Command, seeds: str = "") -> dict[str, int]:
    """Run the fault and count the runs in which each property was violated."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        source = copy_source(Path(directory), planted.diff)
        result = run_with(source, command(planted, seeds or f"{planted.seed}..{planted.seed}"))
    return {id: counts["violated"] for id, counts in result["properties"].items() if counts["violated"]}


def failures_of(result: dict[str, Any]) -> dict[int, set[str]]:
    """The properties that each run of a swarm violated, by seed."""
    found: dict[int, set[str]] = {}
    for failure in result["failures"]:
        found.setdefault(failure["seed"], set()).add(failure["property"])
    return found


def run_with(source: Path, command: Sequence[str]) -> dict[str, Any]:
    """Run a command on this source tree; it may end with 0 or 1, and prints one JSON object."""
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command,
        env=environment,
        cwd=source.parent,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode in (0, 1), f"{command} ended with {done.returncode}:\n{done.stderr}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def missed(planted: Planted, command: Command) -> set[str]:
    """The properties that the fault should have broken at its seed and did not."""
    return set(planted.raises) - violated_at(planted, command).keys()
