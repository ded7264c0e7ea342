"""Fragments: a message over the bundle's limit, cut into pieces that are stamped and ordered one by one.

What is cut is the unstamped encoding of a bundle with that one message, so a fragment need not repeat groups and types.
The message stands at the stamp of its last fragment.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

from isotone.core.bundles import BUNDLE_BYTES_MAX, Bundle
from isotone.core.codec.bundle import HEAD as BUNDLE_HEAD
from isotone.core.codec.bundle import decode_bundle, encode_bundle
from isotone.core.codec.wire import (
    LAYOUT,
    NAMES_BYTES_MAX,
    SERVICES,
    Buffer,
    check_stamp,
    names_section,
    read_names,
    read_stamp,
)
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import SEQUENCE_MAX, ClientId, DaemonId, Stamp
from isotone.core.services import Service

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""The default limit for one message; a daemon's settings may lower it."""

# layout, service, bytes of names, index, count, bytes of the whole encoding,
# sequence, session, sender's incarnation, Lamport time, stamping incarnation
HEAD = struct.Struct("<BBHIIIQQQQQ")
WHOLE_OVERHEAD_MAX = BUNDLE_HEAD.size + NAMES_BYTES_MAX + 6


class Fragment(msgspec.Struct, frozen=True, gc=False):
    """Piece ``index`` of ``count`` of a message's encoding, which has ``total`` bytes."""

    sender: ClientId
    sequence: int
    service: Service
    index: int
    count: int
    total: int
    piece: bytes | memoryview


def cut_bundle(bundle: Bundle, *, piece_max: int, message_max: int = MESSAGE_BYTES_MAX) -> list[Fragment]:
    """Cut a bundle of one message; the payload is not copied, save where the head meets it."""
    if bundle.count != 1 or not 1 <= piece_max <= BUNDLE_BYTES_MAX:
        raise LocalProtocolError(f"only a single message is cut, into pieces of 1 to {BUNDLE_BYTES_MAX} bytes")
    head, payload = (memoryview(part) for part in encode_bundle(bundle, None, payload_max=message_max))
    meet = max(0, min(len(payload), piece_max - len(head) % piece_max))
    front = memoryview(bytes(head) + bytes(payload[:meet]))
    pieces = [front[cut : cut + piece_max] for cut in range(0, len(front), piece_max)]
    pieces += [payload[cut : cut + piece_max] for cut in range(meet, len(payload), piece_max)]
    total = len(head) + len(payload)
    return [
        Fragment(bundle.sender, bundle.first_sequence, bundle.service, index, len(pieces), total, piece)
        for index, piece in enumerate(pieces)
    ]


def join_fragments(fragments: Sequence[Fragment], *, message_max: int = MESSAGE_BYTES_MAX) -> Bundle:
    """The bundle whose fragments these are, all of them and in order; copies the pieces once."""
    if not fragments or len(fragments) != fragments[0].count:
        raise RemoteProtocolError(f"{len(fragments)} fragments are not the whole message")
    first = fragments[0]
    for index, each in enumerate(fragments):
        if msgspec.structs.replace(each, index=0, piece=b"") != msgspec.structs.replace(first, index=0, piece=b""):
            raise RemoteProtocolError("fragments of different messages")
        if each.index != index:
            raise RemoteProtocolError(f"fragment {each.index} in the place of {index}")
    if sum(len(each.piece) for each in fragments) != first.total:
        raise RemoteProtocolError("the fragments do not add up to the message")
    bundle, stamp = decode_bundle(b"".join(each.piece for each in fragments), payload_max=message_max)
    if (bundle.sender, bundle.first_sequence, bundle.service) != (first.sender, first.sequence, first.service):
        raise RemoteProtocolError("the fragments carry another message than they say")
    if bundle.count != 1 or stamp is not None:
        raise RemoteProtocolError("fragments carry one message, and each its own stamp")
    return bundle


def encode_fragment(fragment: Fragment, stamp: Stamp | None) -> list[bytes | memoryview]:
    """The fragment as a vector of buffers; the last one is the piece itself."""
    check_stamp(stamp)
    sender = fragment.sender
    names = names_section(sender, stamp, (), grouped=False)
    lamport, stamper = (0, 0) if stamp is None else (stamp.lamport, stamp.daemon.incarnation)
    numbers = (fragment.sequence, sender.session, sender.daemon.incarnation, lamport, stamper)
    try:
        _check(
            fragment.index,
            fragment.count,
            fragment.total,
            len(fragment.piece),
            numbers=numbers,
            message_max=MESSAGE_BYTES_MAX,
        )
        shape = (len(names), fragment.index, fragment.count, fragment.total)
        head = HEAD.pack(LAYOUT, fragment.service, *shape, *numbers)
    except (struct.error, RemoteProtocolError) as error:
        raise LocalProtocolError(f"a number of the fragment is out of range: {error}") from error
    return [head + names, fragment.piece]


def decode_fragment(data: Buffer, *, message_max: int = MESSAGE_BYTES_MAX) -> tuple[Fragment, Stamp | None]:
    """The fragment and its stamp if it has one; the piece is a view into ``data``."""
    view = memoryview(data)
    if len(view) < HEAD.size:
        raise RemoteProtocolError(f"a fragment of {len(view)} bytes")
    layout, service, names_size, index, count, total, *numbers = HEAD.unpack_from(view)
    sequence, session, incarnation, lamport, stamper = numbers
    start = HEAD.size + names_size
    if layout != LAYOUT or service >= len(SERVICES):
        raise RemoteProtocolError(f"a fragment of layout {layout}, service {service}")
    _check(index, count, total, len(view) - start, numbers=numbers, message_max=message_max)
    names = read_names(view[HEAD.size : start], stamped=lamport > 0, grouped=False)
    sender = ClientId(DaemonId(names[1], incarnation), names[0], session)
    fragment = Fragment(sender, sequence, SERVICES[service], index, count, total, view[start:])
    return fragment, read_stamp(lamport, stamper, names)


def _check(index: int, count: int, total: int, piece: int, *, numbers: Sequence[int], message_max: int) -> None:
    if not index < count <= total <= message_max + WHOLE_OVERHEAD_MAX:
        raise RemoteProtocolError(f"fragment {index} of {count} of {total} bytes")
    if not 1 <= piece <= min(total - count + 1, BUNDLE_BYTES_MAX):
        raise RemoteProtocolError(f"a piece of {piece} bytes, in {count} of {total}")
    if max(numbers) > SEQUENCE_MAX or numbers[0] < 1:
        raise RemoteProtocolError("a number of the fragment is out of range")
