"""Frames into bodies and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core.choice import Choice
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import FRAME_HEADER_BYTES, Frame, frame_of
from isotone.evs.links.packing import PART_BYTES_MIN, PART_HEADER_BYTES, Packer, Unpacker, cost_of
from tests.evs.links.pair import bodies_of

BODY = 1372


def packed(packer: Packer, *, whole_only: bool = False) -> list[bytes]:
    out = []
    while packer:
        parts, size = packer.next_body(whole_only=whole_only)
        out.append(b"".join(parts))
        assert len(out[-1]) == size <= packer.body_bytes
    assert packer.queued_bytes == packer.large_bytes == 0
    return out


def unpacker() -> Unpacker:
    return Unpacker(frame_bytes_max=1 << 20, held_bytes_max=1 << 22)


def unpacked(bodies: list[bytes], box: Unpacker | None = None) -> list[Frame]:
    box = box or unpacker()
    frames: list[Frame] = []
    for body in bodies:
        box.unpack(memoryview(body), frames)
        box.settle()
    assert box.held_bytes == 0
    return frames


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9000)), max_size=12), st.integers(144, 2000), st.data())
def test_what_is_packed_is_unpacked_in_any_order(kinds: list[tuple[int, int]], body: int, data: st.DataObject) -> None:
    choice = Choice(str(kinds))
    frames = []
    for kind, size in kinds:
        cut = choice.below(size + 1)
        whole = choice.word().to_bytes(8, "big") * (size // 8 + 1)
        frames.append(frame_of(kind, whole[:cut], memoryview(whole)[cut:size]))
    packer = Packer(body)
    packer.offer(frames)
    assert packer.queued_bytes == cost_of(frames)
    bodies = packed(packer)
    shuffled = data.draw(st.permutations(bodies))
    assert bodies_of(unpacked(list(shuffled))) == bodies_of(frames)


def test_packets_are_full_and_frames_that_fit_are_not_cut() -> None:
    packer = Packer(BODY)
    packer.offer([frame_of(1, bytes(100))] * 24)
    assert [len(body) for body in packed(packer)] == [12 * 108, 12 * 108]
    packer.offer([frame_of(1, bytes(1000))] * 2)
    assert [len(body) for body in packed(packer)] == [1008, 1008]


def test_a_large_frame_fills_every_packet_but_the_last() -> None:
    packer = Packer(BODY)
    packer.offer([frame_of(1, bytes(64 * 1024))])
    sizes = [len(body) for body in packed(packer)]
    assert set(sizes[:-1]) == {BODY}
    assert len(sizes) == -(-64 * 1024 // (BODY - PART_HEADER_BYTES))


def test_few_objects_in_a_packet_and_no_copies() -> None:
    payload = bytes(64 * 1024)
    packer = Packer(BODY)
    packer.offer([frame_of(1, payload)])
    while packer:
        parts, _ = packer.next_body()
        assert len(parts) == 2
        assert isinstance(parts[1], memoryview) and parts[1].obj is payload


def test_a_fresh_frame_waits_for_one_packet_of_bulk() -> None:
    """[Spread 4.4.2]: forwarding does not delay packets even when there is other traffic."""
    packer = Packer(BODY)
    packer.offer([frame_of(1, bytes(64 * 1024))])
    packer.next_body()
    packer.offer([frame_of(1, b"fresh")])
    bodies = [b"".join(packer.next_body()[0]) for _ in range(2)]
    assert sum(b"fresh" in body for body in bodies) == 1


def test_bulk_is_not_starved() -> None:
    packer = Packer(BODY)
    packer.offer([frame_of(1, bytes(64 * 1024))])
    before = packer.large_bytes
    for _ in range(20):
        packer.offer([frame_of(1, bytes(1300))] * 2)
        packer.next_body()
    assert before - packer.large_bytes >= 10 * (BODY - PART_HEADER_BYTES)


def test_whole_frames_alone_leave_bulk_where_it_is() -> None:
    packer = Packer(BODY)
    packer.offer([frame_of(1, bytes(64 * 1024)), frame_of(1, b"fresh")])
    assert packer.urgent
    parts, size = packer.next_body(whole_only=True)
    assert b"".join(parts)[FRAME_HEADER_BYTES:] == b"fresh" and size == FRAME_HEADER_BYTES + 5
    assert not packer.urgent and packer.large_bytes == packer.queued_bytes == 64 * 1024 + FRAME_HEADER_BYTES


def test_what_stays_held_does_not_keep_the_receive_buffer() -> None:
    packer = Packer(BODY)
    packer.offer([frame_of(1, bytes(5000))])
    first, *rest = packed(packer)
    box = unpacker()
    frames: list[Frame] = []
    box.unpack(memoryview(first), frames)
    assert not frames and box.held_bytes == BODY - PART_HEADER_BYTES
    box.settle()
    assert all(isinstance(piece, bytes) for held in box._held.values() for piece in held.pieces.values())
    for body in rest:
        box.unpack(memoryview(body), frames)
    assert [frame.size for frame in frames] == [5000] and box.held_bytes == 0


def test_held_parts_are_bounded() -> None:
    packer = Packer(BODY)
    packer.offer([frame_of(1, bytes(5000))] * 4)
    firsts = packed(packer)[::4]
    box = Unpacker(frame_bytes_max=5000, held_bytes_max=3000)
    frames: list[Frame] = []
    box.unpack(memoryview(firsts[0]), frames)
    box.unpack(memoryview(firsts[1]), frames)
    with pytest.raises(RemoteProtocolError, match="more incomplete frames"):
        box.unpack(memoryview(firsts[2]), frames)
    assert box.held_bytes <= 3000


@pytest.mark.parametrize(
    "body",
    [
        b"\x00" * 7,
        bytes.fromhex("01000005000000040000000000"),  # size and total differ
        bytes.fromhex("0100000500000005") + b"four",
        bytes.fromhex("0102000000000000"),  # unknown form
        bytes.fromhex("0101000200000004"),  # no room for number and offset
        bytes.fromhex("01010000000000040000000000000000"),  # an empty part
        bytes.fromhex("01010002000000040000000000000003") + b"ab",  # beyond the end of its frame
        bytes.fromhex("010100027fffffff0000000000000000") + b"ab",  # a frame over the limit
        bytes.fromhex("01010001000000040000000000000000") + b"a"  # two parts of one frame
        + bytes.fromhex("01010001000000040000000000000001") + b"b",
    ],
)  # fmt: skip
def test_malformed_bodies_raise_and_change_nothing(body: bytes) -> None:
    box = unpacker()
    frames: list[Frame] = []
    with pytest.raises(RemoteProtocolError):
        box.unpack(memoryview(body), frames)
    assert not frames and box.held_bytes == 0 and not box._held


def test_parts_that_contradict_or_overlap_are_refused() -> None:
    def part(offset: int, total: int, piece: bytes) -> memoryview:
        header = bytes([1, 1]) + len(piece).to_bytes(2, "big") + total.to_bytes(4, "big")
        return memoryview(header + (9).to_bytes(4, "big") + offset.to_bytes(4, "big") + piece)

    box = unpacker()
    frames: list[Frame] = []
    box.unpack(part(0, 6, b"abc"), frames)
    for bad in (part(0, 6, b"abc"), part(3, 7, b"abc"), part(2, 6, b"cde"), part(1, 6, b"bcdef")):
        with pytest.raises(RemoteProtocolError):
            box.unpack(bad, frames)
    box.unpack(part(3, 6, b"def"), frames)
    assert [bytes(frame.body()) for frame in frames] == [b"abcdef"]


# --- to the byte ---------------------------------------------------------------------------------------------------


def part(number: int, offset: int, total: int, piece: bytes, kind: int = 1) -> bytes:
    header = bytes([kind, 1]) + len(piece).to_bytes(2, "big") + total.to_bytes(4, "big")
    return header + number.to_bytes(4, "big") + offset.to_bytes(4, "big") + piece


def test_a_frame_that_just_fits_is_not_cut_and_one_byte_more_is() -> None:
    for size, large in ((BODY - FRAME_HEADER_BYTES, False), (BODY - FRAME_HEADER_BYTES + 1, True)):
        packer = Packer(BODY)
        packer.offer([frame_of(1, bytes(size))])
        assert (packer.large_bytes > 0) is large is not packer.urgent
        assert [len(body) for body in packed(packer)] == ([BODY, PART_HEADER_BYTES + 9] if large else [BODY])


def test_no_part_smaller_than_the_least_is_begun_at_the_end_of_a_body() -> None:
    for left, cut in ((PART_HEADER_BYTES + PART_BYTES_MIN, True), (PART_HEADER_BYTES + PART_BYTES_MIN - 1, False)):
        packer = Packer(BODY)
        packer.offer([frame_of(1, bytes(BODY - left - FRAME_HEADER_BYTES)), frame_of(2, bytes(5_000))])
        _, size = packer.next_body()
        assert size == (BODY if cut else BODY - left)


def test_large_frames_fill_the_same_body_only_where_that_is_wanted() -> None:
    for fills, count in ((False, 4), (True, 3)):
        packer = Packer(BODY, fills=fills)
        packer.offer([frame_of(1, bytes(BODY)) for _ in range(2)])
        bodies = packed(packer)
        assert len(bodies) == count and [frame.size for frame in unpacked(bodies)] == [BODY, BODY]


def test_a_run_is_full_pieces_and_never_the_last() -> None:
    piece = BODY - PART_HEADER_BYTES
    for size, pieces in ((2 * piece, 1), (2 * piece + 1, 2), (3 * piece, 2)):
        packer = Packer(BODY)
        packer.offer([frame_of(1, bytes(size))])
        run, cost = packer.next_run(100)
        assert len(run) == pieces and cost == pieces * BODY
        assert [each[4] for each in run] == [number * piece for number in range(pieces)]
        assert packer.queued_bytes == packer.large_bytes == size - pieces * piece + FRAME_HEADER_BYTES
        assert packer.next_run(100) == ([], 0)
    packer = Packer(BODY)
    packer.offer([frame_of(1, bytes(9 * piece))])
    assert len(packer.next_run(4)[0]) == 4 and len(packer.next_run(4)[0]) == 4 and packer.next_run(0) == ([], 0)
    packer.offer([frame_of(1, b"small")])
    assert packer.next_run(4) == ([], 0), "somebody else waits"


def test_frames_and_held_parts_up_to_their_bounds() -> None:
    for total, held_max, fine in ((10, 3, True), (11, 3, False), (10, 2, False)):
        box, frames = Unpacker(frame_bytes_max=10, held_bytes_max=held_max), list[Frame]()
        for body in (part(1, 0, total, b"abc"), part(1, 0, total, b"ab") + part(2, 0, total, b"a")):
            box.clear()
            if fine:
                box.unpack(memoryview(body), frames)
                assert box.held_bytes == 3
            else:
                with pytest.raises(RemoteProtocolError):
                    box.unpack(memoryview(body), frames)
    box = Unpacker(frame_bytes_max=10, held_bytes_max=10)
    frames = []
    box.unpack(memoryview(part(1, 7, 10, b"xyz") + part(2, 0, 3, b"abc")), frames)
    assert [bytes(each.body()) for each in frames] == [b"abc"], "a part that is a whole frame"
    with pytest.raises(RemoteProtocolError):
        box.unpack(memoryview(part(1, 7, 10, b"wxyz")), frames)
    with pytest.raises(RemoteProtocolError):
        box.unpack(memoryview(part(1, 0, 10, b"abc", kind=2)), frames)
    box.unpack(memoryview(part(1, 0, 10, b"abcdefg")), frames)
    assert bytes(frames[-1].body()) == b"abcdefgxyz" and box.held_bytes == 0


def test_parts_that_follow_each_other_are_taken_together_or_not_at_all() -> None:
    def taken(box: Unpacker, offset: int, count: int, total: int = 20, number: int = 1) -> bool:
        piece = memoryview(b"12345")
        return box.take_parts((number, offset, 1, total, piece), [piece] * count, frames)

    frames: list[Frame] = []
    box = Unpacker(frame_bytes_max=20, held_bytes_max=15)
    assert not taken(box, 5, 1), "the beginning is missing"
    assert not taken(box, 0, 1, total=21), "too large a frame"
    assert not taken(box, 0, 4) and not taken(box, 0, 3, total=14), "too much"
    assert taken(box, 0, 2) and box.held_bytes == 10
    assert not taken(box, 5, 1) and not taken(box, 10, 3) and box.held_bytes == 10
    assert taken(box, 10, 1) and box.held_bytes == 15 and frames == []
    box.held_bytes_max = 20
    assert taken(box, 15, 1) and box.held_bytes == 0 and bytes(frames[0].body()) == b"12345" * 4
    assert taken(box, 0, 4, number=2) and len(frames) == 2, "a whole frame at once"
