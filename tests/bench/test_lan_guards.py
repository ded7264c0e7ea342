"""The regression guard, the saturated soak's verdict, the record's verdict, the sampler, and what is said of them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from isotone.bench.lan import peers as peers_module
from isotone.bench.lan.peers import find_peers
from isotone.bench.lan.quick import QuickResult, QuickRow, calibration_round, compared, read_quick, write_quick
from isotone.bench.lan.recorded import Recorded, judge
from isotone.bench.lan.sampler import Sampler
from isotone.bench.lan.saturate import (
    DaemonSeen,
    GapSeen,
    Saturated,
    ViewSeen,
    count_exclusions,
    look,
    views_in,
    wrong_exclusions,
)
from isotone.bench.lan.spread import why_no_spread
from isotone.bench.measure import this_machine
from isotone.cli.bench_guards import quick_command, recorded_text, saturated_text
from isotone.core.errors import InputError

TRACES = Path(__file__).parents[1] / "traces"


def quick_result(rounds: float, variant: str = "base") -> QuickResult:
    row = QuickRow(variant=variant, size=64, cpu_us=rounds * 10, rounds=rounds)
    return QuickResult(machine=this_machine(), round_us=10.0, rows=[row])


def test_the_guard_warns_when_a_message_costs_more_rounds_of_the_loop() -> None:
    (same,) = compared(quick_result(0.6), quick_result(0.5))
    assert (same.change, same.warns) == (1.2, False)
    (worse,) = compared(quick_result(0.7), quick_result(0.5))
    assert (worse.change, worse.warns) == (1.4, True)
    assert compared(quick_result(0.7, "other"), quick_result(0.5)) == []
    assert calibration_round() == calibration_round() == sum(range(40))


def test_the_guard_compares_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results" / "quick.json"
    monkeypatch.setattr("isotone.cli.bench_guards.quick", lambda say: quick_result(0.9))
    with pytest.raises(InputError, match="--write"):
        CliRunner().invoke(quick_command, ["--baseline", str(path)], catch_exceptions=False)
    written = CliRunner().invoke(quick_command, ["--baseline", str(path), "--write"], standalone_mode=False)
    assert "written" in written.output
    assert read_quick(path) == quick_result(0.9)
    write_quick(quick_result(0.5), path)
    warned = CliRunner().invoke(quick_command, ["--baseline", str(path)], standalone_mode=False)
    assert (warned.output.startswith("warning: base 64 B"), warned.return_value) == (True, 0), "it warns and no more"
    strict = CliRunner().invoke(quick_command, ["--baseline", str(path), "--strict"], standalone_mode=False)
    assert strict.return_value == 1
    path.write_text("{}")
    with pytest.raises(InputError):
        read_quick(path)


def view(name: str, *members: str, at: float = 1000.0) -> ViewSeen:
    return ViewSeen(at, name, members)


def seen(name: str, gap_ms: float, *views: ViewSeen, at: float = 1001.0) -> DaemonSeen:
    return DaemonSeen(name=name, gaps=[GapSeen(at, gap_ms)], longest_gap_ms=gap_ms, views=list(views))


def trio(gap_ms: float, *views: ViewSeen, at: float = 1001.0) -> list[DaemonSeen]:
    """Of which the third had a gap."""
    alone = view("5!d3#1", "d3")
    return [seen("d1", 100.0, *views), seen("d2", 100.0, *views), seen("d3", gap_ms, alone, at=at)]


def test_only_a_daemon_that_was_there_is_excluded_wrongly() -> None:
    without = view("4!d1#1", "d1", "d2")
    assert wrong_exclusions(trio(100.0, view("4!d1#1", "d1", "d2", "d3"))[:2]) == 0
    assert wrong_exclusions(trio(501.0, without)) == 0, "it was away, and alone for a moment when it came back"
    assert wrong_exclusions(trio(499.0, without)) == 3, "it was there, and each side left the other out"
    lone = view("4!d1#1", "d1")
    assert wrong_exclusions([seen("d1", 100.0, lone), seen("d2", 100.0), seen("d3", 600.0)]) == 1


@pytest.mark.parametrize(("seen_at", "wrong"), [(990.0, 3), (996.0, 0), (1064.0, 0), (1066.0, 3)])
def test_a_gap_excuses_only_an_exclusion_near_it(seen_at: float, wrong: int) -> None:
    assert wrong_exclusions(trio(900.0, view("4!d1#1", "d1", "d2"), at=seen_at)) == wrong


def test_a_gap_counts_when_it_is_seen_first_and_not_if_it_was_there_before_the_soak() -> None:
    found = DaemonSeen(name="d1")
    for at, ms in ((0.0, 700.0), (1.0, 700.0), (2.0, 650.0), (3.0, 650.0), (4.0, 680.0)):
        found.tell(ms, at)
    assert found.gaps == [GapSeen(4.0, 680.0)], "at 2 it forgot one from before the soak and told another from then"
    found.tell(520.0, 70.0)
    assert found.gaps[-1] == GapSeen(70.0, 520.0), "a longer one hid it until it was forgotten"
    assert found.longest_gap_ms == 680.0


def test_a_wrong_exclusion_is_told() -> None:
    bad = Saturated(minutes=1.0, busy=0.99, messages=10, daemons=[seen("d2", 499.0)], wrong_exclusions=2)
    assert not bad.is_good
    assert "wrong exclusions: 2" in saturated_text(bad)
    assert "d2: longest gap between wake-ups 499 ms" in saturated_text(bad)


def status_of(*, gap_us: int, silence_us: int) -> dict[str, object]:
    peers = [{"timeouts": {"silence": {"us": silence_us}}}]
    return {"stack": {"peers": peers}, "counts": {"node": {"wake_gap_us_recent": gap_us}}}


def test_the_soak_sees_gaps_and_timeouts() -> None:
    told = iter(
        status_of(gap_us=gap, silence_us=us) for gap, us in ((160_000, 500_000), (160_000, 900_000), (170_000, 800_000))
    )

    class Running:
        def status(self, place: int) -> object:
            return next(told)

    found = DaemonSeen(name="d1")
    for at in range(3):
        look(Running(), 0, found, float(at))  # type: ignore[arg-type]
    assert found.gaps == [GapSeen(2.0, 70.0)], "beyond the tick of 100 ms"
    assert (found.silence_timeout_ms_least, found.silence_timeout_ms_most) == (500.0, 900.0)


def test_the_soak_finds_every_view_in_the_logs() -> None:
    log = """\
2026-01-01T00:00:01.455Z info    d1 a daemon view works view=4!d1#1 members=d1,d3 daemons=2
2026-01-01T00:00:01.455Z info    d1 a daemon is not in the daemon view daemon=d2
2026-01-01T00:00:01.955Z info    d1 a daemon view works view=5!d1#1 members=d1,d2,d3 daemons=3
"""
    one, other = (
        DaemonSeen(name="d1", views=views_in(log)),
        DaemonSeen(name="d2", views=[view("4!d2#1", "d2"), *views_in(log)[1:]]),
    )
    first, second = one.views
    assert (first.name, first.members, second.members) == ("4!d1#1", ("d1", "d3"), ("d1", "d2", "d3"))
    assert (first.at, round(second.at - first.at, 6)) == (1767225601.455, 0.5)
    count_exclusions([one, other])
    assert (one.excluded, other.excluded) == (1, 1), "each had a view without the other"


def test_a_record_with_a_gap_is_not_good() -> None:
    lossy = Recorded(
        seconds=1.0,
        messages=1,
        rate=1.0,
        rows=1,
        gaps=1,
        verdicts={"holds": 2, "not_judged": 1},
        violated=[],
        not_judged=["2.10"],
    )
    assert not lossy.is_good
    assert "not judged: 2.10" in recorded_text(lossy)


def test_the_record_of_a_broken_run_is_told() -> None:
    found = [judge(path, 1.0, 1.0) for path in sorted((TRACES / "2.1").rglob("*.jsonl"))]
    assert found
    assert any(each.violated for each in found)
    assert all(each.rows for each in found)
    assert all(each.is_good == (not each.violated and not each.not_judged and not each.gaps) for each in found)


def test_a_sampler_writes_where_the_time_went(tmp_path: Path) -> None:
    path = tmp_path / "profile"
    before = [signal.getsignal(number) for number in (signal.SIGPROF, signal.SIGUSR1, signal.SIGUSR2)]
    try:
        with Sampler(path):
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGPROF)
            os.kill(os.getpid(), signal.SIGUSR2)
    finally:
        for number, handler in zip((signal.SIGPROF, signal.SIGUSR1, signal.SIGUSR2), before):
            signal.signal(number, handler)
    told = json.loads(path.read_text())
    assert told["samples"] >= 1
    assert any(name.endswith("test_a_sampler_writes_where_the_time_went") for name in told["total"])


def test_peers_that_are_missing_are_said_and_not_an_error_unless_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers_module, "why_no_namespaces", lambda: "network namespaces need root")
    found = find_peers("auto", tmp_path)
    assert found.makers == {}
    assert found.paths == ("loopback",)
    assert any("needs root" in note or "need root" in note for note in found.notes)
    assert any(note.startswith("without spread: there is no") for note in found.notes)
    assert find_peers("none", None).makers == {}
    for wanted in ("corosync", "corosync-rt", "spread", "zookeeper"):
        with pytest.raises(InputError, match=wanted):
            find_peers(wanted, None)


def test_an_installation_of_spread_is_found_by_its_files(tmp_path: Path) -> None:
    assert "--spread-prefix" in why_no_spread(None)
    (tmp_path / "sbin").mkdir()
    (tmp_path / "sbin" / "spread").touch()
    assert "libspread.so" in why_no_spread(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libspread.so.3").touch()
    assert why_no_spread(tmp_path) == ""
