"""Floors on disk: no incarnation ever uses an epoch or a Lamport time that an earlier one may have used.

A cell holds the incarnation and the two floors. Whoever uses a number at or above its floor first raises the floor by a
block, so that a write is rare; the `Persist` stands before everything that uses the number, and holds it back.

Implements: DESIGN 3, "restarts above a persisted floor". Deviations from [Spread 6.1]: view ids and stamps from floors
instead of clocks, because clocks go back and are as coarse as seconds (Lemma 6.1, Theorem 6.4).
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from isotone.core.contract import Action, Persist, Put, Storage
from isotone.core.errors import InputError

CELL = "floors"
EPOCH_BLOCK = 2**32
LAMPORT_BLOCK = 2**42  # the Lamport clock goes on by 1024 for each unit


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    incarnation: int
    epoch: int
    lamport: int


@dataclass
class Floors:
    """Every epoch and time in use is below its floor, and the floors are on their way to the disk before it is used."""

    incarnation: int
    epoch_floor: int = 0
    lamport_floor: int = 0
    _ticket: int = 0

    def start(self, storage: Storage) -> tuple[int, int]:
        """Read what is there: the first epoch and the first time that may be used are above these."""
        stored = _read(storage.cells.get(CELL))
        if stored.incarnation >= self.incarnation:
            raise InputError(f"incarnation {self.incarnation} was used before: the disk knows {stored.incarnation}")
        self.epoch_floor, self.lamport_floor = stored.epoch, stored.lamport
        return stored.epoch, stored.lamport

    def reserve(self, *, epoch: int, lamport: int) -> list[Action]:
        """These are about to be used: raise the floors if they reach them."""
        if epoch < self.epoch_floor and lamport < self.lamport_floor:
            return []
        if epoch >= self.epoch_floor:
            self.epoch_floor = epoch + EPOCH_BLOCK
        if lamport >= self.lamport_floor:
            self.lamport_floor = lamport + LAMPORT_BLOCK
        self._ticket += 1
        stored = _Stored(self.incarnation, self.epoch_floor, self.lamport_floor)
        return [Persist(self._ticket, [Put(CELL, msgspec.msgpack.encode(stored))])]


def _read(value: bytes | None) -> _Stored:
    if value is None:
        return _Stored(0, 0, 0)
    try:
        return msgspec.msgpack.decode(value, type=_Stored)
    except msgspec.MsgspecError as error:
        raise InputError(f"the cell {CELL!r} is damaged: {error}") from None
