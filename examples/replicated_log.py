"""A replicated log inside of one's own program: three servers, each beside a node and with files of its own.

Here they are in one process, so that it runs as it stands; in earnest each is on a machine of its own.

    python examples/replicated_log.py
"""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import isotone
from isotone.corel.quorum import Majority
from isotone.corel.settings import ReplicaSettings
from isotone.host.embedded import EmbeddedService
from isotone.host.replica_log import ReplicaLog

SERVERS = ("a", "b", "c")


async def main(directory: Path) -> None:
    """One order at all of them, and one that goes on without the third."""
    nodes: list[tuple[str, str]] = []
    logs: dict[str, ReplicaLog] = {}
    async with AsyncExitStack() as stack:
        for name in SERVERS:
            node = await stack.enter_async_context(
                isotone.node(name=name, peers=nodes, state=directory / name / "node")
            )
            nodes.append((name, node.address))
            settings = ReplicaSettings(server=name, servers=SERVERS, group="$log/orders", quorum=Majority(SERVERS))
            log = ReplicaLog(settings, service=EmbeddedService(node), directory=directory / name / "log")
            logs[name] = await stack.enter_async_context(log)
        print("position", await logs["a"].append(b"three apples", within_s=60.0))
        print("position", await logs["b"].append(b"two pears", within_s=60.0))
        await logs["c"].wait_for(2)
        print("at c:", [entry.record.decode() for entry in await logs["c"].read(1, 2)])
        await logs["c"].stop()
        print("without c: position", await logs["a"].append(b"a plum", within_s=60.0))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
