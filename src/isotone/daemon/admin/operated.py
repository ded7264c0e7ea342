"""What administration needs of the daemon that it looks after, and nothing more: so that a test can be one."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Protocol

import msgspec

from isotone.daemon.spread import SpreadGateway
from isotone.evs.stack import Stack


class TraceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the record of this daemon stands."""

    level: str
    directory: str = ""
    rows: int = 0
    lost: int = 0
    """Rows that an overloaded or failing writer did not write; the trace has a gap there."""
    bytes: int = 0
    """Of the files of this directory."""
    failed: str = ""
    """Why nothing is written at present; empty when all is well."""


class Operated(Protocol):
    """A running daemon."""

    @property
    def name(self) -> str:
        """Its stable name."""
        ...

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        ...

    @property
    def stack(self) -> Stack:
        """The automaton, to be read and never to be changed."""
        ...

    def now(self) -> int:
        """The daemon's own time, microseconds."""
        ...

    @property
    def why_not_ready(self) -> str:
        """Empty when a daemon view works and clients are served, computed now; else what is missing."""
        ...

    @property
    def gateway(self) -> SpreadGateway | None:
        """Of Spread's clients, where there are any."""
        ...

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Counters by part (``node``, ``guard``, ``spread``), each by name; they only grow."""
        ...

    def directories(self) -> Mapping[str, str]:
        """Where it writes, by what for (``state``, ``trace``)."""
        ...

    def trace_status(self) -> TraceStatus:
        """How the record stands."""
        ...

    def set_trace_level(self, level: str) -> None:
        """Change what is recorded: off, buffered or full; raises `InputError`."""
        ...

    def fault_rules(self) -> list[dict[str, object]] | None:
        """The faults that are injected now; None when the settings do not enable them."""
        ...

    def set_fault_rules(self, rules: list[dict[str, object]]) -> None:
        """Replace them; raises `InputError`."""
        ...

    def reload(self) -> Awaitable[list[str]]:
        """Read the settings again; returns what changed, raises `InputError` and changes nothing then."""
        ...

    def stop(self, reason: str = "") -> object:
        """Begin to stop, as on SIGTERM."""
        ...
