"""Daemons as processes: signals, exit codes, a kill, a merge, and journals that replay byte for byte."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from isotone.cli.main import commands
from isotone.client import View, connect
from isotone.core.addresses import split_address
from isotone.core.contract import Address
from isotone.core.errors import MachineError
from isotone.daemon.node import Node, Phase
from isotone.daemon.node_settings import Listener, NodeSettings, TraceSettings
from isotone.daemon.places import Places, bind_places
from isotone.daemon.running import run
from isotone.daemon.sockets import AddressInUse
from isotone.daemon.storage import StateDirectory
from isotone.daemon.streams import bind_tcp
from isotone.evs.membership import KnownDaemon
from isotone.evs.sessions.frames import control_frame
from isotone.evs.sessions.messages import Hello, JoinAsked, client_codec
from tests.daemon.daemon_process import Wanted
from tests.daemon.test_cluster import judge
from tests.ports import free_port

DEADLINE_S = 60.0
PROGRAM = Path(__file__).with_name("daemon_process.py")


class Processes:
    """Daemons in processes of their own, with ends that cannot be missed."""

    def __init__(self, directory: Path, names: tuple[str, ...]) -> None:
        self.directory = directory
        self.ports = {name: free_port() for name in names}
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.said: dict[str, list[str]] = {name: [] for name in names}
        self.write_known(*names)

    def write_known(self, *names: str) -> None:
        known = [KnownDaemon(name, "lan", Address(f"127.0.0.1:{self.ports[name]}")) for name in names]
        (self.directory / "known.json").write_bytes(msgspec.json.encode(known))

    def start(self, name: str) -> None:
        wanted = Wanted(name, str(self.directory), self.ports[name], str(self.directory / "known.json"))
        command = [sys.executable, str(PROGRAM), msgspec.json.encode(wanted).decode()]
        self.running[name] = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def until_said(self, name: str, words: str) -> str:
        stream = self.running[name].stderr
        assert stream is not None
        for line in stream:
            self.said[name].append(line.rstrip())
            if words in line:
                return line
        raise AssertionError(f"{name} ended without saying {words!r}: {self.said[name]}")

    def end(self, name: str, how: signal.Signals) -> int:
        process = self.running.pop(name)
        process.send_signal(how)
        code = process.wait(DEADLINE_S)
        assert process.stderr is not None
        self.said[name] += process.stderr.read().splitlines()
        process.stderr.close()
        return code


@contextmanager
def processes(directory: Path, *names: str) -> Iterator[Processes]:
    found = Processes(directory, names)
    try:
        yield found
    finally:
        for name in list(found.running):
            found.end(name, signal.SIGKILL)


def test_a_kill_and_a_merge_replay_byte_for_byte(tmp_path: Path) -> None:
    with processes(tmp_path, "d1", "d2", "d3") as daemons:
        for name in daemons.ports:
            daemons.start(name)
        for name in daemons.ports:
            daemons.until_said(name, "is ready")

        async def talk() -> None:
            alice = await connect(f"127.0.0.1:{daemons.ports['d1']}", name="alice")
            bob = await connect(f"127.0.0.1:{daemons.ports['d3']}", name="bob")
            chat, _ = await alice.join("chat"), await bob.join("chat")
            await seen(chat, 2)
            await chat.send(b"before")
            assert await asyncio.to_thread(daemons.end, "d3", signal.SIGKILL) == -signal.SIGKILL
            await seen(chat, 1)
            await bob.close()
            daemons.start("d3")
            await asyncio.to_thread(daemons.until_said, "d3", "is ready")
            carol = await connect(f"127.0.0.1:{daemons.ports['d3']}", name="carol")
            await carol.join("chat")
            await seen(chat, 2)
            await carol.close()
            await alice.close()

        asyncio.run(asyncio.wait_for(talk(), 2 * DEADLINE_S))
        assert [daemons.end(name, signal.SIGTERM) for name in ("d1", "d2", "d3")] == [0, 0, 0]
    assert not judge(tmp_path).get("not_judged")
    for path in sorted((tmp_path / "journal").iterdir()):
        result = CliRunner().invoke(commands, ["sim", "replay", str(path), "--json"])
        found = msgspec.json.decode(result.stdout)
        assert result.exit_code == 0 and found["compared"] == found["events"] > 20
        assert bool(found["torn"]) == (path.name == "d3-1.journal")


async def seen(chat: object, members: int) -> None:
    async for event in chat:  # type: ignore[attr-defined]
        if isinstance(event, View) and len(event.members) == members:
            return


def test_sighup_reads_the_known_daemons_again(tmp_path: Path) -> None:
    with processes(tmp_path, "d1", "d2") as daemons:
        daemons.write_known("d1")
        daemons.start("d1")
        daemons.until_said("d1", "is ready")
        daemons.write_known("d1", "d2")
        daemons.running["d1"].send_signal(signal.SIGHUP)
        assert "d2 known or moved" in daemons.until_said("d1", "settings read again")
        (tmp_path / "known.json").write_text("soup")
        daemons.running["d1"].send_signal(signal.SIGHUP)
        assert daemons.end("d1", signal.SIGINT) == 0


@pytest.mark.parametrize(
    ("problem", "said", "code"),
    [
        ("port", "cannot listen on", 3),
        ("port", "see daemon.port, daemon.listen and daemon.address", 3),
        ("state", "in use by another process", 3),
        ("state", "see cluster.state_directory", 3),
        ("name", "of daemon 'd1'", 2),
    ],
)
def test_what_is_wrong_is_said_and_has_its_exit_code(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, problem: str, said: str, code: int
) -> None:
    state = StateDirectory(tmp_path / "state")
    state.open("d1")
    sock, address = bind_tcp("127.0.0.1", 0)
    if problem != "state":
        state.close()
    settings = NodeSettings(
        name="d2" if problem == "name" else "d1",
        port=int(address.rpartition(":")[2]) if problem == "port" else 0,
        state_directory=tmp_path / "state",
    )
    assert run(settings) == code
    assert said in caplog.text
    state.close()
    sock.close()


def port_in_use() -> tuple[socket.socket, int]:
    sock, address = bind_tcp("127.0.0.1", 0)
    return sock, split_address(address)[1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"multicast": "239.192.0.1:4803", "interface": "203.0.113.7"}, "see site.multicast and daemon.interface"),
        ({"multicast": "239.192.0.1:4803", "interface": "no.such.host.invalid"}, "see site.multicast and"),
        ({"host": "203.0.113.7"}, "see daemon.port, daemon.listen and daemon.address"),
        ({"listeners": (Listener(address=Address("unix:/missing/socket"), setting="a.key"),)}, "see a.key in the"),
        ({"listeners": (Listener(address=Address("a..b:1"), setting="a.key"),)}, "see a.key in the settings"),
    ],
)
def test_a_system_call_that_fails_names_its_setting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], said: str
) -> None:
    assert run(NodeSettings(name="d1", state_directory=tmp_path, **settings)) == 3
    errors = [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]
    assert len(errors) == 1 and said in errors[0].getMessage()


def test_a_record_that_cannot_be_written_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()

    @asynccontextmanager
    async def around(node: Node) -> AsyncIterator[None]:
        node.stop()
        yield

    trace = TraceSettings(directory=tmp_path / "file" / "trace")
    assert run(NodeSettings(name="d1", state_directory=tmp_path / "state", trace=trace), around=around) == 0
    assert "records nothing" in caplog.text and "see trace.directory" in caplog.text


def test_multicast_at_the_port_of_a_daemon_that_listens_everywhere() -> None:
    """Each multicast is heard once, and the port is still for one daemon alone."""
    port, near = free_port(), "127.0.0.1"
    settings = NodeSettings(name="d1", host="0.0.0.0", port=port, multicast=f"239.192.0.1:{port}", interface=near)
    places = bind_places(settings)
    assert places.group is not None
    try:
        with pytest.raises(AddressInUse):
            bind_places(settings)
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        sender.sendto(b"to all", ("239.192.0.1", port))
        sender.sendto(b"to one", ("127.0.0.1", port))
        heard = [receive(places.group), receive(places.datagrams)]
        assert heard == [b"to all", b"to one"]
        sender.close()
    finally:
        places.close()


def receive(sock: socket.socket) -> bytes:
    sock.settimeout(20)
    return sock.recv(100)


def test_an_address_in_use_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotone.daemon.node.BIND_AGAIN_SECONDS", 0.0)
    sock, port = port_in_use()
    tries: list[int] = []

    def bind(settings: NodeSettings) -> Places:
        tries.append(1)
        if len(tries) == 3:
            sock.close()
        return bind_places(settings)

    monkeypatch.setattr("isotone.daemon.node.bind_places", bind)

    @asynccontextmanager
    async def around(node: Node) -> AsyncIterator[None]:
        node.stop()
        yield

    assert run(NodeSettings(name="d1", state_directory=tmp_path, port=port, bind_within_s=60), around=around) == 0
    assert len(tries) == 3 and caplog.text.count("tries again for 60 seconds") == 1


def test_a_stop_ends_the_wait_for_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotone.daemon.node.BIND_AGAIN_SECONDS", 0.0)
    sock, port = port_in_use()
    tries: list[int] = []

    def bind(settings: NodeSettings) -> Places:
        tries.append(1)
        if len(tries) == 3:
            signal.raise_signal(signal.SIGTERM)
        return bind_places(settings)

    monkeypatch.setattr("isotone.daemon.node.bind_places", bind)
    assert run(NodeSettings(name="d1", state_directory=tmp_path, port=port, bind_within_s=1e9)) == 3
    sock.close()


def test_what_stands_around_a_daemon_and_fails_ends_it_cleanly(tmp_path: Path) -> None:
    nodes: list[Node] = []

    @asynccontextmanager
    async def around(node: Node) -> AsyncIterator[None]:
        nodes.append(node)
        raise MachineError("the port is taken")
        yield

    settings = NodeSettings(name="d1", state_directory=tmp_path / "state", trace=TraceSettings(directory=tmp_path))
    assert run(settings, around=around) == 3
    assert nodes[0].phase is Phase.ENDED and not nodes[0].end_reason
    assert StateDirectory(tmp_path / "state").open("d1", 1)[1] == 2


def test_a_signal_during_the_start_ends_nothing_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin = Node.start

    async def start(node: Node) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        await begin(node)

    monkeypatch.setattr(Node, "start", start)
    with caplog.at_level("INFO", "isotone.daemon"):
        assert run(NodeSettings(name="d1", state_directory=tmp_path)) == 0
    assert "SIGHUP during the start" in caplog.text and "daemon d1: SIGTERM" in caplog.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("program", [("isotone.cli", "daemon", "run"), ("isotone.daemon",)])
def test_a_stop_before_it_has_begun_is_a_clean_one(tmp_path: Path, program: tuple[str, ...], number: int) -> None:
    """The settings are a pipe: so it is certain that it waits for them when it is told to stop."""
    settings = tmp_path / "isotone.toml"
    os.mkfifo(settings)
    with subprocess.Popen([sys.executable, "-m", *program, str(settings)], stderr=subprocess.PIPE) as process:
        descriptor = os.open(settings, os.O_WRONLY)
        process.send_signal(signal.SIGHUP)  # nothing to read again: it means nothing
        process.send_signal(number)
        _, said = process.communicate(timeout=DEADLINE_S)
        os.close(descriptor)
        assert (process.returncode, said) == (0, b"")


def test_a_stop_does_not_wait_long_for_a_client_that_takes_nothing(tmp_path: Path) -> None:
    async def main() -> float:
        node = Node(NodeSettings(name="d1", state_directory=tmp_path, stop_within_s=60.0))
        await node.start()
        await node.ready()
        host, _, port = node.address.rpartition(":")
        with socket.create_connection((host, int(port))) as stuck:
            async with connect(node.address, name="other") as other:
                hello = client_codec.encode(Hello(name="stuck", credential=b"", attempt=bytes(16)))
                stuck.sendall(b"ISOC\x01\x01\0\0" + control_frame(hello))
                stuck.sendall(control_frame(client_codec.encode(JoinAsked("room"))))
                room = await other.join("room")
                while not isinstance(event := await room.receive(), View) or len(event.members) < 2:
                    pass
                while not node.shell.streams.waiting_bytes:
                    await room.send(bytes(500_000))
            began = asyncio.get_running_loop().time()
            await node.stop()
            return asyncio.get_running_loop().time() - began

    assert asyncio.run(asyncio.wait_for(main(), DEADLINE_S)) < 30.0, "not all of its time"
