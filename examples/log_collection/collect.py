"""Lines of a site into the ordered log: ``tail -F access.log | python collect.py SITE HOST:PORT,…``; see README.md."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable

import msgspec

from isotone.core.errors import MachineError
from isotone.host.answers import Maybe
from isotone.host.log_client import RemoteLog

WITHIN_S, PAUSE_S = 10.0, 0.2


async def collect(
    site: str, servers: str, lines: Iterable[str], acknowledged: Callable[[int], object], first: int = 1
) -> None:
    """Append each line until a server acknowledges it, and only then the next one.

    An answer that does not come leaves open whether the line is in the order. So it is sent again, under its number,
    and may then be there twice; whoever reads counts a number of a site once.
    """
    async with RemoteLog(servers.split(","), name=f"collect-{site}") as log:
        for number, line in enumerate(lines, first):
            record = msgspec.json.encode({"site": site, "number": number, "line": line.rstrip("\n")})
            while not await _is_appended(log, record):
                await asyncio.sleep(PAUSE_S)
            acknowledged(number)


async def _is_appended(log: RemoteLog, record: bytes) -> bool:
    try:
        await log.append(record, within_s=WITHIN_S)
    except (Maybe, MachineError):  # perhaps it is there; or no server answers just now
        return False
    return True


if __name__ == "__main__":
    asyncio.run(collect(sys.argv[1], sys.argv[2], sys.stdin, lambda number: print(number, flush=True)))
