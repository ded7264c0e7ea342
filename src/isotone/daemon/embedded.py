"""A daemon inside of the application's own process: ``async with isotone.node() as daemon``.

Implements: [Spread 3.2]. Deviations: De1 the server may also live in the process of its client, because an
application that wants no other process to look after then needs none.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from isotone.core.addresses import UNIX, host_of, is_loopback, split_address
from isotone.core.contract import Address
from isotone.daemon.composition import Hooks
from isotone.daemon.node import Node
from isotone.daemon.node_settings import NodeSettings, TraceSettings
from isotone.daemon.settings.security_rules import CLIENTS_ARE_OPEN, DAEMONS_ARE_OPEN
from isotone.evs.membership import KnownDaemon
from isotone.evs.sessions.admission import admit_all
from isotone.evs.stack import StackSettings
from isotone.trace.writer import Level

SITE = "lan"

log = logging.getLogger("isotone.daemon")


@asynccontextmanager
async def node(
    settings: NodeSettings | None = None,
    *,
    name: str = "local",
    address: str = "127.0.0.1:0",
    peers: Sequence[tuple[str, str]] = (),
    state: Path | str | None = None,
    trace: Path | str | TraceSettings | None = None,
    hooks: Hooks | None = None,
) -> AsyncIterator[Node]:
    """Run a daemon on this loop while the block lasts; clients connect to its ``address``.

    Without arguments: one machine, loopback, a port that the kernel chooses, nothing kept on disk. ``peers`` are the
    names and addresses of others; ``state`` makes it the same daemon at the next start; ``trace`` records everything.
    Full settings take the place of all of these. At another address than loopback it is as open as the ``hooks`` leave
    it, and warns of that.
    """
    daemon = Node(settings or _settings(name, address, peers, state, trace), hooks)
    await daemon.start()
    for warning in _open_doors(daemon):
        log.warning("daemon %s at %s: %s", daemon.name, daemon.address, warning)
    try:
        await daemon.ready()
        yield daemon
    finally:
        await daemon.stop("the program is done with it")


def _open_doors(daemon: Node) -> Iterator[str]:
    """What a settings file is warned of too."""
    places = [daemon.settings.host, *(host_of(each) for each in daemon.addresses if not each.startswith(UNIX))]
    if all(is_loopback(place) for place in places):
        return
    if daemon.hooks.guard is None:
        yield DAEMONS_ARE_OPEN
    if daemon.hooks.admit is admit_all:
        yield CLIENTS_ARE_OPEN


def _settings(
    name: str,
    address: str,
    peers: Sequence[tuple[str, str]],
    state: Path | str | None,
    trace: Path | str | TraceSettings | None,
) -> NodeSettings:
    host, port = split_address(address, port_min=0)
    known = tuple(KnownDaemon(other, SITE, _checked(where)) for other, where in peers)
    stack = StackSettings()
    if not isinstance(trace, TraceSettings):
        level = Level.OFF if trace is None else Level.BUFFERED
        trace = TraceSettings(level=level, directory=None if trace is None else Path(trace))
    return NodeSettings(
        name=name,
        site=SITE,
        host=host,
        port=port,
        stack=msgspec.structs.replace(stack, membership=msgspec.structs.replace(stack.membership, known=known)),
        state_directory=None if state is None else Path(state),
        trace=trace,
    )


def _checked(address: str) -> Address:
    split_address(address)
    return Address(address)
