"""What one `Node` needs, with everything resolved: the settings file, `--dev` and embedded daemons all lead here."""

from __future__ import annotations

from pathlib import Path

import msgspec

from isotone.core.contract import Address
from isotone.evs.sessions.settings import ServerSettings
from isotone.evs.stack import StackSettings
from isotone.trace.writer import ROTATE_BYTES, Level

GIB, MIB = 1024**3, 1024**2


class TraceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the trace goes and how long it stays; without a directory there is none."""

    level: Level = Level.BUFFERED
    directory: Path | None = None
    run: str = "isotone"
    """The name of the run: that of the cluster."""
    bytes_max: int = 4 * GIB
    """Of this daemon's files; the oldest go first."""
    age_max_s: int = 7 * 86_400
    rotate_bytes: int = ROTATE_BYTES
    flush_ms: int = 200
    apart: bool = False
    """Parquet files are made by a process of their own, so that the daemon has neither their work nor their memory."""


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """One more place where clients may call: ``host:port`` or ``unix:/path``. TLS contexts are handed to the node."""

    address: Address
    tls: bool = False
    spread: bool = False
    """Only Spread's clients call here; a Unix socket is open to all users of the machine."""
    setting: str = ""
    """Where the settings file says so."""


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of one daemon."""

    name: str
    site: str = "lan"
    host: str = "127.0.0.1"
    port: int = 0
    """Of UDP and TCP alike; 0 lets the kernel choose."""
    announced: Address | None = None
    """What others are told instead of host and port, where those are not what they can reach."""
    multicast: str = ""
    """The group of the site, as ``239.1.2.3:4803``; empty: packets go to each daemon on its own."""
    interface: str = ""
    """The address of the interface for multicast; empty: that of the host."""
    bind_within_s: float = 0.0
    """So long an address that is in use is tried again."""
    stack: StackSettings = StackSettings()
    sessions: ServerSettings = ServerSettings()
    listeners: tuple[Listener, ...] = ()
    spread_shares_port: bool = False
    state_directory: Path | None = None
    """None: a temporary one, gone when the daemon ends; then each start is a new daemon."""
    trace: TraceSettings = TraceSettings(level=Level.OFF)
    journal: Path | None = None
    """A directory for journals, one file for each incarnation; None: there is none."""
    faults: bool = False
    offload: bool = True
    receive_buffer_bytes: int = 8 * MIB
    send_buffer_bytes: int = 4 * MIB
    streams_max: int = 4096
    stop_within_s: float = 5.0
