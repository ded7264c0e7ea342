"""Spread as a peer, where somebody has it installed: three daemons on loopback, or in namespaces on the bridge.

On loopback the daemons have addresses 127.0.0.1, 127.0.0.2 and so on, and one port. Tuned by what the settings file of
Spread 5 has for speed, see `KNOBS`; with it an older Spread does not start.
"""

from __future__ import annotations

import ctypes
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

from isotone.bench.lan.cells import Cluster
from isotone.bench.lan.network import SUBNET, Network
from isotone.bench.lan.processes import Process, end_all
from isotone.daemon.ports import free_ports

SYSTEM = "spread"
SESSION_MESSAGES_MAX = 5_000
KNOBS = {
    "Window": "300",
    "PersonalWindow": "100",
    "AcceleratedRing": "true",
    "AcceleratedWindow": "50",
    "MaxSessionMessages": str(SESSION_MESSAGES_MAX),
}
"""Packets that all daemons, or one, send in a turn of the token, and how many of them behind it; and messages that may
wait for one client before its session is ended: three senders have a window each, and all of them may wait."""


def spread_daemon(prefix: Path) -> Path:
    """Of this installation."""
    return prefix / "sbin" / "spread"


def spread_library(prefix: Path) -> Path | None:
    """Of this installation."""
    found = sorted(path for name in ("lib", "lib64") for path in (prefix / name).glob("libspread.so*"))
    return found[0] if found else None


def why_no_spread(prefix: Path | None) -> str:
    """What is missing; empty when nothing is."""
    if prefix is None:
        return "say where it is installed: --spread-prefix"
    if not spread_daemon(prefix).exists():
        return f"there is no {spread_daemon(prefix)}"
    if spread_library(prefix) is None:
        return f"there is no libspread.so below {prefix}"
    return ""


def version(prefix: Path) -> str:
    """As its library tells it."""
    numbers = [ctypes.c_int() for _ in range(3)]
    try:
        ctypes.CDLL(str(spread_library(prefix))).SP_version(*map(ctypes.byref, numbers))
    except (OSError, AttributeError):
        return "unknown"
    return ".".join(str(number.value) for number in numbers)


class SpreadCluster:
    """So many daemons of one segment."""

    def __init__(self, cluster: Cluster, network: Network | None, *, prefix: Path) -> None:
        self.cluster, self.network, self._prefix = cluster, network, prefix
        self.daemons: list[Process] = []
        self._held = TemporaryDirectory(prefix="isotone-bench-")
        self.directory = Path(self._held.name)
        self._port = 0

    @property
    def library(self) -> str:
        """Of its clients."""
        return str(spread_library(self._prefix))

    def address(self, place: int) -> str:
        """Port and host, as its library wants them."""
        return f"{self._port}@{self._host(place)}"

    def prefix(self, place: int) -> list[str]:
        """Clients run beside their daemon."""
        return self.network.prefix(place) if self.network is not None else []

    def start(self) -> None:
        """All at once."""
        self._port = free_ports(1)[0]
        (self.directory / "spread.conf").write_text(self._text(), encoding="utf-8")
        self.daemons = [self._start(place) for place in range(self.cluster.daemons)]

    def restart(self, place: int) -> None:
        """In the place of the one that ended."""
        self.daemons[place] = self._start(place)

    def drop(self, place: int) -> None:
        """At the bridge."""
        assert self.network is not None, "on loopback nothing can be dropped"
        self.network.cut(place, off=True)

    def heal(self, place: int) -> None:
        """No more."""
        assert self.network is not None, "on loopback nothing can be dropped"
        self.network.cut(place, off=False)

    def is_together(self) -> bool | None:
        """It cannot be asked from here."""
        return None

    def stop(self) -> None:
        """All: it has nothing to save."""
        end_all(self.daemons, first=signal.SIGKILL)
        self._held.cleanup()

    def _start(self, place: int) -> Process:
        command = [str(spread_daemon(self._prefix)), "-c", str(self.directory / "spread.conf"), "-n", f"d{place + 1}"]
        return Process([*self.prefix(place), *command], self.directory / f"{place}.log")

    def _host(self, place: int) -> str:
        return f"127.0.0.{place + 1}" if self.network is None else self.network.address(place)

    def _text(self) -> str:
        segment = "127.255.255.255" if self.network is None else f"{SUBNET}.255"
        lines = [f"Spread_Segment {segment}:{self._port} {{"]
        lines += [f"  d{place + 1} {self._host(place)}" for place in range(self.cluster.daemons)]
        lines += ["}", "SocketPortReuse = AUTO", f"RuntimeDir = {self.directory}", "DaemonUser = root"]
        lines += [f"{name} = {value}" for name, value in KNOBS.items()]
        return "\n".join([*lines, ""])
