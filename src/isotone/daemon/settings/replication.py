"""What [replica] means for one server: its rule, its place on disk, where its port is."""

from __future__ import annotations

from pathlib import Path

from isotone.core.addresses import join_address
from isotone.core.errors import InputError
from isotone.core.names import LOG_GROUP_PREFIX
from isotone.corel import quorum as q
from isotone.corel.settings import ReplicaSettings
from isotone.daemon.settings.tables import Daemon, DaemonSettings, ReplicaRule, ReplicaServer

SERVERS_MAX = q.EXHAUSTIVE_MAX
SETTLE_US = 100_000
"""The green line is told so long after the last record; sooner would cost a slow writer a round more for each."""
NO_SERVERS = "the settings name no servers of a replicated log: add a [[replica.server]] for each"


def chosen_server(settings: DaemonSettings, name: str = "") -> ReplicaServer:
    """The server of this name; the only one, if there is one; raises `InputError`."""
    servers = settings.replica.server
    if not servers:
        raise InputError(NO_SERVERS)
    if not name and len(servers) == 1:
        return servers[0]
    found = next((server for server in servers if server.name == name), None)
    if found is None:
        names = ", ".join(server.name for server in servers)
        what = f"there is no server {name!r}" if name else "which server this is cannot be told"
        raise InputError(f"{what}: --name is one of {names}")
    return found


def daemon_of(settings: DaemonSettings, server: ReplicaServer) -> Daemon | None:
    """Its daemon: the one it names, or the one of its own name."""
    return settings.daemon_named(server.daemon or server.name)


def server_address(settings: DaemonSettings, server: ReplicaServer) -> str:
    """Where clients of the log reach this server."""
    port = settings.replica.port if server.port is None else server.port
    return join_address(server_host(settings, server), port)


def server_addresses(settings: DaemonSettings) -> dict[str, str]:
    """The same of all servers, by name."""
    return {each.name: server_address(settings, each) for each in settings.replica.server}


def server_host(settings: DaemonSettings, server: ReplicaServer) -> str:
    """Where clients reach it, without the port."""
    daemon = daemon_of(settings, server)
    return server.address or (daemon.address if daemon is not None else "127.0.0.1")


def log_directory(settings: DaemonSettings, server: ReplicaServer) -> Path:
    """Where this server keeps its log."""
    if settings.replica.directory:
        text = settings.replica.directory
        return Path(text.replace("{name}", server.name)) if "{name}" in text else Path(text) / server.name
    return Path(settings.cluster.state_directory.replace("{name}", server.name)) / f"{server.name}.replica"


def quorum_of(settings: DaemonSettings) -> q.Rule:
    """The rule that the file describes."""
    rules = tuple(_rule(settings, rule) for rule in settings.replica.rule)
    if not rules:
        return q.Majority(founders(settings))
    if len(rules) == 1:
        return rules[0]
    return q.AllOf(rules) if settings.replica.combine == "all" else q.AnyOf(rules)


def founders(settings: DaemonSettings) -> tuple[str, ...]:
    """The servers that the log begins with, the same in every file for ever."""
    return tuple(server.name for server in settings.replica.server if not server.joins)


def _rule(settings: DaemonSettings, rule: ReplicaRule) -> q.Rule:
    match rule.kind:
        case "majority":
            return q.Majority(founders(settings))
        case "votes":
            return q.Weighted({server.name: server.votes for server in settings.replica.server if not server.joins})
        case "tie-breaker":
            return q.TieBreaker(founders(settings), rule.server)
        case "monarch":
            return q.Monarch(rule.server)
        case "dynamic":
            return q.DynamicVoting(rule.minimum)


def replica_settings(settings: DaemonSettings, server: ReplicaServer) -> ReplicaSettings:
    """As the automaton takes them."""
    replica = settings.replica
    return ReplicaSettings(
        server=server.name,
        servers=founders(settings),
        group=LOG_GROUP_PREFIX + replica.group,
        quorum=quorum_of(settings),
        waiting_records_max=replica.waiting_records_max,
        held_bytes_max=replica.held_bytes_max,
        snapshots=True,
        settle_us=SETTLE_US,
        transfer_bytes_per_s=replica.transfer_bytes_per_s,
        proposals=replica.proposals,
    )
