"""Hypothesis: what is encoded decodes to the same, and what decodes is what encoding gives back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.core.bundles import Bundle, bundle_of
from isotone.core.codec import decode_bundle, encode_bundle, parse_fragment, split
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import SEQUENCE_MAX, ClientId, DaemonId, DaemonViewId, Stamp
from isotone.core.services import Service
from isotone.core.versions import VersionRange
from tests.core.codec_samples import CODEC, Gossip, Mood, Ping, Token

naturals = st.integers(0, SEQUENCE_MAX)
counters = st.integers(1, SEQUENCE_MAX - 10_000)
u16 = st.integers(0, 2**16 - 1)


def names(length_max: int) -> st.SearchStrategy[str]:
    return st.text(st.characters(min_codepoint=0x24, max_codepoint=0x7E), min_size=1, max_size=length_max)


daemons = st.builds(DaemonId, names(19), naturals)
clients = st.builds(ClientId, daemons, names(10), naturals)
stamps = st.builds(Stamp, st.integers(1, SEQUENCE_MAX), daemons)
private = st.builds(lambda client, daemon: f"#{client}#{daemon}", names(10), names(19))
groups = st.lists(names(31) | private, min_size=1, max_size=12)
messages = st.tuples(st.binary(max_size=300), u16)


@st.composite
def bundles(draw: st.DrawFn, count_max: int = 30) -> Bundle:
    bodies, types = zip(*draw(st.lists(messages, min_size=1, max_size=count_max)), strict=True)
    service = draw(st.sampled_from(Service))
    return bundle_of(draw(clients), draw(counters), service, draw(groups), bodies, types=types, flags=draw(u16))


@given(bundles(), st.none() | stamps)
def test_bundles(bundle: Bundle, stamp: Stamp | None) -> None:
    decoded, found = decode_bundle(b"".join(encode_bundle(bundle, stamp)))
    assert (decoded, found) == (bundle, stamp)
    assert [bytes(body) for body in decoded.bodies()] == [bytes(body) for body in bundle.bodies()]


@given(st.binary(max_size=500), st.integers(1, 200), naturals)
def test_fragments(message: bytes, limit: int, number: int) -> None:
    received = [parse_fragment(each.header() + bytes(each.body)) for each in split(message, limit, number=number)]
    assert {(each.number, each.total) for each in received} == {(number, len(message))}
    assert [each.offset for each in received] == list(range(0, len(message) or 1, limit))
    assert b"".join(each.body for each in received) == message


controls = st.one_of(
    st.builds(Ping, naturals),
    st.builds(
        Token, st.builds(DaemonViewId, naturals, daemons), naturals, st.lists(naturals).map(tuple), st.none() | daemons
    ),
    st.builds(
        Gossip,
        names=st.lists(st.text()).map(tuple),
        pairs=st.lists(st.tuples(daemons, st.integers(-(2**63), 2**64 - 1))).map(tuple),
        nested=st.lists(st.lists(st.integers(-(2**63), 2**64 - 1)).map(tuple)).map(tuple),
        digest=st.binary(),
        mood=st.sampled_from(Mood),
        load=st.floats(allow_nan=False),
        versions=st.builds(VersionRange, st.integers(0, 255), st.integers(0, 255)),
        sure=st.booleans(),
    ),
)


@given(controls)
def test_control_messages(message: Ping | Token | Gossip) -> None:
    assert CODEC.decode(CODEC.encode(message)) == message


@settings(max_examples=300)
@given(bundles(), st.none() | stamps, st.data())
def test_a_bundle_changed_in_one_byte_is_refused_or_is_another_valid_one(
    bundle: Bundle, stamp: Stamp | None, data: st.DataObject
) -> None:
    wire = bytearray(b"".join(encode_bundle(bundle, stamp)))
    wire[data.draw(st.integers(0, len(wire) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        changed = decode_bundle(wire)
    except RemoteProtocolError:
        return
    assert changed != (bundle, stamp)
    assert b"".join(encode_bundle(*changed)) == wire
