"""The audit log: who did what to a daemon, one JSON line each, appended and synced, never changed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from isotone.core.errors import MachineError


class AuditLog:
    """A file of its own, readable by its owner; each act is on disk before it is done."""

    def __init__(self, path: Path | str, *, clock: Callable[[], float] = time.time) -> None:
        self.path = Path(path)
        self._clock = clock

    def record(self, principal: str, act: str, outcome: str = "done", peer: str = "", **details: object) -> None:
        """One act, or one that was refused. A full disk is an error: what cannot be recorded must not be done."""
        when = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        entry: dict[str, object] = {"at": when, "principal": principal, "act": act, "outcome": outcome, "peer": peer}
        line = json.dumps({**entry, **details}, default=str, ensure_ascii=True).encode("ascii") + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                if os.write(descriptor, line) != len(line):
                    raise OSError("the disk took only a part of the line")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise MachineError(f"the audit log {self.path} cannot be written: {error}") from None
