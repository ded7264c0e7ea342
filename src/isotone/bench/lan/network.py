"""Network namespaces that the bench makes for itself: one for each daemon and one with the bridge that joins them.

Nothing of it touches the machine's own interfaces: the bridge is in a namespace too. With ``frames`` every veth takes
single segments only, so that frames of 1,500 bytes really cross; otherwise a veth passes whole trains of segments.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from isotone.core.errors import MachineError

PREFIX = "isobench"
SUBNET = "10.203.0"
DEVICE = "eth0"
RUN_WITHIN_S = 20.0
SENT_PACKETS = 9  # the column in the kernel's table of interfaces


def why_no_namespaces() -> str:
    """What is missing to make namespaces; empty when nothing is."""
    if os.geteuid():
        return "network namespaces need root"
    name = f"{PREFIX}{os.getpid()}-try"
    try:
        _ip("netns", "add", name)
        try:
            _ip("-n", name, "link", "add", "try0", "type", "veth", "peer", "name", "try1")
            _ip("-n", name, "link", "add", "trybr", "type", "bridge")
        finally:
            _ip("netns", "delete", name)
    except MachineError as error:
        return str(error)
    return ""


class Network:
    """A bridge with so many namespaces on it. Entering makes them, leaving removes them."""

    def __init__(self, count: int, *, frames: bool) -> None:
        self.count, self.frames = count, frames
        self._stem = f"{PREFIX}{os.getpid()}"

    def namespace(self, place: int) -> str:
        """Of one daemon."""
        return f"{self._stem}-{place + 1}"

    def address(self, place: int) -> str:
        """Of one daemon."""
        return f"{SUBNET}.{place + 1}"

    def prefix(self, place: int) -> list[str]:
        """What to write before a command that runs there."""
        return ["ip", "netns", "exec", self.namespace(place)]

    def __enter__(self) -> Network:
        remove_left_over()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove()

    def _make(self) -> None:
        middle = self._middle
        _ip("netns", "add", middle)
        _ip("-n", middle, "link", "add", "br0", "type", "bridge")
        _ip("-n", middle, "link", "set", "br0", "up")
        for place in range(self.count):
            name, port = self.namespace(place), self._port(place)
            _ip("netns", "add", name)
            _ip("-n", middle, "link", "add", port, "type", "veth", "peer", "name", DEVICE, "netns", name)
            if self.frames:
                _ip("-n", middle, "link", "set", "dev", port, "gso_max_segs", "1")
                _ip("-n", name, "link", "set", "dev", DEVICE, "gso_max_segs", "1")
            _ip("-n", middle, "link", "set", port, "master", "br0", "up")
            _ip("-n", name, "address", "add", f"{self.address(place)}/24", "dev", DEVICE)
            _ip("-n", name, "link", "set", DEVICE, "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def _remove(self) -> None:
        for name in (*(self.namespace(place) for place in range(self.count)), self._middle):
            with suppress(MachineError):
                _ip("netns", "delete", name)

    def cut(self, place: int, *, off: bool) -> None:
        """Drop all traffic of one daemon silently: its port of the bridge goes down, its own interface stays up."""
        _ip(
            "-n",
            self._middle,
            "link",
            "set",
            self._port(place),
            "nomaster" if off else "master",
            *([] if off else ["br0"]),
        )

    @property
    def _middle(self) -> str:
        return f"{self._stem}-bridge"

    def _port(self, place: int) -> str:
        return f"port{place + 1}"


def packets_sent(pid: int) -> int:
    """That left the interface of this process's namespace so far, as the link counts them; no command is run for it."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise MachineError(f"process {pid} is gone: {error.strerror}") from None
    for line in lines:
        name, _, numbers = line.partition(":")
        if name.strip() == DEVICE:
            return int(numbers.split()[SENT_PACKETS])
    raise MachineError(f"process {pid} has no interface {DEVICE}")


def remove_left_over() -> None:
    """Namespaces of a bench that was killed before it could remove them."""
    with suppress(MachineError):
        for line in _ip("netns", "list").splitlines():
            name = line.split()[0] if line.split() else ""
            pid = name.removeprefix(PREFIX).partition("-")[0]
            if name.startswith(PREFIX) and pid.isdigit() and not Path(f"/proc/{pid}").exists():
                with suppress(MachineError):
                    _ip("netns", "delete", name)


def _ip(*arguments: str) -> str:
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True, timeout=RUN_WITHIN_S)
    except FileNotFoundError:
        raise MachineError("there is no command ip (package iproute2)") from None
    except subprocess.CalledProcessError as error:
        raise MachineError(f"ip {' '.join(arguments)}: {error.stderr.strip()}") from None
    except subprocess.TimeoutExpired:
        raise MachineError(f"ip {' '.join(arguments)}: no end after {RUN_WITHIN_S:g} s") from None
    return done.stdout
