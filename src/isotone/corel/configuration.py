"""Which servers there are, and their quorum rule: configurations, numbered, one after another in the green order.

The founders are configuration 0. A reconfiguration is a message that carries the next one; it takes effect where it
becomes green, and only if its number is the next: of two that were proposed at once, the first in the order does.

Implements: [COReL 3.1] made dynamic, see docs/protocols/corel-growth.md. Deviations: D-growth the set changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from isotone.core.codec.control import Natural
from isotone.core.errors import LocalProtocolError
from isotone.corel.quorum import (
    AllOf,
    AnyOf,
    History,
    Majority,
    Monarch,
    Rule,
    Servers,
    TieBreaker,
    Weighted,
    check_quorum,
)

RULE_BYTES_MAX = 2_048
_ENCODER = msgspec.msgpack.Encoder(order="sorted")
_JSON = msgspec.json.Encoder(order="sorted")
_DECODER: msgspec.msgpack.Decoder[Rule] = msgspec.msgpack.Decoder(Rule)


def encode_rule(rule: Rule) -> bytes:
    """As configurations carry it: rules nest, and control messages do not."""
    return _ENCODER.encode(rule)


@lru_cache(maxsize=256)
def decode_rule(data: bytes) -> Rule:
    """The inverse."""
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise LocalProtocolError(f"not a quorum rule: {error}") from error


class Configuration(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """The servers that vote, sorted; those that did once and never come back; the rule, encoded; and their logs."""

    number: Natural
    servers: tuple[str, ...]
    rule: bytes
    retired: tuple[str, ...] = ()
    identities: tuple[tuple[str, bytes], ...] = ()  # whose log is which, also of the retired; none before it began

    def holds(self, members: Servers, history: History) -> bool:
        """Whether these servers, connected, are a quorum of this configuration, if it is green. Learners do not count.

        Of servers that were chosen by force nobody knows which of them has what was green last: all must meet first.
        """
        own = frozenset(self.servers)
        if history.forced:
            return members >= set(history.last.servers)
        return decode_rule(self.rule).holds(members & own, history.among(own))

    def would_hold(self, members: Servers, history: History) -> bool:
        """The same, if it is not green yet: only the green one asks for a primary of which nobody stays."""
        own = frozenset(self.servers)
        return self.holds(members, history.among(own).answered_by(members & own) if not history.forced else history)

    def describe(self) -> str:
        """The rule in words."""
        return decode_rule(self.rule).describe()

    def rule_as_json(self) -> str:
        """The rule as traces have it."""
        return _JSON.encode(decode_rule(self.rule)).decode()


def founded(servers: Iterable[str], rule: Rule) -> Configuration:
    """Configuration 0."""
    return Configuration(0, tuple(sorted(servers)), encode_rule(rule))


def changed(
    now: Configuration,
    *,
    add: str = "",
    remove: str = "",
    rule: Rule | None = None,
    votes: dict[str, int] | None = None,
    identity: bytes = b"",
) -> Configuration:
    """The next configuration: one server more, with this log, one less or the same ones; with this rule or the present
    one, carried over, and these votes.
    """
    if add and remove:
        raise LocalProtocolError("one server is added or removed at a time")
    if add in now.servers or add in now.retired:
        raise LocalProtocolError(f"{add} is or was a server; one that comes anew has a new name")
    if remove and remove not in now.servers:
        raise LocalProtocolError(f"{remove} is no server; these are: {', '.join(now.servers)}")
    servers = tuple(sorted({*now.servers, add} - {remove, ""}))
    if not servers:
        raise LocalProtocolError("the last server cannot be removed")
    _check_votes(votes or {}, servers)
    following = carried(rule or decode_rule(now.rule), servers, votes or {})
    check_quorum(following, servers)
    if len(encode_rule(following)) > RULE_BYTES_MAX:
        raise LocalProtocolError(f"a rule has at most {RULE_BYTES_MAX} bytes")
    if servers == now.servers and encode_rule(following) == now.rule:
        raise LocalProtocolError(f"nothing changes: the rule is {following.describe()}")
    retired = (*now.retired, remove) if remove else now.retired
    identities = (*now.identities, (add, identity)) if add else now.identities
    return Configuration(now.number + 1, servers, encode_rule(following), retired, identities)


def carried(rule: Rule, servers: tuple[str, ...], votes: dict[str, int]) -> Rule:
    """The same rule for another set of servers; a new server has one vote unless ``votes`` says otherwise."""
    match rule:
        case Majority():
            return Majority(servers)
        case Weighted():
            return Weighted({server: votes.get(server, rule.votes.get(server, 1)) for server in servers})
        case TieBreaker():
            _demand(rule.breaker, servers)
            return TieBreaker(servers, rule.breaker)
        case Monarch():
            _demand(rule.server, servers)
            return rule
        case AllOf() | AnyOf():
            return type(rule)(tuple(carried(each, servers, votes) for each in rule.rules))
    return rule


def _check_votes(votes: dict[str, int], servers: tuple[str, ...]) -> None:
    strangers = sorted(votes.keys() - set(servers))
    if strangers:
        raise LocalProtocolError(f"{', '.join(strangers)} is no server; these are: {', '.join(servers)}")


def _demand(server: str, servers: tuple[str, ...]) -> None:
    if server not in servers:
        raise LocalProtocolError(f"the rule needs {server}, which is none of {', '.join(servers)}: say another rule")
