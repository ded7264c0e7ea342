"""What becomes of a command whose log breaks off, refuses, or is not there."""

from __future__ import annotations

import asyncio

import pytest

from isotone.core.errors import IsotoneError, MachineError
from isotone.core.memory_log import MemoryLog
from isotone.core.ordered_log import Maybe, Refused
from isotone.replicated.state import ReplicatedState

BROKEN, AWAY, NO = Maybe("the stream broke"), MachineError("no server answers"), Refused("the disk is low")


class Failing(MemoryLog):
    """Each append fails as it is told, and then no more."""

    def __init__(self, *errors: IsotoneError) -> None:
        super().__init__()
        self._errors = list(errors)

    async def append(self, record: bytes) -> int:
        if self._errors:
            raise self._errors.pop(0)
        return await super().append(record)


def appended(*errors: IsotoneError, is_patient: bool = False) -> int:
    async def main() -> int:
        objects = ReplicatedState(Failing(*errors), nonce=lambda: "session")
        return await objects.append(b"record", None, is_patient=is_patient)

    return asyncio.run(main())


def test_what_breaks_off_is_sent_again() -> None:
    assert appended(BROKEN) == 1


def test_a_no_is_a_no() -> None:
    with pytest.raises(Refused, match="the disk is low"):
        appended(NO)
    with pytest.raises(Refused, match="it was not sent: no server answers"):
        appended(AWAY)


@pytest.mark.parametrize("error", [NO, AWAY])
def test_a_no_behind_a_break_is_none(error: IsotoneError) -> None:
    """The first copy may stand in the order: it is sent again until that is known."""
    assert appended(BROKEN, error, error) == 1


def test_who_is_patient_waits_for_a_server() -> None:
    assert appended(AWAY, BROKEN, AWAY, is_patient=True) == 1
