"""Which results are older than the code that they judge; and with --run, those results again.

Each file in results/ names the commit that it judged. `JUDGED` says which parts of the source it judges and how to make
it again. A result is stale when a commit after its own changed one of those parts.
Exit codes: 0 nothing is stale (with --run: all were made again), 1 something is, 2 wrong usage, 3 a command failed.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
COMMIT = re.compile(r"\bcommit ([0-9a-f]{7,40})")
HEAD_LINES = 4
STACK = ("src/isotone/core", "src/isotone/detector", "src/isotone/evs", "src/isotone/sim", "src/isotone/spec")
COREL = (*STACK, "src/isotone/corel")


@dataclass(frozen=True)
class Evidence:
    """A result: what it judges, the command that makes it on standard output, and about how long that takes."""

    name: str
    judges: tuple[str, ...]
    command: str
    minutes: int


def swarm(arguments: str) -> str:
    """A swarm, as its result has it."""
    return f"isotone sim swarm {arguments} --workers 2"


JUDGED = (
    Evidence("swarm-full.txt", STACK, swarm("--stack full --faults all --seeds 1..5000"), 90),
    Evidence("swarm-transport.txt", STACK, swarm("--stack transport --faults all --seeds 1..2000"), 20),
    Evidence("foundation-swarm.txt", STACK, swarm("--stack oracle --seeds 1..2000"), 15),
    Evidence("swarm-corel-oracle.txt", COREL, swarm("--system corel --stack oracle --seeds 1..2000"), 40),
    Evidence("swarm-corel-full.txt", COREL, swarm("--system corel --stack full --seeds 1..2000"), 90),
    Evidence(
        "mutants-evs.txt", ("src/isotone/evs",), "python tools/mutants.py --package evs --count 100 --seed 3", 180
    ),
    Evidence(
        "mutants-corel.txt", ("src/isotone/corel",), "python tools/mutants.py --package corel --count 100 --seed 1", 120
    ),
    Evidence("figure-4.1.txt", STACK, "isotone sim figure spread-table-4.1", 2),
    Evidence("figure-4.2.txt", STACK, "isotone sim figure spread-table-4.2", 2),
    Evidence("figure-4.5.txt", STACK, "isotone sim figure spread-figure-4.5", 2),
    Evidence("figure-5.1.txt", STACK, "isotone sim figure spread-table-5.1", 3),
    Evidence("figure-5.4.txt", STACK, "isotone sim figure spread-figure-5.4", 3),
    Evidence("latency-beside-bulk.txt", STACK, "isotone sim figure latency-beside-bulk", 2),
    Evidence("ring-acceleration.txt", STACK, "isotone sim figure ring-acceleration", 3),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="make the stale ones again, the longest first")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this result; may be repeated")
    arguments = parser.parse_args()
    known = [each.name for each in JUDGED]
    for name in arguments.only or ():
        if name not in known:
            parser.error(f"no result {name!r}; there are: {', '.join(known)}")  # exits with 2
    chosen = [each for each in JUDGED if not arguments.only or each.name in arguments.only]
    stale = {each: why for each in chosen if (why := why_stale(each))}
    for each in chosen:
        print(f"{each.name:<26}{stale.get(each, 'is of the present code')}", flush=True)
    if not arguments.run:
        return 1 if stale else 0
    for each in sorted(stale, key=lambda each: -each.minutes):
        if not make_again(each):
            return 3
    return 0


def why_stale(evidence: Evidence) -> str:
    """Empty if it is not: else how many commits changed what it judges since."""
    path = RESULTS / evidence.name
    if not path.is_file():
        return "is not there"
    commit = commit_of(path)
    if not commit:
        return "names no commit"
    if git("cat-file", "-e", commit) is None:
        return f"judged {commit}, which this repository does not have"
    changes = (git("log", "--format=%h", f"{commit}..HEAD", "--", *evidence.judges) or "").split()
    return f"is older than {len(changes)} commits to what it judges, since {commit}" if changes else ""


def commit_of(path: Path) -> str:
    """The commit that a result names near its head."""
    head = path.read_text(encoding="utf-8").splitlines()[:HEAD_LINES]
    found = COMMIT.search("\n".join(head))
    return found[1] if found else ""


def make_again(evidence: Evidence) -> bool:
    """Run its command; the result replaces the old one only when it ends well. What is done stays done."""
    print(f"{evidence.name}: {evidence.command} (about {evidence.minutes} minutes)", flush=True)
    words = shlex.split(evidence.command)
    program = (
        [sys.executable, *words[1:]] if words[0] == "python" else [sys.executable, "-m", "isotone.cli", *words[1:]]
    )
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(
            f"{evidence.name}: ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}",
            file=sys.stderr,
        )
        return False
    commit = git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*") or "unknown"
    head = f"# {evidence.command}\n# commit {commit}\n\n"
    (RESULTS / evidence.name).write_text(head + done.stdout, encoding="utf-8")
    return True


def git(*arguments: str) -> str | None:
    """What git says; None if it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError as error:
        print(f"isotone: git cannot be started: {error}", file=sys.stderr)
        raise SystemExit(3) from error
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
