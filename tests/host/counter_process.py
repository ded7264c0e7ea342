"""A counter in a host beside a daemon, in a process that counts until it is killed; says each total that is durable."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from isotone.daemon.embedded import node
from isotone.host.embedded import EmbeddedService
from isotone.host.host import Host
from tests.host.counter import Add, Counted, Counter, Viewed


async def main(path: Path) -> None:
    """Until somebody ends it."""
    async with node() as daemon:

        def counted(action: Counted) -> None:
            os.write(1, b"%d\n" % action.total)
            host.tell(Add(host.now(), 1))

        def viewed(action: Viewed) -> None:
            for _ in range(8):
                host.tell(Add(host.now(), len(action.view.members)))

        host = Host(
            lambda around: Counter(around.name),
            name="counter",
            service=EmbeddedService(daemon),
            directory=path,
            on={Counted: counted, Viewed: viewed},
        )
        async with host:
            await host.closed()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
