"""Names, addresses, sites and links: who is where, and that nobody is there twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path as FilePath

from isotone.core.addresses import DEFAULT_PORT, PORT_MAX, is_any, is_ip, split_address
from isotone.core.errors import InputError, LocalProtocolError
from isotone.core.names import check_daemon_name
from isotone.daemon.settings.mapping import ONLY_SITE, site_name, site_of
from isotone.daemon.settings.places import Path
from isotone.daemon.settings.problems import Finding, did_you_mean
from isotone.daemon.settings.tables import Daemon, DaemonSettings, Site
from isotone.daemon.settings.whereabouts import listeners_of, spread_socket
from isotone.daemon.spread.constants import DAEMON_NAME_MAX as SPREAD_NAME_MAX

IPV4 = 4
SOCKET_BYTES_MAX = 107
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")


def findings(settings: DaemonSettings) -> Iterator[Finding]:
    """All that is wrong with places."""
    yield from _cluster(settings)
    yield from _sites(settings)
    for place, daemon in enumerate(settings.daemon):
        yield from _daemon(settings, daemon, ("daemon", place))
    yield from _twice([(each.name, ("daemon", place, "name")) for place, each in enumerate(settings.daemon)], "name")
    yield from _listeners(settings)
    yield from _sockets(settings)
    yield from _links(settings)


def _cluster(settings: DaemonSettings) -> Iterator[Finding]:
    cluster = settings.cluster
    yield from _name(cluster.name, ("cluster", "name"))
    if settings.trace.identity:
        yield from _name(settings.trace.identity, ("trace", "identity"))
    if not cluster.state_directory:
        yield Finding(("cluster", "state_directory"), "it is empty", "name a directory that the daemon may write to")
    if not settings.daemon:
        yield Finding(("daemon",), "there is no daemon", "add a [[daemon]] with name and address, at least this one's")
    for place, seed in enumerate(cluster.seeds):
        try:
            host, _ = split_address(seed, default_port=DEFAULT_PORT)
        except InputError as error:
            yield Finding(("cluster", "seeds", place), str(error), 'write "host:port"')
        else:
            yield from _host(host, ("cluster", "seeds", place))


def _sites(settings: DaemonSettings) -> Iterator[Finding]:
    for place, site in enumerate(settings.site):
        yield from _name(site.name, ("site", place, "name"))
        if site.multicast:
            yield from _multicast(site.multicast, ("site", place, "multicast"))
        for number, gateway in enumerate(site.gateways):
            yield from _gateway(settings, site, gateway, ("site", place, "gateways", number))
    yield from _twice([(each.name, ("site", place, "name")) for place, each in enumerate(settings.site)], "name")
    groups = [(each.multicast, ("site", place, "multicast")) for place, each in enumerate(settings.site)]
    yield from _twice([each for each in groups if each[0]], "multicast address")


def _gateway(settings: DaemonSettings, site: Site, gateway: str, path: Path) -> Iterator[Finding]:
    """It may be a daemon that the file does not list."""
    yield from _name(gateway, path)
    for daemon in settings.daemon:
        if daemon.name == gateway and daemon.site != site.name:
            what = f"{gateway} is in {daemon.site or 'no site'}, not in {site.name}"
            yield Finding(
                path, what, f"name daemons of {site.name}, or leave gateways out: then all of them may be one"
            )


def _multicast(text: str, path: Path) -> Iterator[Finding]:
    try:
        group = ip_address(split_address(text)[0])
        if group.is_multicast and group.version == IPV4:
            return
    except (InputError, ValueError):
        pass
    what = f'"{text}" is no multicast address of IPv4'
    yield Finding(path, what, 'write as in "239.192.0.1:4803", or leave it out: packets go to each daemon then')


def _daemon(settings: DaemonSettings, daemon: Daemon, path: Path) -> Iterator[Finding]:
    yield from _name(daemon.name, (*path, "name"))
    if settings.spread.enabled and len(daemon.name) > SPREAD_NAME_MAX:
        what = f"Spread's clients take names of daemons up to {SPREAD_NAME_MAX} characters, this has {len(daemon.name)}"
        yield Finding((*path, "name"), what, "choose a shorter one, or write enabled = false in [spread]")
    yield from _host(daemon.address, (*path, "address"))
    if is_any(daemon.address):
        what = "others cannot reach a daemon there"
        yield Finding((*path, "address"), what, "write the address of the machine, and this one as listen")
    for key in ("listen", "client_listen"):
        if getattr(daemon, key):
            yield from _host(getattr(daemon, key), (*path, key))
    yield from _multicast_of(settings, daemon, path)
    for key in ("port", "client_port", "admin_port", "spread_port"):
        yield from _port(getattr(daemon, key), (*path, key))
    known = [site.name for site in settings.site]
    if daemon.site and known and daemon.site not in known:
        what = f"there is no [[site]] named {daemon.site}"
        yield Finding((*path, "site"), what, did_you_mean(daemon.site, known))
    if daemon.site and not known:
        yield from _name(daemon.site, (*path, "site"))
    if not daemon.site and (len(known) > 1 or any(each.site for each in settings.daemon if not known)):
        what = f"of which site is {daemon.name}? There are several"
        yield Finding(path, what, f"add site = … with one of: {', '.join(_all_sites(settings))}")


def _multicast_of(settings: DaemonSettings, daemon: Daemon, path: Path) -> Iterator[Finding]:
    """Multicast is that of IPv4, on an interface that is named by its address."""
    if daemon.interface and not (is_ip(daemon.interface) and ip_address(daemon.interface).version == IPV4):
        what = f'"{daemon.interface}" is no address of IPv4'
        yield Finding((*path, "interface"), what, "write the address of the interface for multicast")
    if site_of(settings, daemon).multicast and ":" in (daemon.listen or daemon.address):
        what = f"the multicast of its site is that of IPv4, and {daemon.name} listens at IPv6"
        yield Finding((*path, "listen" if daemon.listen else "address"), what, "remove multicast from the [[site]]")


def _all_sites(settings: DaemonSettings) -> list[str]:
    if settings.site:
        return [site.name for site in settings.site]
    return sorted({each.site for each in settings.daemon if each.site})


# --- who listens where ---------------------------------------------------------------------------------------------


def _listeners(settings: DaemonSettings) -> Iterator[Finding]:
    """Daemons with the same address are on one machine: each port there is for one listener."""
    taken: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for place, daemon in enumerate(settings.daemon):
        for key, host, port in _ports_of(settings, daemon):
            others = taken.setdefault((daemon.address, port), [])
            holder = next((what for what, at in others if at == host or is_any(at) or is_any(host)), "")
            if holder:
                what = f"port {port} is that of {holder} on the same machine"
                yield Finding(("daemon", place, key), what, f"give {daemon.name} another {key}")
            others.append((f"{daemon.name} ({key})", host))
    sockets: list[tuple[str, Path]] = []
    for place, daemon in enumerate(settings.daemon):
        listeners = listeners_of(settings, daemon)
        if listeners.clients_unix is not None:
            sockets.append((f"{daemon.address} {listeners.clients_unix}", ("daemon", place, "unix_socket")))
        if listeners.spread_unix is not None:
            sockets.append((f"{daemon.address} {listeners.spread_unix}", ("spread", "unix_socket")))
    yield from _twice(sockets, "socket")


def _sockets(settings: DaemonSettings) -> Iterator[Finding]:
    """Paths that the system takes as those of Unix sockets."""
    for place, daemon in enumerate(settings.daemon):
        yield from _socket(listeners_of(settings, daemon).clients_unix, ("daemon", place, "unix_socket"))
        yield from _socket(spread_socket(settings, daemon), ("spread", "unix_socket"))


def _socket(socket: FilePath | None, path: Path) -> Iterator[Finding]:
    name = str(socket or "")
    if not name.isprintable():
        yield Finding(path, "it has characters that no path should have", "choose another path")
    elif len(name.encode()) > SOCKET_BYTES_MAX:
        what = f"{len(name.encode())} bytes are too long for the path of a socket"
        yield Finding(path, what, f"choose one of at most {SOCKET_BYTES_MAX} bytes")


def _ports_of(settings: DaemonSettings, daemon: Daemon) -> Iterator[tuple[str, str, int]]:
    listen, spread, admin = daemon.listen or daemon.address, settings.spread, settings.admin
    yield "port", listen, daemon.port
    if daemon.client_port is not None:
        yield "client_port", daemon.client_listen or listen, daemon.client_port
    if spread.enabled and not spread.share_port and spread.listen:
        yield "spread_port", spread.listen, spread.port if daemon.spread_port is None else daemon.spread_port
    if admin.enabled:
        yield "admin_port", admin.listen, admin.port if daemon.admin_port is None else daemon.admin_port


# --- links ---------------------------------------------------------------------------------------------------------


def _links(settings: DaemonSettings) -> Iterator[Finding]:
    known = {site_name(settings, each): None for each in settings.daemon} | dict.fromkeys(_all_sites(settings))
    pairs: list[tuple[str, Path]] = []
    for place, link in enumerate(settings.link):
        path: Path = ("link", place)
        for end, name in enumerate(link.between):
            if name not in known:
                what = f"there is no site {name}"
                yield Finding((*path, "between", end), what, did_you_mean(name, known or [ONLY_SITE]))
        if link.between[0] == link.between[1]:
            yield Finding((*path, "between"), "a link is between two sites", "name another one")
        pairs.append((" and ".join(sorted(link.between)), (*path, "between")))
        if link.protocol == "tcp" and (link.bits_per_second or link.burst_bytes):
            what = "the limits of a link are those of hop; tcp has its own"
            key = "bits_per_second" if link.bits_per_second else "burst_bytes"
            yield Finding((*path, key), what, 'remove it, or use protocol = "hop"')
        elif link.burst_bytes and not link.bits_per_second:
            yield Finding((*path, "burst_bytes"), "a burst needs a rate", "add bits_per_second")
    yield from _twice(pairs, "link between")
    if settings.link:
        yield from _apart(settings, list(known))


def _apart(settings: DaemonSettings, sites: list[str]) -> Iterator[Finding]:
    """Sites that no chain of links connects with the first one would never be in one daemon view."""
    reached, waiting = set(sites[:1]), sites[:1]
    while waiting:
        near = waiting.pop()
        for link in settings.link:
            far = link.between[1] if link.between[0] == near else link.between[0]
            if near in link.between and far not in reached:
                reached.add(far)
                waiting.append(far)
    for name in sites:
        if name not in reached:
            what = f"no chain of links leads from {sites[0]} to {name}"
            yield Finding(("link",), what, "add a [[link]], or remove all for a link between every two sites")


# --- single values -------------------------------------------------------------------------------------------------


def _name(name: str, path: Path) -> Iterator[Finding]:
    try:
        check_daemon_name(name)
    except LocalProtocolError as error:
        yield Finding(path, str(error).replace("daemon name", "name"), "choose another name")


def _host(host: str, path: Path) -> Iterator[Finding]:
    if not is_ip(host) and not _HOST.fullmatch(host):
        yield Finding(path, f'"{host}" is neither an address nor a host name', "write it without a port")


def _port(port: int | None, path: Path) -> Iterator[Finding]:
    if port is not None and not 1 <= port <= PORT_MAX:
        yield Finding(path, f"{port} is no port", f"choose one of 1 to {PORT_MAX}")


def _twice(values: list[tuple[str, Path]], what: str) -> Iterator[Finding]:
    seen: dict[str, Path] = {}
    for value, path in values:
        if value in seen:
            yield Finding(path, f"the {what} {value} is there twice", "change or remove one of them")
        seen.setdefault(value, path)
