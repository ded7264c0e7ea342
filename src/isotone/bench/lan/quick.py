"""A guard against regressions: CPU per message now against the committed result, both as ratios to a calibration loop.

Machines and hours differ, so times themselves cannot be compared. A loop of plain Python work is timed beside every
measurement; what a message costs is counted in rounds of that loop, and only that number is compared.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.clusters import IsotoneCluster
from isotone.bench.lan.measuring import Effort, measure
from isotone.bench.measure import Machine, this_machine
from isotone.core.errors import InputError, MachineError

CELLS = (Cell(size=64), Cell(size=1024), Cell(size=64, variant="senders-3", senders=3))
REPETITIONS = 3
EFFORT = Effort(warm_up_s=0.5, seconds=1.5)
ROUNDS = 2_000
CALIBRATIONS = 5
WARN_ABOVE = 1.25
HEAD = struct.Struct("<IQH")


class QuickRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a message costs, in microseconds and in rounds of the calibration loop."""

    variant: str
    size: int
    cpu_us: float
    rounds: float


class QuickResult(msgspec.Struct, frozen=True, kw_only=True):
    """The file that is committed."""

    machine: Machine
    round_us: float
    rows: list[QuickRow]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Now against then."""

    variant: str
    size: int
    cpu_us: float
    rounds: float
    rounds_before: float
    change: float
    """Above 1: dearer than before."""
    warns: bool


def calibration_round() -> int:
    """The kind of work that a daemon does: headers, slices, dictionaries, joins."""
    held: dict[int, bytes] = {}
    body = bytes(1_400)
    for number in range(40):
        head = HEAD.pack(number, number * 7, len(body))
        held[number] = b"".join((head, body))
    return sum(HEAD.unpack_from(packet)[0] for packet in held.values())


def round_us() -> float:
    """CPU microseconds of a round of the loop; the least of several tries, which is the least disturbed."""
    return min(_timed(calibration_round) for _ in range(CALIBRATIONS))


def _timed(call: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(ROUNDS):
        call()
    return (time.process_time() - began) / ROUNDS * 1e6


def quick(say: Callable[[str], None]) -> QuickResult:
    """Measure, with a calibration beside each measurement."""
    costs: dict[int, list[tuple[float, float]]] = {place: [] for place in range(len(CELLS))}
    with IsotoneCluster(CELLS[0].cluster, None) as running:
        for repetition in range(REPETITIONS):
            say(f"repetition {repetition + 1} of {REPETITIONS}")
            for place, cell in enumerate(CELLS):
                unit = round_us()
                sample, _ = measure(cell, running, EFFORT)
                cost = sample.cpu_us_daemons + sample.cpu_us_clients
                costs[place].append((cost, cost / unit))
    rows = [
        QuickRow(
            variant=cell.variant,
            size=cell.size,
            cpu_us=round(median(cost for cost, _ in costs[place]), 4),
            rounds=round(median(rounds for _, rounds in costs[place]), 5),
        )
        for place, cell in enumerate(CELLS)
    ]
    return QuickResult(machine=this_machine(), round_us=round(round_us(), 4), rows=rows)


def compared(now: QuickResult, before: QuickResult) -> list[Comparison]:
    """Row by row; rows that only one of them has are left out."""
    old = {(row.variant, row.size): row.rounds for row in before.rows}
    return [
        Comparison(
            variant=row.variant,
            size=row.size,
            cpu_us=row.cpu_us,
            rounds=row.rounds,
            rounds_before=old[row.variant, row.size],
            change=round(row.rounds / old[row.variant, row.size], 4),
            warns=row.rounds / old[row.variant, row.size] > WARN_ABOVE,
        )
        for row in now.rows
        if (row.variant, row.size) in old
    ]


def read_quick(path: Path) -> QuickResult:
    """The committed one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=QuickResult)
    except FileNotFoundError:
        raise InputError(f"there is no {path} to compare with; --write makes one") from None
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def write_quick(result: QuickResult, path: Path) -> None:
    """To be committed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror}") from None
