"""Which peers are there, and what to say of those that are not."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import msgspec

from isotone.bench.lan import corosync, spread
from isotone.bench.lan.cells import PATHS, SIZES, Cell, peer_cells
from isotone.bench.lan.cells import Path as NetworkPath
from isotone.bench.lan.corosync import CorosyncCluster, Knobs
from isotone.bench.lan.network import why_no_namespaces
from isotone.bench.lan.run import MakeCluster
from isotone.bench.lan.spread import SpreadCluster
from isotone.core.errors import InputError

KNOWN = (corosync.SYSTEM, corosync.REAL_TIME, spread.SYSTEM)
COROSYNC = (corosync.SYSTEM, corosync.REAL_TIME)
FACTORS: dict[str, tuple[str, ...]] = {
    corosync.SYSTEM: ("senders-3", "encryption"),
    corosync.REAL_TIME: ("senders-3",),
    spread.SYSTEM: ("senders-3", "fifo", "safe"),
}
"""CPG has one service, Spread no encryption between its daemons."""


class Peers(msgspec.Struct):
    """Those that take part, and notes about the others."""

    makers: dict[str, MakeCluster]
    notes: list[str]
    paths: tuple[NetworkPath, ...]
    """That this machine has."""
    versions: dict[str, str]
    """Of those that take part."""

    def cells(self, sizes: tuple[int, ...] = SIZES) -> list[Cell]:
        """Of all of them."""
        cells = []
        for system in self.makers:
            paths = tuple(path for path in self.paths if system not in COROSYNC or path != "loopback")
            cells += peer_cells(system, sizes, paths, factors=FACTORS[system])
        return cells


def find_peers(wanted: str, prefix: Path | None) -> Peers:
    """``auto``, ``none``, or names with commas; what is named and missing is an error."""
    lacking = why_no_namespaces()
    found = Peers({}, [], PATHS[:1] if lacking else PATHS, {})
    if lacking:
        found.notes.append(f"only the loopback path: {lacking}")
    if wanted == "none":
        return found
    names = KNOWN if wanted == "auto" else tuple(filter(None, re.split(r"[ ,]+", wanted)))
    for name in names:
        why, maker = _peer(name, prefix, lacking)
        if maker is not None and not why:
            found.makers[name] = maker
            found.versions[name] = _version(name, prefix)
        elif wanted == "auto":
            found.notes.append(f"without {name}: {why}")
        else:
            raise InputError(f"{name} cannot take part: {why}")
    return found


def _peer(name: str, prefix: Path | None, lacking: str) -> tuple[str, MakeCluster | None]:
    if name in COROSYNC:
        knobs = Knobs(sched_rr=name == corosync.REAL_TIME)
        return corosync.why_no_corosync() or lacking, partial(CorosyncCluster, knobs=knobs)
    if name == spread.SYSTEM:
        why = spread.why_no_spread(prefix)
        return why, None if prefix is None else partial(SpreadCluster, prefix=prefix)
    return f"it is not known; known are {', '.join(KNOWN)}", None


def _version(name: str, prefix: Path | None) -> str:
    return corosync.version() if name in COROSYNC or prefix is None else spread.version(prefix)
