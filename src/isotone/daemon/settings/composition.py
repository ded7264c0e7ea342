"""What the parts of one process make of the settings: the node, the gateway of Spread's clients, the Guard.

Apart from `mapping`, because these parts are not there where a file is only looked at.
"""

from __future__ import annotations

from pathlib import Path

from isotone.core.addresses import is_any, is_ip
from isotone.core.contract import Address
from isotone.daemon.node_settings import Listener, NodeSettings, TraceSettings
from isotone.daemon.security.keys import Roster, parse_authority, parse_public
from isotone.daemon.settings.mapping import (
    MS,
    chosen_daemon,
    daemon_address,
    server_settings,
    site_of,
    slow_policies,
    stack_settings,
)
from isotone.daemon.settings.tables import Access, Daemon, DaemonSettings
from isotone.daemon.settings.whereabouts import files_of, listeners_of
from isotone.daemon.spread.settings import GatewaySettings, Oversize
from isotone.evs.sessions.settings import SlowPolicy
from isotone.trace.layout import run_name
from isotone.trace.writer import Level

UNLIMITED = 2**62
BIND_SECONDS = 60.0
"""For a process that had the address before and has not ended yet."""
EVERYBODY = Access(allow=("connect", "join", "send"))
"""The access list of a file that has none: nobody administrates."""


def node_settings(settings: DaemonSettings, name: str) -> NodeSettings:
    """Of the daemon of this name."""
    daemon = chosen_daemon(settings, name)
    files, host = files_of(settings, daemon), daemon.listen or daemon.address
    return NodeSettings(
        name=daemon.name,
        site=site_of(settings, daemon).name,
        host=host,
        port=daemon.port,
        announced=daemon_address(daemon) if daemon.port and host != daemon.address else None,
        multicast=site_of(settings, daemon).multicast,
        interface=_interface(daemon),
        bind_within_s=0.0 if settings.dev else BIND_SECONDS,
        stack=stack_settings(settings, name),
        sessions=server_settings(settings),
        listeners=client_listeners(settings, daemon),
        spread_shares_port=settings.spread.enabled and settings.spread.share_port,
        state_directory=files.state,
        trace=_trace(settings, files.trace),
        journal=files.state / "journal" if settings.trace.journal else None,
        faults=settings.faults.enabled,
        stop_within_s=settings.timeouts.stop_ms / 1_000,
    )


def _interface(daemon: Daemon) -> str:
    """Of multicast: what is said, or the daemon's own address where it listens at all of them."""
    if daemon.interface:
        return daemon.interface
    return daemon.address if is_any(daemon.listen) and is_ip(daemon.address) else ""


def _trace(settings: DaemonSettings, directory: Path) -> TraceSettings:
    trace = settings.trace
    return TraceSettings(
        level=Level(trace.level),
        directory=directory,
        run=run_name(settings.cluster.name, trace.identity),
        bytes_max=trace.retain_bytes or UNLIMITED,
        age_max_s=trace.retain_hours * 3_600 or UNLIMITED,
        rotate_bytes=trace.rotate_bytes,
        apart=True,
    )


def client_listeners(settings: DaemonSettings, daemon: Daemon) -> tuple[Listener, ...]:
    """Where clients call besides the daemon's own port."""
    places = listeners_of(settings, daemon)
    found = []
    if places.clients is not None:
        tls, setting = bool(settings.security.tls_certificate_file), "daemon.client_port and daemon.client_listen"
        found.append(Listener(address=places.clients, tls=tls, setting=setting))
    if places.clients_unix is not None:
        found.append(Listener(address=_unix(places.clients_unix), setting="daemon.unix_socket"))
    if places.spread is not None:
        found.append(Listener(address=places.spread, spread=True, setting="spread.port and spread.listen"))
    if places.spread_unix is not None:
        found.append(Listener(address=_unix(places.spread_unix), spread=True, setting="spread.unix_socket"))
    return tuple(found)


def _unix(path: Path) -> Address:
    return Address(f"unix:{path}")


def gateway_settings(settings: DaemonSettings) -> GatewaySettings:
    """Of Spread's clients."""
    spread, limits, times = settings.spread, settings.limits, settings.timeouts
    return GatewaySettings(
        methods=spread.methods,
        required=spread.required_methods,
        networks=spread.networks,
        sessions_max=spread.sessions_max,
        groups_max=spread.groups_per_session_max,
        handshakes_max=limits.handshakes_max,
        handshake_us=times.handshake_ms * MS,
        message_bytes_max=spread.message_bytes_max,
        oversize=Oversize(spread.oversize),
        buffer_bytes_max=limits.buffer_bytes_max,
        buffers_bytes_max=limits.buffers_bytes_max,
        policy=SlowPolicy(spread.slow_policy),
        policies=slow_policies(limits.group),
        client_policies=slow_policies(limits.client),
    )


def roster_of(settings: DaemonSettings) -> Roster:
    """Whom a daemon of this cluster believes."""
    security = settings.security
    return Roster(
        settings.cluster.name,
        {each.name: parse_public(each.public_key) for each in settings.daemon if each.public_key},
        parse_authority(security.authority) if security.authority else None,
        frozenset(security.revoked),
    )


def access_list(settings: DaemonSettings) -> tuple[Access, ...]:
    """The rules of the file, or the one that holds without any."""
    return settings.security.access or (EVERYBODY,)
