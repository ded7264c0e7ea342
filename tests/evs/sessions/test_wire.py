"""The bytes of a session: greeting, frames, control messages, indications."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.codec.frame import FrameKind
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.services import Service
from isotone.core.versions import VersionRange
from isotone.core.views import Cause, GroupView
from isotone.evs.sessions.frames import HEAD_BYTES, Arrived, FrameReader, bundle_frame, control_frame
from isotone.evs.sessions.greeting import is_greeting, pack_answer, pack_greeting, read_answer, read_greeting
from isotone.evs.sessions.indications import decode_message, decode_told, encode_indication
from isotone.evs.sessions.messages import (
    ClientBeat,
    Heard,
    Hello,
    ViewTold,
    Visit,
    client_codec,
    server_codec,
    shortened,
)

D1, D2 = DaemonId("d1", 3), DaemonId("d2", 1)
ALICE, BOB, CAROL = ClientId(D1, "alice", 1), ClientId(D2, "bob", 7), ClientId(D1, "carol", 2)
VIEW_ID = GroupViewId(DaemonViewId(4, D1), DaemonViewId(5, D2), Stamp(9, D2))


def anything(kind: FrameKind, size: int) -> None:
    del kind, size


def frames_of(reader: FrameReader, data: bytes) -> list[Arrived]:
    found, place, view = [], 0, memoryview(data)
    while place < len(view):
        frame, place = reader.next(view, place)
        if frame is not None:
            found.append(frame)
    return found


# --- greeting ----------------------------------------------------------------------------------------------------


def test_the_greeting_is_what_it_always_was() -> None:
    assert pack_greeting(VersionRange(1, 3)) == b"ISOC\x01\x03\x00\x00"
    assert pack_answer(VersionRange(2, 5), VersionRange(1, 3)) == (b"ISOD\x03\x02\x05\x00", 3)
    assert pack_answer(VersionRange(4, 5), VersionRange(1, 3)) == (b"ISOD\x00\x04\x05\x00", None)
    assert read_greeting(b"ISOC\x01\x03\x00\x00") == VersionRange(1, 3)
    assert read_answer(b"ISOD\x03\x02\x05\x00", VersionRange(1, 3)) == (3, VersionRange(2, 5))
    assert read_answer(b"ISOD\x00\x04\x05\x00", VersionRange(1, 3)) == (None, VersionRange(4, 5))


@pytest.mark.parametrize(
    "data", [b"ISOX\x01\x01\x00\x00", b"ISOC\x00\x01\x00\x00", b"ISOC\x02\x01\x00\x00", b"ISOC\x01\x01\x00\x01"]
)
def test_other_greetings_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_greeting(data)


@pytest.mark.parametrize(
    "data", [b"ISOC\x01\x01\x01\x00", b"ISOD\x03\x01\x05\x00", b"ISOD\x02\x03\x05\x00", b"ISOD\x01\x01\x01\x09"]
)
def test_a_daemon_must_choose_what_both_speak(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_answer(data, VersionRange(1, 2))


def test_the_beginning_of_a_greeting_is_enough_to_know_it() -> None:
    assert all(is_greeting(b"ISOC\x01\x01"[:size]) for size in range(7))
    assert not is_greeting(b"\x04\x00") and not is_greeting(b"ISOT")


# --- frames ------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.integers(1, 30))
def test_frames_come_out_whatever_the_cuts(bodies: list[bytes], cut: int) -> None:
    data = b"".join(control_frame(body) for body in bodies)
    reader = FrameReader(anything)
    found = [frame for at in range(0, len(data), cut) for frame in frames_of(reader, data[at : at + cut])]
    assert [bytes(frame.body) for frame in found] == bodies
    assert sum(frame.size for frame in found) == len(data)
    assert reader.held_bytes == 0


def test_a_frame_that_came_whole_is_not_copied() -> None:
    data = control_frame(b"one") + control_frame(b"two")
    assert all(frame.body.obj is data for frame in frames_of(FrameReader(anything), data))


def test_a_head_is_checked_before_its_body_is_collected() -> None:
    def check(kind: FrameKind, size: int) -> None:
        if size > 100:
            raise RemoteProtocolError("too large")

    for cut in (3, HEAD_BYTES, HEAD_BYTES + 1):
        reader = FrameReader(check)
        data = control_frame(bytes(200))[:20]
        pieces = [data[at : at + cut] for at in range(0, len(data), cut)]
        with pytest.raises(RemoteProtocolError):
            _ = [frames_of(reader, piece) for piece in pieces]
        assert reader.held_bytes <= HEAD_BYTES


@pytest.mark.parametrize(
    "head",
    [
        b"\x02\0\0\0\1\0\0\0x",
        b"\x03\1\0\0\1\0\0\0x",
        b"\x03\0\1\0\1\0\0\0x",
        b"\x03\0\0\0\0\0\0\0",
        b"\x01\2\0\0\1\0\0\0x",
    ],
)
def test_heads_that_version_1_does_not_have(head: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        frames_of(FrameReader(anything), head)


# --- messages ----------------------------------------------------------------------------------------------------


def test_control_messages_pass() -> None:
    for message in (Hello("alice", b"credential", bytes(16)), Visit("alice", b"", bytes(16)), Heard(7), ClientBeat()):
        assert client_codec.decode(client_codec.encode(message)) == message


def test_a_name_without_end_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        client_codec.decode(client_codec.encode(Hello("x" * 131, b"", bytes(16))))


def test_reasons_fit() -> None:
    assert shortened("short") == "short" and len(shortened("x" * 10_000)) == 500


# --- indications -------------------------------------------------------------------------------------------------


def through(indication: b4.Indication) -> b4.Indication | None:
    parts, size = encode_indication(indication, 1 << 20)
    data = b"".join(parts)
    assert len(data) == size
    (frame,) = frames_of(FrameReader(anything), data)
    if frame.kind is FrameKind.BUNDLE:
        return decode_message(frame.body, 1 << 20)
    return decode_told(server_codec.decode(frame.body))


def test_indications_come_back_as_they_were() -> None:
    everybody = (ALICE, CAROL, BOB)
    for indication in (
        b4.Transitional("g", VIEW_ID),
        b4.SelfLeave("g"),
        b4.Refused("join", "joined already", "g"),
        b4.View(GroupView("g", VIEW_ID, everybody, (ALICE,), Cause.NETWORK, None, ((ALICE, CAROL), (BOB,)))),
        b4.View(GroupView("g", VIEW_ID, (ALICE,), (ALICE,), Cause.LEAVE, BOB)),
        b4.View(GroupView("g", VIEW_ID, (), (), Cause.DISCONNECT, BOB)),
    ):
        assert through(indication) == indication


def test_a_message_comes_back_and_its_payload_is_not_copied() -> None:
    payload = bytes(1000)
    message = b4.Message(bundle_of(ALICE, 5, Service.SAFE, ["g", "h"], [payload], types=[9], flags=3), Stamp(8, D2))
    parts, _ = encode_indication(message, 1 << 20)
    assert parts[-1] is payload
    assert through(message) == message


def test_a_view_of_many_members_is_small() -> None:
    members = tuple(ClientId(D1 if each % 2 else D2, f"c{each}", each) for each in range(2000))
    view = b4.View(GroupView("g", VIEW_ID, members, members, Cause.NETWORK, None, (members,)))
    assert through(view) == view
    assert encode_indication(view, 1 << 20)[1] < 25 * len(members)


def told(**changes: object) -> ViewTold:
    fields = {"group": "g", "id": str(VIEW_ID), "daemons": (str(D1),), "clients": ((0, "alice", 1),), "members": (0,)}
    fields |= {"transitional": (0,), "cause": "join", "subject": 0, "together": ()} | changes
    return ViewTold(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"members": (1,)},
        {"clients": ((1, "alice", 1),)},
        {"subject": 1},
        {"subject": -2},
        {"cause": "chance"},
        {"id": "7"},
        {"daemons": ("d1",)},
        {"together": ((0, 3),)},
    ],
)
def test_views_that_make_no_sense(changes: dict[str, object]) -> None:
    assert decode_told(told()) is not None
    with pytest.raises(RemoteProtocolError):
        decode_told(told(**changes))


def test_a_bundle_frame_may_carry_a_deadline() -> None:
    parts, size = bundle_frame([b"head", b"payload"], 77)
    (frame,) = frames_of(FrameReader(anything), b"".join(parts))
    assert frame.flags == 1 and frame.size == size and bytes(frame.body)[8:] == b"headpayload"
