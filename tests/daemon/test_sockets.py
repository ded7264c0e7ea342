"""The UDP socket of a daemon: what a closed port elsewhere does to it, on every loop that there is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from isotone.core.contract import Address
from isotone.daemon.sockets import Datagrams, bind_datagrams

uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_refused_packets_do_not_make_it_deaf(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The error of a packet is taken by the next one sent, while others wait to be read: some loops watch no more."""

    async def main() -> None:
        heard: asyncio.Queue[bytes] = asyncio.Queue()
        refused: list[Address] = []
        ours = bind_datagrams("127.0.0.1", 0, receive_bytes=65_536, send_bytes=65_536)
        datagrams = Datagrams(
            asyncio.get_running_loop(), ours, received=lambda *it: heard.put_nowait(it[1]), refused=refused.append
        )
        closed = bind_datagrams("127.0.0.1", 0, receive_bytes=65_536, send_bytes=65_536)
        nowhere = Address(f"127.0.0.1:{closed.getsockname()[1]}")
        closed.close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.1", 0))
            somewhere = Address(f"127.0.0.1:{other.getsockname()[1]}")
            for number in range(20):
                other.sendto(b"%d" % number, ours.getsockname())
                for where in (nowhere, somewhere):
                    datagrams.send(where, [[b"is anybody there?"]])
                assert await asyncio.wait_for(heard.get(), 60) == b"%d" % number
        assert nowhere in refused
        datagrams.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
