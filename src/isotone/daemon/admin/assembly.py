"""From a settings file to the parts of one daemon: the node's own settings, who may do what, keys, Spread's clients."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import msgspec

from isotone.core.addresses import is_loopback, join_address
from isotone.core.contract import Address, Automaton
from isotone.core.errors import InputError
from isotone.daemon.composition import Composition, Hooks
from isotone.daemon.node_settings import NodeSettings
from isotone.daemon.places import settings_named
from isotone.daemon.security import Guard, Identity
from isotone.daemon.security.access import Access, AccessRule, open_access
from isotone.daemon.security.audit import AuditLog
from isotone.daemon.security.credentials import Credentials, read_credentials
from isotone.daemon.security.keys import parse_certificate, read_key
from isotone.daemon.security.tls import renew, server_context
from isotone.daemon.settings import Daemon, DaemonSettings, Files, chosen_daemon, files_of
from isotone.daemon.settings.composition import access_list, gateway_settings, node_settings, roster_of
from isotone.daemon.settings.tables import Security
from isotone.daemon.spread import SpreadGateway


@dataclass(frozen=True)
class Assembly:
    """What a `Node` is made of, and what stays outside of it."""

    settings: DaemonSettings
    daemon: Daemon
    files: Files
    node: NodeSettings
    hooks: Hooks
    access: Access
    audit: AuditLog

    def renew_certificate(self) -> None:
        """Read the daemon's own certificate again, if it has one; raises `InputError`."""
        certificate, key = self.files.tls_certificate, self.files.tls_key
        if self.hooks.tls is not None and certificate is not None and key is not None:
            renew(self.hooks.tls, certificate, key)


def assembled(settings: DaemonSettings, name: str = "") -> Assembly:
    """The daemon of this name, or the one that this machine runs; raises `InputError`, `MachineError`."""
    daemon = chosen_daemon(settings, name, socket.gethostname())
    files = files_of(settings, daemon)
    access = access_of(settings, files)
    return Assembly(
        settings=settings,
        daemon=daemon,
        files=files,
        node=node_settings(settings, daemon.name),
        hooks=_hooks(settings, daemon, files, access),
        access=access,
        audit=AuditLog(files.audit),
    )


def opened(settings: DaemonSettings) -> DaemonSettings:
    """The same for development: open to every program of this machine, so on loopback alone and without secrets."""
    hosts = [settings.admin.listen, settings.spread.listen]
    for daemon in settings.daemon:
        hosts += [daemon.address, daemon.listen, daemon.client_listen]
    outside = sorted({host for host in hosts if host and not is_loopback(host)})
    if outside:
        raise InputError(f"--dev is open, so it is for loopback alone; the settings name {', '.join(outside)}")
    if settings.security != Security():
        raise InputError("--dev is open: it takes no settings with [security]; leave out --dev")
    return msgspec.structs.replace(settings, dev=True)


def access_of(settings: DaemonSettings, files: Files) -> Access:
    """The access list with its credentials; everything is open in development."""
    if settings.dev:
        return open_access()
    return Access(*access_parts(settings, files))


def access_parts(settings: DaemonSettings, files: Files) -> tuple[list[AccessRule], Credentials | None, bool]:
    """Rules, credentials, and whether a client needs none: as `Access` and its ``replace`` take them."""
    rules = [
        AccessRule(principals=each.principals, groups=each.groups, allow=each.allow) for each in access_list(settings)
    ]
    with settings_named("security.credentials_file"):
        credentials = None if files.credentials is None else read_credentials(files.credentials)
    return rules, credentials, settings.security.anonymous


def _hooks(settings: DaemonSettings, daemon: Daemon, files: Files, access: Access) -> Hooks:
    tls = None
    if files.tls_certificate is not None and files.tls_key is not None:
        with settings_named("security.tls_certificate_file, tls_key_file and client_authority_file"):
            tls = server_context(files.tls_certificate, files.tls_key, files.client_authority)
    return Hooks(
        admit=access.admit,
        permit=access.permit,
        guard=_guard(settings, daemon, files) if settings.security.mode == "keys" else None,
        spread=_gateway(settings, access) if settings.spread.enabled else None,
        tls=tls,
        certified=access.certified,
        gone=access.gone,
        tls_refused=access.tls_refused,
        refused=lambda: access.refused,
    )


def administration_of(settings: DaemonSettings, me: Daemon) -> dict[str, Address]:
    """Where the other daemons that the settings name are administrated, as this one reaches them.

    Empty where only programs of another machine can: a port on loopback is for its own machine alone.
    """
    if not settings.admin.enabled:
        return {}
    found = {}
    for each in settings.daemon:
        if each.name != me.name:
            found[each.name] = _administration(settings, me, each)
    return found


def _administration(settings: DaemonSettings, me: Daemon, other: Daemon) -> Address:
    listen = settings.admin.listen
    port = settings.admin.port if other.admin_port is None else other.admin_port
    if not is_loopback(listen):
        return join_address(other.address, port)
    return join_address(listen, port) if other.address == me.address else Address("")


class _guard:
    """Builds the guard of a daemon with keys; the key is read now, so that a wrong file is told at the start."""

    def __init__(self, settings: DaemonSettings, daemon: Daemon, files: Files) -> None:
        assert files.private_key is not None, "the settings were validated"
        with settings_named("security.private_key_file"):
            self._pair = read_key(files.private_key)
        self._roster = roster_of(settings)
        self._certificate = parse_certificate(daemon.certificate) if daemon.certificate else b""

    def __call__(self, composition: Composition) -> Automaton:
        identity = Identity(composition.me, self._pair, self._certificate)
        return Guard(identity, self._roster, composition.random_bytes)


class _gateway:
    """Builds the gateway for Spread's clients."""

    def __init__(self, settings: DaemonSettings, access: Access) -> None:
        self._settings, self._access = gateway_settings(settings), access

    def __call__(self, composition: Composition) -> Automaton:
        access = self._access
        return SpreadGateway(
            composition.me,
            next_id=composition.next_id,
            settings=self._settings,
            name_in_use=composition.name_in_use,
            admit=lambda name, credential, peer: access.admit_spread(name, peer, credential),
            permit=access.permit,
            seed=composition.random_bytes(16),
        )
