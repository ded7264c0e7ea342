"""The wire: packets and frames, bundles and fragments, control messages. Layouts are in ``docs/protocols/wire.md``.

Malformed input of any kind raises `RemoteProtocolError` and nothing else, allocates no more than `ALLOCATION_FACTOR`
times its size, and never recurses. Integers are little-endian, because that is what the machines have.
"""

from isotone.core.codec.bundle import decode_bundle, encode_bundle
from isotone.core.codec.control import TAG_RANGES, ControlCodec, ControlMessage, Natural, TagRange
from isotone.core.codec.fragment import (
    Fragment,
    cut_bundle,
    decode_fragment,
    encode_fragment,
    join_fragments,
)
from isotone.core.codec.packet import (
    Frame,
    FrameKind,
    PacketHeader,
    PacketKind,
    iter_frames,
    pack_frame,
    pack_header_into,
    read_packet,
    short_digest,
    unpack_header,
)
from isotone.core.codec.wire import ALLOCATION_FACTOR, Buffer

__all__ = [
    "ALLOCATION_FACTOR",
    "TAG_RANGES",
    "Buffer",
    "ControlCodec",
    "ControlMessage",
    "Fragment",
    "Frame",
    "FrameKind",
    "Natural",
    "PacketHeader",
    "PacketKind",
    "TagRange",
    "cut_bundle",
    "decode_bundle",
    "decode_fragment",
    "encode_bundle",
    "encode_fragment",
    "iter_frames",
    "join_fragments",
    "pack_frame",
    "pack_header_into",
    "read_packet",
    "short_digest",
    "unpack_header",
]
