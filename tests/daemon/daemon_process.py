"""A daemon in a process of its own, for tests: python daemon_process.py SETTINGS, where SETTINGS is JSON."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import msgspec

from isotone.daemon.node import Node
from isotone.daemon.node_settings import NodeSettings, TraceSettings
from isotone.daemon.running import run
from isotone.evs.membership import KnownDaemon, MembershipSettings
from isotone.evs.stack import StackSettings
from isotone.trace.writer import Level


class Wanted(msgspec.Struct):
    """What a test says about a daemon; ``known`` is read again on SIGHUP from the file ``known_file``."""

    name: str
    directory: str
    port: int = 0
    known_file: str = ""


def settings(wanted: Wanted) -> NodeSettings:
    directory = Path(wanted.directory)
    known = msgspec.json.decode(Path(wanted.known_file).read_bytes(), type=tuple[KnownDaemon, ...])
    others = tuple(each for each in known if each.name != wanted.name)
    return NodeSettings(
        name=wanted.name,
        port=wanted.port,
        state_directory=directory / wanted.name,
        stack=StackSettings(membership=MembershipSettings(known=others)),
        trace=TraceSettings(level=Level.FULL, directory=directory / "trace"),
        journal=directory / "journal",
    )


def main() -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    wanted = msgspec.json.decode(sys.argv[1], type=Wanted)

    async def reload(node: Node) -> list[str]:
        return node.apply(settings(wanted))

    return run(settings(wanted), reload=reload)


if __name__ == "__main__":
    sys.exit(main())
