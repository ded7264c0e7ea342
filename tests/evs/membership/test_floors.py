"""No incarnation uses a number that an earlier one may have used."""

from __future__ import annotations

import pytest

from isotone.core.contract import Persist, Put, Storage
from isotone.core.errors import InputError
from isotone.evs.membership.floors import CELL, EPOCH_BLOCK, LAMPORT_BLOCK, Floors


def written(actions: list[object]) -> bytes:
    [persist] = actions
    assert isinstance(persist, Persist)
    [put] = persist.writes
    assert isinstance(put, Put) and put.cell == CELL
    return put.value


def test_the_first_use_of_a_number_persists_a_floor_above_it() -> None:
    floors = Floors(1)
    assert floors.start(Storage()) == (0, 0)
    assert written([*floors.reserve(epoch=1, lamport=5)])
    assert floors.epoch_floor == 1 + EPOCH_BLOCK and floors.lamport_floor == 5 + LAMPORT_BLOCK


def test_nothing_is_written_while_the_numbers_stay_below_the_floors() -> None:
    floors = Floors(1)
    floors.start(Storage())
    floors.reserve(epoch=1, lamport=1)
    assert floors.reserve(epoch=EPOCH_BLOCK, lamport=LAMPORT_BLOCK) == []
    assert floors.reserve(epoch=1 + EPOCH_BLOCK, lamport=0) != []


def test_a_later_incarnation_starts_at_the_floors_of_the_earlier_one() -> None:
    first = Floors(1)
    first.start(Storage())
    cell = written([*first.reserve(epoch=7, lamport=9)])
    assert Floors(2).start(Storage({CELL: cell})) == (7 + EPOCH_BLOCK, 9 + LAMPORT_BLOCK)


def test_an_incarnation_that_was_used_is_refused() -> None:
    first = Floors(3)
    first.start(Storage())
    cell = written([*first.reserve(epoch=0, lamport=0)])
    with pytest.raises(InputError, match="was used before"):
        Floors(3).start(Storage({CELL: cell}))


def test_a_damaged_cell_is_said_so() -> None:
    with pytest.raises(InputError, match="damaged"):
        Floors(1).start(Storage({CELL: b"\xc1"}))


def test_a_jump_of_the_clock_raises_one_floor_only() -> None:
    floors = Floors(1)
    floors.start(Storage())
    floors.reserve(epoch=1, lamport=1)
    before = floors.epoch_floor
    floors.reserve(epoch=1, lamport=10 * LAMPORT_BLOCK)
    assert floors.epoch_floor == before and floors.lamport_floor == 11 * LAMPORT_BLOCK
