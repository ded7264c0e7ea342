"""Latency at a gap and at parts of what a system carries; and one offered rate for us and a packed peer alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from isotone.bench.lan.cells import FACTOR_SIZES, Cell
from isotone.bench.lan.clusters import Running
from isotone.bench.lan.corosync import REAL_TIME
from isotone.bench.lan.exhibits import exhibit_cells
from isotone.bench.lan.latency import percentiles
from isotone.bench.lan.measuring import Effort, measure

GAP_S = 0.001
SHARES = (0.1, 0.5, 0.8)
COMMON_SHARE = 0.1


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One latency to be measured: the cell, and what it offers."""

    cell: Cell
    gap_s: float = 0.0
    share: float = 0.0
    """Of what the cells in ``of`` carry: of the least of them."""
    of: tuple[str, ...] = ()
    name: str

    def rate(self, capacities: dict[str, float]) -> float:
        """Messages per second; 0 where it has a gap instead. Raises `KeyError` for a cell that was not measured."""
        return self.share * min(capacities[key] for key in self.of) if self.of else 0.0


def probes_of(cells: Sequence[Cell]) -> list[Probe]:
    """All that can be measured with these cells."""
    probes: list[Probe] = []
    for cell in cells:
        if cell.variant == "safe" and cell.size in FACTOR_SIZES:
            probes.append(Probe(cell=cell, gap_s=GAP_S, name=_named("gap-1ms", cell)))
        if cell.variant == "base" and cell.path != "bridge-frames":
            probes += _of_base(cell, cells)
    if Cell() in cells:
        probes += [Probe(cell=cell, gap_s=GAP_S, name=name) for name, cell in exhibit_cells().items()]
    return list({probe.name: probe for probe in probes}.values())


def _of_base(cell: Cell, cells: Sequence[Cell]) -> Iterable[Probe]:
    if cell.packing:
        yield from _common(cell, cells)
    elif cell.size in FACTOR_SIZES:
        yield Probe(cell=cell, gap_s=GAP_S, name=_named("gap-1ms", cell))
        for share in SHARES if cell.system != REAL_TIME else ():
            yield Probe(cell=cell, share=share, of=(cell.key,), name=_named(f"load-{share:.0%}", cell))


def _common(packed: Cell, cells: Sequence[Cell]) -> Iterable[Probe]:
    """A packed peer and ourselves at the same rate: a part of the lower capacity."""
    if packed.size not in FACTOR_SIZES:
        return
    for ours in cells:
        if (ours.system, ours.variant, ours.size) != ("isotone", "base", packed.size):
            continue
        if ours.path not in ("loopback", packed.path) or ours.packing:
            continue
        of = (ours.key, packed.key)
        against = f"common:{packed.system}:{packed.packing}:{ours.path}"
        for cell in (ours, packed):
            yield Probe(cell=cell, share=COMMON_SHARE, of=of, name=_named(against, cell))


def _named(load: str, cell: Cell) -> str:
    return f"latency/{load}/{cell.system}/{cell.packing_name}/{cell.service}/{cell.size}/{cell.path}"


def probe_latency(probe: Probe, running: Running, effort: Effort, capacities: dict[str, float]) -> dict[str, float]:
    """Percentiles in microseconds, and what was offered."""
    rate = probe.rate(capacities)
    cell = msgspec.structs.replace(probe.cell, rate=rate)
    sample, outcomes = measure(cell, running, effort, latency=True, gap_s=probe.gap_s)
    return {**percentiles(outcomes[0].latencies_us), "rate": sample.rate, "samples": len(outcomes[0].latencies_us)}
