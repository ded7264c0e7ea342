"""The messages of the groups: round trips, bounds, and input that no correct daemon sends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core.codec.control import CONTROL_BYTES_MAX
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.evs.groups import messages
from isotone.evs.groups.messages import (
    CODEC,
    PIECE_BYTES_MAX,
    READERS_MAX,
    GroupEntry,
    GroupsMessage,
    HoldMessage,
    JoinMessage,
    KillMessage,
    LeaveMessage,
    Share,
    cut_shares,
    decode_message,
    read_shares,
    view_of,
)
from tests.evs.groups.bench import D1, D2, view_id


def one_group(entry: GroupEntry, client: str = "a", view: str = "7!d1#1", stamper: str = "d1#1") -> GroupsMessage:
    return GroupsMessage("5!d1#1", "d1#1", 0, 1, ((client, 1),), (view,), (stamper,), (entry,))


names = st.text(alphabet="$abcxyz~", min_size=1, max_size=64)
clients = st.builds(lambda name, session: ClientId(D1, name, session), names, st.integers(0, 9))
ids = st.builds(
    lambda epoch, stamp: GroupViewId(view_id(epoch), stamp=Stamp(stamp, D2)), st.integers(1, 3), st.integers(1, 3)
)
shares = st.builds(
    lambda name, id, marked, members: Share(name, id, marked, tuple(sorted(members))),
    names,
    ids,
    st.booleans(),
    st.sets(clients, min_size=1, max_size=5),
)


@given(st.lists(shares, max_size=20, unique_by=lambda share: share.name))
def test_shares_come_back_as_they_were(told: list[Share]) -> None:
    back = []
    for piece in cut_shares(view_id(5), D1, told):
        message = decode_message(CODEC.encode(piece))
        assert isinstance(message, GroupsMessage) and view_of(message) == view_id(5)
        back += read_shares(message, D1)
    assert back == told


@pytest.mark.parametrize(("groups", "views", "daemon"), [(1_000, 400, 9), (2_000, 700, 19), (2_000, 1_000, 64)])
def test_pieces_of_groups_whose_views_are_all_different_fit_too(groups: int, views: int, daemon: int) -> None:
    """After many joins in many daemon views hardly two groups have a view of the same daemon view."""
    me = DaemonId("d" * daemon, 2**60)
    told = [
        Share(
            f"{number:064}",
            GroupViewId(DaemonViewId(2**60 + number % views, me), stamp=Stamp(2**60 + number, me)),
            False,
            (ClientId(me, f"{number:064}", 1),),
        )
        for number in range(groups)
    ]
    pieces = cut_shares(DaemonViewId(2**61, me), me, told)
    assert max(len(CODEC.encode(piece)) for piece in pieces) <= PIECE_BYTES_MAX + 256
    assert [share for piece in pieces for share in read_shares(piece, me)] == told


@given(st.lists(shares, max_size=20, unique_by=lambda share: share.name))
def test_the_size_of_a_piece_is_counted_where_it_is_made(told: list[Share]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "PIECE_BYTES_MAX", 800)
        pieces = cut_shares(view_id(5), D1, told)
    assert [share for piece in pieces for share in read_shares(piece, D1)] == told or len(pieces) > 1
    for piece in pieces:
        assert len(CODEC.encode(piece)) <= 800 + 64 or len(piece.groups) == 1


def test_ten_thousand_groups_with_the_longest_names_fit_into_bounded_pieces() -> None:
    everybody = [ClientId(D1, f"{number:064}", 2**62) for number in range(2_000)]
    told = [
        Share(
            f"{number:064}",
            GroupViewId(view_id(2**62), stamp=Stamp(2**62 + number, D2)),
            True,
            tuple(everybody[number % 100 : number % 100 + 2]),
        )
        for number in range(10_000)
    ]
    told.append(Share("all", GroupViewId(view_id(1)), False, tuple(everybody)))
    pieces = cut_shares(view_id(5), D1, told)
    assert max(len(CODEC.encode(piece)) for piece in pieces) < CONTROL_BYTES_MAX
    back = [share for piece in pieces for share in read_shares(piece, D1)]
    assert back[:10_000] == told[:10_000]
    assert sum((share.members for share in back[10_000:]), ()) == tuple(everybody)


def test_a_statement_about_the_most_readers_with_the_longest_names_fits_into_a_unit() -> None:
    told = HoldMessage(tuple((f"{number:064}", 2**62) for number in range(READERS_MAX)))
    body = CODEC.encode(told)
    assert len(body) < CONTROL_BYTES_MAX and decode_message(body) == told


def test_nothing_to_bring_is_one_empty_piece() -> None:
    (piece,) = cut_shares(view_id(5), D1, [])
    assert read_shares(piece, D1) == [] and (piece.piece, piece.pieces) == (0, 1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x93\x50\x01\x02",
        CODEC.encode(JoinMessage("a", 1, "has space")),
        CODEC.encode(JoinMessage("a", 1, "#a#d1")),
        CODEC.encode(JoinMessage("a", 1, "")),
        CODEC.encode(LeaveMessage("", 1, "g")),
        CODEC.encode(KillMessage("x" * 65, 1)),
        CODEC.encode(HoldMessage((("a", 1), ("has space", 1)))),
        CODEC.encode(HoldMessage((("a", 1),) * (READERS_MAX + 1))),
        b"\x92\x54\xa1a",
    ],
)
def test_malformed_messages_are_the_peers_fault(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_message(body)


@pytest.mark.parametrize(
    "message",
    [
        one_group(GroupEntry("g", 1, 0, 1, 0, False, (0,))),
        one_group(GroupEntry("g", 0, 1, 1, 0, False, (0,))),
        one_group(GroupEntry("g", 0, 0, 1, 1, False, (0,))),
        one_group(GroupEntry("g", 0, 0, 1, 0, False, (1,))),
        one_group(GroupEntry("g", 0, 0, 1, 0, False, ())),
        one_group(GroupEntry("#g", 0, 0, 1, 0, False, (0,))),
        one_group(GroupEntry("g", 0, 0, 1, 0, False, (0,)), client="a b"),
        one_group(GroupEntry("g", 0, 0, 1, 0, False, (0,)), view="nonsense"),
        one_group(GroupEntry("g", 0, 0, 1, 0, False, (0,)), stamper="nonsense"),
    ],
)
def test_groups_that_contradict_themselves_are_the_peers_fault(message: GroupsMessage) -> None:
    with pytest.raises(RemoteProtocolError):
        read_shares(message, D1)


@pytest.mark.parametrize(("piece", "pieces"), [(1, 1), (0, 0), (0, 10_001)])
def test_pieces_that_cannot_be_are_the_peers_fault(piece: int, pieces: int) -> None:
    with pytest.raises(RemoteProtocolError):
        view_of(GroupsMessage("5!d1#1", "d1#1", piece, pieces, (), (), (), ()))


def test_a_group_that_can_be_read_reads() -> None:
    (share,) = read_shares(one_group(GroupEntry("g", 0, 0, 1, 0, False, (0,))), D1)
    assert (share.name, str(share.id)) == ("g", "7!d1#1!7!d1#1!1!d1#1")
