"""What nodes and authorities send each other, and values as bytes.

Implements: [Flows 3.1], [Flows 3.2]. Deviations: none.
"""

from __future__ import annotations

from itertools import accumulate
from operator import sub
from typing import Annotated, Any

import msgspec

from isotone.core.codec.control import ControlCodec, ControlMessage, Natural
from isotone.core.errors import RemoteProtocolError
from isotone.flows.compiler import Rules, Values, global_types, type_of
from isotone.flows.ring import Member, Token, Version
from isotone.flows.root import Decision
from isotone.flows.values import LIMITLESS, Decisions, Pairs, RangeSet, Value, from_plain

Text = Annotated[str, msgspec.Meta(max_length=200)]
MEMBERS_MAX = 256
"""Members of one ring; who asks for more is refused."""


class Enrol(ControlMessage, frozen=True, tag=0xE0):
    """To an authority: let this member into this ring."""

    ring: Text
    member: Text
    address: Text


class Bootstrap(ControlMessage, frozen=True, tag=0xE1):
    """From an authority: what a member of this ring needs to know. No parent: this is the top, and the root is here."""

    ring: Text
    member: Text
    parent: Text
    parent_authority: Text
    token_us: Natural
    ranges_max: Natural
    bytes_per_s: Natural
    program: Annotated[str, msgspec.Meta(max_length=20_000)]


class WireMember(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """`Member` on the wire."""

    id: Text
    address: Text
    since: Natural


class RingView(ControlMessage, frozen=True, tag=0xE2):
    """From an authority: the members of a ring, the leader first."""

    ring: Text
    number: Natural
    members: Annotated[tuple[WireMember, ...], msgspec.Meta(max_length=MEMBERS_MAX)]


class Alive(ControlMessage, frozen=True, tag=0xE3):
    """To an authority: this member lives, and knows the view of this number."""

    ring: Text
    member: Text
    number: Natural


class Probe(ControlMessage, frozen=True, tag=0xE4):
    """From an authority's detector: answer at once."""

    ring: Text
    member: Text
    nonce: Natural


class ProbeAnswer(ControlMessage, frozen=True, tag=0xE5):
    """To an authority's detector."""

    ring: Text
    member: Text
    nonce: Natural


class RingToken(ControlMessage, frozen=True, tag=0xE6):
    """A token; ``body`` holds all values. It is for the member at ``place``, for nobody else at the same address."""

    ring: Text
    number: Natural
    round: Natural
    place: Natural
    body: bytes


class Record(ControlMessage, frozen=True, tag=0xE7):
    """To the root authority: take this decision, if the last is of version ``after``. No body: tell the last."""

    ring: Text
    member: Text
    address: Text
    after: tuple[Natural, Natural]
    body: bytes


class Recorded(ControlMessage, frozen=True, tag=0xE8):
    """From the root authority: the last decision."""

    ring: Text
    member: Text
    body: bytes


class Depart(ControlMessage, frozen=True, tag=0xE9):
    """To an authority: this member leaves, or is no longer what it was."""

    ring: Text
    member: Text


class Packet(ControlMessage, frozen=True, tag=0xEA):
    """From a node that has a packet to one that lacks it [Flows 2.2, flow F]."""

    ring: Text
    number: Natural
    payload: bytes


FlowMessage = (
    Enrol | Bootstrap | RingView | Alive | Probe | ProbeAnswer | RingToken | Record | Recorded | Depart | Packet
)
CODEC: ControlCodec[ControlMessage] = ControlCodec(
    Enrol, Bootstrap, RingView, Alive, Probe, ProbeAnswer, RingToken, Record, Recorded, Depart, Packet
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def _packed(value: Value) -> object:
    """As `to_plain`, but each bound is told as the step from the one before: most take one byte."""
    match value:
        case RangeSet(bounds, limit):
            return ("s", -1 if limit == LIMITLESS else limit, *_steps(bounds))
        case Pairs(entries):
            return ("p", *((node, *_steps(each.bounds)) for node, each in entries))
        case Decisions(committed, aborted, forgotten):
            return ("d", forgotten, _steps(committed.bounds), _steps(aborted.bounds))
    return value


def _steps(bounds: tuple[int, ...]) -> list[int]:
    return [*bounds[:1], *map(sub, bounds[1:], bounds)]


def _unpacked(packed: Any) -> Value:
    """The inverse; a `ValueError` or `TypeError` for what is no value."""
    match packed:
        case ["s", limit, *steps]:
            return from_plain(["s", limit, *accumulate(steps)])
        case ["p", *entries]:
            return from_plain(["p", *([node, *accumulate(steps)] for node, *steps in entries)])
        case ["d", forgotten, committed, aborted]:
            return from_plain(["d", forgotten, list(accumulate(committed)), list(accumulate(aborted))])
    return from_plain(packed)


def token_to_wire(ring: str, token: Token, place: int) -> RingToken:
    """For the way to the member at this place."""
    body = (
        [None if value is None else _packed(value) for value in token.values],
        token.count,
        token.recovers,
        None if token.floor is None else [None if value is None else _packed(value) for value in token.floor],
        token.result_round,
        [None if value is None else _packed(value) for value in token.results],
        token.reach,
        token.ranges_max,
        token.down_version,
        [_packed(value) for value in token.down],
        token.share_version,
        [_packed(value) for value in token.shares],
    )
    return RingToken(ring, token.number, token.round, place, _encode(body))


def token_from_wire(wire: RingToken, rules: Rules) -> Token:
    """The inverse; a `RemoteProtocolError` for what is no token of this program."""
    try:
        values, count, recovers, floor, result_round, results, reach, ranges_max, *below = _decode(wire.body)
        down_version, down, share_version, shares = below
        token = Token(
            wire.ring,
            wire.number,
            wire.round,
            list(_values(values)),
            count,
            recovers,
            None if floor is None else _values(floor),
            result_round,
            _values(results),
            [_count(each) for each in reach],
            _count(ranges_max),
            _version(down_version),
            tuple(_unpacked(each) for each in down),
            _version(share_version),
            [_pairs(each) for each in shares],
        )
        _check_token(token, rules)
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise RemoteProtocolError(f"a malformed token: {error}") from error
    return token


def _check_token(token: Token, rules: Rules) -> None:
    """As many values as rules, each of its type."""
    types = [each.type for each in rules.regular]
    for found, may_lack in ((token.values, True), (token.results, False), (token.floor or (), False)):
        if len(found) != len(types) and (may_lack or found):
            raise ValueError("values of another program")
        for value, wanted in zip(found, types):
            if value is not None and type_of(value) is not wanted:
                raise ValueError("a value of another type")
    heard = global_types(rules)
    if token.down and [type_of(value) for value in token.down] != [heard[name] for name in rules.down]:
        raise ValueError("values of another program come down")
    if len(token.shares) not in (0, len(rules.shares)):
        raise ValueError("shares of another program")
    if len(token.reach) not in (0, len(types)):
        raise ValueError("limits of another program")
    _count(token.count)
    _count(token.result_round)
    if type(token.recovers) is not bool:
        raise ValueError("not a flag")


def _values(plain: list[object]) -> Values:
    return tuple(None if each is None else _unpacked(each) for each in plain)


def _count(plain: object) -> int:
    if type(plain) is not int or not 0 <= plain <= LIMITLESS:
        raise ValueError("not a count")
    return plain


def _version(plain: object) -> Version:
    match plain:
        case [int(number), int(round)] if number >= 0 and round >= 0:
            return (number, round)
    raise ValueError("not a version")


def _pairs(plain: object) -> Pairs:
    value = _unpacked(plain)
    if not isinstance(value, Pairs):
        raise ValueError("a share is a set of pairs")
    return value


def decision_to_bytes(decision: Decision) -> bytes:
    """For the register."""
    flows = sorted((name, _packed(value)) for name, value in decision.flows.items())
    return _encode((decision.version, [_packed(value) for value in decision.aggregates], flows))


def decision_from_bytes(data: bytes, rules: Rules) -> Decision:
    """The inverse; no bytes are the decision before the first. A `RemoteProtocolError` for one of another program."""
    if not data:
        return Decision()
    try:
        version, aggregates, flows = _decode(data)
        told: dict[str, Value] = {str(name): _unpacked(value) for name, value in flows}
        decision = Decision(_version(version), tuple(_unpacked(each) for each in aggregates), told)
        if [type_of(each) for each in decision.aggregates] != [each.type for each in rules.regular]:
            raise ValueError("aggregates of another program")
        if {name: type_of(each) for name, each in told.items()} != global_types(rules):
            raise ValueError("flows of another program")
        return decision
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise RemoteProtocolError(f"a malformed decision: {error}") from error


def to_member(wire: WireMember) -> Member:
    """As rings know it."""
    return Member(wire.id, wire.address, wire.since)
