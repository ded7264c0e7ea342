"""Which servers of a log run, as far as that shows from here: by the locks of their stores and by their ports.

What changes who counts (a restore, a recovery by force) is for servers that do not run. One that runs on another
machine, behind a port that cannot be reached from here, is not seen.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic

from isotone.core.addresses import split_address
from isotone.core.errors import InputError
from isotone.daemon.storage import LOCK

CONNECT_WITHIN_S = 1.0


@contextmanager
def kept_still(stores: Mapping[str, Path]) -> Iterator[dict[str, str]]:
    """Nobody starts with these stores meanwhile, as far as they can be reached here; yields whose are in use."""
    with ExitStack() as stack:
        used: dict[str, str] = {}
        for server, path in stores.items():
            try:
                descriptor = os.open(path / LOCK, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue  # there is none, or not for us
            stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                used[server] = f"the store of {server} is in use"
            except OSError:
                continue  # a file system without locks
        yield used


def answering(addresses: Mapping[str, str], within_s: float = CONNECT_WITHIN_S) -> dict[str, str]:
    """Whose port somebody answers at; all are tried at once."""
    found: dict[str, str] = {}

    def knock(server: str, address: str) -> None:
        with suppress(OSError, InputError), socket.create_connection(split_address(address), within_s):
            found[server] = f"{server} answers at {address}"

    threads = [Thread(target=knock, args=each, daemon=True) for each in addresses.items()]
    for thread in threads:
        thread.start()
    deadline = monotonic() + within_s  # a name that is not resolved by then belongs to nobody who answers
    for thread in threads:
        thread.join(max(0.0, deadline - monotonic()))
    return {server: found[server] for server in addresses if server in found}
