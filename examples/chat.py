"""A chat: every line reaches all who are in the room, in the same order; views say who is there.

python examples/chat.py                          two people on a daemon inside of this process
python examples/chat.py localhost:4803 alice     yourself, on a running one (isotone daemon --dev)
"""

import asyncio
import sys

import isotone

ROOM = "room"


async def listen(room: isotone.Group) -> None:
    """Show what happens in the room, until we leave it."""
    me = room.session.name
    async for event in room:
        match event:
            case isotone.Message():
                print(f"[{me}] {event.sender.name}: {event.body.decode(errors='replace')}")
            case isotone.View():
                print(f"[{me}] in the room: {', '.join(member.name for member in event.members)}")
            case isotone.Reconnected():
                print(f"[{me}] back again; {len(event.unknown)} of our lines may be lost")


async def talk(address: str, name: str) -> None:
    """Lines of standard input go to the room."""
    async with isotone.connect(address, name=name) as me:
        room = await me.join(ROOM)
        listening = asyncio.create_task(listen(room))
        while line := await asyncio.to_thread(sys.stdin.readline):
            await room.send(line.rstrip("\n").encode())
        await room.leave()
        await listening


async def play() -> None:
    """Two people who talk to each other."""
    async with (
        isotone.node() as daemon,
        isotone.connect(daemon.address, name="alice") as alice,
        isotone.connect(daemon.address, name="bob") as bob,
    ):
        rooms = [await alice.join(ROOM), await bob.join(ROOM)]
        listening = [asyncio.create_task(listen(room)) for room in rooms]
        await rooms[0].send(b"hello, bob")
        await rooms[1].send(b"hello, alice")
        await rooms[0].send(b"everybody has heard this", confirm=True)
        for room in rooms:
            await room.leave()
        await asyncio.gather(*listening)


if __name__ == "__main__":
    asyncio.run(talk(sys.argv[1], sys.argv[2]) if len(sys.argv) > 2 else play())
