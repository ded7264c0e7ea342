"""What has to be closed is closed, or is open because somebody said so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_network

from isotone.core.addresses import is_loopback
from isotone.daemon.settings.places import Path
from isotone.daemon.settings.problems import Finding
from isotone.daemon.settings.tables import DaemonSettings

PUBLIC_KEY = re.compile(r"x25519:[A-Za-z0-9+/]{43}=")
AUTHORITY = re.compile(r"ed25519:[A-Za-z0-9+/]{43}=")
CERTIFICATE = re.compile(r"isotone-cert:[A-Za-z0-9+/]{86}==")
PATTERN = re.compile(r"[!$-~]+")
PRIVATE = re.compile(r"\**#[!$-~]+#[!$-~]+|\**#[!$-~]*\*[!$-~]*|\*[!$-~]*#[!$-~]+")  # fits some #name#daemon
KEYGEN = "make one with: isotone daemon keygen"
DAEMONS_ARE_OPEN = "daemons talk without keys: everybody on their network can read, forge and take part"
CLIENTS_ARE_OPEN = "clients connect without saying who they are"


def is_on_one_machine(settings: DaemonSettings) -> bool:
    """Whether no daemon can be reached from elsewhere."""
    hosts = [host for each in settings.daemon for host in (each.address, each.listen, each.client_listen) if host]
    return all(is_loopback(host) for host in hosts)


def findings(settings: DaemonSettings, written: frozenset[Path]) -> Iterator[Finding]:
    """All that is wrong with keys, certificates and the access list."""
    security = settings.security
    if security.mode == "keys":
        yield from _keys(settings)
    elif ("security", "mode") not in written and not is_on_one_machine(settings):
        what = "daemons on a network without keys: everybody who reaches them can take part"
        remedy = 'set mode = "keys" (isotone daemon keygen), or write mode = "open" if the network is trusted'
        yield Finding(("security", "mode"), what, remedy)
    yield from _key_texts(settings)
    yield from _clients(settings)
    yield from _access(settings)
    yield from _spread(settings)
    yield from _patterns(settings)


def _keys(settings: DaemonSettings) -> Iterator[Finding]:
    security = settings.security
    if not security.private_key_file:
        yield Finding(("security", "private_key_file"), "the daemon needs a key of its own", KEYGEN)
    elif "{name}" not in security.private_key_file and _share_a_machine(settings):
        what = "several daemons of one machine would share a key"
        yield Finding(("security", "private_key_file"), what, 'write {name} in it, as in "/etc/isotone/{name}.key"')
    if not security.authority:
        for place, daemon in enumerate(settings.daemon):
            if not daemon.public_key:
                what = f"the public key of {daemon.name} is missing"
                yield Finding(("daemon", place), what, f"add public_key = …; {KEYGEN}")


def _share_a_machine(settings: DaemonSettings) -> bool:
    hosts = [each.address for each in settings.daemon]
    return len(hosts) > len(set(hosts))


def _key_texts(settings: DaemonSettings) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for place, daemon in enumerate(settings.daemon):
        path: Path = ("daemon", place)
        if daemon.public_key and not PUBLIC_KEY.fullmatch(daemon.public_key):
            yield Finding((*path, "public_key"), 'it is not of the form "x25519:…"', KEYGEN)
        elif daemon.public_key in seen:
            what = f"it is the key of {seen[daemon.public_key]} too"
            yield Finding((*path, "public_key"), what, "every daemon has a key of its own")
        if daemon.public_key:
            seen.setdefault(daemon.public_key, daemon.name)
        if daemon.certificate and not CERTIFICATE.fullmatch(daemon.certificate):
            yield Finding((*path, "certificate"), 'it is not of the form "isotone-cert:…"', "sign the key again")
        if daemon.certificate and not settings.security.authority:
            what = "a certificate needs the authority that signed it"
            yield Finding((*path, "certificate"), what, "add authority to [security]")
    if settings.security.authority and not AUTHORITY.fullmatch(settings.security.authority):
        yield Finding(
            ("security", "authority"), 'it is not of the form "ed25519:…"', "write the authority's public key"
        )


def _clients(settings: DaemonSettings) -> Iterator[Finding]:
    security = settings.security
    if bool(security.tls_certificate_file) != bool(security.tls_key_file):
        missing = "tls_key_file" if security.tls_certificate_file else "tls_certificate_file"
        yield Finding(("security", missing), "a certificate and its key belong together", f"add {missing}")
    if security.client_authority_file and not security.tls_certificate_file:
        what = "clients show certificates over TLS only"
        yield Finding(("security", "client_authority_file"), what, "add tls_certificate_file and tls_key_file")
    if security.tls_certificate_file:
        for place, daemon in enumerate(settings.daemon):
            if daemon.client_port is None and not daemon.unix_socket:
                what = f"with TLS clients need a port of their own at {daemon.name}"
                yield Finding(("daemon", place), what, "add client_port")
    if not security.anonymous and not (security.credentials_file or security.client_authority_file):
        what = "nobody could connect: there are neither credentials nor client certificates"
        yield Finding(("security", "anonymous"), what, "add credentials_file or client_authority_file")


def _access(settings: DaemonSettings) -> Iterator[Finding]:
    for place, rule in enumerate(settings.security.access):
        path: Path = ("security", "access", place)
        for key in ("principals", "groups", "allow"):
            if not getattr(rule, key):
                yield Finding((*path, key), "an empty list fits nobody", "name some, or remove the rule")
        for number, pattern in enumerate(rule.principals):
            yield from _pattern(pattern, (*path, "principals", number))
        for number, pattern in enumerate(rule.groups):
            yield from _group(pattern, (*path, "groups", number))


def _group(pattern: str, path: Path) -> Iterator[Finding]:
    """Of the access list: private messages are sends to #name#daemon."""
    if "#" not in pattern:
        yield from _pattern(pattern, path)
    elif not PRIVATE.fullmatch(pattern):
        remedy = 'a private name is #name#daemon: use "#*" for all, or a pattern as in "#alice#*"'
        yield Finding(path, f'"{pattern}" fits no name', remedy)


def _spread(settings: DaemonSettings) -> Iterator[Finding]:
    spread = settings.spread
    for place, text in enumerate(spread.networks):
        if text != "unix" and not _is_network(text):
            yield Finding(("spread", "networks", place), f'"{text}" is no network', 'write as in "10.0.0.0/8"')
    if not spread.enabled:
        return
    if not (spread.share_port or spread.listen or spread.unix_socket):
        yield Finding(("spread", "listen"), "there is no place to listen at", "add listen, or a unix_socket")
    if spread.share_port and settings.security.tls_certificate_file:
        what = "with TLS the port of the daemons is not for clients"
        yield Finding(("spread", "share_port"), what, "set it to false, and a port")
    if not spread.methods:
        yield Finding(("spread", "methods"), "no method of authentication is offered", 'add "NULL"')


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def _patterns(settings: DaemonSettings) -> Iterator[Finding]:
    for table in ("group", "client"):
        seen: set[str] = set()
        for place, rule in enumerate(getattr(settings.limits, table)):
            path: Path = ("limits", table, place, "pattern")
            yield from _pattern(rule.pattern, path)
            if rule.pattern in seen:
                yield Finding(path, f"{rule.pattern} is there twice: the first decides", "remove one of them")
            seen.add(rule.pattern)


def _pattern(pattern: str, path: Path) -> Iterator[Finding]:
    if not PATTERN.fullmatch(pattern):
        yield Finding(path, f'"{pattern}" fits no name', 'use a name, or a pattern as in "chat*"')


# --- allowed, but doubtful -----------------------------------------------------------------------------------------


def warnings(settings: DaemonSettings) -> list[Finding]:
    """What is open, or does nothing."""
    return [*_open_doors(settings), *_idle_keys(settings)]


def _open_doors(settings: DaemonSettings) -> Iterator[Finding]:
    security, on_one_machine = settings.security, is_on_one_machine(settings)
    if security.mode == "open" and not on_one_machine:
        yield Finding(("security", "mode"), DAEMONS_ARE_OPEN, 'set it to "keys" when you can')
    if not on_one_machine and security.anonymous:
        remedy = "set it to false and add credentials_file when you can"
        yield Finding(("security", "anonymous"), CLIENTS_ARE_OPEN, remedy)
    if not on_one_machine and security.credentials_file and not security.tls_certificate_file:
        what = "credentials cross the network in clear"
        yield Finding(("security", "credentials_file"), what, "add tls_certificate_file and tls_key_file")
    if settings.spread.enabled and settings.spread.listen and not is_loopback(settings.spread.listen):
        what = "Spread's clients can neither encrypt nor prove who they are"
        yield Finding(("spread", "listen"), what, 'use "127.0.0.1" or a unix_socket when you can')
    if settings.spread.enabled and not security.anonymous:
        what = "Spread's clients have no credentials and are refused"
        yield Finding(("spread", "enabled"), what, "set it to false, or anonymous to true")
    if settings.faults.enabled and not settings.dev:
        what = "administrators can cut this daemon off on purpose"
        yield Finding(("faults", "enabled"), what, "set it to false outside of drills")
    for place, rule in enumerate(security.access):
        if "admin" in rule.allow and "*" in rule.principals:
            what = "everybody is an administrator"
            yield Finding(("security", "access", place, "principals"), what, "name the principals")


def _idle_keys(settings: DaemonSettings) -> Iterator[Finding]:
    security = settings.security
    if security.mode == "open" and security.private_key_file:
        yield Finding(("security", "private_key_file"), 'it is not used with mode = "open"', 'set mode = "keys"')
    if not settings.spread.enabled and settings.spread.share_port:
        yield Finding(("spread", "share_port"), "it does nothing while Spread's clients are off", "set enabled = true")
    if settings.admin.enabled and not is_loopback(settings.admin.listen):
        if not any("admin" in rule.allow for rule in security.access):
            what = "it can be reached from elsewhere, and nobody may administrate"
            yield Finding(("admin", "listen"), what, 'add [[security.access]] with allow = ["admin"]')
