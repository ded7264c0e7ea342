"""Whether this machine has what the settings of one daemon want of it: addresses, interfaces, directories, files.

Nothing is bound for good and nothing is written. Whether ports are free is not looked at: the daemon may run already.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path as FilePath

from isotone.core.addresses import host_of
from isotone.core.errors import InputError, MachineError
from isotone.daemon.addresses import family_of
from isotone.daemon.security.credentials import read_credentials
from isotone.daemon.security.tls import server_context
from isotone.daemon.settings.composition import node_settings
from isotone.daemon.settings.own_key import key_problem
from isotone.daemon.settings.places import Path
from isotone.daemon.settings.problems import Finding
from isotone.daemon.settings.tables import Daemon, DaemonSettings
from isotone.daemon.settings.whereabouts import Files, files_of, listeners_of
from isotone.daemon.sockets import join_group

HERE = "choose one of this machine, or check the daemon on its own machine"


def findings(settings: DaemonSettings, daemon: Daemon) -> Iterator[Finding]:
    """All that would keep this daemon from starting here, as far as that can be seen without starting it."""
    place: Path = ("daemon", settings.daemon.index(daemon))
    yield from _hosts(settings, daemon, place)
    yield from _multicast(settings, daemon, place)
    files = files_of(settings, daemon)
    yield from _directories(settings, daemon, files, place)
    yield from _files(files)
    problem = key_problem(settings, daemon)
    if problem is not None:
        yield problem


def _hosts(settings: DaemonSettings, daemon: Daemon, place: Path) -> Iterator[Finding]:
    listeners = listeners_of(settings, daemon)
    wanted = [(listeners.daemons, (*place, "listen" if daemon.listen else "address"))]
    if listeners.clients is not None and daemon.client_listen:
        wanted.append((listeners.clients, (*place, "client_listen")))
    if listeners.spread is not None:
        wanted.append((listeners.spread, ("spread", "listen")))
    if listeners.admin is not None:
        wanted.append((listeners.admin, ("admin", "listen")))
    for address, path in wanted:
        host = host_of(address)
        with socket.socket(family_of(host), socket.SOCK_STREAM) as sock:
            try:
                sock.bind((host, 0))
            except (OSError, UnicodeError) as error:
                what = f"this machine cannot listen at {host}: {getattr(error, 'strerror', None) or error}"
                yield Finding(path, what, HERE)


def _multicast(settings: DaemonSettings, daemon: Daemon, place: Path) -> Iterator[Finding]:
    node = node_settings(settings, daemon.name)
    if not node.multicast:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            join_group(sock, f"{host_of(node.multicast)}:0", node.interface or node.host, port_min=0).close()
        except MachineError as error:
            yield Finding((*place, "interface"), str(error), HERE)


def _directories(settings: DaemonSettings, daemon: Daemon, files: Files, place: Path) -> Iterator[Finding]:
    listeners = listeners_of(settings, daemon)
    for socket_path, path in (
        (listeners.clients_unix, (*place, "unix_socket")),
        (listeners.spread_unix, ("spread", "unix_socket")),
    ):
        if socket_path is None:
            continue
        if not socket_path.parent.is_dir():
            yield Finding(path, f"there is no directory {socket_path.parent}", "make it, or choose another path")
        elif socket_path.exists() and not socket_path.is_socket():
            yield Finding(path, f"there is something at {socket_path} that is no socket", "choose another path")
    wanted: list[tuple[FilePath, Path]] = [(files.state, ("cluster", "state_directory"))]
    if settings.trace.level != "off":
        wanted.append((files.trace, ("trace", "directory")))
    if settings.security.audit_file:
        wanted.append((files.audit.parent, ("security", "audit_file")))
    for directory, path in wanted:
        if reason := _why_not_made(directory):
            yield Finding(path, f"{directory} cannot be used: {reason}", "choose one that the daemon may write to")


def _why_not_made(directory: FilePath) -> str:
    """Of the directory, or of the nearest one above it that is there: whether the daemon could make and write it."""
    for each in (directory, *directory.parents):
        with suppress(PermissionError):
            if not each.exists():
                continue
            if not each.is_dir():
                return f"{each} is no directory"
        return "" if os.access(each, os.W_OK | os.X_OK) else f"{each} may not be written to"
    return "there is no such directory"


def _files(files: Files) -> Iterator[Finding]:
    certificate, key, credentials = files.tls_certificate, files.tls_key, files.credentials
    if certificate is not None and key is not None:
        load = lambda: server_context(certificate, key, files.client_authority)  # noqa: E731
        yield from _read(load, ("security", "tls_certificate_file"))
    if credentials is not None:
        yield from _read(lambda: read_credentials(credentials), ("security", "credentials_file"))


def _read(load: Callable[[], object], path: Path) -> Iterator[Finding]:
    try:
        load()
    except (InputError, MachineError) as error:
        yield Finding(path, str(error), "name a file that this daemon may read")
