"""Corosync as a peer: three daemons in three network namespaces, joined by a bridge; knet, without encryption.

Its daemons find each other by addresses and listen for clients at names of their namespace, so that several of them on
one machine need namespaces; there is no loopback path. Tuned by its documented knobs, see `Knobs`.
"""

from __future__ import annotations

import ctypes.util
import re
import shutil
import signal
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec

from isotone.bench.lan.cells import Cluster
from isotone.bench.lan.network import Network
from isotone.bench.lan.processes import Process, end_all

SYSTEM = "corosync"
REAL_TIME = "corosync-rt"
"""The same with its default, real-time scheduling: which of the two is the better peer depends on the machine."""
INSIDE = """
mount -t tmpfs tmpfs /run && mkdir -p /run/corosync /run/lock
mount -t tmpfs tmpfs /var/lib/corosync
exec corosync -f -c "$1"
"""


class Knobs(msgspec.Struct, frozen=True, kw_only=True):
    """What corosync.conf(5) documents for speed; ``isotone bench tune`` compares values.

    The manual names a window of 300 for machines that are equally fast. With real-time scheduling, its default, a
    daemon runs at once for each message that a client sends; without, it may find many. Both are measured.
    """

    window_size: int = 300
    max_messages: int = 100
    sched_rr: bool = False
    transport: Literal["knet", "udpu"] = "knet"

    @property
    def told(self) -> str:
        """In words."""
        scheduling = "real-time" if self.sched_rr else "ordinary"
        windows = f"window_size {self.window_size}, max_messages {self.max_messages}"
        return f"{self.transport}, {windows}, {scheduling} scheduling"


def why_no_corosync() -> str:
    """What is missing; empty when nothing is."""
    if shutil.which("corosync") is None or ctypes.util.find_library("cpg") is None:
        return "it is not installed: make bench-peers"
    return ""


def version() -> str:
    """As the daemon tells it."""
    try:
        done = subprocess.run(["corosync", "-v"], capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    found = re.search(r"version '?([\w.+~-]+)", done.stdout)
    return found[1] if found else "unknown"


class CorosyncCluster:
    """So many daemons; each runs with a /run of its own."""

    def __init__(self, cluster: Cluster, network: Network | None, *, knobs: Knobs | None = None) -> None:
        assert network is not None, "there is no loopback path"
        self.cluster = cluster
        self._network, self._knobs = network, knobs or Knobs()
        self.daemons: list[Process] = []
        self._held = TemporaryDirectory(prefix="isotone-bench-")
        self.directory = Path(self._held.name)

    @property
    def network(self) -> Network | None:
        """Its bridge."""
        return self._network

    @property
    def library(self) -> str:
        """Of its clients."""
        return ctypes.util.find_library("cpg") or "libcpg.so.4"

    def address(self, place: int) -> str:
        """Clients find the daemon of their namespace."""
        del place
        return ""

    def prefix(self, place: int) -> list[str]:
        """Clients run in the namespace of their daemon."""
        return self._network.prefix(place)

    def start(self) -> None:
        """All at once."""
        for place in range(self.cluster.daemons):
            (self.directory / f"{place}.conf").write_text(self._text(), encoding="utf-8")
            self.daemons.append(self._start(place))

    def restart(self, place: int) -> None:
        """In the place of the one that ended."""
        self.daemons[place] = self._start(place)

    def drop(self, place: int) -> None:
        """At the bridge: its interface stays up and nothing comes or goes."""
        self._network.cut(place, off=True)

    def heal(self, place: int) -> None:
        """No more."""
        self._network.cut(place, off=False)

    def is_together(self) -> bool | None:
        """It cannot be asked from here."""
        return None

    def stop(self) -> None:
        """All: it has nothing to save."""
        end_all(self.daemons, first=signal.SIGKILL)
        self._held.cleanup()

    def _start(self, place: int) -> Process:
        shell = ["sh", "-ec", INSIDE, "corosync", str(self.directory / f"{place}.conf")]
        return Process([*self._network.prefix(place), *shell], self.directory / f"{place}.log")

    def _text(self) -> str:
        cipher, digest = ("aes256", "sha256") if self.cluster.encryption else ("none", "none")
        knobs = self._knobs
        lines = ["totem {", "  version: 2", "  cluster_name: bench", f"  transport: {knobs.transport}"]
        lines += [f"  crypto_cipher: {cipher}", f"  crypto_hash: {digest}"]
        if self.cluster.encryption:
            key = self.directory / "authkey"
            if not key.exists():
                key.write_bytes(bytes(range(256)) * 4)
            lines.append(f"  keyfile: {key}")
        lines += [f"  window_size: {knobs.window_size}", f"  max_messages: {knobs.max_messages}"]
        lines += ["}", "nodelist {"]
        for other in range(self.cluster.daemons):
            address = self._network.address(other)
            lines += [
                "  node {",
                f"    ring0_addr: {address}",
                f"    nodeid: {other + 1}",
                f"    name: n{other + 1}",
                "  }",
            ]
        lines += ["}", "system {", f"  sched_rr: {'yes' if knobs.sched_rr else 'no'}", "}"]
        lines += ["logging {", "  to_stderr: yes", "  to_logfile: no", "  to_syslog: no", "}", ""]
        return "\n".join(lines)
