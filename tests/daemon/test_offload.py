"""Trains of datagrams: what may go together does, and what arrives is what was sent, with offload and without."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core.contract import Address
from isotone.daemon.offload import PARTS_MAX, SEGMENTS_MAX, TRAIN_BYTES_MAX, trains
from isotone.daemon.sockets import Datagrams, bind_datagrams


@given(st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=4), max_size=200))
def test_trains_are_what_the_kernel_takes_and_nothing_is_lost(datagrams: list[list[bytes]]) -> None:
    sent = []
    for parts, size, count in trains(datagrams):
        whole = b"".join(parts)
        assert 1 <= count <= SEGMENTS_MAX and len(whole) <= TRAIN_BYTES_MAX and len(parts) <= PARTS_MAX
        if count == 1:
            sent.append(whole)
            continue
        cut = [whole[begin : begin + size] for begin in range(0, len(whole), size)]
        assert len(cut) == count and all(cut)
        sent += cut
    assert sent == [b"".join(each) for each in datagrams]


def test_many_parts_and_large_datagrams() -> None:
    datagrams = [[b"x"] * 3_000, [b"y" * 1_400]] + [[b"z" * 1_400]] * 200
    found = list(trains(datagrams))
    assert [len(parts) <= PARTS_MAX for parts, _, _ in found] == [True] * len(found)
    assert sum(count for _, _, count in found) == len(datagrams)


@pytest.mark.parametrize("use_offload", [True, False])
@pytest.mark.parametrize("loop_name", ["asyncio", "uvloop"])
def test_what_is_sent_arrives(use_offload: bool, loop_name: str) -> None:
    sizes = [1_400] * 150 + [700, 1_400, 1_400, 20, 1, 9_000]
    sent = [[bytes([place % 251]) * 10, b"." * (size - 10 if size > 10 else 0)] for place, size in enumerate(sizes)]
    got: list[bytes] = []
    refused: list[Address] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done, closed = loop.create_future(), loop.create_future()

        def received(source: Address, data: bytes, size: int) -> None:
            assert source == there.book.text(ours.getsockname())
            got.extend(data[begin : begin + size] for begin in range(0, len(data), size))
            if len(got) == len(sent) and not done.done():
                done.set_result(None)

        def hear_refusal(destination: Address) -> None:
            refused.append(destination)
            if not closed.done():
                closed.set_result(None)

        ours = bind_datagrams("127.0.0.1", 0, receive_bytes=2**22, send_bytes=2**22)
        theirs = bind_datagrams("127.0.0.1", 0, receive_bytes=2**22, send_bytes=2**22)
        here = Datagrams(loop, ours, received=received, refused=hear_refusal, use_offload=use_offload)
        there = Datagrams(loop, theirs, received=received, refused=hear_refusal, use_offload=use_offload)
        target = there.book.text(theirs.getsockname())
        here.send(target, sent)
        await asyncio.wait_for(done, 60)
        if here.sends_trains:
            assert here.counters.datagram_writes < len(sent) / 4
        there.close()
        here.send(target, [[b"is anybody there"]])
        await asyncio.wait_for(closed, 60)
        here.send(target, [[b"an error was read, and it goes on"]])
        assert here.counters.datagrams_sent == len(sent) + 2
        here.close()

    if loop_name == "uvloop":
        uvloop = pytest.importorskip("uvloop")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())
    else:
        asyncio.run(main())
    assert sorted(got) == sorted(b"".join(each) for each in sent)
    assert len(refused) >= 1


def test_a_name_that_is_no_address_loses_its_datagrams() -> None:
    async def main() -> None:
        sock = bind_datagrams("127.0.0.1", 0, receive_bytes=2**16, send_bytes=2**16)
        here = Datagrams(asyncio.get_running_loop(), sock, received=lambda *a: None, refused=lambda a: None)
        here.send(Address("nonsense"), [[b"x"]])
        here.send(Address("[::1]:9"), [[b"x"], [b"y"]])
        assert here.counters.datagrams_unreachable == 3
        here.close()

    asyncio.run(main())


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(Exception, match=f"UDP 127.0.0.1:{port}: Address already in use"):
            bind_datagrams("127.0.0.1", port, receive_bytes=2**16, send_bytes=2**16)


class Picky(socket.socket):
    """Takes no trains to one address."""

    dislikes: Any = None

    def sendmsg(self, buffers: Any, ancdata: Any = (), flags: int = 0, address: Any = None) -> int:
        if ancdata and address == self.dislikes:
            raise OSError(errno.EINVAL, "no trains")
        return super().sendmsg(buffers, ancdata, flags, address)


def test_an_address_that_takes_no_trains_gets_single_packets_and_others_their_trains() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        sock = Picky(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        here = Datagrams(loop, sock, received=lambda *a: None, refused=lambda a: None)
        if not here.sends_trains:
            pytest.skip("this kernel cuts no trains")
        others = [bind_datagrams("127.0.0.1", 0, receive_bytes=2**20, send_bytes=2**16) for _ in range(2)]
        sock.dislikes = others[0].getsockname()
        for _ in range(2):
            for writes, other in zip((10, 1), others):
                before = here.counters.datagram_writes
                here.send(here.book.text(other.getsockname()), [[bytes(1_000)]] * 10)
                assert here.counters.datagram_writes - before == writes
                assert [len(other.recv(2_000)) for _ in range(10)] == [1_000] * 10
        assert here.sends_trains and here.counters.datagrams_sent == 40
        here.close()
        for other in others:
            other.close()

    asyncio.run(main())
