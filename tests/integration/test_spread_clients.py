"""A client of Spread beside native ones, at another daemon: one group, one order, views as each of them knows them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.integration.cluster import WITHIN_S, real_cluster, run
from tests.integration.people import GROUP, person
from tests.spread_client.blocking import SocketClient
from tests.spread_client.protocol import AGREED, FIFO, SAFE, SpreadClient

EXTRA = """
[spread]
enabled = true
share_port = true
"""


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
