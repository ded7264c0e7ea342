"""The history of one client of replicated objects: what it called and what it heard, as entries of the trace.

Recorded are the operations on dicts, counters and sets, and of reads the linearizable ones: those that
`isotone check` and other checkers judge. A call is recorded before it is sent, an answer before its caller has it.

Implements: [COReL 2.4], one-copy equivalence; docs/protocols/replicated.md "How it is judged". Deviations: none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from isotone.core.errors import LocalProtocolError
from isotone.core.ordered_log import Refused
from isotone.replicated.errors import Rejected, SessionLost
from isotone.replicated.records import REMOVE
from isotone.trace.events import Entry
from isotone.trace.replicated import ObjectAnswered, ObjectCalled

if TYPE_CHECKING:
    from isotone.replicated.caller import Reply

NOTHING = "-"
TEXT_MAX = 200
"""Longer values are recorded by their digest."""
RESULT_MAX = 64 * 1024
"""A read that saw more is recorded as one without an answer."""
DIGEST_BYTES = 16
NOT_DONE = (Refused, Rejected, SessionLost, LocalProtocolError)


class HistoryRecorder:
    """Of one client. ``wall``: microseconds of a clock that all recorded clients share."""

    def __init__(self, client: str, record: Callable[[Entry], None], wall: Callable[[], int]) -> None:
        self._client, self._record, self._wall = client, record, wall
        self._count = 0

    async def of_call(
        self, kind: str, name: str, method: str, arguments: tuple[Any, ...], called: Awaitable[Reply]
    ) -> Reply:
        """Record a command and its answer. Where it is not known whether it was done, there is no answer."""
        told = told_call(kind, method, arguments)
        if told is None:
            return await called
        operation = self._begins(kind, name, *told)
        try:
            reply = await called
        except NOT_DONE:
            self._ends(operation, "not", "")
            raise
        self._ends(operation, "done", told_answer(kind, method, reply.value))
        return reply

    def read_begins(self, kind: str, name: str, method: str, key: str) -> str:
        """The operation, for `read_ends`; a read that fails has no answer."""
        return self._begins(kind, name, method, key, "")

    def read_ends(self, operation: str, seen: object) -> None:
        """Record what the read saw; too long a result is left out."""
        told = told_read(seen)
        if len(told) <= RESULT_MAX:
            self._ends(operation, "done", told)

    def _begins(self, kind: str, name: str, method: str, key: str, argument: str) -> str:
        self._count += 1
        operation = f"{self._client}/{self._count}"
        self._record(ObjectCalled(self._client, operation, kind, name, method, key, argument, self._wall()))
        return operation

    def _ends(self, operation: str, answer: str, result: str) -> None:
        self._record(ObjectAnswered(self._client, operation, answer, result, self._wall()))


def told_call(kind: str, method: str, arguments: tuple[Any, ...]) -> tuple[str, str, str] | None:
    """Method, key and argument of a command as they are recorded; None for one that is not."""
    if method == REMOVE and kind in ("dict", "counter", "set"):
        return (method, "", "")
    match kind, method, arguments:
        case "dict", "set", (key, value, owned):
            return ("set_owned" if owned else "set", key, text_of(value))
        case "dict", "delete", (key,):
            return (method, key, "")
        case "dict", "compare_and_set", (key, expected, value):
            return (method, key, f"{text_of(expected)}>{text_of(value)}")
        case "dict", "transact", (conditions, then, otherwise):
            return (method, "", _told_transaction(conditions, then, otherwise))
        case "counter", "add" | "set", (number,):
            return (method, "", str(number))
        case "set", "add", (member,):
            return ("join", text_of(member), "")
        case "set", "discard", (member,):
            return ("part", text_of(member), "")
    return None


def _told_transaction(conditions: list[Any], then: list[Any], otherwise: list[Any]) -> str:
    """As JSON; conditions on revisions are counted alone."""
    when = [[key, text_of(expected)] for what, key, expected in conditions if what == "value"]
    writes = [[[key, text_of(value)] for key, value in each] for each in (then, otherwise)]
    told = {"when": when, "revisions": len(conditions) - len(when), "then": writes[0], "otherwise": writes[1]}
    return msgspec.json.encode(told).decode()


def told_answer(kind: str, method: str, value: Any) -> str:
    """What a command was answered."""
    if kind == "counter":
        return str(value)
    if (kind, method) == ("dict", "set"):
        return ""
    return "1" if (value[0] if method == "transact" else value) else "0"


def told_read(seen: object) -> str:
    """What a read saw: of several keys or members as JSON."""
    match seen:
        case bool():
            return "1" if seen else "0"
        case int():
            return str(seen)
        case list():
            return msgspec.json.encode([text_of(each) for each in seen]).decode()
        case Mapping():
            return msgspec.json.encode({key: text_of(value) for key, value in seen.items()}).decode()
        case bytes() | None:
            return text_of(seen)
    raise AssertionError(seen)


def text_of(encoded: bytes | None) -> str:
    """A value as text, another one for every other value: a number, JSON for text, else hexadecimal digits."""
    if encoded is None:
        return NOTHING
    try:
        value = msgspec.msgpack.decode(encoded)
        is_exact = msgspec.msgpack.encode(value) == encoded
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value, is_exact = None, False
    text = f"x{encoded.hex()}"
    if is_exact and type(value) is int:
        text = str(value)
    elif is_exact and type(value) is str:
        text = msgspec.json.encode(value).decode().replace(">", "\\u003e")  # it separates two values
    return text if len(text) <= TEXT_MAX else f"#{blake2b(encoded, digest_size=DIGEST_BYTES).hexdigest()}"
