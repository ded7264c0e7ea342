"""A run: interleaved, kept after every cell, resumed where it stopped, and ended by a broken order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from isotone.bench.lan import run as run_module
from isotone.bench.lan.cells import Cell, Cluster
from isotone.bench.lan.jobs import Outcome
from isotone.bench.lan.measuring import Effort, Sample, Snapshot, check_outcomes, sample_of
from isotone.bench.lan.run import Measured, Run, check_same, new_measured, read_measured, write_measured
from isotone.bench.lan.steps import Step, steps_of
from isotone.bench.lan.traffic import OrderBroken
from isotone.core.errors import InputError, MachineError

BASE = Cell()
SAFE = Cell(variant="safe", service="safe")
OFFERED = Cell(variant="offered-groups-10", groups=10, share=0.1)
PEER = Cell(system="peer")
SAMPLE = Sample(rate=1000.0, cpu_us_daemons=2.0, cpu_us_clients=1.0, messages=10)


class Daemons:
    """A cluster that only notes what happens to it."""

    def __init__(self, cluster: Cluster, network: object, log: list[str], fails: str) -> None:
        self.cluster, self.network, self._log, self._fails = cluster, network, log, fails

    def start(self) -> None:
        self._log.append(f"start {self.cluster.system}")
        if self.cluster.system == self._fails:
            raise MachineError("no daemon listens")

    def stop(self) -> None:
        self._log.append(f"stop {self.cluster.system}")


class Bench:
    """A run without any daemon: what is measured is a list of keys."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.log: list[str] = []
        self.kept: list[int] = []
        self.fails: dict[str, Exception] = {}
        self.path = path
        self.starts_badly = ""
        monkeypatch.setattr(run_module, "measure", self._measure)

    def _measure(self, cell: Cell, running: Daemons, effort: Effort) -> tuple[Sample, list[Outcome]]:
        self.log.append(f"{cell.key} {cell.rate:g}" if cell.rate else cell.key)
        if cell.key in self.fails:
            raise self.fails.pop(cell.key)
        return SAMPLE, []

    def run(self, cells: list[Cell], measured: Measured, repetitions: int, steps: tuple[Step, ...] = ()) -> Run:
        maker: Any = lambda cluster, network: Daemons(cluster, network, self.log, self.starts_badly)  # noqa: E731
        made = Run(
            cells,
            measured,
            repetitions=repetitions,
            effort=Effort(),
            say=lambda note: None,
            keep=self._keep,
            peers={"isotone": maker, "peer": maker},
            steps=steps,
        )
        made.carry_out()
        return made

    def _keep(self, measured: Measured) -> None:
        self.kept.append(sum(map(len, measured.samples.values())))
        write_measured(measured, self.path)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    return Bench(monkeypatch, tmp_path / "lan.json")


def test_systems_are_interleaved_repetition_by_repetition(bench: Bench) -> None:
    bench.run([BASE, PEER, SAFE], new_measured(""), 2)
    once = ["start isotone", BASE.key, SAFE.key, "stop isotone", "start peer", PEER.key, "stop peer"]
    assert bench.log == once * 2
    assert bench.kept == [1, 2, 3, 4, 5, 6], "every cell is kept at once"


def test_a_run_goes_on_where_it_stopped(bench: Bench) -> None:
    bench.fails[PEER.key] = KeyboardInterrupt()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        bench.run([BASE, PEER], new_measured("isotone bench lan"), 2)
    assert bench.log[-1] == "stop peer", "daemons are ended on an interrupt"
    found = read_measured(bench.path)
    bench.log.clear()
    bench.run([BASE, PEER], found, 2)
    assert [line for line in bench.log if "/" in line] == [PEER.key, BASE.key, PEER.key]
    assert {key: [*samples] for key, samples in found.samples.items()} == {BASE.key: [0, 1], PEER.key: [0, 1]}
    assert found.command == "isotone bench lan"


def test_what_cannot_be_measured_is_a_note_and_the_rest_gets_new_daemons(bench: Bench) -> None:
    bench.fails[BASE.key] = MachineError("a daemon died\nand said much")
    measured = new_measured("")
    bench.run([BASE, SAFE], measured, 1)
    assert bench.log == ["start isotone", BASE.key, "stop isotone", "start isotone", SAFE.key, "stop isotone"]
    assert measured.notes == [f"{BASE.key}: a daemon died"]


def test_a_repetition_that_failed_leaves_its_place_empty_and_is_made_good_by_a_resumed_run(bench: Bench) -> None:
    bench.fails[BASE.key] = MachineError("a client died")
    measured = new_measured("")
    bench.run([BASE, SAFE], measured, 2)
    assert {key: [*samples] for key, samples in measured.samples.items()} == {SAFE.key: [0, 1], BASE.key: [1]}
    bench.log.clear()
    bench.run([BASE, SAFE], read_measured(bench.path), 2)
    assert [line for line in bench.log if "/" in line] == [BASE.key]


def test_only_a_run_that_is_alike_is_resumed() -> None:
    now = new_measured("", seconds_each=1.5, peers={"corosync": "3.1.7"})
    check_same(now, new_measured("other", seconds_each=1.5, peers={"corosync": "3.1.7"}))
    with pytest.raises(InputError, match="seconds"):
        check_same(new_measured("", seconds_each=2.0, peers=now.peers), now)
    for peers in ({}, {"corosync": "3.1.8"}, {"corosync": "3.1.7", "spread": "5.0.1"}):
        with pytest.raises(InputError, match="peers"):
            check_same(new_measured("", seconds_each=1.5, peers=peers), now)
    other = msgspec.structs.replace(now, machine=msgspec.structs.replace(now.machine, commit="abc"))
    with pytest.raises(InputError, match="commit: abc"):
        check_same(other, now)


def test_daemons_that_do_not_start_are_a_note_and_others_are_measured(bench: Bench) -> None:
    bench.starts_badly = "isotone"
    measured = new_measured("")
    bench.run([BASE, PEER], measured, 1)
    assert measured.notes == ["isotone, 3 daemons, loopback: no daemon listens"]
    assert list(measured.samples) == [PEER.key]


def test_a_broken_order_ends_the_run(bench: Bench) -> None:
    bench.fails[BASE.key] = OrderBroken("member 2 heard another order")
    with pytest.raises(OrderBroken):
        bench.run([BASE, SAFE], new_measured(""), 1)
    assert bench.log[-1] == "stop isotone"


def test_an_offered_rate_is_a_part_of_the_first_base_case(bench: Bench) -> None:
    bench.run([BASE, OFFERED], new_measured(""), 1)
    assert f"{OFFERED.key} 100" in bench.log


def test_a_share_without_its_base_case_is_a_note(bench: Bench) -> None:
    measured = new_measured("")
    bench.run([OFFERED], measured, 1)
    assert "needs the base case" in measured.notes[0]


def test_steps_are_taken_behind_the_rows_of_each_repetition(bench: Bench) -> None:
    def take(running: Any, capacities: dict[str, float]) -> dict[str, float]:
        bench.log.append("step")
        return {"ms": capacities[BASE.key]}

    steps = (Step("kill", BASE.cluster, take, (BASE.key,)), Step("never", BASE.cluster, take, ("missing",)))
    measured = new_measured("")
    bench.run([BASE], measured, 2, steps)
    assert [line for line in bench.log if not line.startswith("st") or line == "step"] == [BASE.key, "step"] * 2
    assert measured.figures == {"kill": {0: {"ms": 1000.0}, 1: {"ms": 1000.0}}}


def test_the_steps_of_a_system_are_latencies_and_changes() -> None:
    packed = Cell(system="corosync", path="bridge", packing=8192)
    cells = [BASE, SAFE, Cell(path="bridge"), Cell(system="corosync", path="bridge"), packed]
    names = [step.name for step in steps_of(cells, Effort())]
    assert len(set(names)) == len(names)
    for name in (
        "latency/gap-1ms/isotone/none/agreed/64/loopback",
        "latency/gap-1ms/isotone/none/safe/64/loopback",
        "latency/gap-1ms/isotone/none/agreed/64/bridge",
        "latency/load-80%/corosync/none/agreed/64/bridge",
        "latency/common:corosync:8192:loopback/isotone/none/agreed/64/loopback",
        "latency/common:corosync:8192:bridge/isotone/none/agreed/64/bridge",
        "latency/common:corosync:8192:bridge/corosync/8192/agreed/64/bridge",
        "kill-loaded/isotone/loopback",
        "kill-loaded/isotone/bridge",
        "drop-idle/isotone/bridge",
        "figure-3.4/1000",
        "figure-3.5/1",
        "drop-idle/corosync/bridge",
        "rolling-restart/isotone/loopback",
        "join/isotone/loopback",
        "fairness/isotone/loopback",
        "idle/corosync/bridge",
    ):
        assert name in names
    assert not {"join/isotone/bridge", "rolling-restart/isotone/bridge", "fairness/corosync/bridge"} & {*names}


def test_latencies_are_of_both_small_sizes() -> None:
    cells = [Cell(size=size) for size in (64, 1024, 8192)]
    names = [step.name for step in steps_of(cells, Effort())]
    for load in ("gap-1ms", "load-10%", "load-50%", "load-80%"):
        found = [name for name in names if name.startswith(f"latency/{load}/isotone")]
        assert found == [f"latency/{load}/isotone/none/agreed/{size}/loopback" for size in (64, 1024)]


@pytest.mark.parametrize("text", ["", "[]", '{"version": 99, "machine": {}}', "not json"])
def test_a_file_that_is_none_of_ours_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lan.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"lan\.json"):
        read_measured(path)
    with pytest.raises(InputError, match="No such file"):
        read_measured(tmp_path / "missing.json")


# --- what members heard --------------------------------------------------------------------------------------------


def outcome(delivered: int, digest: str = "1", sent: int = 0) -> Outcome:
    return Outcome(sent=sent, delivered={"0": delivered}, digest=digest)


def test_members_that_heard_the_same_are_fine() -> None:
    check_outcomes(BASE, [outcome(9, sent=9), outcome(9), outcome(9)])


def test_a_member_that_lost_a_message_is_found() -> None:
    with pytest.raises(OrderBroken, match="member 2"):
        check_outcomes(BASE, [outcome(9, sent=9), outcome(9), outcome(8)])


def test_a_member_that_heard_another_order_is_found() -> None:
    with pytest.raises(OrderBroken, match="0 and 1 heard different orders"):
        check_outcomes(BASE, [outcome(9, sent=9), outcome(9, "2"), outcome(9)])


def test_a_sample_is_what_happened_between_two_moments() -> None:
    before = Snapshot(10.0, 100, 1.0, 2.0, 50)
    found = sample_of(BASE, before, Snapshot(12.0, 1100, 1.5, 2.25, 1050))
    assert (found.rate, found.messages, found.packets_per_message) == (500.0, 1000, 1.0)
    assert (found.cpu_us_daemons, found.cpu_us_clients) == (500.0, 250.0)
    with pytest.raises(MachineError, match="nothing was delivered"):
        sample_of(BASE, before, before)


def test_a_peer_in_two_ways_is_measured_in_both_but_killed_once() -> None:
    both = [cell for system in ("corosync", "corosync-rt") for cell in (Cell(system=system, path="bridge"),)]
    names = [step.name for step in steps_of([BASE, *both], Effort())]
    assert "latency/gap-1ms/corosync-rt/none/agreed/64/bridge" in names
    assert "kill-loaded/corosync/bridge" in names
    assert not [name for name in names if name.startswith(("kill", "drop", "idle")) and "corosync-rt" in name]
