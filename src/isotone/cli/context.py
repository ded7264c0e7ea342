"""The cluster that runs from this directory: ``isotone up`` writes it down, other commands then need no addresses.

The file names the process that wrote it. When that process has ended without removing it, the file is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from isotone.core.errors import InputError, MachineError

CONTEXT_FILE = ".isotone-cluster.json"


class ContextDaemon(msgspec.Struct, frozen=True, kw_only=True):
    """One daemon: its name, its site, where clients and where administrators reach it."""

    name: str
    site: str
    address: str
    admin: str


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster: which process keeps it up, and what commands need to know of it."""

    process: int
    settings: str
    trace: str
    daemons: tuple[ContextDaemon, ...]

    def daemon(self, name: str) -> ContextDaemon:
        """The daemon of this name, or an `InputError` that lists those there are."""
        for each in self.daemons:
            if each.name == name:
                return each
        known = ", ".join(each.name for each in self.daemons)
        raise InputError(f"the cluster of this directory has no daemon {name!r}; it has {known}")


def read_context(directory: Path | None = None) -> Context | None:
    """The cluster of this directory, if one is up."""
    path = (directory or Path()) / CONTEXT_FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Context)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{path}: not a description of a cluster: {error}; remove it, or give --address") from error
    if not _is_running(found.process):
        click.echo(f"isotone: {path} is of a cluster that ended; it is passed over", err=True)
        return None
    return found


@contextmanager
def kept_context(context: Context) -> Iterator[None]:
    """Write the file into this directory and remove it at the end; that of another cluster that runs is left alone."""
    path = Path(CONTEXT_FILE)
    if read_context() is not None:
        click.echo("isotone: another cluster is up in this directory: for this one commands need --address", err=True)
        yield
        return
    temporary = path.with_suffix(f".{context.process}")
    try:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(context), indent=2))
        temporary.replace(path)
    except OSError as error:
        raise MachineError(f"cannot write {path.resolve()}: {error.strerror}") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True
