"""Snapshots that a program hands to its log. One at which the log may not be cut yet waits until it may.

Implements: [COReL 8.1]; docs/guide/log-on-spark.md "Databases". Deviations: none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from isotone.core.errors import LocalProtocolError
from isotone.core.ordered_log import Snapshot

if TYPE_CHECKING:
    from isotone.replicated.state import ReplicatedState

log = logging.getLogger("isotone.replicated")


def may_always_cut(position: int) -> bool:
    """A log that is kept nowhere else."""
    del position
    return True


class SnapshotOffers:
    """Of one program. ``may_cut``: whether the log may be cut at a position, which its archive may not have yet."""

    def __init__(self, state: ReplicatedState, may_cut: Callable[[int], bool]) -> None:
        self._state, self._may_cut = state, may_cut
        self._waiting: tuple[Snapshot, dict[str, int]] | None = None  # with the last call of each database

    def drop(self) -> None:
        """The state is another one now."""
        self._waiting = None

    async def offer(self) -> bool:
        """Take the state, or that which waits, and hand it in if the log may be cut there; whether it was kept."""
        state, machine = self._state, self._state.machine
        if state.failure is not None:  # a command may stand half in the state
            return False
        size = state.record_bytes
        if self._waiting is None:
            state.record_bytes, databases = 0, machine.databases.positions()
            self._waiting = Snapshot(machine.state.position, machine.snapshot(), machine.digest()), databases
        snapshot, databases = self._waiting
        if not self._may_cut(snapshot.position):
            return False
        self._waiting = None
        try:
            await state.log.offer_snapshot(snapshot)
        except LocalProtocolError as error:  # the servers change, or it still catches up
            state.record_bytes = max(state.record_bytes, size)
            log.info("a snapshot at %s was not kept: %s", snapshot.position, error)
            return False
        machine.databases.forget_calls(databases)
        return True
