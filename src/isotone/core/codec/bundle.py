"""Bundles on the wire: a fixed head, the names, a column of lengths, a column of types, the payload.

Neither direction copies the payload or loops over messages in Python: the columns are packed and unpacked by one call
each. Every value has one encoding, so what decodes is exactly what encoding the result gives back. Implements: the
identifiers of [Spread 5.1] on each message, at the cost of one bundle.
"""

from __future__ import annotations

import struct

from isotone.core.bundles import BUNDLE_BYTES_MAX, MESSAGES_MAX, Bundle
from isotone.core.codec.wire import (
    LAYOUT,
    SERVICES,
    Buffer,
    check_stamp,
    names_section,
    read_names,
    read_stamp,
)
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import SEQUENCE_MAX, ClientId, DaemonId, Stamp

# layout, service, flags, messages, bytes of names, bytes of payload,
# first sequence, session, sender's incarnation, Lamport time, stamping incarnation
HEAD = struct.Struct("<BBHHHIQQQQQ")
ENTRY_BYTES = 6  # of one message in the two columns together


def encode_bundle(
    bundle: Bundle, stamp: Stamp | None, *, payload_max: int = BUNDLE_BYTES_MAX
) -> list[bytes | memoryview]:
    """The bundle as a vector of buffers; the last one is the payload itself."""
    count, size = len(bundle.lengths), len(bundle.payload)
    _check_local(bundle, stamp, payload_max)
    names = names_section(bundle.sender, None if stamp is None else stamp.daemon.name, bundle.groups)
    sender = bundle.sender
    lamport, stamper = (0, 0) if stamp is None else (stamp.lamport, stamp.daemon.incarnation)
    try:
        head = struct.pack(
            f"<BBHHHIQQQQQ{len(names)}s{count}I{count}H",
            *(LAYOUT, bundle.service, bundle.flags, count, len(names), size),
            *(bundle.first_sequence, sender.session, sender.daemon.incarnation, lamport, stamper),
            names,
            *bundle.lengths,
            *bundle.types,
        )
    except struct.error as error:
        raise LocalProtocolError(f"a number of the bundle is out of range: {error}") from error
    return [head, bundle.payload]


def decode_bundle(data: Buffer, *, payload_max: int = BUNDLE_BYTES_MAX) -> tuple[Bundle, Stamp | None]:
    """The bundle and its stamp if it has one; the payload is a view into ``data``."""
    view = memoryview(data)
    if len(view) < HEAD.size:
        raise RemoteProtocolError(f"a bundle of {len(view)} bytes")
    head = HEAD.unpack_from(view)
    layout, service, flags, count, names_size, size, first, session, incarnation, lamport, stamper = head
    if layout != LAYOUT or service >= len(SERVICES) or not 1 <= count <= MESSAGES_MAX or size > payload_max:
        raise RemoteProtocolError(f"a bundle of layout {layout}, service {service}, {count} messages, {size} bytes")
    if max(head[6:]) > SEQUENCE_MAX or first < 1 or first > SEQUENCE_MAX - count + 1:
        raise RemoteProtocolError("a number of the bundle is out of range")
    table = HEAD.size + names_size
    start = table + ENTRY_BYTES * count
    if start + size != len(view):
        raise RemoteProtocolError(f"a bundle that needs {start + size} bytes came with {len(view)}")
    lengths = struct.unpack_from(f"<{count}I", view, table)
    if sum(lengths) != size:
        raise RemoteProtocolError("the lengths of the messages do not add up to the payload")
    names, groups = read_names(bytes(view[HEAD.size : table]), lamport > 0)
    types = struct.unpack_from(f"<{count}H", view, table + 4 * count)
    sender = ClientId(DaemonId(names[1], incarnation), names[0], session)
    bundle = Bundle(sender, first, SERVICES[service], groups, lengths, types, view[start:], flags)
    return bundle, read_stamp(lamport, stamper, names)


def _check_local(bundle: Bundle, stamp: Stamp | None, payload_max: int) -> None:
    count, size = len(bundle.lengths), len(bundle.payload)
    if not 1 <= count <= MESSAGES_MAX or len(bundle.types) != count:
        raise LocalProtocolError(f"a bundle holds 1 to {MESSAGES_MAX} messages, each with a type; not {count}")
    if size > payload_max or sum(bundle.lengths) != size:
        raise LocalProtocolError(f"a payload of {size} bytes; at most {payload_max}, and the sum of the lengths")
    if bundle.first_sequence < 1 or bundle.last_sequence > SEQUENCE_MAX:
        raise LocalProtocolError(f"session sequences run from 1 to {SEQUENCE_MAX}, not {bundle.first_sequence}")
    if max(bundle.sender.session, bundle.sender.daemon.incarnation) > SEQUENCE_MAX:
        raise LocalProtocolError(f"a number of {bundle.sender} is out of range")
    check_stamp(stamp)
