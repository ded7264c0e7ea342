"""The settings of ``--dev``: one machine, nothing to write, nothing closed. They say so."""

from __future__ import annotations

from pathlib import Path

from isotone.core.addresses import DEFAULT_PORT
from isotone.daemon.settings.tables import (
    ADMIN_PORT,
    Admin,
    Cluster,
    Daemon,
    DaemonSettings,
    Faults,
    Security,
    Spread,
    Trace,
)
from isotone.daemon.settings.whereabouts import files_of

LOOPBACK = "127.0.0.1"


def dev_settings(
    port: int = DEFAULT_PORT,
    *,
    directory: Path,
    name: str = "dev",
    admin_port: int = ADMIN_PORT,
    peers: tuple[Daemon, ...] = (),
    spread: bool = True,
    faults: bool = True,
) -> DaemonSettings:
    """Loopback only, open to every program of this machine; state and trace lie in ``directory``.

    Port 0 lets the kernel choose. ``peers`` are the other daemons of a cluster on this machine.
    """
    me = Daemon(name=name, address=LOOPBACK, port=port, admin_port=admin_port)
    return DaemonSettings(
        cluster=Cluster(name="dev", announce=False, state_directory=str(directory / "state")),
        daemon=(me, *peers),
        security=Security(mode="open"),
        trace=Trace(directory=str(directory / "trace")),
        spread=Spread(enabled=spread, share_port=True, unix_socket="/tmp/{port}" if port else ""),
        faults=Faults(enabled=faults),
        admin=Admin(listen=LOOPBACK, port=admin_port),
        dev=True,
    )


def dev_notice(settings: DaemonSettings, daemon: Daemon | None = None) -> str:
    """What a daemon, the first unless told otherwise, says when it starts with these settings."""
    files = files_of(settings, daemon or settings.daemon[0])
    spread = "; Spread's clients use the same port" if settings.spread.enabled else ""
    return (
        "development: loopback only and OPEN, without keys or credentials: every program of this machine may connect, "
        f"join, send and administrate{spread}. State is in {files.state}, "
        f"the trace in {files.trace}."
    )
