"""What can be asked of a store beside the writes of the contract."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from isotone.core.contract import Append, CutHead, CutTail, Put
from isotone.core.errors import LocalProtocolError
from isotone.daemon.storage import TEMPORARY
from isotone.host.frames import FRAME_BYTES, NAME_BYTES_MAX, RECORD_BYTES_MAX


class Repair(msgspec.Struct, frozen=True, gc=False):
    """Put these bytes in the place of a damaged record; who asks knows that they are the right ones."""

    log: str
    number: int
    record: bytes


LogWrite = Append | CutHead | CutTail | Repair
StoreWrite = Put | LogWrite


def checked_size(writes: Iterable[StoreWrite]) -> int:
    """About how many bytes these writes need; `LocalProtocolError` for what no store can take."""
    total = 0
    for write in writes:
        if isinstance(write, Put):
            _check_cell(write.cell)
            total += len(write.value)
            continue
        size = len(write.record) if isinstance(write, Append | Repair) else 0
        if size > RECORD_BYTES_MAX:
            raise LocalProtocolError(f"a record of {size} bytes; at most {RECORD_BYTES_MAX}")
        _check_length(write.log, "log")
        total += size + FRAME_BYTES
    return total


def _check_length(name: str, what: str) -> None:
    if len(name.encode()) > NAME_BYTES_MAX:
        raise LocalProtocolError(f"the name of a {what} has at most {NAME_BYTES_MAX} bytes: {name!r}")


def _check_cell(name: str) -> None:
    """A cell is a file of that name."""
    _check_length(name, "cell")
    if not name or name.startswith(".") or name.endswith(TEMPORARY):
        raise LocalProtocolError(f"no cell can be called {name!r}")
