"""More ways to spoil a run than `tests.spec.corel_corruptions` has: what servers tell besides their queues."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from isotone.core.choice import Choice
from isotone.trace import corel as trace
from isotone.trace.events import Entry, Row
from tests.spec.corel_corruptions import CORRUPTIONS, Spoil, corrupted
from tests.spec.corruptions import renumbered


def _other_servers(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, servers=entry.servers[1:])]


def _other_place(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, place=entry.place + 1)]


def _other_digest(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, digest=entry.digest ^ 1)]


def _further(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, place=entry.place + 1000)]


def _earlier_primary(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, committed=max(entry.committed - 1, 0))]


def _other_vote(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, accepts=not entry.accepts)]


def _attempted_less(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, attempted=0)]


def _first_again(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, primary=1)]


def _strangers(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, servers=entry.servers[:1])]


def _less_green(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, green=max(entry.green - 1, 0))]


def _another_context(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, primary=entry.primary + 1000)]


def _another_name(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, message=f"{entry.message}9")]


def _more_yellow(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, yellow=entry.yellow + 1)]


def _the_same_life(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, life=1)]


def _another_rule(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, rule='{"type":"Monarch","server":"d1"}')]


def _another_number(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, number=entry.number + 1000)]


def _another_position(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, position=entry.position + 1)]


def _of_another(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, server=f"{entry.server}x")]


def _in_another_life(entry: Any, choice: Choice) -> list[Entry]:
    origin, _, number = entry.message.rpartition(":")
    server, _, life = origin.rpartition(".")
    return [replace(entry, message=f"{server}.{int(life) + choice.pick([-1, 1])}:{number}")]


def _all_yellow(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, yellow=entry.green + len(entry.queue))]


def _without_a_content(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, digests=entry.digests[1:])]


def _named_twice(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, servers=(*entry.servers, *entry.servers[:1]))]


def _lower(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, place=choice.below(entry.place + 1))]


def _earlier_proposal(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, proposal=choice.below(entry.proposal + 1))]


def _accepted_another(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, accepted=entry.accepted + choice.pick([-1, 1, 2]) if entry.accepted else 1)]


def _doubled(entry: Any, choice: Choice) -> list[Entry]:
    return [entry, entry]


def _yellowed(entry: Any, choice: Choice) -> list[Entry]:
    return [trace.Yellowed(entry.server, entry.messages)]


def _later_primary(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, committed=entry.committed + 1000)]


def _one_primary_less(entry: Any, choice: Choice) -> list[Entry]:
    return [replace(entry, primary=max(entry.primary - 1, 0))]


_STEPS = (trace.PrimaryAttempted, trace.PrimaryCommitted, trace.PrimaryEstablished)
_ALL = (*_STEPS, trace.Initiated, trace.Reddened, trace.Yellowed, trace.Greened, trace.Whitened, trace.Voted)
MORE: dict[str, tuple[tuple[type[Entry], ...], Spoil]] = {
    "established with others": ((trace.PrimaryEstablished,), _other_servers),
    "another configuration": ((trace.Reconfigured,), _other_servers),
    "a configuration at another place": ((trace.Reconfigured,), _other_place),
    "an earlier primary": ((trace.QueueArranged, trace.ReplicaStarted), _earlier_primary),
    "an attempt forgotten": ((trace.ReplicaStarted,), _attempted_less),
    "an attempt of the first number": ((trace.PrimaryAttempted,), _first_again),
    "an attempt by one alone": ((trace.PrimaryAttempted,), _strangers),
    "less green": ((trace.QueueArranged,), _less_green),
    "green in a primary that never was": ((trace.Greened,), _another_context),
    "sent under another name": ((trace.Initiated,), _another_name),
    "yellow beyond the queue": ((trace.QueueArranged, trace.ReplicaStarted), _more_yellow),
    "the first life again": ((trace.ReplicaStarted,), _the_same_life),
    "a configuration with another rule": ((trace.Reconfigured,), _another_rule),
    "another rule found on disk": ((trace.ReplicaStarted,), _another_rule),
    "a later primary found on disk": ((trace.ReplicaStarted,), _later_primary),
    "all yellow on disk": ((trace.ReplicaStarted,), _all_yellow),
    "green in the primary before": ((trace.Greened,), _one_primary_less),
    "a configuration of another number": ((trace.Reconfigured,), _another_number),
    "a state at another position": ((trace.SnapshotKept, trace.StateInstalled), _another_position),
    "white too far": ((trace.Whitened,), _further),
    "a row of another server": (_ALL, _of_another),
    "a send in another life": ((trace.Initiated,), _in_another_life),
    "all of the queue yellow": ((trace.QueueArranged,), _all_yellow),
    "green without a content": ((trace.Greened,), _without_a_content),
    "a server named twice": (_STEPS, _named_twice),
    "a lower place": ((trace.Whitened, trace.SnapshotKept, trace.StateInstalled), _lower),
    "a vote on an earlier proposal": ((trace.Voted,), _earlier_proposal),
    "another proposal accepted": ((trace.ReplicaStarted,), _accepted_another),
    "a step twice": ((*_STEPS, trace.Voted, trace.Initiated), _doubled),
    "a message as if it were yellow": ((trace.Reddened,), _yellowed),
    "another vote": ((trace.Voted,), _other_vote),
    "another state": ((trace.SnapshotKept, trace.StateInstalled), _other_digest),
}
KINDS = (*CORRUPTIONS, *MORE)


def spoilt(rows: list[Row], kind: str, choice: Choice) -> list[Row] | None:
    """As `corrupted`, by all kinds."""
    if kind in CORRUPTIONS:
        return corrupted(rows, kind, choice)
    types, spoil = MORE[kind]
    places = [place for place, row in enumerate(rows) if isinstance(row.entry, types)]
    if not places:
        return None
    place = choice.pick(places)
    row = rows[place]
    told = [Row(row.node, row.incarnation, row.index, row.at, entry) for entry in spoil(row.entry, choice)]
    found = [*rows[:place], *told, *rows[place + 1 :]]
    return found if len(told) == 1 else renumbered(found)
