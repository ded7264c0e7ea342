"""A client of Spread next to a native one: one group, one order. Programs that use Spread's libraries need no change.

The class below is what such a library does on the wire, cut down to what this example needs: version 5, little-endian,
no authentication. Yours is the library that your program has.

    python examples/spread_client.py                     on a daemon inside of this process
    python examples/spread_client.py localhost:4803      on a running one (isotone daemon --dev)
"""

import asyncio
import struct
import sys
import tempfile
from pathlib import Path

import isotone
from isotone.daemon.admin.assembly import assembled
from isotone.daemon.settings import dev_settings

AGREED, JOIN, VIEW = 0x10, 0x10000, 0x1000
MARK = 0x80000080  # little-endian
HEAD = struct.Struct("<I32siIi")


class SpreadClient:
    """A connection in Spread's protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, private_group: str) -> None:
        self._reader, self._writer, self.private_group = reader, writer, private_group

    @classmethod
    async def connect(cls, address: str, name: str) -> "SpreadClient":
        """As SP_connect does: version, name, the method of authentication, and the private group in return."""
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(bytes((5, 0, 1, 1, len(name))) + name.encode())
        await reader.readexactly((await reader.readexactly(1))[0])  # the methods that the daemon offers
        writer.write(b"NULL".ljust(90, b"\0"))
        accepted, *_, size = await reader.readexactly(5)
        if accepted != 1:
            raise ConnectionError(f"the daemon refused with {accepted}")
        return cls(reader, writer, (await reader.readexactly(size)).decode())

    def send(self, kind: int, group: str, data: bytes = b"") -> None:
        """As SP_join and SP_multicast do."""
        head = HEAD.pack(kind | MARK, self.private_group.encode(), 1, MARK, len(data))
        self._writer.write(head + group.encode().ljust(32, b"\0") + data)

    async def receive(self) -> tuple[int, str, list[str], bytes]:
        """As SP_receive does: kind, sender, groups or members, data."""
        kind, sender, groups, _, size = HEAD.unpack(await self._reader.readexactly(HEAD.size))
        slots = await self._reader.readexactly(32 * groups)
        names = [slots[place : place + 32].rstrip(b"\0").decode() for place in range(0, len(slots), 32)]
        return kind & ~MARK, sender.rstrip(b"\0").decode(), names, await self._reader.readexactly(size)

    async def close(self) -> None:
        """Without a word, as a program that ends does."""
        self._writer.close()
        await self._writer.wait_closed()


async def meet(address: str) -> None:
    """Both join a group and speak; each shows what it hears."""
    old = await SpreadClient.connect(address, "old")
    async with isotone.connect(address, name="new") as new:
        group = await new.join("meeting")
        old.send(JOIN, "meeting")
        old.send(AGREED, "meeting", b"hello from a client of Spread")
        words: list[bytes] = []
        async for event in group:
            if isinstance(event, isotone.View):
                print("new sees", [member.private_group for member in event.members])
            elif isinstance(event, isotone.Message):
                print("new hears", event.sender.private_group, event.body)
                words.append(event.body)
                if len(words) == 1:
                    await group.send(b"hello from a native one")
                else:
                    break
        while words:
            kind, sender, names, data = await old.receive()
            if kind & VIEW:
                print("old sees", names)
            elif kind & AGREED:
                print("old hears", sender, data)
                assert data == words.pop(0), "not the same order"
    await old.close()


async def play() -> None:
    """With a daemon as ``isotone daemon --dev`` has it, inside of this process."""
    with tempfile.TemporaryDirectory() as directory:
        assembly = assembled(dev_settings(0, directory=Path(directory), admin_port=0), "")
        async with isotone.node(assembly.node, hooks=assembly.hooks) as daemon:
            await meet(daemon.address)


if __name__ == "__main__":
    asyncio.run(meet(sys.argv[1]) if len(sys.argv) > 1 else play())
