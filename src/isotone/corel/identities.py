"""Whose log is which: a server counts by its log, not by its name alone.

A disk that was lost, or an empty directory under an old name, has none of what that server promised. So a log has an
identity from its first life on, the servers of a configuration know those of all, and whoever comes with another one
is a *stranger*: it does not vote, and its state enters no plan. A log begins where all its servers meet: before that
nobody orders or sends anything, and each has the identities on disk before it does.

Implements: docs/protocols/corel-growth.md, identities. Deviations: D-identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from isotone.corel.configuration import Configuration
from isotone.corel.wire import State

Identities = tuple[tuple[str, bytes], ...]
IDENTITY_BYTES = 16
LIFE_BYTES = 4


def log_identity(store: bytes, incarnation: int) -> bytes:
    """Of a log that begins in this incarnation of a store: one that was removed alone is missed too."""
    return blake2b(store + incarnation.to_bytes(8), digest_size=IDENTITY_BYTES).digest()


def learner_life(identity: bytes) -> int:
    """The first life of a log that is no founder's.

    Until it is added nobody knows its log, so it may come back with an empty disk; what it sent before lives on
    elsewhere, under names that must not be used again. So its lives are counted from a number that only this log has.
    """
    return int.from_bytes(identity[:LIFE_BYTES]) + 1


def founding(configuration: Configuration, states: Mapping[str, State]) -> Identities:
    """The logs of its servers: as one of these knows them, or as they say themselves, if all are here; else none."""
    if known := known_identities(configuration, states.values()):
        return known
    if not set(configuration.servers) <= states.keys():
        return ()
    return tuple((server, states[server].identity) for server in configuration.servers)


def known_identities(configuration: Configuration, states: Iterable[State]) -> Identities:
    """The logs of its servers, as one of these knows them; none if the log has not begun for any of them."""
    for state in states:
        told = state.configuration
        if told is not None and told.number == configuration.number and told.identities:
            return told.identities
    return ()


def strangers_of(states: Iterable[State], knowing: Iterable[State]) -> tuple[str, ...]:
    """Those whose log is not the one that their name stands for, as far as anybody knows; sorted.

    A reconfiguration that is not green names a log only where no green configuration does: it may be void.
    """
    green = {name: {identity} for state in knowing for name, identity in _identities(state)}
    coming: dict[str, set[bytes]] = {}
    for state in knowing:
        for name, identity in state.coming:
            coming.setdefault(name, set()).add(identity)
    known = coming | green
    return tuple(sorted(each.server for each in states if known.get(each.server, {each.identity}) != {each.identity}))


def of_one_log(states: list[State]) -> tuple[list[State], str]:
    """Those who agree on whose log is which, the most of them; and who does not.

    They differ only if two logs were begun by servers of the same names.
    """
    families: list[tuple[dict[str, bytes], list[State]]] = []
    for state in sorted(states, key=lambda each: each.server):
        mine = dict(_identities(state))
        for known, members in families:
            if all(known.get(name, identity) == identity for name, identity in mine.items()):
                known.update(mine)
                members.append(state)
                break
        else:
            families.append((mine, [state]))
    chosen = max((members for _, members in families), key=len, default=[])
    others = [each.server for each in states if each not in chosen]
    if not others:
        return chosen, ""
    names = ", ".join(sorted(each.server for each in chosen))
    return chosen, f"the log of {', '.join(sorted(others))} was begun apart from that of {names}"


def _identities(state: State) -> Identities:
    return state.configuration.identities if state.configuration is not None else ()
