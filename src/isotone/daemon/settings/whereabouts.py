"""Where one daemon listens and where its files are. ``{name}`` in a path of the file stands for the daemon's name.

In those of sockets ``{port}`` stands for its port.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from isotone.core.addresses import join_address
from isotone.core.contract import Address
from isotone.daemon.settings.tables import Daemon, DaemonSettings


class Listeners(msgspec.Struct, frozen=True, kw_only=True):
    """What one daemon binds; none means that there is no such listener."""

    daemons: Address
    """UDP and TCP of other daemons; also of clients where ``clients`` is none."""
    clients: Address | None = None
    clients_unix: Path | None = None
    spread: Address | None = None
    spread_unix: Path | None = None
    spread_shares_port: bool = False
    admin: Address | None = None


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """Where one daemon keeps and finds things; none where the file says nothing."""

    state: Path
    """A directory of this daemon alone."""
    trace: Path
    private_key: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    client_authority: Path | None = None
    credentials: Path | None = None
    audit: Path


def listeners_of(settings: DaemonSettings, daemon: Daemon) -> Listeners:
    """Where the daemon listens."""
    listen = daemon.listen or daemon.address
    clients = None
    if daemon.client_port is not None:
        clients = join_address(daemon.client_listen or listen, daemon.client_port)
    spread, admin = settings.spread, settings.admin
    own_port = spread.enabled and not spread.share_port
    spread_port = spread.port if daemon.spread_port is None else daemon.spread_port
    admin_port = admin.port if daemon.admin_port is None else daemon.admin_port
    return Listeners(
        daemons=join_address(listen, daemon.port),
        clients=clients,
        clients_unix=_path(daemon.unix_socket, daemon, daemon.port),
        spread=join_address(spread.listen, spread_port) if own_port and spread.listen else None,
        spread_unix=spread_socket(settings, daemon) if spread.enabled else None,
        spread_shares_port=spread.enabled and spread.share_port,
        admin=join_address(admin.listen, admin_port) if admin.enabled else None,
    )


def files_of(settings: DaemonSettings, daemon: Daemon) -> Files:
    """Where the daemon's files are."""
    security = settings.security
    state = Path(settings.cluster.state_directory.replace("{name}", daemon.name)) / daemon.name
    return Files(
        state=state,
        trace=Path(settings.trace.directory.replace("{name}", daemon.name)),
        private_key=_path(security.private_key_file, daemon),
        tls_certificate=_path(security.tls_certificate_file, daemon),
        tls_key=_path(security.tls_key_file, daemon),
        client_authority=_path(security.client_authority_file, daemon),
        credentials=_path(security.credentials_file, daemon),
        audit=_path(security.audit_file, daemon) or state / "audit.jsonl",
    )


def spread_socket(settings: DaemonSettings, daemon: Daemon) -> Path | None:
    """Where Spread's clients find this daemon without a host: by the port that they are given."""
    spread, own = settings.spread, daemon.spread_port
    port = daemon.port if spread.share_port else spread.port if own is None else own
    return _path(spread.unix_socket, daemon, port)


def _path(text: str, daemon: Daemon, port: int = 0) -> Path | None:
    return Path(text.replace("{name}", daemon.name).replace("{port}", str(port))) if text else None
