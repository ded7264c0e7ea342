"""Which results are older than the code that they judge; and with --run, those results again.

Each file in results/ names the commit that it judged. `JUDGED` says which parts of the source it judges and how to make
it again. A result is stale when a commit after its own changed one of those parts.
Exit codes: 0 nothing is stale (with --run: all were made again and are good), 1 something is (with --run: a verdict is
bad), 2 wrong usage, 3 a command failed.
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
UPPER = tuple(f"src/isotone/{package}" for package in ("isis", "hab", "flows", "replicated"))
FLOWS = ("src/isotone/flows", "src/isotone/sim/flows", "src/isotone/spec/check/flows")
CHECKS = ("src/isotone/spec",)
DAEMON = tuple(f"src/isotone/{package}" for package in ("evs", "daemon", "client"))


@dataclass(frozen=True)
class Evidence:
    """A result: what it judges, the command that makes it, and about how many minutes that takes.

    The command prints the result, or writes it to `{out}`. Without a command it is made by hand, as its head says.
    """

    name: str
    judges: tuple[str, ...]
    command: str
    minutes: int


def swarm(arguments: str) -> str:
    """A swarm, as its result has it."""
    return f"isotone sim swarm {arguments} --workers 2"


def figure(name: str, of: str, minutes: int) -> Evidence:
    """A figure of the simulator."""
    return Evidence(f"{name}.txt", STACK, f"isotone sim figure {of}", minutes)


def bench(name: str, judges: tuple[str, ...], minutes: int) -> Evidence:
    """A measurement that writes its own file."""
    return Evidence(f"bench-{name}.txt", judges, f"python -m isotone.bench {name} --out {{out}}", minutes)


JUDGED = (
    Evidence("swarm-full.txt", STACK, swarm("--stack full --faults all --seeds 1..5000"), 90),
    Evidence("swarm-transport.txt", STACK, swarm("--stack transport --faults all --seeds 1..2000"), 20),
    Evidence("foundation-swarm.txt", STACK, swarm("--stack oracle --seeds 1..2000"), 15),
    Evidence("swarm-corel-oracle.txt", COREL, swarm("--system corel --stack oracle --seeds 1..2000"), 40),
    Evidence("swarm-corel-full.txt", COREL, swarm("--system corel --stack full --seeds 1..2000"), 90),
    Evidence("swarm-hab.txt", (*COREL, "src/isotone/hab"), "", 60),
    Evidence("isis-bounded.txt", ("src/isotone/isis",), "python -m isotone.bench.isis --broadcasts 1000000", 4),
    Evidence("isis-cost.txt", ("src/isotone/isis",), "python -m isotone.bench.isis --each 100", 2),
    Evidence("swarm-toolkit.txt", (*STACK, "src/isotone/isis"), "", 8),
    Evidence("swarm-upper-systems.txt", (*COREL, *UPPER), "", 60),
    Evidence(
        "mutants-evs.txt", ("src/isotone/evs",), "python tools/mutants.py --package evs --count 100 --seed 3", 180
    ),
    Evidence(
        "mutants-corel.txt", ("src/isotone/corel",), "python tools/mutants.py --package corel --count 100 --seed 1", 120
    ),
    figure("figure-4.1", "spread-table-4.1", 2),
    figure("figure-4.2", "spread-table-4.2", 2),
    figure("figure-4.5", "spread-figure-4.5", 2),
    figure("figure-5.1", "spread-table-5.1", 3),
    figure("figure-5.4", "spread-figure-5.4", 3),
    figure("latency-beside-bulk", "latency-beside-bulk", 2),
    figure("ring-acceleration", "ring-acceleration", 3),
    Evidence("membership-scale.txt", STACK, "", 20),
    Evidence("flows-figures.txt", FLOWS, "", 60),
    Evidence("flows-rollout.txt", FLOWS, "python -m tests.flows.rollout_kills --seconds 600", 11),
    Evidence("flows-token-cost.txt", FLOWS, "isotone sim figure flows-token-cost --probes 2000", 1),
    Evidence("corruptions.txt", CHECKS, "", 600),
    Evidence("foundation-mutation.txt", CHECKS, "python -m tests.spec.mutation --seeds 1..60 --per-kind 4", 20),
    Evidence("plain-speed.txt", (*CHECKS, "src/isotone/trace"), "", 10),
    Evidence("pipeline-differential.txt", (*CHECKS, "src/isotone/pipeline"), "", 120),
    Evidence("pipeline-sweep.txt", ("src/isotone/pipeline",), "", 20),
    Evidence("pipeline-kills.txt", ("src/isotone/pipeline",), "", 10),
    Evidence("soak-pipeline.txt", ("src/isotone/pipeline", "tools"), "", 10),
    Evidence("foundation-codec.txt", ("src/isotone/core",), "", 20),
    Evidence("spread-fuzz.txt", ("src/isotone/daemon/spread",), "", 10),
    Evidence("archive-object-store.txt", ("src/isotone/replicated/archive", "src/isotone/pipeline/log"), "", 2),
    Evidence("replica-kills.txt", ("src/isotone/corel", "src/isotone/host"), "", 60),
    Evidence(
        "centre-disasters.txt",
        ("src/isotone/corel", "src/isotone/hab", "src/isotone/host"),
        "python -m tests.integration.test_centre_kills --kills 20 --out {out}",
        10,
    ),
    Evidence("bench-pipeline.txt", (*CHECKS, "src/isotone/pipeline"), "", 60),
    bench("clients", DAEMON, 10),
    bench("membership", DAEMON, 10),
    bench("replica", (*DAEMON, "src/isotone/corel", "src/isotone/host"), 60),
    bench("ring", DAEMON, 2),
    Evidence("foundation-bench.txt", STACK, "python -m isotone.bench foundation --out {out}", 10),
    Evidence("bench-lan.txt", DAEMON, "", 60),
    Evidence("figure-3.4.txt", DAEMON, "", 60),
    Evidence("figure-3.5.txt", DAEMON, "", 60),
    Evidence("bench-recorded.txt", DAEMON, "", 5),
    Evidence("bench-profile.txt", DAEMON, "", 5),
    Evidence("demo.txt", ("src/isotone/cli", "src/isotone/pipeline", "Makefile", "tools"), "", 5),
    Evidence("startup.txt", ("src/isotone/__init__.py", "src/isotone/client", "src/isotone/cli/main.py"), "", 2),
    Evidence("first-hour.txt", ("README.md", "docs/guide", "src/isotone/cli", "src/isotone/client"), "", 120),
    Evidence("fresh-machine.txt", ("Makefile", "tools", "pyproject.toml"), "", 60),
)
STALE_HEADING = "## Older than the code they judge"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="make the stale ones again, the longest first")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this result; may be repeated")
    parser.add_argument("--note", action="store_true", help="write the list of stale results into results/README.md")
    arguments = parser.parse_args()
    known = [each.name for each in JUDGED]
    for name in arguments.only or ():
        if name not in known:
            parser.error(f"no result {name!r}; there are: {', '.join(known)}")  # exits with 2
    chosen = [each for each in JUDGED if not arguments.only or each.name in arguments.only]
    stale = {each: why for each in chosen if (why := why_stale(each))}
    for each in chosen:
        print(f"{each.name:<26}{stale.get(each, 'is of the present code')}", flush=True)
    if arguments.note:
        note({each: why_stale(each) for each in JUDGED})
    if not arguments.run:
        return 1 if stale else 0
    by_hand = [each.name for each in stale if not each.command]
    if by_hand:
        print(f"made by hand, as their heads say: {', '.join(by_hand)}", flush=True)
    codes = [make_again(each) for each in sorted(stale, key=lambda each: -each.minutes) if each.command]
    return max(codes, default=0)


def note(reasons: dict[Evidence, str]) -> None:
    """Put the list of stale results at the end of the README of results, in place of the old list."""
    path = RESULTS / "README.md"
    before = path.read_text(encoding="utf-8").split(STALE_HEADING)[0].rstrip()
    rows = [f"- [{each.name}]({each.name}) {why}" for each, why in reasons.items() if why]
    path.write_text("\n".join([before, "", STALE_HEADING, "", *(rows or ["None."]), ""]), encoding="utf-8")


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


def make_again(evidence: Evidence) -> int:
    """Run its command: 0; 1 for a bad verdict, which is a result too; 3 if the command failed and the old one stays."""
    print(f"{evidence.name}: {evidence.command} (about {evidence.minutes} minutes)", flush=True)
    path = RESULTS / f"{evidence.name}.new"
    words = shlex.split(evidence.command.format(out=path))
    program = (
        [sys.executable, *words[1:]] if words[0] == "python" else [sys.executable, "-m", "isotone.cli", *words[1:]]
    )
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(
            f"{evidence.name}: ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}",
            file=sys.stderr,
        )
    if done.returncode not in (0, 1) or not (path.exists() or done.stdout):
        path.unlink(missing_ok=True)
        return 3
    if not path.exists():
        commit = git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*") or "unknown"
        head = f"# {evidence.command}\n# commit {commit}\n\n"
        path.write_text(head + done.stdout, encoding="utf-8")
    path.replace(RESULTS / evidence.name)
    return done.returncode


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
