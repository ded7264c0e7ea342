"""What a caller may ask of a session: checks before anything changes, and the cut into bundles."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from isotone.core import boundary as b4
from isotone.core.bundles import GROUPS_MAX, MESSAGES_MAX, Bundle
from isotone.core.codec.bundle import ENTRY_BYTES
from isotone.core.errors import LocalProtocolError
from isotone.core.names import check_group_name, is_private_group
from isotone.evs.sessions.notices import SendWanted

SMALL_MAX = 0xFFFF

Chunk = tuple[bytes | memoryview, Sequence[int], Sequence[int]]
"""Payload, lengths, types of what may be one bundle."""


def check_join(request: b4.Join | b4.Leave) -> None:
    """A group that can be joined."""
    check_group_name(request.group)
    if is_private_group(request.group):
        raise LocalProtocolError(f"{request.group} is private: it has its client alone")


def check_groups(groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups of a send, sorted and each once."""
    ordered = tuple(sorted(set(groups)))
    if not 1 <= len(ordered) <= GROUPS_MAX:
        raise LocalProtocolError(f"a message goes to 1 to {GROUPS_MAX} groups, not {len(ordered)}")
    for group in ordered:
        check_group_name(group)
    return ordered


def check_bundle(bundle: Bundle, *, message_bytes_max: int, bundle_bytes_max: int) -> None:
    """A bundle that a caller made."""
    if not 1 <= bundle.count <= MESSAGES_MAX or len(bundle.types) != bundle.count:
        raise LocalProtocolError(f"a bundle has 1 to {MESSAGES_MAX} messages, each with a type; not {bundle.count}")
    size = len(bundle.payload)
    if sum(bundle.lengths) != size:
        raise LocalProtocolError("the lengths of a bundle add up to its payload")
    if size > (message_bytes_max if bundle.count == 1 else bundle_bytes_max):
        raise LocalProtocolError(
            f"{bundle.count} messages of {size} bytes; a bundle has at most {bundle_bytes_max}, "
            f"a single message {message_bytes_max}"
        )
    _check_numbers(bundle.types, bundle.flags)


def check_send(wanted: SendWanted, *, message_bytes_max: int, queue_bytes_max: int) -> None:
    """Messages that a caller wants to send."""
    sizes = list(map(len, wanted.bodies))
    if not sizes:
        raise LocalProtocolError("nothing to send")
    if max(sizes) > message_bytes_max:
        raise LocalProtocolError(f"a message of {max(sizes)} bytes; the bound is {message_bytes_max}")
    if len(sizes) > 1 and sum(sizes) > queue_bytes_max:
        raise LocalProtocolError(f"{sum(sizes)} bytes at once; several messages have at most {queue_bytes_max}")
    if wanted.types and len(wanted.types) != len(sizes):
        raise LocalProtocolError(f"{len(sizes)} messages with {len(wanted.types)} types")
    if wanted.deadline_us is not None and wanted.deadline_us < 0:
        raise LocalProtocolError(f"a deadline {-wanted.deadline_us} us ago")
    _check_numbers(wanted.types, wanted.flags)


def cuts(sizes: Sequence[int], *, bundle_bytes_max: int, packed_bytes_max: int) -> Iterator[tuple[int, int]]:
    """Where messages of these sizes are cut, so that each piece may be one bundle: a full one, or a single message."""
    ends = list(accumulate(sizes))
    count, start, behind = len(ends), 0, 0  # ``behind``: payload of all pieces before
    while start < count:
        fits = bisect_right(ends, behind + bundle_bytes_max, start)
        packed = behind + packed_bytes_max + ENTRY_BYTES * start
        if ends[fits - 1] + ENTRY_BYTES * fits > packed:
            fits = bisect_right(range(fits), packed, start, key=lambda place: ends[place] + ENTRY_BYTES * (place + 1))
        end = max(start + 1, min(fits, start + MESSAGES_MAX))
        yield start, end
        start, behind = end, ends[end - 1]


def chunks(wanted: SendWanted, *, bundle_bytes_max: int, packed_bytes_max: int) -> Iterator[Chunk]:
    """The messages in pieces that each may be one bundle."""
    sizes = list(map(len, wanted.bodies))
    types = wanted.types or (0,) * len(sizes)
    for start, end in cuts(sizes, bundle_bytes_max=bundle_bytes_max, packed_bytes_max=packed_bytes_max):
        bodies = wanted.bodies[start:end]
        payload = bodies[0] if end - start == 1 else b"".join(bodies)
        yield payload, sizes[start:end], types[start:end]


def _check_numbers(types: tuple[int, ...], flags: int) -> None:
    if not 0 <= flags <= SMALL_MAX or (types and not 0 <= min(types) <= max(types) <= SMALL_MAX):
        raise LocalProtocolError(f"types and flags are numbers up to {SMALL_MAX}")
