"""What an object may do while a command is applied: answer, let the caller wait, take a fence, tell watchers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from isotone.core.errors import MachineError

if TYPE_CHECKING:
    from isotone.replicated.class_state import Classes
    from isotone.replicated.database.state import Databases


class CommandRefused(Exception):  # becomes `errors.Rejected` where it is told
    """The command changes nothing, at every replica; the text says why."""


DEPTH_MAX = 100
"""Of lists and dicts in one another, in arguments and results: more might not be read where less stack is left."""


def is_too_deep(value: Any) -> bool:
    """Whether plain data, as they were decoded, are nested deeper than that."""
    open_values = [(value, 1)]
    while open_values:
        each, depth = open_values.pop()
        if isinstance(each, list | tuple | dict):
            if depth > DEPTH_MAX:
                return True
            inner = each.values() if isinstance(each, dict) else each
            open_values += [(one, depth + 1) for one in inner]
    return False


def check_own_fault(error: BaseException, what: str) -> None:
    """Raise `MachineError` if memory or stack ran out while a command ran: another replica may have had enough, so it
    is no answer, also where the command made another error of it.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, MemoryError | RecursionError):
            raise MachineError(
                f"{what} ran out of {'memory' if isinstance(cause, MemoryError) else 'stack'} here: this replica stops "
                "before it could answer otherwise than the others. Nothing is lost: give it more, or start a program "
                "whose command needs less, at every server"
            ) from error
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__


class Waiting:
    """The answer comes later, with another record."""


WAITING = Waiting()


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """To one request of a session; ``error`` is empty when it was done."""

    session: int
    request: int
    value: Any = None
    error: str = ""


@dataclass
class Context:
    """Of one record that is applied."""

    position: int
    session: int
    request: int
    classes: Classes
    databases: Databases | None  # None where no database is reached
    record: bytes
    fences: int  # the last fence that was given; whoever takes one adds to it
    answers: list[Answer] = field(default_factory=list)

    def take_fence(self) -> int:
        """The next: above every one that was ever given."""
        self.fences += 1
        return self.fences

    def answer(self, session: int, request: int, value: Any) -> None:
        """Answer somebody who waits."""
        self.answers.append(Answer(session, request, value))
