"""Messages on the wire: what comes back, what is refused, what is not even looked at."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.evs.links.hop.wire import VERSION
from isotone.evs.links.ring.token import PacketKind
from isotone.evs.membership.messages import (
    DAEMONS_MAX,
    ENVELOPE,
    MARK,
    Alive,
    Answer,
    Contact,
    Envelope,
    Join,
    Leave,
    NewMemb,
    PlannedLink,
    Probe,
    Recovered,
    Refer,
    Refuse,
    StateTrans,
    decode_exchange,
    encode_exchange,
    in_pieces,
    joined,
    view_name,
)
from tests.evs.membership.test_peers import card

ENVELOPE_OF = Envelope("cluster")
VIEW = view_name(DaemonViewId(7, DaemonId("a", 3)))
CONTACT = Contact("x", 1, "s", "x.1")
ALL = [
    Probe(card(), 5),
    Answer(card(cut=("a", "b")), 5),
    Alive(card(attached=VIEW, installed=True)),
    Join(card(), (CONTACT,), ("x", "y"), True),
    Refer(card(), CONTACT),
    NewMemb(card(), VIEW, (CONTACT,), ("x",), (PlannedLink(0, 1, 5, True, 0, 0),), 1),
    Refuse(card(), None, "no"),
    Leave(card()),
]


def opened(data: bytes) -> object:
    return ENVELOPE_OF.open(memoryview(data))


@pytest.mark.parametrize("message", ALL, ids=lambda message: type(message).__name__)
def test_every_datagram_comes_back(message: Probe) -> None:
    assert opened(b"".join(ENVELOPE_OF.seal(message))) == message


def test_no_packet_of_a_link_begins_with_the_mark() -> None:
    assert MARK not in {int(kind) for kind in PacketKind} | {VERSION}


def test_other_clusters_are_not_looked_at() -> None:
    assert Envelope("other").open(memoryview(b"".join(ENVELOPE_OF.seal(ALL[0])))) is None


@given(st.binary(max_size=200))
def test_rubbish_behind_the_envelope_is_refused(rubbish: bytes) -> None:
    head = ENVELOPE_OF.seal(ALL[0])[0]
    with pytest.raises(RemoteProtocolError):
        opened(head + rubbish)


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_message_is_refused_or_is_another_message(place: int, value: int) -> None:
    data = bytearray(b"".join(ENVELOPE_OF.seal(ALL[3])))
    data[ENVELOPE.size + place % (len(data) - ENVELOPE.size)] = value
    try:
        message = opened(bytes(data))
    except RemoteProtocolError:
        return
    assert isinstance(message, msgspec.Struct)


def test_a_datagram_cut_short_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        opened(bytes([MARK]))


def test_sets_have_a_bound() -> None:
    many = tuple(f"d{number}" for number in range(DAEMONS_MAX + 1))
    with pytest.raises(RemoteProtocolError):
        opened(b"".join(ENVELOPE_OF.seal(Alive(card(cut=many)))))


def test_the_exchange_comes_back() -> None:
    for message in (StateTrans(VIEW, VIEW, 2, b"holding", (0, 2), 9, 7), Recovered(VIEW)):
        assert decode_exchange(memoryview(encode_exchange(message))) == message
    with pytest.raises(RemoteProtocolError):
        decode_exchange(memoryview(b"\x01"))


def test_a_large_holding_travels_in_pieces_in_any_order() -> None:
    whole = StateTrans(VIEW, VIEW, 2, bytes(range(256)) * 500, (0, 2), 9, 7)
    pieces = in_pieces(whole)
    assert len(pieces) == 3 and all(decode_exchange(memoryview(encode_exchange(each))) == each for each in pieces)
    have: dict[int, StateTrans] = {}
    for piece in reversed(pieces):
        assert joined(have) is None
        have[piece.piece] = piece
    assert joined(have) == whole
    assert in_pieces(msgspec.structs.replace(whole, holding=b"")) == [msgspec.structs.replace(whole, holding=b"")]
