"""Control messages: tags in their package's range, allowed types only, typed decoding only."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from isotone.core.choice import Choice
from isotone.core.codec import TAG_RANGES, ControlCodec, ControlMessage, Natural
from isotone.core.codec.control import CONTROL_BYTES_MAX, range_of
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId, MessageId, Stamp
from isotone.core.views import DaemonView, GroupView
from tests.core.codec_samples import CODEC, Ping, Token, control


def test_round_trip_from_any_buffer() -> None:
    choice = Choice("control")
    for _ in range(200):
        message = control(choice)
        data = CODEC.encode(message)
        assert CODEC.decode(data) == CODEC.decode(bytearray(data)) == CODEC.decode(memoryview(data)) == message


def test_the_encoding_is_pinned() -> None:
    assert CODEC.encode(Ping(5)) == bytes.fromhex("92 cd03f0 05")
    token = Token(DaemonViewId(2, DaemonId("d", 1)), 9)
    daemon = "82 a46e616d65 a164 ab696e6361726e6174696f6e 01"
    view = f"82 a565706f6368 02 ab636f6f7264696e61746f72 {daemon}"
    assert CODEC.encode(token) == bytes.fromhex(f"95 cd03f1 {view} 09 90 c0")


def test_ranges_of_tags_do_not_overlap_and_are_in_order() -> None:
    assert all(each.first <= each.last for each in TAG_RANGES)
    assert all(left.last < right.first for left, right in pairwise(TAG_RANGES))
    packages = [each.package for each in TAG_RANGES]
    assert len(set(packages)) == len(packages)


def test_a_module_has_the_range_of_its_package_alone() -> None:
    assert range_of("isotone.evs.membership.gather").first == 0x40
    assert range_of("isotone.corel").first == 0x80
    for module in ("isotone.evs", "isotone.coreless", "isotone", "elsewhere"):
        with pytest.raises(LocalProtocolError):
            range_of(module)


class WrongTag(ControlMessage, frozen=True, tag=0x3EF):
    pass


class SameTag(ControlMessage, frozen=True, tag=0x3F0):
    pass


class TextTag(ControlMessage, frozen=True, tag="text"):
    pass


class NoTag(ControlMessage, frozen=True):
    pass


class Unbound(ControlMessage, frozen=True, tag=0x3FF):
    pass


Unbound.__module__ = "elsewhere"


@pytest.mark.parametrize("types", [(), (WrongTag,), (Ping, SameTag), (TextTag,), (NoTag,), (Unbound,)])
def test_tags_are_checked_when_a_codec_is_made(types: tuple[type[ControlMessage], ...]) -> None:
    with pytest.raises(LocalProtocolError):
        ControlCodec(*types)


class Recursive(ControlMessage, frozen=True, tag=0x3F3):
    inner: Recursive | None = None


class Indirect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    again: tuple[Indirect, ...]


class Loose(msgspec.Struct, frozen=True):
    field: int


FORBIDDEN = [
    Any,
    object,
    list[int],
    dict[str, int],
    set[int],
    frozenset[int],
    msgspec.Raw,
    tuple[Any, ...],
    tuple[int, list[int]],
    Indirect,
    Loose,
    Loose | None,
]


@pytest.mark.parametrize("kind", FORBIDDEN, ids=str)
def test_types_without_a_bound_are_refused(kind: Any) -> None:
    forbidden = msgspec.defstruct(
        "Forbidden",
        [("field", kind)],
        bases=(ControlMessage,),
        frozen=True,
        tag=0x3F4,
        module=__name__,
    )
    with pytest.raises(LocalProtocolError, match=r"Forbidden\.field"):
        ControlCodec(forbidden)


def test_a_message_that_contains_itself_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="contains itself"):
        ControlCodec(Recursive)


class Everything(ControlMessage, frozen=True, tag=0x3F5):
    daemon: DaemonId
    client: ClientId
    message: MessageId
    stamp: Stamp
    view: DaemonView
    group_views: tuple[GroupView, ...]
    ids: tuple[GroupViewId | None, ...]
    counter: Natural


def test_ids_and_views_of_the_contract_may_travel() -> None:
    daemon = DaemonId("d", 1)
    client = ClientId(daemon, "c", 2)
    view = DaemonView(DaemonViewId(3, daemon), (daemon,), (daemon,))
    ids = (None, GroupViewId(view.id))
    message = Everything(daemon, client, MessageId(client, 1), Stamp(1, daemon), view, (), ids, 0)
    codec = ControlCodec(Everything)
    assert codec.decode(codec.encode(message)) == message


def test_encoding_a_wrong_message_is_our_own_fault() -> None:
    with pytest.raises(LocalProtocolError, match="not a message of this codec"):
        ControlCodec(Ping).encode(Token(DaemonViewId(1, DaemonId("d", 1)), 1))  # type: ignore[arg-type]
    for wrong in (2**70, object(), "\ud800"):
        with pytest.raises(LocalProtocolError):
            CODEC.encode(Ping(wrong))  # type: ignore[arg-type]
    large = Token(DaemonViewId(1, DaemonId("d", 1)), 1, missing=(2**40,) * 8000)
    with pytest.raises(LocalProtocolError, match="at most"):
        CODEC.encode(large)


def test_the_limit_of_bytes_holds_before_anything_is_decoded() -> None:
    with pytest.raises(RemoteProtocolError, match="at most"):
        CODEC.decode(bytes(CONTROL_BYTES_MAX + 1))
    tight = ControlCodec(Ping, bytes_max=5)
    assert tight.decode(tight.encode(Ping(5))) == Ping(5)
    with pytest.raises(LocalProtocolError):
        tight.encode(Ping(300))


def test_nothing_may_stand_behind_a_message_or_be_missing() -> None:
    data = CODEC.encode(Ping(5))
    with pytest.raises(RemoteProtocolError):
        CODEC.decode(data + b"\x00")
    for end in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            CODEC.decode(data[:end])
