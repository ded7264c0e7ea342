"""Formats that several packages share: bundles, fragments, control messages, frames of a stream.

Layouts are in ``docs/protocols/wire.md``. Malformed input of any kind raises `RemoteProtocolError` and nothing else,
allocates no more than `ALLOCATION_FACTOR` times its size, and never recurses. Integers are little-endian, because that
is what the machines have.
"""

from isotone.core.codec.bundle import decode_bundle, encode_bundle
from isotone.core.codec.control import TAG_RANGES, ControlCodec, ControlMessage, Natural, TagRange
from isotone.core.codec.fragment import Fragment, parse_fragment, split
from isotone.core.codec.frame import FRAME, FrameKind
from isotone.core.codec.wire import ALLOCATION_FACTOR, Buffer

__all__ = [
    "ALLOCATION_FACTOR",
    "FRAME",
    "TAG_RANGES",
    "Buffer",
    "ControlCodec",
    "ControlMessage",
    "Fragment",
    "FrameKind",
    "Natural",
    "TagRange",
    "decode_bundle",
    "encode_bundle",
    "parse_fragment",
    "split",
]
