"""Clients of Spread that make others wait, or are made to: for tests of slow readers over real sockets."""

from __future__ import annotations

import threading

from isotone.daemon.node import Node
from isotone.daemon.spread import SpreadGateway
from tests.spread_client.blocking import SocketClient
from tests.spread_client.protocol import FIFO, SAFE, SpreadClient

DEADLINE_S = 30.0
SENT = 40
SENT_BYTES = 1000


def gateway_of(node: Node) -> SpreadGateway:
    assert node.shell.spread_lane is not None
    gateway = node.shell.spread_lane.automaton
    assert isinstance(gateway, SpreadGateway)
    return gateway


def send_to_room(address: str, done: threading.Event) -> None:
    """Send so many messages; return when they were taken, which ``done`` lets happen."""
    with SocketClient(address, SpreadClient("sender", version=(5, 0, 1), order="little"), DEADLINE_S) as me:
        client = me.connect().client
        for n in range(SENT):
            me.write(client.multicast(FIFO, "room", bytes((n,)) * SENT_BYTES))
        done.wait(DEADLINE_S)
        me.write(client.multicast(SAFE, client.private_group, b"end"))
        me.next_that(lambda each: each.data == b"end")


def read_room(address: str, joined: threading.Event, reads: threading.Event) -> list[int]:
    """Join, read nothing until told; then the numbers at the beginning of all messages, to the first below 0."""
    heard: list[int] = []
    with SocketClient(address, SpreadClient("reader", version=(5, 0, 1), order="little"), DEADLINE_S) as me:
        client = me.connect().client
        me.write(client.join("room"))
        me.next_that(lambda each: each.is_view)
        joined.set()
        assert reads.wait(DEADLINE_S)
        while not heard or heard[-1] >= 0:
            data = me.next_that(lambda each: each.is_regular).data
            heard.append(int.from_bytes(data[:4], "big", signed=True))
    return heard
