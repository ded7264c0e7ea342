"""Clusters of daemons to be measured: what all systems have in common, and Isotone's own."""

from __future__ import annotations

import json
import signal
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Protocol

from isotone.bench.lan.cells import Cluster
from isotone.bench.lan.network import Network
from isotone.bench.lan.processes import Process, end_all, family_cpu_seconds
from isotone.core.errors import MachineError
from isotone.daemon.ports import LOOPBACK, free_ports
from isotone.daemon.security.keys import generate_key

LISTEN_WITHIN_S = 60.0
LOOK_S = 0.02
ANSWER_WITHIN_S = 10.0
CLUSTER_NAME = "bench"


class Running(Protocol):
    """A cluster that runs."""

    cluster: Cluster
    daemons: list[Process]

    @property
    def network(self) -> Network | None:
        """Its bridge, if it has one."""

    @property
    def library(self) -> str:
        """The C library of its clients, if they have one."""

    def address(self, place: int) -> str:
        """For the client at this daemon."""

    def prefix(self, place: int) -> list[str]:
        """What stands before the command of that client."""

    def start(self) -> None:
        """Until daemons listen."""

    def restart(self, place: int) -> None:
        """Start one that ended, again."""

    def drop(self, place: int) -> None:
        """Lose all traffic of one daemon with the others, silently."""

    def heal(self, place: int) -> None:
        """No more."""

    def is_together(self) -> bool | None:
        """Whether all daemons are in one view; None where that cannot be asked."""

    def stop(self) -> None:
        """End all."""


def daemons_cpu(running: Running) -> float:
    """Of all daemons that run and of the processes that they started, in seconds."""
    return family_cpu_seconds([daemon.pid for daemon in running.daemons if daemon.ended is None])


def check_daemons(running: Running) -> None:
    """That all run."""
    for place, daemon in enumerate(running.daemons):
        if daemon.ended is not None:
            raise MachineError(
                f"daemon {place + 1} of {running.cluster.title} ended with {daemon.ended}:\n{daemon.tail}"
            )


class IsotoneCluster:
    """Daemons of one site with the settings of a development cluster; the trace at its default level, buffered.

    Clients connect by Unix sockets, as they would to a daemon of their own machine.
    """

    def __init__(
        self,
        cluster: Cluster,
        network: Network | None,
        *,
        profile: bool = False,
        trace: Path | None = None,
    ) -> None:
        self.cluster, self.network = cluster, network
        self.daemons: list[Process] = []
        self._held = TemporaryDirectory(prefix="isotone-bench-")
        self.directory = Path(self._held.name)
        self.trace = trace or self.directory / "trace"
        self._profile = profile
        self._ports: list[int] = []

    @property
    def library(self) -> str:
        """None: it is Python."""
        return ""

    def address(self, place: int) -> str:
        """A socket of this machine."""
        return f"unix:{self._socket(place)}"

    def prefix(self, place: int) -> list[str]:
        """None: a socket in the file system is there in every namespace."""
        del place
        return []

    def profile_of(self, place: int) -> Path:
        """Where a daemon writes what its time went to."""
        return self.directory / f"d{place + 1}.profile"

    def start(self) -> None:
        """All at once, until each listens for clients."""
        self._ports = free_ports(2 * self.cluster.daemons)
        (self.directory / "isotone.toml").write_text(self._settings(), encoding="utf-8")
        for place in range(self.cluster.daemons):
            self.daemons.append(self._start(place))
        self._wait_listening(range(self.cluster.daemons))

    def restart(self, place: int) -> None:
        """In the place of the one that ended."""
        self._socket(place).unlink(missing_ok=True)
        self.daemons[place] = self._start(place)
        self._wait_listening([place])

    def drop(self, place: int) -> None:
        """By its own switch for faults, or at the bridge: the others get no refusal of the port."""
        if self.network is not None:
            self.network.cut(place, off=True)
            return
        others = [f"d{other + 1}" for other in range(self.cluster.daemons) if other != place]
        self._ask(place, "/faults", {"rules": [{"daemon": name, "cut": True} for name in others]})

    def heal(self, place: int) -> None:
        """No more."""
        if self.network is not None:
            self.network.cut(place, off=False)
        else:
            self._ask(place, "/faults", {"rules": []})

    def is_together(self) -> bool | None:
        """By their own account; in namespaces they cannot be asked from here."""
        if self.network is not None:
            return None
        try:
            states = [self.status(place) for place in range(self.cluster.daemons)]
        except MachineError:
            return False
        views = {state["stack"]["view"]["daemon_view"] for state in states if state["ready"]}
        sizes = [len(state["stack"]["view"]["members"]) for state in states if state["ready"]]
        return len(views) == 1 and sizes == [self.cluster.daemons] * self.cluster.daemons

    def status(self, place: int) -> Any:
        """What a daemon on loopback says of itself."""
        return self._ask(place, "/status")

    def _ask(self, place: int, path: str, body: object = None) -> Any:
        url = f"http://{LOOPBACK}:{self._ports[2 * place + 1]}{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_WITHIN_S) as answer:
                return json.load(answer)
        except (OSError, ValueError) as error:
            raise MachineError(f"daemon {place + 1} does not answer: {error}") from error

    def end_cleanly(self, within_s: float) -> None:
        """All as an administrator would end them, so that their records are whole."""
        for daemon in self.daemons:
            daemon.signal(signal.SIGTERM)
        for place, daemon in enumerate(self.daemons):
            if not daemon.wait(within_s):
                raise MachineError(f"daemon {place + 1} does not end within {within_s:g} s\n{daemon.tail}")

    def stop(self) -> None:
        """All, and what they wrote; nothing of it is wanted any more."""
        end_all(self.daemons, first=signal.SIGKILL)
        self._held.cleanup()

    def __enter__(self) -> IsotoneCluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, place: int) -> Process:
        name = f"d{place + 1}"
        inside = self.network.prefix(place) if self.network is not None else []
        command = [
            *inside,
            sys.executable,
            "-m",
            "isotone.bench.lan.daemon",
            str(self.directory / "isotone.toml"),
            name,
        ]
        command += ["--dev"] * self._is_open
        command += ["--no-offload"] * (not self.cluster.offload)
        command += ["--profile", str(self.profile_of(place))] * self._profile
        return Process(command, self.directory / f"{name}.log")

    def _wait_listening(self, places: Sequence[int]) -> None:
        deadline = time.monotonic() + LISTEN_WITHIN_S
        while not all(self._socket(place).exists() for place in places):
            check_daemons(self)
            if time.monotonic() > deadline:
                raise MachineError(f"no daemon listens after {LISTEN_WITHIN_S:g} s:\n{self.daemons[places[0]].tail}")
            time.sleep(LOOK_S)

    def _socket(self, place: int) -> Path:
        return self.directory / f"d{place + 1}.socket"

    # --- settings --------------------------------------------------------------------------------------------------

    def _settings(self) -> str:
        directory = self.directory
        lines = ["[cluster]", f'name = "{CLUSTER_NAME}"', f"state_directory = {_quoted(directory / 'state')}", ""]
        lines += ["[[site]]", 'name = "s1"', ""]
        for place in range(self.cluster.daemons):
            lines += self._daemon(place)
        lines += self._security()
        lines += ["[limits]", "sessions_max = 4096", "handshakes_max = 4096", ""]
        lines += ["[trace]", f"directory = {_quoted(self.trace)}", "", "[faults]", "enabled = true", ""]
        return "\n".join(lines)

    def _security(self) -> list[str]:
        """On loopback without keys it is open anyway, as in development."""
        if self.cluster.encryption:
            return ["[security]", 'mode = "keys"', f"private_key_file = {_quoted(self.directory / '{name}.key')}", ""]
        return [] if self._is_open else ["[security]", 'mode = "open"', ""]

    @property
    def _is_open(self) -> bool:
        return self.network is None and not self.cluster.encryption

    def _daemon(self, place: int) -> list[str]:
        name, network = f"d{place + 1}", self.network
        address = network.address(place) if network is not None else LOOPBACK
        lines = ["[[daemon]]", f'name = "{name}"', 'site = "s1"', f'address = "{address}"']
        lines += [f"port = {self._ports[2 * place]}", f"admin_port = {self._ports[2 * place + 1]}"]
        lines += [f"unix_socket = {_quoted(self._socket(place))}"]
        if self.cluster.encryption:
            key = self.directory / f"{name}.key"
            lines += [f'public_key = "{generate_key(key).text}"']
        return [*lines, ""]


def _quoted(path: Path) -> str:
    return json.dumps(str(path))
