"""Corruptions of deliveries: lost, doubled, out of order, in another view, on the other side of the signal."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import msgspec

from isotone.core.choice import Choice
from isotone.core.ids import parse_client_id
from isotone.trace.events import Delivered, Disconnected, Row, Sent, SignalDelivered
from tests.spec.mutation.kinds import Corrupted, Message, kind
from tests.spec.mutation.record import (
    Recording,
    exchanged,
    inserted,
    isolated,
    moved,
    replaced,
    with_entry,
    without_receiver,
)


def messages_of(entry: Delivered) -> tuple[Message, ...]:
    return tuple((entry.sender, entry.first_sequence + offset) for offset in range(len(entry.lengths)))


def delivered_at(rows: list[Row], place: int) -> Delivered:
    entry = rows[place].entry
    assert isinstance(entry, Delivered)
    return entry


def all_deliveries(run: Recording) -> list[tuple[int, Delivered]]:
    return run.deliveries


# --- lost -----------------------------------------------------------------------------------------------------------


@kind("drop a delivery: the whole row", all_deliveries)
def drop_row(run: Recording, found: tuple[int, Delivered], choice: Choice) -> Corrupted:
    place, entry = found
    return Corrupted(replaced(run.rows, place), "lost", entry.receivers, messages_of(entry))


def _to_several(run: Recording) -> list[tuple[int, Delivered]]:
    return [(place, entry) for place, entry in run.deliveries if len(entry.receivers) > 1]


@kind("drop a delivery: one receiver of a row", _to_several)
def drop_receiver(run: Recording, found: tuple[int, Delivered], choice: Choice) -> Corrupted:
    place, entry = found
    receiver = choice.pick(entry.receivers)
    return Corrupted(without_receiver(run.rows, place, receiver), "lost", (receiver,), messages_of(entry))


def _of_several(run: Recording) -> list[tuple[int, Delivered]]:
    return [(place, entry) for place, entry in run.deliveries if len(entry.lengths) > 1]


@kind("drop a delivery: one message of a bundle", _of_several)
def drop_message(run: Recording, found: tuple[int, Delivered], choice: Choice) -> Corrupted:
    place, entry = found
    lost = choice.below(len(entry.lengths))
    parts = [_part_of(entry, 0, lost), _part_of(entry, lost + 1, len(entry.lengths))]
    instead = [with_entry(run.rows[place], part) for part in parts if part.lengths]
    return Corrupted(replaced(run.rows, place, *instead), "lost", entry.receivers, (messages_of(entry)[lost],))


def _part_of(entry: Delivered, first: int, after: int) -> Delivered:
    """The messages first … after − 1 of a bundle, counted from 0."""
    return msgspec.structs.replace(
        entry,
        first_sequence=entry.first_sequence + first,
        lengths=entry.lengths[first:after],
        digests=entry.digests[first:after],
    )


# --- doubled --------------------------------------------------------------------------------------------------------


@kind("duplicate a delivery: right after", all_deliveries)
def duplicate_next(run: Recording, found: tuple[int, Delivered], choice: Choice) -> Corrupted:
    place, entry = found
    return Corrupted(inserted(run.rows, place + 1, run.rows[place]), "doubled", entry.receivers, messages_of(entry))


def _not_the_last(run: Recording) -> list[tuple[int, Delivered]]:
    return [(place, entry) for place, entry in run.deliveries if place < run.record_of(place)[-1]]


@kind("duplicate a delivery: later", _not_the_last)
def duplicate_later(run: Recording, found: tuple[int, Delivered], choice: Choice) -> Corrupted:
    place, entry = found
    target = choice.pick([at for at in run.record_of(place) if at > place])
    return Corrupted(inserted(run.rows, target, run.rows[place]), "doubled", entry.receivers, messages_of(entry))


def _before_next_view(run: Recording) -> list[tuple[int, str, int, str]]:
    """Every delivery to one receiver with the place of the view that it installs next in a group of the message."""
    found = []
    for place, entry in run.deliveries:
        for receiver in entry.receivers:
            for group in entry.groups:
                views = [at for at, _ in run.views_of(receiver, group)]
                later = [at for at in views if at > place]
                if later and later != views:
                    found.append((place, receiver, later[0], group))
    return found


@kind("duplicate a delivery: in a later view", _before_next_view)
def duplicate_in_later_view(run: Recording, found: tuple[int, str, int, str], choice: Choice) -> Corrupted:
    place, receiver, view, group = found
    entry = delivered_at(run.rows, place)
    copy = with_entry(run.rows[place], msgspec.structs.replace(entry, receivers=(receiver,)))
    return Corrupted(inserted(run.rows, view + 1, copy), "doubled", (receiver,), messages_of(entry), group)


# --- out of order ---------------------------------------------------------------------------------------------------

Pair = tuple[int, int, str]
"""Two places, the earlier one first, and the receiver."""


def _agreed_pairs(run: Recording) -> list[Pair]:
    pairs = []
    for receiver in sorted(run.received):
        agreed = [place for place, entry in run.delivered_to(receiver) if entry.service.is_agreed]
        pairs += [(one, other, receiver) for one, other in pairwise(agreed)]
    return pairs


@kind("swap two agreed deliveries", _agreed_pairs)
def swap_agreed(run: Recording, found: Pair, choice: Choice) -> Corrupted:
    return _swap(run.rows, found)


def _fifo_pairs(run: Recording) -> list[Pair]:
    pairs = []
    for receiver in sorted(run.received):
        received = [(place, entry) for place, entry in run.delivered_to(receiver) if entry.service.is_reliable]
        for sender in sorted({entry.sender for _, entry in received}):
            of_one = [(place, entry) for place, entry in received if entry.sender == sender]
            pairs += [
                (one, other, receiver)
                for (one, earlier), (other, later) in pairwise(of_one)
                if later.service.is_fifo and later.first_sequence > earlier.first_sequence
            ]
    return pairs


@kind("swap two deliveries of one sender, the later FIFO", _fifo_pairs)
def swap_fifo(run: Recording, found: Pair, choice: Choice) -> Corrupted:
    return _swap(run.rows, found)


def _causal_pairs(run: Recording) -> list[Pair]:
    """A bundle that somebody sent after it had delivered another one; a third delivers both."""
    known: dict[Message, list[Message]] = {}
    latest: dict[str, list[Message]] = {}
    for row in run.rows:
        if isinstance(row.entry, Sent):
            known[row.entry.client, row.entry.first_sequence] = latest.get(row.entry.client, [])
        if isinstance(row.entry, Delivered) and row.entry.service.is_reliable:
            for receiver in row.entry.receivers:
                earlier = latest.get(receiver, [])
                latest[receiver] = [*earlier[-2:], (row.entry.sender, row.entry.first_sequence)]
    pairs = []
    for receiver in sorted(run.received):
        places = {(entry.sender, entry.first_sequence): place for place, entry in run.delivered_to(receiver)}
        for place, entry in run.delivered_to(receiver):
            causes = known.get((entry.sender, entry.first_sequence), []) if entry.service.is_causal else []
            pairs += [(places[cause], place, receiver) for cause in causes if cause in places]
    return pairs


@kind("swap two deliveries, the later caused by the earlier", _causal_pairs)
def swap_causal(run: Recording, found: Pair, choice: Choice) -> Corrupted:
    return _swap(run.rows, found)


def _swap(rows: list[Row], found: Pair) -> Corrupted:
    one, other, receiver = found
    messages = (*messages_of(delivered_at(rows, one)), *messages_of(delivered_at(rows, other)))
    apart, other = isolated(rows, other, receiver)
    count = len(apart)
    apart, one = isolated(apart, one, receiver)
    return Corrupted(exchanged(apart, one, other + len(apart) - count), "swapped", (receiver,), messages)


# --- elsewhere ------------------------------------------------------------------------------------------------------


@kind("move a delivery into the next view", _before_next_view)
def move_to_next_view(run: Recording, found: tuple[int, str, int, str], choice: Choice) -> Corrupted:
    place, receiver, view, group = found
    apart, at = isolated(run.rows, place, receiver)
    target = view + len(apart) - len(run.rows) + 1
    return Corrupted(moved(apart, at, target), "later", (receiver,), messages_of(delivered_at(apart, at)), group)


def _after_another_view(run: Recording) -> list[tuple[int, str, int, str]]:
    """Every delivery to one receiver with the place of the view that it is in, if that is not its first one."""
    found = []
    for place, entry in run.deliveries:
        for receiver in entry.receivers:
            for group in entry.groups:
                earlier = [at for at, _ in run.views_of(receiver, group) if at < place]
                if len(earlier) > 1:
                    found.append((place, receiver, earlier[-1], group))
    return found


@kind("move a delivery into the previous view", _after_another_view)
def move_to_previous_view(run: Recording, found: tuple[int, str, int, str], choice: Choice) -> Corrupted:
    place, receiver, view, group = found
    apart, at = isolated(run.rows, place, receiver)
    return Corrupted(moved(apart, at, view), "earlier", (receiver,), messages_of(delivered_at(apart, at)), group)


def _before_disconnect(run: Recording, *, is_private: bool) -> list[tuple[int, str, int]]:
    """Every delivery, private or not, to a receiver that disconnects, with the place where it does."""
    ends = {row.entry.client: place for place, row in enumerate(run.rows) if isinstance(row.entry, Disconnected)}
    return [
        (place, receiver, ends[receiver])
        for place, entry in run.deliveries
        for receiver in entry.receivers
        if receiver in ends
        and place < ends[receiver]
        and is_private == (parse_client_id(receiver).private_group in entry.groups)
    ]


@kind("move a delivery behind the receiver's end", partial(_before_disconnect, is_private=False))
def move_behind_end(run: Recording, found: tuple[int, str, int], choice: Choice) -> Corrupted:
    place, receiver, end = found
    apart, at = isolated(run.rows, place, receiver)
    target = end + len(apart) - len(run.rows) + 1
    return Corrupted(moved(apart, at, target), "behind the end", (receiver,), messages_of(delivered_at(apart, at)))


@kind("move a private delivery behind the receiver's end", partial(_before_disconnect, is_private=True))
def move_private_behind_end(run: Recording, found: tuple[int, str, int], choice: Choice) -> Corrupted:
    return move_behind_end(run, found, choice)


def _near_signal(run: Recording) -> list[tuple[int, str, int, str]]:
    """Every agreed delivery to one receiver with the place of the signal of the view that it happens in."""
    found = []
    for receiver in sorted(run.received):
        signals = [(at, entry) for at, entry in run.received[receiver] if isinstance(entry, SignalDelivered)]
        for signal, entry in signals:
            views = [at for at, _ in run.views_of(receiver, entry.group)]
            begin = max([at for at in views if at < signal], default=0)
            end = min([at for at in views if at > signal], default=len(run.rows))
            for place, delivery in run.delivered_to(receiver):
                if begin < place < end and delivery.service.is_agreed and entry.group in delivery.groups:
                    found.append((place, receiver, signal, entry.group))
    return found


@kind("move an agreed delivery across the signal", _near_signal)
def move_across_signal(run: Recording, found: tuple[int, str, int, str], choice: Choice) -> Corrupted:
    place, receiver, signal, group = found
    apart, at = isolated(run.rows, place, receiver)
    target = signal + len(apart) - len(run.rows) + 1 if place < signal else signal
    messages = messages_of(delivered_at(apart, at))
    return Corrupted(moved(apart, at, target), "across the signal", (receiver,), messages, group)
