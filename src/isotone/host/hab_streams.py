"""The way between data centres: each process dials those of the other centres, both ends prove their keys, and what
follows is sealed.

A stream carries packets one way. Whatever does not fit, or finds nobody, is dropped: the protocol sends it again. So a
broadcast costs the two messages that the paper counts, and nothing beside them crosses but the acknowledgements of TCP.
A stream that begins with another mark is an operator's, and goes to whoever serves operators.

Implements: [HAB 2.3], channels. Deviations: Dh11 a stream of its own rather than a session at the other centre's
daemon: a session answers each send with credit, and that would cross too.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from isotone.core.addresses import split_address
from isotone.core.errors import MachineError, RemoteProtocolError
from isotone.core.ids import DaemonId
from isotone.daemon.security.handshakes import Refusal, judged
from isotone.daemon.security.keys import Identity, KeyPair, Roster
from isotone.daemon.security.noise import Cipher, Handshake
from isotone.daemon.security.packets import Introduction, introductions
from isotone.daemon.security.records import HANDSHAKE_BYTES_MAX, Reader, sealed_records, with_length
from isotone.host.liveness import notice_loss

log = logging.getLogger("isotone.centres")

MAGIC, OPERATOR_MAGIC = b"ISOW", b"ISOP"
PACKET_BYTES_MAX = 16 * 1024 * 1024
LENGTH_BYTES = 4
WAITING_BYTES_MAX = 32 * 1024 * 1024
"""So much may wait for one process; what comes then is dropped."""
READ_BYTES = 256 * 1024
GREET_WITHIN_S = 10.0
PAUSE_S, PAUSE_MAX_S = 0.1, 2.0
CONNECTIONS_MAX = 1_024

OnPacket = Callable[[str, bytes], object]
OnOperator = Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]


class Proof:
    """What this process proves, and whom it believes."""

    def __init__(self, name: str, pair: KeyPair, roster: Roster) -> None:
        self.roster = roster
        self.identity = Identity(DaemonId(name, 0), pair)
        self.introduction = introductions.encode(Introduction(name, 0, b""))
        self._prologue = b"isotone centres 1\0" + roster.cluster.encode()

    def handshake(self, *, initiator: bool) -> Handshake:
        """A new one."""
        private = self.identity.pair.private
        return Handshake(initiator=initiator, static=private, ephemeral=os.urandom(32), prologue=self._prologue)

    def judged(self, noise: Handshake, payload: bytes) -> str:
        """The name of the other end, whose key it has."""
        return judged(self.roster, self.identity, noise.remote, payload).name

    async def call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, Cipher]:
        """The end that dials: who is there, and the key for what we send."""
        noise = self.handshake(initiator=True)
        writer.write(MAGIC + with_length(noise.write()))
        name = self.judged(noise, noise.read(await _message(reader)))
        writer.write(with_length(noise.write(self.introduction)))
        return name, noise.split()[0]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, Cipher]:
        """The other end: who dialled, and the key for what we receive."""
        noise = self.handshake(initiator=False)
        noise.read(await _message(reader))
        writer.write(with_length(noise.write(self.introduction)))
        name = self.judged(noise, noise.read(await _message(reader)))
        return name, noise.split()[1]


def error_text(error: BaseException) -> str:
    """What it says; its name, if it says nothing."""
    return str(error) or type(error).__name__


async def _message(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(2), "big")
    if size > HANDSHAKE_BYTES_MAX:
        raise Refusal("malformed")
    return await reader.readexactly(size)


class _Line:
    """What goes to one process of another centre: dialled when there is something to send."""

    def __init__(self, proof: Proof, name: str, address: str) -> None:
        self._proof, self._name, self._address = proof, name, address
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._said = ""  # what was logged last

    def send(self, data: bytes) -> None:
        """Soon, if it fits."""
        if self._size + len(data) > WAITING_BYTES_MAX:
            return
        self._waiting.append(data)
        self._size += len(data)
        self._news.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Nothing more is sent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        pause = PAUSE_S
        while True:
            try:
                async with asyncio.timeout(GREET_WITHIN_S):
                    reader, writer, cipher = await self._dial()
            except (OSError, RemoteProtocolError, asyncio.IncompleteReadError, TimeoutError) as error:
                self._tell(f"cannot be reached at {self._address}: {error_text(error)}")
                self._drop()
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE_MAX_S)
                continue
            pause = PAUSE_S
            self._tell("is reached")
            try:
                with suppress(OSError):
                    await self._carry(reader, writer, cipher)
            finally:
                writer.transport.abort()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Cipher]:
        reader, writer = await asyncio.open_connection(*split_address(self._address))
        try:
            notice_loss(writer.get_extra_info("socket"))
            name, cipher = await self._proof.call(reader, writer)
            if name != self._name:
                raise Refusal("name of another", name)
        except BaseException:
            writer.transport.abort()
            raise
        return reader, writer, cipher

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cipher: Cipher) -> None:
        """Until the other end closes: it writes nothing."""
        ended = asyncio.get_running_loop().create_task(reader.read(1))
        try:
            while not ended.done():
                self._news.clear()
                while self._waiting:
                    data = self._waiting.popleft()
                    self._size -= len(data)
                    writer.writelines(sealed_records(cipher, [len(data).to_bytes(LENGTH_BYTES, "big") + data]))
                    await writer.drain()
                news = asyncio.get_running_loop().create_task(self._news.wait())
                await asyncio.wait([news, ended], return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
        finally:
            ended.cancel()

    def _drop(self) -> None:
        self._waiting.clear()
        self._size = 0

    def _tell(self, what: str) -> None:
        if what != self._said:
            self._said = what
            log.info("process %s of another centre %s", self._name, what)


class WideStreams:
    """All ways of one process: one out to each process of the other centres, and whoever dials in."""

    def __init__(self, proof: Proof, others: Mapping[str, str], on_packet: OnPacket, on_operator: OnOperator) -> None:
        self._proof, self._on_packet, self._on_operator = proof, on_packet, on_operator
        self._others = frozenset(others)
        self._lines = {name: _Line(proof, name, address) for name, address in others.items()}
        self._server: asyncio.Server | None = None
        self._inside: set[asyncio.Task[None]] = set()
        self.address = ""
        self.refused = 0

    async def start(self, address: str) -> None:
        """Listen."""
        host, port = split_address(address, port_min=0)
        try:
            self._server = await asyncio.start_server(self._accept, host, port)
        except OSError as error:
            raise MachineError(f"cannot listen on {address} for other centres: {error.strerror}") from error
        name = self._server.sockets[0].getsockname()
        self.address = f"{name[0]}:{name[1]}"

    def send(self, to: str, data: bytes) -> None:
        """A packet."""
        self._lines[to].send(data)

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*(line.close() for line in self._lines.values()))
        for task in self._inside:
            task.cancel()
        await asyncio.gather(*self._inside, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._inside) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._inside.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, RemoteProtocolError, asyncio.IncompleteReadError, TimeoutError) as error:
            self.refused += 1
            log.info("a stream from %s ends: %s", writer.get_extra_info("peername"), error_text(error))
        except asyncio.CancelledError:
            pass  # of our own stop
        finally:
            self._inside.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(GREET_WITHIN_S):
            mark = await reader.readexactly(len(MAGIC))
            if mark == MAGIC:
                name, cipher = await self._proof.answer(reader, writer)
        if mark == OPERATOR_MAGIC:
            found = self._on_operator(reader, writer)
            if asyncio.iscoroutine(found):
                await found
            return
        if mark != MAGIC or name not in self._others:
            raise Refusal("no process of another centre")
        notice_loss(writer.get_extra_info("socket"))
        await self._receive(name, reader, cipher)

    async def _receive(self, name: str, reader: asyncio.StreamReader, cipher: Cipher) -> None:
        records, held = Reader(), bytearray()
        records.cipher = cipher
        while data := await reader.read(READ_BYTES):
            records.add(data)
            held += records.opened()
            while len(held) >= LENGTH_BYTES:
                size = int.from_bytes(held[:LENGTH_BYTES], "big")
                if size > PACKET_BYTES_MAX:
                    raise Refusal("too large", name)
                if len(held) < LENGTH_BYTES + size:
                    break
                packet = bytes(held[LENGTH_BYTES : LENGTH_BYTES + size])
                del held[: LENGTH_BYTES + size]
                self._on_packet(name, packet)
