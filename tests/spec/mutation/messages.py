"""Corruptions of what is said about messages (stamps, senders, content), of sends, of crashes and of receivers."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from isotone.core.choice import Choice
from isotone.core.ids import parse_client_id
from isotone.core.services import Service
from isotone.trace.events import Connected, Crashed, Delivered, Disconnected, Sent
from tests.spec.mutation.deliveries import all_deliveries, messages_of
from tests.spec.mutation.kinds import Corrupted, kind
from tests.spec.mutation.record import Recording, moved, replaced, with_entry

Found = tuple[int, Delivered]


def _altered(run: Recording, found: Found, what: str, **fields: object) -> Corrupted:
    place, entry = found
    row = with_entry(run.rows[place], msgspec.structs.replace(entry, **fields))
    return Corrupted(replaced(run.rows, place, row), what, entry.receivers, messages_of(entry))


# --- stamps ---------------------------------------------------------------------------------------------------------


@kind("alter a stamp: higher", all_deliveries)
def raise_stamp(run: Recording, found: Found, choice: Choice) -> Corrupted:
    return _altered(run, found, "stamp", lamport=found[1].lamport + choice.between(1, 40))


def _with_room_below(run: Recording) -> list[Found]:
    return [(place, entry) for place, entry in run.deliveries if entry.lamport > 1]


@kind("alter a stamp: lower", _with_room_below)
def lower_stamp(run: Recording, found: Found, choice: Choice) -> Corrupted:
    return _altered(run, found, "stamp", lamport=found[1].lamport - choice.between(1, min(40, found[1].lamport - 1)))


def _with_neighbours(run: Recording) -> list[tuple[Found, Delivered]]:
    """Every delivery with the next one of another bundle in the same record."""
    found = []
    for places in run.records.values():
        entries = [(place, run.rows[place].entry) for place in places]
        delivered = [(place, entry) for place, entry in entries if isinstance(entry, Delivered)]
        for one, (_, other) in pairwise(delivered):
            if messages_of(one[1]) != messages_of(other):
                found.append((one, other))
    return found


@kind("alter a stamp: that of another bundle", _with_neighbours)
def equal_stamp(run: Recording, found: tuple[Found, Delivered], choice: Choice) -> Corrupted:
    return _altered(run, found[0], "stamp", lamport=found[1].lamport, stamper=found[1].stamper)


# --- content --------------------------------------------------------------------------------------------------------


@kind("forge a sender", all_deliveries)
def forge_sender(run: Recording, found: Found, choice: Choice) -> Corrupted:
    other = choice.pick([client for client in run.clients if client != found[1].sender])
    return _altered(run, found, "sender", sender=other)


@kind("alter a digest", all_deliveries)
def alter_digest(run: Recording, found: Found, choice: Choice) -> Corrupted:
    digests = list(found[1].digests)
    digests[choice.below(len(digests))] ^= 1 << choice.below(64)
    return _altered(run, found, "digest", digests=tuple(digests))


@kind("alter a service", all_deliveries)
def alter_service(run: Recording, found: Found, choice: Choice) -> Corrupted:
    return _altered(run, found, "service", service=choice.pick([each for each in Service if each != found[1].service]))


@kind("alter the groups", all_deliveries)
def alter_groups(run: Recording, found: Found, choice: Choice) -> Corrupted:
    groups = found[1].groups
    fewer = [tuple(each for each in groups if each != gone) for gone in groups if len(groups) > 1]
    return _altered(run, found, "groups", groups=choice.pick([*fewer, tuple(sorted((*groups, "nowhere")))]))


# --- sends, crashes, receivers --------------------------------------------------------------------------------------


def _sends(run: Recording) -> list[tuple[int, Sent]]:
    return [(place, row.entry) for place, row in enumerate(run.rows) if isinstance(row.entry, Sent)]


@kind("drop a send", _sends)
def drop_send(run: Recording, found: tuple[int, Sent], choice: Choice) -> Corrupted:
    place, entry = found
    messages = tuple((entry.client, entry.first_sequence + offset) for offset in range(len(entry.lengths)))
    return Corrupted(replaced(run.rows, place), "send lost", (entry.client,), messages)


def _delivered_at_home(run: Recording) -> list[tuple[Found, int]]:
    """Every delivery at the node of its sender, with the place of its send."""
    sent = {(entry.client, entry.first_sequence): place for place, entry in _sends(run)}
    found = []
    for place, entry in run.deliveries:
        daemon = parse_client_id(entry.sender).daemon
        if (daemon.name, daemon.incarnation) == (run.rows[place].node, run.rows[place].incarnation):
            found.append(((place, entry), sent[entry.sender, entry.first_sequence]))
    return found


@kind("deliver before the send", _delivered_at_home)
def deliver_before_send(run: Recording, found: tuple[Found, int], choice: Choice) -> Corrupted:
    (place, entry), send = found
    return Corrupted(moved(run.rows, place, send), "before its send", entry.receivers, messages_of(entry))


def _crashes(run: Recording) -> list[int]:
    return [place for place, row in enumerate(run.rows) if isinstance(row.entry, Crashed)]


@kind("remove a crash", _crashes)
def remove_crash(run: Recording, place: int, choice: Choice) -> Corrupted:
    entry = run.rows[place].entry
    assert isinstance(entry, Crashed)
    there = tuple(client for client in run.clients if str(parse_client_id(client).daemon) == entry.daemon)
    return Corrupted(replaced(run.rows, place), "crash removed", there)


def _with_outsiders(run: Recording) -> list[tuple[Found, str]]:
    """Every delivery with each session that is open at its node and in none of its groups, as far as views say."""
    found = []
    for places in run.records.values():
        there: dict[str, None] = {}
        for place in places:
            match run.rows[place].entry:
                case Connected(client):
                    there[client] = None
                case Disconnected(client):
                    there.pop(client, None)
                case Delivered() as entry:
                    outside = [client for client in there if not _is_inside(run, client, place, entry)]
                    found += [((place, entry), client) for client in outside]
    return found


def _is_inside(run: Recording, client: str, place: int, entry: Delivered) -> bool:
    """Whether it could have received this: it did, it is addressed, or it had a view of one of the groups before."""
    if client in entry.receivers or parse_client_id(client).private_group in entry.groups:
        return True
    return any(at < place for group in entry.groups for at, _ in run.views_of(client, group))


@kind("deliver to an outsider", _with_outsiders)
def deliver_to_outsider(run: Recording, found: tuple[Found, str], choice: Choice) -> Corrupted:
    (place, entry), client = found
    row = with_entry(
        run.rows[place], msgspec.structs.replace(entry, receivers=tuple(sorted((*entry.receivers, client))))
    )
    return Corrupted(replaced(run.rows, place, row), "to an outsider", (client,), messages_of(entry))
