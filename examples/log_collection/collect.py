"""Lines of a file into the ordered log, as they come: ``python collect.py SITE HOST:PORT,… FILE``; see README.md."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from isotone.core.errors import MachineError
from isotone.host.answers import Maybe
from isotone.host.log_client import RemoteLog

WITHIN_S, PAUSE_S = 10.0, 0.2


class Mark(msgspec.Struct):
    """Beside a file: how far it is acknowledged. After a power failure it may be old: then lines are sent again."""

    number: int = 0
    offset: int = 0

    @classmethod
    def read(cls, file: Path) -> Mark:
        """That of this file; the beginning if there is none."""
        try:
            return msgspec.json.decode(cls.path(file).read_bytes(), type=cls)
        except (FileNotFoundError, msgspec.MsgspecError):
            return cls()

    def write(self, file: Path) -> None:
        """In place of the one before."""
        new = self.path(file).with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self))
        new.replace(self.path(file))

    @staticmethod
    def path(file: Path) -> Path:
        """Where it is."""
        return file.with_name(f"{file.name}.collected")


async def collect(site: str, servers: str, file: Path) -> None:
    """Append each line until a server acknowledges it, and only then the next one; without end.

    A line has the number that it has in the file, also when it is sent again: after an answer that did not come, and
    by a collector that was started anew. So it may stand in the log twice; who reads counts a number of a site once.
    """
    mark = Mark.read(file)
    log = RemoteLog(servers.split(","), name=f"collect-{site}")
    with file.open("rb") as lines:
        lines.seek(mark.offset)
        while True:
            line = lines.readline()
            if not line.endswith(b"\n"):  # its end is not written yet
                lines.seek(mark.offset)
                await asyncio.sleep(PAUSE_S)
                continue
            text = line.rstrip(b"\r\n").decode(errors="replace")
            record = msgspec.json.encode({"site": site, "number": mark.number + 1, "line": text})
            while not await _is_appended(log, record):
                await asyncio.sleep(PAUSE_S)
            mark = Mark(mark.number + 1, mark.offset + len(line))
            mark.write(file)


async def _is_appended(log: RemoteLog, record: bytes) -> bool:
    try:
        await log.append(record, within_s=WITHIN_S)
    except (Maybe, MachineError):  # perhaps it is there; or no server answers just now
        return False
    return True


if __name__ == "__main__":
    asyncio.run(collect(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
