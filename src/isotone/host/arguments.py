"""What callers hand to a log, looked at before anything is done with it; their fault is `LocalProtocolError`.

Many callers share a replica, and the stream to one: what one of them passes reaches neither unless it is sound.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from math import inf
from numbers import Real

import msgspec

from isotone.core.errors import LocalProtocolError
from isotone.core.ordered_log import Snapshot
from isotone.corel.configuration import RULE_BYTES_MAX, decode_rule, encode_rule
from isotone.corel.quorum import Rule

NUMBER_MAX = 2**63 - 1
WITHIN_MAX_S = 1e9
"""Thirty years; who waits longer sets no deadline."""
TEXT_MAX = 1024
"""Of a name."""


def checked_bytes(value: object, what: str) -> bytes:
    """Bytes, or a copy of what is like them and may change."""
    if type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(memoryview(value))
        except ValueError as error:  # a view that was released
            raise LocalProtocolError(f"{what} cannot be read: {error}") from error
    raise LocalProtocolError(f"{what} is bytes, not {_kind(value)}")


def checked_number(value: object, what: str, *, low: int = 0, high: int = NUMBER_MAX) -> int:
    """A whole number between these."""
    if type(value) is int and low <= value <= high:
        return value
    try:
        number = int(operator.index(value))  # type: ignore[arg-type]  # that is the question
    except TypeError:
        raise LocalProtocolError(f"{what} is a whole number, not {_kind(value)}") from None
    if not low <= number <= high:
        raise LocalProtocolError(f"{what} is a number from {low} to {high}, not {number}")
    return number


def checked_position(value: object) -> int:
    """Of a record: they are numbered from 1."""
    return checked_number(value, "a position", low=1)


def checked_range(first: object, last: object) -> tuple[int, int]:
    """Two positions. ``last`` may be any number: behind the end, or before ``first``, stands nothing."""
    begin = checked_position(first)
    end = last if type(last) is int else checked_number(last, "a position")
    return begin, min(max(0, end), NUMBER_MAX)


def checked_within(within_s: object) -> float | None:
    """A time in seconds; None: no deadline."""
    if within_s is None:
        return None
    if type(within_s) is not float and not isinstance(within_s, Real):
        raise LocalProtocolError(f"within_s is a number of seconds, or None for no deadline, not {_kind(within_s)}")
    try:
        seconds = float(within_s)
    except OverflowError:
        seconds = inf
    if not 0 <= seconds <= WITHIN_MAX_S:
        raise LocalProtocolError(
            f"within_s is from 0 to {WITHIN_MAX_S:g} seconds, or None for no deadline, not {seconds}"
        )
    return seconds


def checked_text(value: object, what: str) -> str:
    """A name, or nothing; others can read it."""
    if not isinstance(value, str):
        raise LocalProtocolError(f"{what} is a text, not {_kind(value)}")
    if len(value) > TEXT_MAX:
        raise LocalProtocolError(f"{what} has at most {TEXT_MAX} characters, not {len(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise LocalProtocolError(f"{what} cannot be written in UTF-8: {value!r}") from None
    return str(value)


def checked_snapshot(snapshot: object) -> Snapshot:
    """A position and a state."""
    if not isinstance(snapshot, Snapshot):
        raise LocalProtocolError(f"a snapshot is a Snapshot(position, state), not {_kind(snapshot)}")
    position = checked_number(snapshot.position, "the position of a snapshot")
    digest = checked_number(snapshot.digest, "the digest of a snapshot", high=2**64 - 1)
    return Snapshot(position, checked_bytes(snapshot.state, "the state of a snapshot"), digest)


def checked_rule(rule: object) -> Rule | None:
    """A quorum rule that can be written down; None: the present one."""
    if rule is None:
        return None
    if not isinstance(rule, Rule):
        raise LocalProtocolError(f"a quorum rule is one of isotone.corel.quorum, not {_kind(rule)}")
    try:
        encoded = encode_rule(rule)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise LocalProtocolError(f"not a quorum rule: {error}") from error
    if len(encoded) > RULE_BYTES_MAX:
        raise LocalProtocolError(f"a rule has at most {RULE_BYTES_MAX} bytes, not {len(encoded)}")
    return decode_rule(encoded)


def checked_votes(votes: object) -> tuple[tuple[str, int], ...]:
    """Of servers, sorted; None: as they are."""
    if votes is None:
        return ()
    if not isinstance(votes, Mapping):
        raise LocalProtocolError(f"votes are a mapping of servers to numbers, not {_kind(votes)}")
    given = {
        checked_text(server, "the name of a server"): checked_number(vote, "a vote") for server, vote in votes.items()
    }
    return tuple(sorted(given.items()))


def checked_call(call: object, what: str) -> None:
    """It can be called."""
    if not callable(call):
        raise LocalProtocolError(f"{what} is a function, not {_kind(call)}")


def _kind(value: object) -> str:
    return f"{type(value).__name__}: {_shown(value)}" if value is not None else "None"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
