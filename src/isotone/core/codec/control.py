"""Control messages: typed MessagePack with integer tags, one range of tags per package.

A control message is a frozen struct of numbers, texts, bytes, enums, tuples and such structs. Nothing else is allowed
and no type contains itself: so decoding is as deep as its type and no deeper, and an element on the wire becomes a
bounded number of bytes in memory. Unknown fields are refused, because skipping them would follow a peer's nesting; a
message changes only with the protocol version.
"""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar, Union

import msgspec
from msgspec import inspect

from isotone.core.codec.wire import Buffer
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import SEQUENCE_MAX

CONTROL_BYTES_MAX = 64 * 1024

Natural = Annotated[int, msgspec.Meta(ge=0, le=SEQUENCE_MAX)]
"""A counter on the wire."""


class TagRange(msgspec.Struct, frozen=True, order=True):
    """The tags ``first`` … ``last`` belong to the messages that ``package`` defines."""

    first: int
    last: int
    package: str


TAG_RANGES = tuple(
    TagRange(*each)
    for each in (
        (0x00, 0x0F, "isotone.core"),
        (0x10, 0x1F, "isotone.detector"),
        (0x20, 0x2F, "isotone.evs.links"),
        (0x30, 0x37, "isotone.evs.overlay"),
        (0x38, 0x3F, "isotone.evs.ordering"),
        (0x40, 0x4F, "isotone.evs.membership"),
        (0x50, 0x5F, "isotone.evs.groups"),
        (0x60, 0x7F, "isotone.evs.sessions"),
        (0x80, 0x9F, "isotone.corel"),
        (0xA0, 0xBF, "isotone.isis"),
        (0xC0, 0xDF, "isotone.hab"),
        (0xE0, 0xFF, "isotone.flows"),
        (0x100, 0x13F, "isotone.replicated"),
        (0x140, 0x15F, "isotone.daemon"),
        (0x160, 0x17F, "isotone.host"),
        (0x3F0, 0x3FF, "tests"),
    )
)


class ControlMessage(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """Base of all control messages: ``class Hello(ControlMessage, frozen=True, tag=0x01)``."""


Message = TypeVar("Message", bound=ControlMessage)


class ControlCodec(Generic[Message]):
    """Encodes and decodes these types of messages and no others."""

    def __init__(self, *types: type[Message], bytes_max: int = CONTROL_BYTES_MAX) -> None:
        check_types(types)
        self._types = frozenset(types)
        self._bytes_max = bytes_max
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Union[types])  # noqa: UP007

    def encode(self, message: Message) -> bytes:
        """The message as bytes."""
        if type(message) not in self._types:
            raise LocalProtocolError(f"{type(message).__name__} is not a message of this codec")
        try:
            data = self._encoder.encode(message)
        except (TypeError, ValueError, OverflowError) as error:
            raise LocalProtocolError(f"{message}: {error}") from error
        if len(data) > self._bytes_max:
            raise LocalProtocolError(f"{type(message).__name__} has {len(data)} bytes; at most {self._bytes_max}")
        return data

    def decode(self, data: Buffer) -> Message:
        """The message in these bytes, which hold it and nothing else."""
        if len(data) > self._bytes_max:
            raise RemoteProtocolError(f"a control message of {len(data)} bytes; at most {self._bytes_max}")
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
            raise RemoteProtocolError(f"a malformed control message: {error}") from error


def check_types(types: tuple[type[ControlMessage], ...]) -> None:
    """Every tag is a number of its package's range and is used once; every field is of an allowed type."""
    seen: dict[object, type[ControlMessage]] = {}
    for each in types:
        tag = each.__struct_config__.tag
        other = seen.setdefault(tag, each)
        if other is not each:
            raise LocalProtocolError(f"tag {tag} means both {other.__name__} and {each.__name__}")
        allowed = range_of(each.__module__)
        if not isinstance(tag, int) or not allowed.first <= tag <= allowed.last:
            bounds = f"0x{allowed.first:02X} to 0x{allowed.last:02X}"
            raise LocalProtocolError(f"{each.__name__} has tag {tag}; {allowed.package} has {bounds}")
        _check_type(inspect.type_info(each), (), each.__name__)
    if not types:
        raise LocalProtocolError("a codec has at least one type")


def range_of(module: str) -> TagRange:
    """The tags of the package that this module belongs to."""
    for each in TAG_RANGES:
        if module == each.package or module.startswith(f"{each.package}."):
            return each
    raise LocalProtocolError(f"module {module} has no range of tags")


SCALARS = (
    inspect.BoolType,
    inspect.IntType,
    inspect.FloatType,
    inspect.StrType,
    inspect.BytesType,
    inspect.EnumType,
    inspect.NoneType,
)


def _check_type(info: inspect.Type, inside: tuple[type, ...], where: str) -> None:
    match info:
        case inspect.Metadata(type=of):
            _check_type(of, inside, where)
        case inspect.VarTupleType(item_type=item):
            _check_type(item, inside, where)
        case inspect.TupleType(item_types=parts) | inspect.UnionType(types=parts):
            for part in parts:
                _check_type(part, inside, where)
        case inspect.StructType(cls=cls):
            _check_struct(info, (*inside, cls), where)
        case _ if not isinstance(info, SCALARS):
            raise LocalProtocolError(f"{where}: {type(info).__name__} is not allowed in a control message")


def _check_struct(info: inspect.StructType, inside: tuple[type, ...], where: str) -> None:
    if info.cls in inside[:-1]:
        raise LocalProtocolError(f"{where}: {info.cls.__name__} contains itself")
    if not info.forbid_unknown_fields:
        raise LocalProtocolError(f"{where}: {info.cls.__name__} would skip unknown fields")
    for field in info.fields:
        _check_type(field.type, inside, f"{where}.{field.name}")
