"""A whole run: every cell of every system, repetition by repetition, so that all of them meet the same weather.

Within a repetition cells that share daemons follow each other. What was measured is written down after each cell, so
that a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TypeVar

import msgspec

from isotone.bench.lan.cells import Cell, Cluster
from isotone.bench.lan.clusters import IsotoneCluster, Running
from isotone.bench.lan.measuring import Effort, Sample, measure
from isotone.bench.lan.network import Network
from isotone.bench.lan.steps import Step
from isotone.bench.measure import Machine, this_machine
from isotone.core.errors import InputError, MachineError

Say = Callable[[str], None]
VERSION = 2
NOTE_MAX = 600
Item = TypeVar("Item", Cell, Step)


class Measured(msgspec.Struct, kw_only=True):
    """The file of a run: what each repetition found, by its number: only what was measured side by side is paired."""

    version: int = VERSION
    machine: Machine
    command: str = ""
    seconds: float = 0.0
    """Taken so far."""
    seconds_each: float = 0.0
    """Of steady state, for each sample."""
    peers: dict[str, str] = {}
    """That took part, with their versions."""
    samples: dict[str, dict[int, Sample]] = {}
    """By cell and repetition."""
    figures: dict[str, dict[int, dict[str, float]]] = {}
    """Latencies, changes of views and the like, by name and repetition."""
    notes: list[str] = []


def new_measured(command: str, *, seconds_each: float = 0.0, peers: dict[str, str] | None = None) -> Measured:
    """Nothing yet."""
    return Measured(machine=this_machine(), command=command, seconds_each=seconds_each, peers=peers or {})


def check_same(found: Measured, now: Measured) -> None:
    """Only what was measured alike goes into one run."""
    for what, before, wanted in (
        ("commit", found.machine.commit, now.machine.commit),
        ("software", found.machine.software, now.machine.software),
        ("seconds of a sample", found.seconds_each, now.seconds_each),
        ("peers", found.peers, now.peers),
    ):
        if before != wanted:
            raise InputError(f"that run cannot be resumed: its {what}: {before}; now: {wanted}")


def read_measured(path: Path) -> Measured:
    """Of a run that was interrupted."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Measured)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is no file of a run: {error}") from None
    if found.version != VERSION:
        raise InputError(f"{path} is of version {found.version}, this program writes {VERSION}")
    return found


def write_measured(measured: Measured, path: Path) -> None:
    """At once, so that an interrupt leaves the old one or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(path.suffix + ".part")
        part.write_bytes(msgspec.json.encode(measured))
        part.replace(path)
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror}") from error


MakeCluster = Callable[[Cluster, "Network | None"], Running]


class Run:
    """All cells, so many times."""

    def __init__(
        self,
        cells: Sequence[Cell],
        measured: Measured,
        *,
        repetitions: int,
        effort: Effort,
        say: Say,
        keep: Callable[[Measured], None],
        peers: dict[str, MakeCluster],
        steps: Sequence[Step] = (),
    ) -> None:
        self.cells = sorted(cells, key=lambda cell: _order(cell, cells))
        self.measured, self.repetitions, self.effort = measured, repetitions, effort
        self.steps = steps
        self._say, self._keep = say, keep
        self._makers: dict[str, MakeCluster] = {"isotone": IsotoneCluster, **peers}

    def carry_out(self) -> None:
        """What is still missing."""
        for repetition in range(self.repetitions):
            self._rows(repetition)
            self._figures(repetition)

    def _rows(self, repetition: int) -> None:
        missing = [cell for cell in self.cells if repetition not in self.measured.samples.get(cell.key, {})]
        self._with_clusters(repetition, missing, self._measured)

    def _figures(self, repetition: int) -> None:
        missing = [step for step in self.steps if repetition not in self.measured.figures.get(step.name, {})]
        self._with_clusters(repetition, missing, self._taken)

    def _with_clusters(self, repetition: int, todo: Sequence[Item], do: Callable[[int, Item, Running], bool]) -> None:
        """Do all with the daemons that each needs; where one could not be done, the rest gets new daemons."""
        for cluster in dict.fromkeys(each.cluster for each in todo):
            left = [each for each in todo if each.cluster == cluster]
            try:
                while left:
                    with self._told(repetition, cluster) as running:
                        while left and do(repetition, left.pop(0), running):
                            pass
            except MachineError as error:  # daemons that do not start: the next time, perhaps
                self._not_taken(cluster.title, error)

    @contextmanager
    def _told(self, repetition: int, cluster: Cluster) -> Iterator[Running]:
        began = time.monotonic()
        spent = f"{self.measured.seconds / 60:.1f} minutes so far"
        self._say(f"repetition {repetition + 1} of {self.repetitions}: {cluster.title} ({spent})")
        try:
            with self.running(cluster) as running:
                yield running
        finally:
            self.measured.seconds += time.monotonic() - began

    def _taken(self, repetition: int, step: Step, running: Running) -> bool:
        """Whether the daemons are still good: what cannot be taken is a note, a broken order ends the run."""
        capacities = self.capacities()
        if any(key not in capacities for key in step.needs):
            return True
        try:
            found = step.take(running, capacities)
        except MachineError as error:
            self._not_taken(step.name, error)
            return False
        self.measured.figures.setdefault(step.name, {})[repetition] = found
        self._keep(self.measured)
        self._say(f"  {step.name}: " + ", ".join(f"{name} {value:,.4g}" for name, value in found.items()))
        return True

    def capacities(self) -> dict[str, float]:
        """What each cell carries, by the median so far."""
        samples = self.measured.samples
        return {key: median(sample.rate for sample in found.values()) for key, found in samples.items() if found}

    @contextmanager
    def running(self, cluster: Cluster) -> Iterator[Running]:
        """The daemons, in their namespaces if the path needs them."""
        with ExitStack() as stack:
            network = None
            if cluster.path != "loopback":
                network = stack.enter_context(Network(cluster.daemons, frames=cluster.path == "bridge-frames"))
            running = self._makers[cluster.system](cluster, network)
            stack.callback(running.stop)
            running.start()
            yield running

    def _measured(self, repetition: int, cell: Cell, running: Running) -> bool:
        """Whether it could be; what a machine does not do is a note, a broken order ends the run."""
        try:
            sample, _ = measure(self.offered(cell), running, self.effort)
        except MachineError as error:
            self._not_taken(cell.key, error)
            return False
        self.measured.samples.setdefault(cell.key, {})[repetition] = sample
        self._keep(self.measured)
        told = f"{sample.rate:,.0f} messages/s, {sample.cpu_us_daemons:.2f} + {sample.cpu_us_clients:.2f} µs"
        if cell.path != "loopback":
            told += f", {sample.packets_per_message:.3g} packets on the links a message"
        self._say(f"  {cell.variant} {cell.size} B {cell.service} {cell.packing_name}: {told}")
        return True

    def _not_taken(self, name: str, error: MachineError) -> None:
        first = str(error).partition("\n")[0].removeprefix(f"{name}: ")
        self.measured.notes.append(f"{name}: {first}")
        self._say(f"  {name}: not taken: {str(error)[:NOTE_MAX]}")

    def offered(self, cell: Cell) -> Cell:
        """With the rate that it offers, where that is a part of the base case's: that of the first repetition."""
        if not cell.share:
            return cell
        base = self.measured.samples.get(Cell(size=cell.size).key)
        if not base:
            raise MachineError(f"{cell.variant} needs the base case of {cell.size} bytes in the same run")
        return msgspec.structs.replace(cell, rate=base[min(base)].rate * cell.share)


def _order(cell: Cell, cells: Sequence[Cell]) -> tuple[int, int]:
    """Cells with the same daemons together, both in the order in which they were asked for."""
    clusters = list(dict.fromkeys(each.cluster for each in cells))
    return clusters.index(cell.cluster), cells.index(cell)
