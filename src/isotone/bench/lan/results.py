"""Rows and ratios: medians and quartiles of the samples of each cell, and ours over the better peer.

The better peer of a ratio is the one with the higher rate among those of the same size, service and packing. A peer
that has no row on a path is taken with its row on the plain bridge, and the ratio says so.

A ratio is only of what can be compared. Where our variant is another way to do what a peer does in one way only (it
sends and receives one by one, has one service), the peer's base case stands against it; with encryption ours has to
bear the peer without it; what is measured at an offered rate or with other numbers of daemons has no ratio.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median, quantiles

import msgspec

from isotone.bench.lan.cells import Cell
from isotone.bench.lan.measuring import MEGABYTE, Sample

OURS = "isotone"
COUNTED = ("rate", "mb_per_s", "cpu_us_daemons", "cpu_us_clients")
Samples = Mapping[str, Mapping[int, Sample]]
"""By cell and repetition."""
STANDS_AGAINST: Mapping[str, tuple[str, ...]] = {
    "base": ("base",),
    "senders-3": ("senders-3",),
    "encryption": ("base",),
    **{variant: (variant, "base") for variant in ("fifo", "safe")},
    **dict.fromkeys(("send-one", "send-wait", "receive-one", "one-by-one", "offload-off"), ("base",)),
}
"""By our variant, those of a peer, the first that it has."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The medians of one cell; ``quartiles`` has a lower and an upper one for each."""

    system: str
    variant: str
    packing: str
    service: str
    size: int
    senders: int
    path: str
    rate: float
    mb_per_s: float
    cpu_us_daemons: float
    cpu_us_clients: float
    quartiles: dict[str, tuple[float, float]]

    @property
    def cpu_us(self) -> float:
        """Of daemons and clients, per message."""
        return self.cpu_us_daemons + self.cpu_us_clients


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """Ours over the better peer: a high throughput and a low CPU time are good."""

    variant: str
    packing: str
    """Of the peer."""
    service: str
    size: int
    senders: int
    path: str
    peer: str
    peer_path: str
    throughput: float
    cpu: float

    def case(self) -> tuple[str, ...]:
        """What was compared, for a line of a table."""
        numbers = (f"{self.size:,}", str(self.senders))
        return self.variant, self.packing, self.service, *numbers, self.path, self.peer, self.peer_path


def spread_of(values: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper quartile; of one value that value."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


def row_of(cell: Cell, samples: Sequence[Sample]) -> Row:
    """The medians."""
    values = {
        "rate": [sample.rate for sample in samples],
        "mb_per_s": [sample.rate * cell.size / MEGABYTE for sample in samples],
        "cpu_us_daemons": [sample.cpu_us_daemons for sample in samples],
        "cpu_us_clients": [sample.cpu_us_clients for sample in samples],
    }
    return Row(
        system=cell.system,
        variant=cell.variant,
        packing=cell.packing_name,
        service=cell.service,
        size=cell.size,
        senders=cell.senders,
        path=cell.path,
        **{name: round(median(values[name]), 4) for name in COUNTED},
        quartiles={name: _rounded(spread_of(values[name])) for name in COUNTED},
    )


def _rounded(pair: tuple[float, float]) -> tuple[float, float]:
    return round(pair[0], 4), round(pair[1], 4)


def rows_of(cells: Iterable[Cell], samples: Samples) -> list[Row]:
    """One for each cell that was measured."""
    return [row_of(cell, [*samples[cell.key].values()]) for cell in cells if samples.get(cell.key)]


def ratios_of(rows: Sequence[Row]) -> list[Ratio]:
    """For each of our rows one with each packing of the peers."""
    packings = sorted({row.packing for row in rows if row.system != OURS}, key=_packing_order)
    found = []
    for row in rows:
        if row.system == OURS:
            found += [ratio for packing in packings if (ratio := _ratio(row, rows, packing)) is not None]
    return found


def _packing_order(packing: str) -> int:
    return 0 if packing == "none" else int(packing)


def _ratio(ours: Row, rows: Sequence[Row], packing: str) -> Ratio | None:
    systems = sorted({row.system for row in rows if row.system != OURS})
    found = [row for system in systems if (row := peer_row(ours, rows, system, packing)) is not None]
    if not found:
        return None
    better = max(found, key=lambda row: row.rate)
    cpu_us = min(row.cpu_us for row in found)  # a peer that is slower but cheaper does not help us
    return Ratio(
        variant=ours.variant,
        packing=packing,
        service=ours.service,
        size=ours.size,
        senders=ours.senders,
        path=ours.path,
        peer=better.system,
        peer_path=better.path,
        throughput=round(ours.rate / better.rate, 4),
        cpu=round(ours.cpu_us / cpu_us, 4),
    )


def peer_row(ours: Row, rows: Sequence[Row], system: str, packing: str) -> Row | None:
    """What stands against our row; first on the same path, then on the bridge."""
    paths = [ours.path] if ours.path != "loopback" else ["loopback", "bridge"]
    for variant in STANDS_AGAINST.get(ours.variant, ()):
        for path in paths:
            for row in rows:
                if (row.system, row.packing, row.size, row.path) != (system, packing, ours.size, path):
                    continue
                if (row.variant, row.senders) == (variant, ours.senders) and _is_as_strong(row.service, ours.service):
                    return row
    return None


def _is_as_strong(theirs: str, ours: str) -> bool:
    """A peer's AGREED stands against our FIFO too, and against our SAFE where it has none; never its FIFO."""
    return theirs in (ours, "agreed")
