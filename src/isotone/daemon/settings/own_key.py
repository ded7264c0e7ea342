"""Whether the key on this machine is the one that the others believe."""

from __future__ import annotations

from isotone.core.errors import InputError
from isotone.daemon.security.keys import parse_certificate, read_key
from isotone.daemon.settings.composition import roster_of
from isotone.daemon.settings.problems import Finding
from isotone.daemon.settings.tables import Daemon, DaemonSettings
from isotone.daemon.settings.whereabouts import files_of


def key_problem(settings: DaemonSettings, daemon: Daemon) -> Finding | None:
    """Why the others would refuse this daemon, if they would."""
    path = files_of(settings, daemon).private_key
    if settings.security.mode != "keys" or path is None:
        return None
    try:
        pair = read_key(path)
    except InputError as error:
        return Finding(("security", "private_key_file"), str(error), f"run: isotone daemon keygen {daemon.name}")
    certificate = parse_certificate(daemon.certificate) if daemon.certificate else b""
    reason = roster_of(settings).problem(daemon.name, pair.public, certificate)
    if not reason:
        return None
    place = settings.daemon.index(daemon)
    key = "certificate" if settings.security.authority and not daemon.public_key else "public_key"
    what = f"the others refuse {daemon.name} with the key in {path}: {reason}"
    return Finding(("daemon", place, key), what, f"the public key of that file is {pair.text}")
