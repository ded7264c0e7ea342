"""Corruptions of views, their sets and their ids, and of signals."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from isotone.core.choice import Choice
from isotone.core.ids import DaemonViewId, GroupViewId
from isotone.trace.events import SignalDelivered, ViewDelivered
from tests.spec.mutation.kinds import Corrupted, kind
from tests.spec.mutation.record import Recording, inserted, isolated, moved, replaced, with_entry, without_receiver

Found = tuple[int, ViewDelivered]


def all_views(run: Recording) -> list[Found]:
    return run.views


def _altered(run: Recording, found: Found, what: str, subject: str = "", **fields: object) -> Corrupted:
    place, entry = found
    row = with_entry(run.rows[place], msgspec.structs.replace(entry, **fields))
    rows = replaced(run.rows, place, row)
    return Corrupted(rows, what, entry.receivers, group=entry.group, view=entry.view, subject=subject)


# --- sets -----------------------------------------------------------------------------------------------------------


def _could_grow(members: Callable[[ViewDelivered], tuple[str, ...]]) -> Callable[[Recording], list[Found]]:
    return lambda run: [(place, entry) for place, entry in run.views if set(run.clients) - set(members(entry))]


@kind("add to a member set", _could_grow(lambda entry: entry.members))
def add_member(run: Recording, found: Found, choice: Choice) -> Corrupted:
    members = found[1].members
    new = choice.pick([client for client in run.clients if client not in members])
    return _altered(run, found, "member added", new, members=tuple(sorted((*members, new))))


@kind("remove from a member set", all_views)
def remove_member(run: Recording, found: Found, choice: Choice) -> Corrupted:
    gone = choice.pick(found[1].members)
    return _altered(run, found, "member removed", gone, members=_without(found[1].members, gone))


@kind("add to a transitional set", _could_grow(lambda entry: entry.transitional))
def add_transitional(run: Recording, found: Found, choice: Choice) -> Corrupted:
    transitional = found[1].transitional
    new = choice.pick([client for client in run.clients if client not in transitional])
    return _altered(run, found, "added to the set", new, transitional=tuple(sorted((*transitional, new))))


@kind("remove from a transitional set", all_views)
def remove_transitional(run: Recording, found: Found, choice: Choice) -> Corrupted:
    gone = choice.pick(found[1].transitional)
    return _altered(run, found, "removed from the set", gone, transitional=_without(found[1].transitional, gone))


def _without(members: tuple[str, ...], gone: str) -> tuple[str, ...]:
    return tuple(each for each in members if each != gone)


# --- ids ------------------------------------------------------------------------------------------------------------


def _with_older_ids(run: Recording) -> list[tuple[Found, GroupViewId]]:
    """Every view with each lower id of the same group that somebody installed."""
    installed = sorted({(entry.group, entry.view) for _, entry in run.views})
    return [
        ((place, entry), view)
        for place, entry in run.views
        for group, view in installed
        if group == entry.group and view < entry.view
    ]


@kind("alter a view id: an old one again", _with_older_ids)
def reuse_view_id(run: Recording, found: tuple[Found, GroupViewId], choice: Choice) -> Corrupted:
    return _altered(run, found[0], "older id", view=found[1])


@kind("alter a view id: a higher one", all_views)
def raise_view_id(run: Recording, found: Found, choice: Choice) -> Corrupted:
    view = found[1].view
    epoch = DaemonViewId(view.daemon_view.epoch + choice.between(1, 3), view.daemon_view.coordinator)
    stamp = msgspec.structs.replace(view.stamp, lamport=view.stamp.lamport + 1, daemon=view.daemon_view.coordinator)
    higher = choice.pick(
        [GroupViewId(epoch, view.next_daemon_view, view.stamp), msgspec.structs.replace(view, stamp=stamp)]
    )
    return _altered(run, found, "higher id", view=higher)


# --- views ----------------------------------------------------------------------------------------------------------


@kind("drop a view", all_views)
def drop_view(run: Recording, found: Found, choice: Choice) -> Corrupted:
    place, entry = found
    receiver = choice.pick(entry.receivers)
    return Corrupted(
        without_receiver(run.rows, place, receiver), "view lost", (receiver,), group=entry.group, view=entry.view
    )


@kind("duplicate a view", all_views)
def duplicate_view(run: Recording, found: Found, choice: Choice) -> Corrupted:
    place, entry = found
    return Corrupted(
        inserted(run.rows, place + 1, run.rows[place]),
        "view doubled",
        entry.receivers,
        group=entry.group,
        view=entry.view,
    )


# --- signals --------------------------------------------------------------------------------------------------------

FoundSignal = tuple[int, SignalDelivered]


def all_signals(run: Recording) -> list[FoundSignal]:
    return run.signals


@kind("drop a signal", all_signals)
def drop_signal(run: Recording, found: FoundSignal, choice: Choice) -> Corrupted:
    place, entry = found
    receiver = choice.pick(entry.receivers)
    return Corrupted(
        without_receiver(run.rows, place, receiver), "signal lost", (receiver,), group=entry.group, view=entry.view
    )


@kind("duplicate a signal", all_signals)
def duplicate_signal(run: Recording, found: FoundSignal, choice: Choice) -> Corrupted:
    place, entry = found
    rows = inserted(run.rows, place + 1, run.rows[place])
    return Corrupted(rows, "signal doubled", entry.receivers, group=entry.group, view=entry.view)


def _over_something(run: Recording) -> list[tuple[int, str, int]]:
    """Every signal of one receiver with each place of an agreed delivery of the group, or of a view, to jump over."""
    found = []
    for place, entry in run.signals:
        for receiver in entry.receivers:
            for at, other in run.received[receiver]:
                if at != place and _matters(other, entry.group):
                    found.append((place, receiver, at))
    return found


def _matters(entry: object, group: str) -> bool:
    if isinstance(entry, ViewDelivered):
        return entry.group == group
    return not isinstance(entry, SignalDelivered) and entry.service.is_agreed and group in entry.groups  # type: ignore[attr-defined]


@kind("move a signal", _over_something)
def move_signal(run: Recording, found: tuple[int, str, int], choice: Choice) -> Corrupted:
    place, receiver, target = found
    apart, at = isolated(run.rows, place, receiver)
    target = target + len(apart) - len(run.rows) + 1 if target > place else target
    entry = run.rows[place].entry
    assert isinstance(entry, SignalDelivered)
    return Corrupted(moved(apart, at, target), "signal moved", (receiver,), group=entry.group, view=entry.view)
