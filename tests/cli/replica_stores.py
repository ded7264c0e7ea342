"""A log of three servers as files, for tests of commands on servers that do not run."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isotone.cli.local_cluster import LOOPBACK
from isotone.core.contract import Storage, StoredLog
from isotone.corel import records as r
from isotone.corel.journal import LOG
from isotone.corel.message import Message, Origin
from isotone.host.scrub import create
from isotone.host.store import LOGS
from tests.ports import free_port, free_ports

MESSAGE = Message(Origin("a", 1), 1, 1, (b"x",))
GREEN = (r.Received((MESSAGE,), True), r.Greened(1))
IDENTITIES = tuple((name, name.encode()) for name in "abc")


def three_servers(directory: Path, *, begun: bool = False, **ports: int) -> Path:
    """Their settings file; their stores are beside it. ``begun``: all have met once."""
    file = directory / "isotone.toml"
    lines = ["[security]", 'mode = "open"', "[cluster]", f'state_directory = "{directory}"']
    free = free_ports(9)
    for name, own, port, admin in zip("abc", free, free[3:], free[6:], strict=False):
        lines += ["[[daemon]]", f'name = "{name}"', f'address = "{LOOPBACK}"']
        lines += [f"port = {port}", f"admin_port = {admin}"]
        lines += ["[[replica.server]]", f'name = "{name}"', f"port = {ports.get(name, own)}"]
        steps = (r.Lived(1, name.encode()), *((r.Founded(IDENTITIES),) if begun else ()), *GREEN)
        stored = StoredLog(1, [r.encode_record(step) for step in steps])
        create(directory / f"{name}.replica", name, Storage(logs={LOG: stored}))
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


@contextmanager
def listener() -> Iterator[int]:
    """A port at which somebody answers, and nobody afterwards."""
    port = free_port()
    with socket.create_server((LOOPBACK, port)):
        yield port


def unreadable_segment(store: Path) -> Path:
    """Where the only file of its log was, there is something that nobody can read."""
    (segment,) = (store / LOGS / LOG).glob("*.segment")
    segment.unlink()
    segment.mkdir()
    return segment
