"""``isotone demo``: real daemons, the bank's story, the verdicts, and that nothing is left behind."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from isotone.cli import pipeline_demo
from isotone.cli.demo import MARK, prepared
from isotone.cli.demo_bank import ARCHIVE, TOGETHER, archived, described
from isotone.cli.demo_break import BUGS, GROUP, Bug
from isotone.cli.demo_record import Verdicts
from isotone.cli.demo_screen import Desk, Screen, Standing
from isotone.cli.demo_story import RUSH
from isotone.cli.main import commands
from isotone.cli.output import results
from isotone.cli.pipeline_demo import NoReportError
from isotone.client import View
from isotone.core.boundary import Indicate, Message
from isotone.core.bundles import Bundle
from isotone.core.contract import Action
from isotone.core.ids import NO_STAMP, ClientId, DaemonId, DaemonViewId, GroupViewId
from isotone.core.services import Service
from isotone.core.views import Cause
from isotone.replicated.archive.segments import entries_of
from isotone.replicated.archive.store import Archive
from isotone.replicated.database.change_log import FOLDER, decode_changes
from isotone.replicated.database.changes import RowChange
from isotone.sim.summary import Failure, Summary

WITHIN_S = 120.0
COMMAND = [sys.executable, "-m", "isotone.cli", "demo", "--no-report", "--directory"]


def processes_of(directory: Path) -> list[str]:
    """Command lines of daemons with their settings there."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # it ended meanwhile
            line = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(directory / "isotone.toml") in line:
                found.append(line)
    return found


def test_the_demo_tells_its_story_and_finds_no_violation(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    done = subprocess.run([*COMMAND, str(home)], capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b[" not in done.stdout, "no colours without a terminal"
    for service in ("unreliable", "reliable", "fifo", "causal", "agreed", "safe"):
        assert f"({service})" in done.stdout
    assert "Views of the daemons over" in done.stdout, "the picture"
    for mark in ("SIGKILL", "cut off", "healed", "started again", "is back with a new session", "no violation"):
        assert mark in done.stdout
    told = [re.sub(r"^ *[0-9.]+ s  ", "", line) for line in done.stdout.splitlines()]
    for name, daemon in (("alice", "d1"), ("carol", "d5")):
        views = [line.partition("view    ")[2] for line in told if line.startswith(f"{name:<6}at {daemon}  view")]
        # A daemon that the machine starves has views in between; these come in this order all the same.
        later = iter(view.partition(" (by")[0] for view in views)
        for members in ("alice, bob, carol", "alice, carol", name, "alice, carol", "alice, bob, carol"):
            assert members in later, f"{name} had no view of {members} in its place: {views}"
    for line in ("bob answers 'alice asks'", "into the cut, safe of alice", "settled.jsonl"):
        assert line in done.stdout
    for label in (
        "EVS-2.12.2",
        "EVS-2.15",
        "EVS-2.16",
        "EVS-2.17",
        "EVS-2.13.2@S",
        "EVS-2.15@S",
        "EVS-2.17@S",
        "EVS-2.22",
    ):
        (row,) = (line for line in done.stdout.splitlines() if line.split()[:1] == [label])
        assert row.split()[-4:] == ["1", "0", "0", "0"], "it holds"
    for label in ("COR-GREEN", "COR-AGREED", "COR-SAME", "COR-ONE", "COR-LIVE", "COR-SYNCED"):
        (row,) = (line for line in done.stdout.splitlines() if line.split()[:1] == [label])
        assert row.split()[-4:] == ["1", "0", "0", "0"], "it holds"
    _look_at_the_bank(home, told)
    assert not processes_of(home)


def _look_at_the_bank(home: Path, told: list[str]) -> None:
    """What its tellers were told, and what it left for Spark."""
    (minority,) = (line for line in told if line.startswith("carol in s3  bank    maybe: "))
    assert "No quorum: d5 is here" in minority
    assert "carol in s3  bank    3 transfers: 3 maybe" in told
    assert any(line.startswith("carol in s3  bank    of 3 maybe: ") for line in told), "known when the cut was healed"
    accounts = [line for line in told if line.startswith("-- the accounts, as alice, bob, carol read them")]
    assert len(accounts) == 4 and all(line.endswith(f"together {TOGETHER}") for line in accounts)
    read = archived(home)
    assert described(read) in accounts[-1]
    log, changes = (Archive(home / place) for place in (ARCHIVE, f"{ARCHIVE}/{FOLDER}"))
    assert log.listing().end == changes.listing().end > 4 * RUSH
    assert log.verify() == changes.verify() == []
    total = 0
    for segment in changes.listing().segments:
        for entry in entries_of(changes.read(segment)):
            if (found := decode_changes(entry.record)) is not None:
                rows = [row for row in found.changes if isinstance(row, RowChange)]
                total += sum(sign * (0 if row is None else int(row[1])) for each in rows
                             for sign, row in ((1, each.new), (-1, each.old)))  # fmt: skip
                assert total == TOGETHER, f"at position {entry.position}"
    assert total == TOGETHER


def test_money_that_is_made_or_lost_on_spark_is_named() -> None:
    """Where it is right is a test on Spark."""
    accounts = {"anna": 100, "ben": 100, "chloe": 100}
    for totals, read, told in (
        ([(3, 300), (5, 301), (9, 300)], accounts, "WRONG: 301 at position 5"),
        ([(3, 300)], accounts | {"ben": 99}, "WRONG: the tellers read anna 100, ben 99, chloe 100; together 299"),
    ):
        found = pipeline_demo.counted(totals, accounts, read)
        assert not found.is_right
        assert found.told.endswith(told)


def test_a_planted_bug_is_found_and_the_message_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "demo"
    command = [*COMMAND, str(home), "--break", "swap"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"daemon d1 has a bug: of the first AGREED message, {BUGS['swap']}" in done.stdout
    (row,) = {line for line in done.stdout.splitlines() if line.split()[:1] == ["EVS-2.13.2"] and line[-1] == "0"}
    assert row.split()[-4:] == ["0", "1", "0", "0"], "two messages in two orders"
    witness = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("    {")]
    assert "d1" in {each["node"] for each in witness if each["kind"] == "deliver"}
    assert "AGREED" in {each["service"] for each in witness if each["kind"] == "deliver"}

    def without_spark(directory: Path) -> None:
        raise NoReportError(f"nothing judges {directory.name}")

    monkeypatch.setattr(pipeline_demo, "judge_on_spark", without_spark)
    report = CliRunner().invoke(commands, ["demo", "--directory", str(home), "--break", "swap", "--only-report"])
    assert "no report: nothing judges demo" in report.stdout, "a violation does not keep the report from being tried"
    assert report.exit_code == 1


@pytest.mark.parametrize(("bug", "told"), [("lose", "bbc"), ("double", "baabc"), ("swap", "bbca")])
def test_a_bug_touches_the_first_agreed_message_alone(bug: str, told: str) -> None:
    def action(name: str) -> Action:
        service = Service.AGREED if name in "acx" else Service.RELIABLE
        sender = ClientId(DaemonId("d1", 1), name, 1)
        groups = ("bank",) if name == "x" else (GROUP,)
        return Indicate((sender,), Message(Bundle(sender, 1, service, groups, (0,), (0,), b""), NO_STAMP))

    spoil = Bug(bug).spoil
    found = [*spoil([action("x"), action("b"), action("a")]), *spoil([action("b")]), *spoil([action("c")])]
    assert "".join(each.indication.bundle.sender.name for each in found) == "x" + told  # type: ignore[attr-defined]


def test_an_interrupted_demo_leaves_no_daemon(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    running = subprocess.Popen([*COMMAND, str(home)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    try:
        heard = next((line for line in running.stdout if "hears" in line), "")
        assert heard
        assert processes_of(home), "of five, but by now the story may have killed one"
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=WITHIN_S)
        assert running.returncode == 130, errors
    finally:
        running.kill()
        running.wait()
        running.stdout.close()
    assert not processes_of(home)


def test_a_directory_with_other_things_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "identity").write_text("mine")
    (tmp_path / "isotone.toml").write_text("")
    result = CliRunner().invoke(commands, ["demo", "--only-report", "--directory", str(tmp_path)])
    assert (result.exit_code, result.stderr) == (2, f"isotone: {tmp_path} has no demo to report of\n")
    result = CliRunner().invoke(commands, ["demo", "--directory", str(tmp_path)])
    assert result.exit_code == 2
    assert (tmp_path / "state" / "identity").read_text() == "mine"


def test_what_an_earlier_demo_left_is_cleared(tmp_path: Path) -> None:
    home = prepared(tmp_path / "demo")
    for name in ("state", "trace"):
        (home / name).mkdir()
    (home / "d1.log").write_text("old")
    (home / "settled.jsonl").write_text("old")
    assert [path.name for path in prepared(home).iterdir()] == [MARK]


def summary_of(**verdicts: str) -> Summary:
    states = ("holds", "violated", "not_exercised", "not_judged")
    counts = {label: {state: int(state == verdict) for state in states} for label, verdict in verdicts.items()}
    failures = tuple(Failure(None, label, "", (), "") for label, verdict in verdicts.items() if verdict == "violated")
    return Summary(1, len(failures), counts, failures, {})


def test_two_judgements_make_one() -> None:
    """What was not put to the test in one may have been in the other; what is wrong in either is wrong."""
    whole = summary_of(a="holds", b="not_exercised", c="holds", d="not_judged", e="not_exercised")
    settled = summary_of(a="not_exercised", b="holds", c="violated", d="holds", e="not_exercised")
    both = Verdicts(whole, settled).both
    assert (both.runs, both.violations, both.exit_code) == (1, 1, 1)
    assert {
        label: [state for state, count in counts.items() if count] for label, counts in both.properties.items()
    } == {
        "a": ["holds"],
        "b": ["holds"],
        "c": ["violated"],
        "d": ["not_judged"],
        "e": ["not_exercised"],
    }


class Terminal(io.StringIO):
    """Somebody looks."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_table_stands_below_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    alice = ClientId(DaemonId("d1", 1), "alice", 1)
    with Screen(results()) as screen:
        standing = Standing("alice", "d1", "s1")
        screen.introduce(standing)
        screen.open_desk(Desk("alice", "s1"))
        screen.say("something happens")
        screen.tell(standing, View("story", GroupViewId(DaemonViewId(1, alice.daemon)), (alice,), (alice,), Cause.JOIN))
    shown = terminal.getvalue()
    assert "something happens" in shown
    assert "last message" in shown, "the table"
    assert "the bank, as each teller has it" in shown and "together" in shown
    assert "view    alice (by join)" in shown


@pytest.mark.parametrize("seed", ["1", "7"])
def test_the_simulated_demo_as_json_is_one_object(seed: str) -> None:
    found = json.loads(CliRunner().invoke(commands, ["demo", "--simulated", "--seed", seed, "--json"]).stdout)
    assert (found["runs"], found["violations"]) == (1, 0)
