"""The witness of two data centres as a process: streams to their processes, and a small directory.

Implements: [HAB 2.2], the disaster detector. Deviations: Dh13 a witness, see docs/protocols/hab.md.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from isotone.core.contract import Event, Persist, Started
from isotone.core.errors import InputError, IsotoneError, MachineError
from isotone.daemon.security.keys import read_key
from isotone.daemon.storage import Disk, StateDirectory
from isotone.hab.events import PacketReceived, SendPacket
from isotone.hab.witness import Witness
from isotone.host.hab_settings import CentresFile
from isotone.host.hab_streams import Proof, WideStreams

log = logging.getLogger("isotone.centres")

WAITING_MAX = 1_024
"""Packets that wait for the disk; what comes then is dropped, and asked again."""


class WitnessServer:
    """Packets are handled one after the other: an answer waits until what it says is on disk."""

    def __init__(self, file: CentresFile, proof: Proof, disk: Disk) -> None:
        self.witness, self._disk = Witness(file.settings()), disk
        others = {name: each.wide for name, each in file.processes.items()}
        self.streams = WideStreams(proof, others, self._on_packet, lambda reader, writer: None)
        self._packets: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(WAITING_MAX)

    def _on_packet(self, source: str, data: bytes) -> None:
        with suppress(asyncio.QueueFull):
            self._packets.put_nowait((source, data))

    async def run(self) -> None:
        """Until it is cancelled, or the disk refuses."""
        while True:
            source, data = await self._packets.get()
            try:
                await self.handle(PacketReceived(time.monotonic_ns() // 1_000, source, data))
            except MachineError:
                raise
            except IsotoneError as error:
                log.warning("witness: %s: %s", source, error)

    async def handle(self, event: Event) -> None:
        """One event, and what follows from it."""
        for action in self.witness.handle(event):
            match action:
                case Persist():
                    await self._persist(action)
                    log.warning("witness: recorded as lost: %s", self.witness.lost)
                case SendPacket(to=to, data=data):
                    self.streams.send(to, data)

    async def _persist(self, action: Persist) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()
        self._disk.submit(action.writes, lambda reason: loop.call_soon_threadsafe(done.set_result, reason))
        if reason := await done:
            raise MachineError(reason)


@asynccontextmanager
async def witness_server(file: CentresFile, state: Path, key: Path | None = None) -> AsyncIterator[WitnessServer]:
    """Be the witness of the data centres in this file while the block lasts."""
    if file.witness is None:
        raise InputError("the settings of the data centres name no witness: add [witness] with name, wide and key")
    pair = read_key(key or state / "centre.key")
    if pair.text != file.witness.key:
        raise InputError(f"the settings name another public key for {file.witness.name} than this one: {pair.text}")
    directory = StateDirectory(state)
    directory.open(file.witness.name)
    try:
        storage = directory.storage()
        disk = Disk(directory)
        try:
            server = WitnessServer(file, Proof(file.witness.name, pair, file.roster()), disk)
            await server.handle(Started(0, storage))
            await server.streams.start(file.witness.wide)
            try:
                yield server
            finally:
                await server.streams.stop()
        finally:
            disk.close()
    finally:
        directory.close()
