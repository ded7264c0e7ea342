"""What makes sense in [replica]: servers, their daemons, and a rule without two disjoint quorums."""

from __future__ import annotations

from collections.abc import Iterator

from isotone.core.addresses import PORT_MAX, is_loopback
from isotone.core.errors import LocalProtocolError
from isotone.core.names import check_client_name, check_log_name
from isotone.corel.quorum import check_quorum
from isotone.daemon.settings.places import Path
from isotone.daemon.settings.problems import Finding, did_you_mean
from isotone.daemon.settings.replication import (
    SERVERS_MAX,
    daemon_of,
    founders,
    quorum_of,
    server_address,
    server_host,
)
from isotone.daemon.settings.tables import DaemonSettings, ReplicaRule

NEEDS_SERVER = ("tie-breaker", "monarch")
OUT_OF_REACH = "clients look for server {} at {}, and its port listens on loopback alone"


def findings(settings: DaemonSettings, written: frozenset[Path]) -> Iterator[Finding]:
    """All that is wrong with the replicated log; ``written`` are the keys that stand in the file."""
    replica = settings.replica
    try:
        check_log_name(replica.group)
    except LocalProtocolError as error:
        yield Finding(("replica", "group"), str(error), "choose another name")
    servers = list(_servers(settings))
    yield from servers
    rules = [finding for place, rule in enumerate(replica.rule) for finding in _rule(settings, place, rule)]
    yield from rules
    if not servers and not rules and replica.server:
        yield from _quorum(settings)
    if not servers and ("replica", "listen") not in written and (server := _out_of_reach(settings)):
        remedy = (
            'write [replica] listen = "" to listen there, in clear text, if the network is trusted; '
            'or "127.0.0.1" for programs of its machine alone (docs/guide/replica.md)'
        )
        yield Finding(("replica", "listen"), OUT_OF_REACH.format(*server), remedy)


def warnings(settings: DaemonSettings) -> Iterator[Finding]:
    """Ports that nobody finds where the file says that they are."""
    if server := _out_of_reach(settings):
        remedy = 'write "" to listen there, if the network is trusted'
        yield Finding(("replica", "listen"), OUT_OF_REACH.format(*server), remedy)


def _out_of_reach(settings: DaemonSettings) -> tuple[str, str] | None:
    """The first server whose address is on a network while its port is not, and this address."""
    if not is_loopback(settings.replica.listen):
        return None
    far = [each for each in settings.replica.server if not is_loopback(server_host(settings, each))]
    return (far[0].name, server_address(settings, far[0])) if far else None


def _servers(settings: DaemonSettings) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    ports: dict[str, int] = {}
    if len(settings.replica.server) > SERVERS_MAX:
        yield Finding(("replica", "server"), f"more than {SERVERS_MAX} servers", "leave some out")
    for place, server in enumerate(settings.replica.server):
        path: Path = ("replica", "server", place)
        try:
            check_client_name(server.name)
        except LocalProtocolError as error:
            yield Finding((*path, "name"), str(error), "choose another name")
        if server.name in seen:
            yield Finding((*path, "name"), f"there is another server {server.name}", "choose another name")
        seen[server.name] = place
        if daemon_of(settings, server) is None:
            names = [daemon.name for daemon in settings.daemon]
            what = f"there is no daemon {server.daemon or server.name}"
            yield Finding((*path, "daemon"), what, did_you_mean(server.daemon or server.name, names))
            continue
        if server.votes < 0:
            yield Finding((*path, "votes"), "votes are not below 0", "use 0 for a server without a vote")
        if server.port is not None and not 1 <= server.port <= PORT_MAX:
            yield Finding((*path, "port"), f"{server.port} is no port", f"choose 1 to {PORT_MAX}")
        address = server_address(settings, server)
        if address in ports:
            yield Finding(path, f"another server has its port at {address}", "give it a port of its own")
        ports[address] = place


def _rule(settings: DaemonSettings, place: int, rule: ReplicaRule) -> Iterator[Finding]:
    path: Path = ("replica", "rule", place)
    names = list(founders(settings))
    if rule.kind in NEEDS_SERVER and rule.server not in names:
        yield Finding((*path, "server"), f"there is no server {rule.server!r}", did_you_mean(rule.server, names))
    if rule.kind not in NEEDS_SERVER and rule.server:
        yield Finding((*path, "server"), f'the rule "{rule.kind}" names no server', "leave it out")
    if rule.minimum < 1:
        yield Finding((*path, "minimum"), "at least one server is needed", "choose 1 or more")


def _quorum(settings: DaemonSettings) -> Iterator[Finding]:
    names = founders(settings)
    if not names:
        yield Finding(("replica", "server"), "all servers join later: nobody begins", "leave out joins for some")
        return
    try:
        check_quorum(quorum_of(settings), names)
    except LocalProtocolError as error:
        path: Path = ("replica", "rule", 0) if settings.replica.rule else ("replica", "server")
        yield Finding(path, str(error), "choose rules of which no two quorums are disjoint")
