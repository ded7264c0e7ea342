"""Giving requests their places in the order of a daemon view.

Stamps are Lamport's: above all that the daemon stamped or its clients were delivered, and above what any daemon has
agreed on. So an entry may enter the order below others that nobody agreed on yet, and ties are broken by daemon.

Implements: [Spread 2.7] (Definition) and [Spread 5.1].
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter

from isotone.core.boundary import Message
from isotone.core.bundles import Bundle
from isotone.core.ids import Stamp
from isotone.core.services import Service
from isotone.spec.oracle.model import DATA, JOIN, Daemon, Entry, ViewState, World

_UNRELIABLE, _AGREED = int(Service.UNRELIABLE), int(Service.AGREED)
_CARRIED = {DATA: "message_carried_over", JOIN: "late_join"}
_lamport_of = attrgetter("lamport")


def stamp(world: World, daemon: Daemon, view: ViewState, count: int) -> None:
    """Give the first ``count`` pending requests their places in the order."""
    past = _causal_past(daemon)
    for _ in range(count):
        kind, client, payload, serial = daemon.pending.popleft()
        lamport = (daemon.clock if daemon.clock > view.line else view.line) + 1
        daemon.clock = lamport
        if isinstance(payload, Bundle):
            entry = Entry(kind, Stamp(lamport, daemon.id), int(payload.service), daemon.bit, client)
            entry.bundle, entry.groups = payload, payload.groups
            entry.message = Message(payload, entry.stamp)
        else:
            if lamport <= view.early_line:  # else bundles would have overtaken it without leave
                daemon.clock = lamport = view.early_line + 1
            entry = Entry(kind, Stamp(lamport, daemon.id), _AGREED, daemon.bit, client)
            entry.group = payload
        entry.past, entry.extras = past
        entry.mark = daemon.mark
        entry.previous = daemon.last_of.get(client.name)
        if entry.service != _UNRELIABLE:
            daemon.last_of[client.name] = entry
        if serial != view.serial and kind in _CARRIED:
            world.count(_CARRIED[kind])
        _insert(world, daemon, view, entry)


def _causal_past(daemon: Daemon) -> tuple[int, tuple[Entry, ...]]:
    bound = max(daemon.low, daemon.raised)
    if daemon.extras:
        daemon.extras = [extra for extra in daemon.extras if extra.lamport > bound]
    return bound, tuple(daemon.extras)


def _insert(world: World, daemon: Daemon, view: ViewState, entry: Entry) -> None:
    log, lamport = view.log, entry.lamport
    place = len(log)
    if log[-1].lamport >= lamport:
        place = bisect_right(log, lamport, lo=view.high, key=_lamport_of)
        while log[place - 1].lamport == lamport and log[place - 1].stamp > entry.stamp:
            place -= 1
    assert place >= view.high
    if place < len(log):
        world.count("late_stamp")
        log.insert(place, entry)
    else:
        log.append(entry)
    if view.split:
        entry.reach = daemon.reach
        view.partial_from = min(view.partial_from, place)
