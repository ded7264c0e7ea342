"""A client of Spread beside native ones, at another daemon: one group, one order, views as each of them knows them."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

from tests.daemon.spread.fuzz import Fuzz
from tests.integration.cluster import WITHIN_S, real_cluster, run
from tests.integration.people import GROUP, person
from tests.spread_client.blocking import SocketClient
from tests.spread_client.protocol import AGREED, FIFO, SAFE, SpreadClient

EXTRA = """
[spread]
enabled = true
share_port = true
"""


def go_mad(address: str, fuzz: Fuzz, count: int) -> None:
    """Mutated handshakes, and good ones with mutated frames behind them; nobody waits for answers."""
    host, _, port = address.rpartition(":")
    for _ in range(count):
        client = fuzz._client()
        client.private_group = "#mad#d1"
        said = fuzz._mutated(client.hello() + client.choice())
        if fuzz.choice.chance(0.7):
            frames = b"".join(fuzz._frame(client) for _ in range(fuzz.choice.between(1, 6)))
            said = client.hello() + (client.choice() if client.number >= 31600 else b"") + fuzz._mutated(frames)
        with socket.create_connection((host, int(port)), WITHIN_S) as stream, suppress(ConnectionError):
            stream.sendall(said)
            if fuzz.choice.chance(0.5):
                stream.shutdown(socket.SHUT_WR)


def test_a_thousand_mad_clients_disturb_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_cluster(tmp_path, {"d1": "s1"}, extra=EXTRA) as cluster:
            ada, fuzz = await person("ada", cluster.address("d1")), Fuzz(7)
            with SocketClient(cluster.address("d1"), SpreadClient("old"), WITHIN_S) as old:
                await asyncio.to_thread(old.connect)
                old.write(old.client.join(GROUP))
                await ada.sees("ada", "old")
                for number in range(10):
                    await asyncio.to_thread(go_mad, cluster.address("d1"), fuzz, 100)
                    old.write(old.client.multicast(SAFE, GROUP, b"old %d" % number))
                    await ada.confirm(b"ada %d" % number)
                    await ada.hears(b"ada %d" % number, b"old %d" % number)
                assert len(ada.acknowledged) == 10 and ada.members == ("ada", "old") and len(ada.views) == 2

                def names() -> list[str]:
                    return sorted(each["name"] for each in cluster.admin("d1").get("/status")["clients"])

                await cluster.until(lambda: names() == ["ada", "old"], "nothing is left of the others")
                assert "Traceback" not in cluster.log("d1")
                await cluster.end_quietly()
            await ada.close()

    run(main())


def test_a_client_of_spread_beside_a_native_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_cluster(tmp_path, {"d1": "s1", "d2": "s2"}, extra=EXTRA) as cluster:
            ada = await person("ada", cluster.address("d1"))
            with SocketClient(cluster.address("d2"), SpreadClient("old", order="big"), WITHIN_S) as old:
                await asyncio.to_thread(old.connect)
                old.write(old.client.join(GROUP))
                await ada.sees("ada", "old")
                view = await asyncio.to_thread(old.next_that, lambda frame: frame.is_view)
                assert view.groups == ("#ada#d1", "#old#d2")
                for number, service in enumerate((FIFO, AGREED, SAFE)):
                    old.write(old.client.multicast(service, GROUP, b"old %d" % number))
                    await ada.confirm(b"ada %d" % number)
                sent = {b"%s %d" % (name, number) for name in (b"ada", b"old") for number in range(3)}
                await ada.hears(*sent)
                heard: list[bytes] = []
                while len(heard) < len(sent):
                    frame = await asyncio.to_thread(old.next_that, lambda frame: frame.is_regular)
                    heard.append(frame.data)
                ordered = [body for body in ada.bodies if body != b"old 0"]  # FIFO promises less
                assert [body for body in heard if body != b"old 0"] == ordered
                await cluster.cut(["d1"], ["d2"])
                await ada.sees("ada")
                view = await asyncio.to_thread(old.next_that, lambda frame: frame.is_view)
                assert view.groups == ("#old#d2",)
                await cluster.cut()
                await ada.sees("ada", "old")
                view = await asyncio.to_thread(old.next_that, lambda frame: frame.is_view)
                assert view.groups == ("#ada#d1", "#old#d2")
                old.write(old.client.leave(GROUP))
                await ada.sees("ada")
                await asyncio.to_thread(old.next_that, lambda frame: frame.is_self_leave)
                await cluster.end_quietly()
            await ada.close()

    run(main())
