"""One server of PySyncObj to be measured: records of clients come over a stream and are answered when they are ordered.

``python -m isotone.bench.replica_pysyncobj PORT OWN DIRECTORY PEER PEER``
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def sync_settings(directory: Path) -> Any:
    """With a journal in this directory."""
    directory.mkdir(parents=True, exist_ok=True)
    journal, dump = str(directory / "journal"), str(directory / "dump")
    return import_module("pysyncobj").SyncObjConf(
        journalFile=journal, fullDumpFile=dump, flushJournal=True, autoTick=True
    )


def replicated_log(own: str, peers: list[str], directory: Path) -> Any:
    """An object of PySyncObj that keeps a list of records."""
    module = import_module("pysyncobj")
    settings = sync_settings(directory)

    class Log(module.SyncObj):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(own, peers, settings)
            self._count = 0

        @module.replicated  # type: ignore[untyped-decorator]
        def append(self, record: bytes) -> int:
            self._count += 1
            return self._count

    return Log()


async def serve(port: int, log: Any) -> None:
    """Until killed."""
    loop = asyncio.get_running_loop()

    async def on_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = int.from_bytes(await reader.readexactly(4), "little")
            record = await reader.readexactly(size)
            answer: asyncio.Future[object] = loop.create_future()
            log.append(
                record, callback=lambda _, error, answer=answer: loop.call_soon_threadsafe(_settle, answer, error)
            )
            writer.write(b"+" if not await answer else b"-")

    async with await asyncio.start_server(on_client, "127.0.0.1", port) as server:
        await server.serve_forever()


def _settle(answer: asyncio.Future[object], error: object) -> None:
    if not answer.done():
        answer.set_result(error)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), replicated_log(sys.argv[2], sys.argv[4:], Path(sys.argv[3]))))
