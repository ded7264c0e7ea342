"""A cluster of real daemons on this machine, for development: its settings, its processes, its end."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import msgspec

from isotone.cli.admin_client import AdminClient
from isotone.core.addresses import PORT_MAX
from isotone.core.errors import InputError, MachineError
from isotone.daemon.ports import LOOPBACK, free_ports
from isotone.trace.layout import run_name

PORT, ADMIN_PORT, STRIDE = 4803, 4810, 10
DAEMONS_MAX = 64
LOOK_EVERY_S = 0.05
LOG_TAIL_LINES = 8
STOP_WITHIN_S = 15.0
NAME = "up"
IDENTITY_FILE = "run"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One daemon of the cluster, and where it is."""

    name: str
    site: str
    port: int
    admin_port: int

    @property
    def address(self) -> str:
        """For clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def admin(self) -> str:
        """For administration."""
        return f"{LOOPBACK}:{self.admin_port}"


def places_of(daemons: int, sites: int, port: int | None) -> list[Place]:
    """Names d1, d2 …, sites s1, s2 … in turn; without a port some that are free."""
    if not 1 <= daemons <= DAEMONS_MAX or not 1 <= sites <= daemons:
        raise InputError(f"1 to {DAEMONS_MAX} daemons, and no more sites than daemons")
    if port:
        ports = _ports_from(port, daemons)
    else:
        numbers = free_ports(2 * daemons)
        ports = list(zip(numbers[::2], numbers[1::2]))
    per_site = -(-daemons // sites)
    return [
        Place(name=f"d{i + 1}", site=f"s{i // per_site + 1}", port=own, admin_port=admin)
        for i, (own, admin) in enumerate(ports)
    ]


def _ports_from(first: int, pairs: int) -> list[tuple[int, int]]:
    last = PORT_MAX - STRIDE * (pairs - 1) - (ADMIN_PORT - PORT)
    if first > last:
        raise InputError(f"{pairs} daemons from port {first} on need ports above {PORT_MAX}: begin at {last} at most")
    return [(port, port + ADMIN_PORT - PORT) for port in range(first, first + STRIDE * pairs, STRIDE)]


def settings_text(
    places: Sequence[Place], directory: Path, *, trace: str = "buffered", thorough: bool = False, identity: str = ""
) -> str:
    """The settings file of the cluster.

    ``thorough``: what daemons say to each other is recorded too. For that they prune nothing: of what is left out on
    the way to a site without members, no two records would say the same.
    """
    sites = list(dict.fromkeys(place.site for place in places))
    lines = [
        "# A cluster for development, to be run with --dev: loopback only, open to every program of this machine.",
        "[cluster]",
        f'name = "{NAME}"',
        f"state_directory = {quoted(directory / 'state')}",
        *(["pruning = false"] if thorough else []),
        "",
    ]
    for site in sites:
        lines += ["[[site]]", f'name = "{site}"', ""]
    for place in places:
        lines += ["[[daemon]]", f'name = "{place.name}"', f'site = "{place.site}"', f'address = "{LOOPBACK}"']
        lines += [f"port = {place.port}", f"admin_port = {place.admin_port}", ""]
    for position, site in enumerate(sites):
        for other in sites[position + 1 :]:
            lines += ["[[link]]", f'between = ["{site}", "{other}"]', ""]
    lines += ["[trace]", f'level = "{trace}"', f"directory = {quoted(directory / 'trace')}"]
    lines += [f'identity = "{identity}"'] if identity else []
    lines += ["network = true", ""] if thorough else [""]
    lines += ["[spread]", "enabled = true", "share_port = true", 'unix_socket = "/tmp/{port}"', ""]
    lines += ["[faults]", "enabled = true", ""]
    return "\n".join(lines)


def _identity_path(directory: Path) -> Path:
    return directory / "state" / IDENTITY_FILE


def _identity_of(directory: Path) -> str:
    """That of the state which is there, or a new one: without their state, daemons begin to count from 1 again."""
    with suppress(OSError):
        return _identity_path(directory).read_text(encoding="utf-8")
    return secrets.token_hex(4)


def quoted(path: Path) -> str:
    """As a string of TOML."""
    return msgspec.json.encode(str(path)).decode()


def refuse_taken_ports(places: Sequence[Place]) -> None:
    """Raise a `MachineError` that names the first port of these that another program has."""
    streams, datagrams = socket.SOCK_STREAM, socket.SOCK_DGRAM
    for place in places:
        for port, kind in ((place.port, streams), (place.port, datagrams), (place.admin_port, streams)):
            with socket.socket(socket.AF_INET, kind) as probe:
                if kind == streams:  # as a daemon does: a port that only lingers is no obstacle
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((LOOPBACK, port))
                except OSError as error:
                    raise MachineError(
                        f"daemon {place.name} cannot have port {port} of {LOOPBACK}: {error.strerror}; is another "
                        "cluster up? --port 0 takes free ones"
                    ) from error


class LocalDaemon:
    """One process."""

    def __init__(self, place: Place, settings: Path, log: Path) -> None:
        self.place, self.settings, self.log = place, settings, log
        self.admin = AdminClient(place.admin, within_s=5.0)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def command(self) -> list[str]:
        """What starts it."""
        return [
            sys.executable,
            "-m",
            "isotone.cli",
            "daemon",
            "run",
            str(self.settings),
            "--dev",
            "--name",
            self.place.name,
        ]

    def start(self) -> None:
        """In a session of its own, so that an interrupt at the terminal reaches only us; it ends when we do."""
        assert self.process is None or self.process.poll() is not None, "it runs already"
        command = [*self.command, "--end-with", str(os.getpid())]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def ended(self) -> int | None:
        """Its exit code, once it ended."""
        return None if self.process is None else self.process.poll()

    def send_signal(self, number: int) -> None:
        """Unless it ended."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def tail(self) -> str:
        """The last lines of its log."""
        with suppress(OSError):
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            return "\n".join(lines[-LOG_TAIL_LINES:])
        return ""


class LocalCluster:
    """All of them. As a context manager it ends what it started, whatever happens."""

    def __init__(
        self,
        places: Sequence[Place],
        directory: Path,
        *,
        trace: str = "buffered",
        thorough: bool = False,
        more: str = "",
        process: type[LocalDaemon] = LocalDaemon,
    ) -> None:
        """``more``: further lines of the settings file; ``process``: what runs each daemon."""
        self.directory = directory
        self.settings = directory / "isotone.toml"
        self.daemons = [process(place, self.settings, directory / f"{place.name}.log") for place in places]
        self._identity = _identity_of(directory)
        self._text = settings_text(places, directory, trace=trace, thorough=thorough, identity=self._identity) + more

    @property
    def run(self) -> str:
        """What the records of its daemons call it."""
        return run_name(NAME, self._identity)

    @property
    def names(self) -> tuple[str, ...]:
        """Of its daemons."""
        return tuple(daemon.place.name for daemon in self.daemons)

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, within_s: float = 60.0, progress: Callable[[str], None] = lambda note: None) -> None:
        """Start all and wait until they are in one daemon view."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.settings.write_text(self._text, encoding="utf-8")
            _identity_path(self.directory).parent.mkdir(exist_ok=True)
            _identity_path(self.directory).write_text(self._identity, encoding="utf-8")
        except OSError as error:
            raise MachineError(f"cannot write {self.settings}: {error.strerror}") from error
        for daemon in self.daemons:
            daemon.start()
        self.wait(self.is_together, within_s, progress)

    def is_together(self) -> bool:
        """Whether all are ready, in one daemon view of all."""
        views = set()
        for daemon in self.daemons:
            try:
                status = daemon.admin.get("/status")
            except MachineError:
                return False
            if not status["ready"] or len(status["stack"]["view"]["members"]) != len(self.daemons):
                return False
            views.add(status["stack"]["view"]["daemon_view"])
        return len(views) == 1

    def wait(
        self, reached: Callable[[], bool], within_s: float, progress: Callable[[str], None] = lambda note: None
    ) -> None:
        """Until the condition holds; a daemon that ends meanwhile is an error with the end of its log."""
        deadline = time.monotonic() + within_s
        while not reached():
            for daemon in self.daemons:
                if daemon.ended is not None:
                    raise MachineError(f"daemon {daemon.place.name} ended with {daemon.ended}:\n{daemon.tail()}")
            if time.monotonic() > deadline:
                tails = "\n".join(f"{daemon.place.name}: {daemon.tail()}" for daemon in self.daemons)
                raise MachineError(f"the cluster is not together after {within_s:g} seconds:\n{tails}")
            progress("waiting for one daemon view")
            time.sleep(LOOK_EVERY_S)

    def stop(self, within_s: float = STOP_WITHIN_S) -> dict[str, int | None]:
        """Ask all to stop, wait, and kill who does not; their exit codes."""
        for daemon in self.daemons:
            daemon.send_signal(signal.SIGTERM)
            daemon.send_signal(signal.SIGCONT)  # one that is stopped could not hear it
        deadline = time.monotonic() + within_s
        for daemon in self.daemons:
            if daemon.process is None:
                continue
            try:
                daemon.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                daemon.process.kill()
                daemon.process.wait()
        return {daemon.place.name: daemon.ended for daemon in self.daemons}
