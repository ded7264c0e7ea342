"""Weak bundles before their places in the order, at each daemon otherwise.

Beyond its cursor a daemon may deliver UNRELIABLE bundles always; RELIABLE ones when it knows the groups as the sender
did, else a member of the sender's view could miss them (2.17); FIFO ones when besides all that the client sent before
is delivered; CAUSAL ones when besides their causal past is.

Implements: [Spread 2.3.2]. Deviations: Dc and D-cut, see `isotone.spec.properties`.
"""

from __future__ import annotations

from isotone.core.contract import Action
from isotone.core.services import Service
from isotone.spec.oracle.model import DATA, EVERYONE, Daemon, Entry, ViewState, World
from isotone.spec.oracle.ordering import overtake

_UNRELIABLE, _FIFO, _CAUSAL, _AGREED = map(int, (Service.UNRELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED))


def deliver_early(world: World, daemon: Daemon, view: ViewState, out: list[Action]) -> None:
    """Deliver some of the weak bundles behind the cursor, as far as their services allow."""
    log, bit, chance = view.log, daemon.bit, world.choice.chance
    cursor = daemon.cursor
    changes: list[Entry] = []  # of groups, between the cursor and here
    first = len(log)  # where the first of them stands
    for index in range(cursor, min(len(log), cursor + world.settings.early_window)):
        entry = log[index]
        if entry.kind != DATA:
            changes.append(entry)
            first = min(first, index)
        elif entry.service < _AGREED and not entry.early & bit and entry.reach & bit and chance(0.5):
            if not may_overtake(daemon, view, entry):
                continue
            if changes and not _may_overtake_changes(world, view, entry, changes, uncrossed=first >= view.high):
                continue
            if index > cursor:
                world.count("early_weak_delivery")
            overtake(world, daemon, entry, out)
            view.early_line = max(view.early_line, entry.lamport)


def _may_overtake_changes(
    world: World, view: ViewState, entry: Entry, changes: list[Entry], *, uncrossed: bool
) -> bool:
    """Whether a bundle may be delivered in an earlier view of its group than its place says.

    Then it is everywhere (2.7, 2.18): nobody has passed such a change so far, and whoever does delivers the bundle
    first; whoever leaves the daemon view does so before the signal.
    """
    touching = [change for change in changes if not change.group or change.group in entry.groups]
    if entry.service == _UNRELIABLE or all(entry in change.ahead for change in touching):
        return True
    if not uncrossed or entry.reach != EVERYONE or view.left_for is not None or entry.service >= _CAUSAL:
        return False
    if (entry.service == _FIFO and entry.previous is not None) or not world.choice.chance(0.5):
        return False
    world.count("overtaken_change")
    entry.owed = True
    for change in touching:
        change.ahead.append(entry)
    return True


def may_overtake(daemon: Daemon, view: ViewState, entry: Entry) -> bool:
    """Whether a weak bundle beyond the cursor may be delivered now."""
    if entry.service == _UNRELIABLE:
        return True
    if daemon.mark < entry.mark:
        return False
    following = view.log[daemon.cursor].lamport  # everything below this Lamport time is delivered
    if entry.service >= _FIFO:
        earlier = entry.previous
        while earlier is not None and earlier.lamport >= following:
            if not earlier.early & daemon.bit:
                return False
            earlier = earlier.previous if earlier.service < _FIFO else None  # a FIFO one answers for those before it
    if entry.service == _CAUSAL:
        return entry.past < following and all(_is_delivered(daemon, extra, following) for extra in entry.extras)
    return True


def _is_delivered(daemon: Daemon, entry: Entry, following: int) -> bool:
    return entry.lamport < following or bool(entry.early & daemon.bit)
