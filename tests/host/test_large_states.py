"""A state larger than any bound on one piece: through the port and the store, with small bounds here."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from isotone.core.errors import LocalProtocolError
from isotone.core.ordered_log import Snapshot
from isotone.corel.port import offers
from isotone.corel.port import wire as port_wire
from isotone.corel.port.server import PortTimes
from isotone.host import disk, store
from isotone.host.files import Files
from isotone.host.log_client import RemoteLog
from isotone.host.log_port import LogPort
from tests.host.replicas import replicas, run

SMALL = 16 * 1024
STATE = bytes(range(256)) * 2_048  # half a megabyte


def say(log: RemoteLog, frame: port_wire.Said) -> None:
    """As no client does."""
    shell = log._shell
    assert shell is not None
    (stream,) = shell.streams.values()
    stream.write((port_wire.framed(frame),))


class CountingFiles(Files):
    """How much at most was written at once."""

    most = 0

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        self.most = max(self.most, len(data))
        super().write(descriptor, data, offset)


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "WAITING_BYTES_MAX", 4 * SMALL)
    monkeypatch.setattr(disk, "COMMIT_BYTES_MAX", SMALL)
    monkeypatch.setattr(store, "WRITE_BYTES_MAX", SMALL)
    monkeypatch.setattr(port_wire, "FRAME_BYTES_MAX", 4 * SMALL)
    monkeypatch.setattr(port_wire, "PIECE_BYTES_MAX", SMALL)


@pytest.mark.usefixtures("small_bounds")
def test_a_state_above_every_bound_ends_nobody_and_is_found_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "ab", checkpoint_records=8) as group:
            files = group.files["b"] = CountingFiles()
            await group.stop_log("b")
            await group.start_log("b")
            await group.primary()
            for number in range(4):  # each with a checkpoint behind it that holds the state again
                end = await group.logs["b"].append(b"record %d" % number)
                for log in group.logs.values():
                    await log.wait_for(end)
                    await log.offer_snapshot(Snapshot(end, STATE + b"%d" % number))
                    log.host.check()
            assert 0 < files.most < 4 * SMALL, "what is written at once is bounded"
            await group.stop_log("b")
            log = await group.start_log("b")
            assert await log.snapshot() == Snapshot(4, STATE + b"3")

    run(main)


@pytest.mark.usefixtures("small_bounds")
def test_the_port_takes_and_gives_it_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            port = LogPort(group.logs["a"])
            await port.start("127.0.0.1", 0)
            async with RemoteLog(port.address) as remote:
                assert await remote.snapshot() is None
                await remote.append(b"one")
                await remote.offer_snapshot(Snapshot(1, STATE))
                assert await remote.snapshot() == await group.logs["a"].snapshot() == Snapshot(1, STATE)
                await remote.append(b"two")
                await remote.offer_snapshot(Snapshot(2, b""))
                assert await remote.snapshot() == Snapshot(2, b"")
                with pytest.raises(LocalProtocolError, match="the log ends at 2"):
                    await remote.offer_snapshot(Snapshot(3, STATE))
                monkeypatch.setattr(offers, "STATE_BYTES_MAX", 2 * SMALL)
                with pytest.raises(LocalProtocolError, match="at most"):
                    await remote.offer_snapshot(Snapshot(2, STATE))
                assert await remote.append(b"three") == 3, "the connection goes on"
                assert port.server.room.held_bytes == 0
                async with RemoteLog(port.address) as half:  # what another leaves half told counts until it is gone
                    say(half, port_wire.OfferSnapshot(1 << 40, 2, STATE[:SMALL], False))
                    await half.end()
                    assert port.server.room.held_bytes == SMALL
                    with pytest.raises(LocalProtocolError, match="no room for this state"):
                        await remote.offer_snapshot(Snapshot(2, STATE[: 2 * SMALL]))
                while port.server.room.held_bytes:
                    await asyncio.sleep(0)
                await remote.offer_snapshot(Snapshot(3, STATE[: 2 * SMALL]))
                assert port.server.room.held_bytes == 0
            await port.stop()

    run(main)


@pytest.mark.usefixtures("small_bounds")
def test_a_state_that_does_not_go_on_holds_nothing(tmp_path: Path) -> None:
    """Of a client whose machine is gone no end comes either; one that goes on after all hears what became of it."""

    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            port = LogPort(group.logs["a"], times=PortTimes(piece_within_us=0))
            await port.start("127.0.0.1", 0)
            async with RemoteLog(port.address) as remote:
                await remote.append(b"one")
                number = remote.client._out._last + 2  # of the next question but one
                say(remote, port_wire.OfferSnapshot(number, 1, STATE[:SMALL], False))
                await remote.end()
                while port.server.room.held_bytes:
                    await asyncio.sleep(0)
                (connection,) = port.server.connections.values()
                assert connection.offers._refused and not connection.offers._pieces
                with pytest.raises(LocalProtocolError, match="did not come in time"):
                    await remote.offer_snapshot(Snapshot(1, b"the rest"))
                assert await remote.snapshot() is None, "no half of a state is taken for one"
            await port.stop()

    run(main)


@pytest.mark.usefixtures("small_bounds")
def test_a_state_counts_until_it_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log = group.logs["a"]
            port = LogPort(log)
            await port.start("127.0.0.1", 0)
            async with RemoteLog(port.address) as remote:
                await remote.append(b"one")
                counted: list[int] = []
                offer = log.offer_snapshot

                async def watched(snapshot: Snapshot) -> None:
                    counted.append(port.server.room.held_bytes)
                    await offer(snapshot)
                    counted.append(port.server.room.held_bytes)

                log.offer_snapshot = watched  # type: ignore[method-assign]
                await remote.offer_snapshot(Snapshot(1, STATE))
                assert counted == [len(STATE)] * 2 and port.server.room.held_bytes == 0
                (connection,) = port.shell.streams.values()
                assert connection._transport is not None
                sock = connection._transport.get_extra_info("socket")
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            await port.stop()

    run(main)
