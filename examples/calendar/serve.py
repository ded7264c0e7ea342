"""One machine of the calendar: a daemon, a component of the diary, and a port for people.

Three of them, each on its own machine, or here in three terminals::

    python -m examples.calendar.serve a 127.0.0.1:7101 7201 a=127.0.0.1:7101 b=127.0.0.1:7102 c=127.0.0.1:7103
    python -m examples.calendar.serve b 127.0.0.1:7102 7202 a=127.0.0.1:7101 b=127.0.0.1:7102 c=127.0.0.1:7103
    python -m examples.calendar.serve c 127.0.0.1:7103 7203 a=127.0.0.1:7101 b=127.0.0.1:7102 c=127.0.0.1:7103

With ``--view-synchronous``, all three stand on a view-synchronous group instead of ISIS kernels. With ``--state DIR``
each keeps there what it must remember of the others when it is started again; give it to all or to none.
Then, as often as you like, and with any one of them killed: ``echo enter 1 monday lunch with Ada | nc 127.0.0.1 7201``.
"""

from __future__ import annotations

import argparse
import asyncio
import json

from examples.calendar.diary import Diary

import isotone
from isotone import isis


async def answer(diary: isis.ObjectProxy, line: str) -> object:
    """One command of a person."""
    match line.split(maxsplit=3):
        case ["enter", id, when, what]:
            return await diary.enter(id, when, what)
        case ["cancel", id]:
            return await diary.cancel(id)
        case ["page", when]:
            return await diary.page(when)
        case ["ids"]:
            return await diary.ids()
    return "enter ID WHEN WHAT | cancel ID | page WHEN | ids"


async def main(
    name: str, address: str, port: int, peers: dict[str, str], *, state: str | None, view_synchronous: bool
) -> None:
    """Until it is killed."""
    others = list(peers.items())
    async with isotone.node(name=name, address=address, peers=others) as node:
        running = isis.tools(
            "calendar",
            name=name,
            sites=sorted(peers),
            node=node,
            state=state,
            suspect_ms=1_500,
            view_synchronous=view_synchronous,
        )
        async with running as tools:
            await tools.serve("diary", Diary)
            diary = tools.object("diary")

            async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                async for line in reader:
                    try:
                        said = await answer(diary, line.decode().strip())
                    except isotone.IsotoneError as error:
                        said = f"not known: {error}"
                    writer.write(json.dumps(said).encode() + b"\n")

            server = await asyncio.start_server(converse, "127.0.0.1", port)
            print(f"{name} serves the diary at port {port}", flush=True)
            async with server:
                await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="One machine of the calendar.")
    parser.add_argument("name")
    parser.add_argument("address", help="of its daemon")
    parser.add_argument("port", type=int, help="for people")
    parser.add_argument("peers", nargs="+", metavar="NAME=ADDRESS", help="all machines, this one too")
    parser.add_argument("--state", metavar="DIR")
    parser.add_argument("--view-synchronous", action="store_true")
    given = parser.parse_args()
    known = dict(peer.split("=", 1) for peer in given.peers)
    options = {"state": given.state, "view_synchronous": given.view_synchronous}
    asyncio.run(main(given.name, given.address, given.port, known, **options))
