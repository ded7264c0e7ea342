"""What is read of processes: their CPU with that of those that they started, and the packets of their namespace."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from isotone.bench.lan import corosync, network
from isotone.bench.lan.processes import cpu_seconds, family_cpu_seconds
from isotone.core.errors import MachineError

WORK = "sum(range(2_000_000))"
INSTALL_PEERS = Path(__file__).parents[2] / "tools" / "install_peers.py"


def test_the_cpu_of_a_daemon_is_with_that_of_processes_that_it_started_and_that_ended() -> None:
    me = os.getpid()
    family, alone = family_cpu_seconds([me]), cpu_seconds(me)
    subprocess.run([sys.executable, "-c", WORK], check=True)
    grown, own = family_cpu_seconds([me]) - family, cpu_seconds(me) - alone
    assert grown > own


def test_a_process_that_still_runs_counts_for_the_one_that_started_it() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", f"{WORK}; print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        both = cpu_seconds(child.pid) + cpu_seconds(os.getpid())
        assert family_cpu_seconds([os.getpid()]) >= both - 0.01
        assert cpu_seconds(child.pid) > 0
    finally:
        child.kill()
        child.communicate()
    with pytest.raises(MachineError, match="is gone"):
        family_cpu_seconds([child.pid])


class Table:
    """What the kernel tells of the interfaces of a namespace."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read_text(self, encoding: str) -> str:
        assert self.name == "/proc/7/net/dev"
        return (
            "Inter-|   Receive                                                |  Transmit\n"
            " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls\n"
            "    lo:  1  2    0    0    0     0          0         0  3  4    0    0    0     0\n"
            "  eth0: 11 12    0    0    0     0          0         0 13 14    0    0    0     0\n"
        )


def test_packets_are_those_of_the_interface_in_the_namespace_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "Path", Table)
    assert network.packets_sent(7) == 14
    monkeypatch.setattr(network, "DEVICE", "eth1")
    with pytest.raises(MachineError, match="no interface eth1"):
        network.packets_sent(7)


@pytest.mark.parametrize(
    ("told", "version"),
    [("Corosync Cluster Engine, version '3.1.7'\nCopyright (c) 2006", "3.1.7"), ("what?", "unknown")],
)
def test_corosync_tells_its_version(monkeypatch: pytest.MonkeyPatch, told: str, version: str) -> None:
    def run(command: list[str], **of: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, stdout=told)

    monkeypatch.setattr("isotone.bench.lan.corosync.subprocess.run", run)
    assert corosync.version() == version


@pytest.fixture
def install_peers() -> ModuleType:
    found = importlib.util.spec_from_file_location("install_peers", INSTALL_PEERS)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_peers_are_installed_when_all_parts_are_there(
    install_peers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install_peers.shutil, "which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(install_peers.ctypes.util, "find_library", lambda name: None)
    assert install_peers.missing() == ["libcpg4"], "a daemon alone is not enough"
    monkeypatch.setattr(install_peers.ctypes.util, "find_library", lambda name: "libcpg.so.4")
    assert install_peers.main() == 0
    monkeypatch.setattr(install_peers.shutil, "which", lambda name: None)
    assert install_peers.missing() == ["corosync", "iproute2"]
