"""Weak bundles before their places in the order, at each daemon otherwise.

Beyond its cursor a daemon may deliver UNRELIABLE bundles always; RELIABLE ones when it knows the groups as the sender
did, else a member of the sender's view could miss them (2.17); FIFO ones when besides all that the client sent before
is delivered; CAUSAL ones when besides their causal past is.

Implements: [Spread 2.3.2]. Deviations: Dc and D-weak, see `isotone.spec.properties`.
"""

from __future__ import annotations

from isotone.core.contract import Action
from isotone.core.services import Service
from isotone.spec.oracle.model import DATA, EVERYONE, Daemon, Entry, ViewState, World
from isotone.spec.oracle.ordering import deliver_weak

_UNRELIABLE, _FIFO, _CAUSAL, _AGREED = map(int, (Service.UNRELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED))
_EXTRAS_MAX = 8


def deliver_early(world: World, daemon: Daemon, view: ViewState, out: list[Action]) -> None:
    """Deliver some of the weak bundles behind the cursor, as far as their services allow."""
    log, bit, chance = view.log, daemon.bit, world.choice.chance
    cursor = daemon.cursor
    changed: dict[str, None] = {}  # groups that change between the cursor and here; "" stands for all
    for index in range(cursor, min(len(log), cursor + world.settings.early_window)):
        entry = log[index]
        if entry.kind != DATA:
            changed[entry.group] = None
        elif entry.service < _AGREED and not entry.early & bit and entry.reach & bit and chance(0.5):
            if not may_overtake(daemon, view, entry):
                continue
            if changed and not _may_overtake_change(world, view, entry, changed):
                continue
            if index > cursor:
                world.count("early_weak_delivery")
            overtake(world, daemon, entry, out)
            view.early_line = max(view.early_line, entry.lamport)


def _may_overtake_change(world: World, view: ViewState, entry: Entry, changed: dict[str, None]) -> bool:
    """Whether a bundle may be delivered in an earlier view of its group than its place says.

    Whoever installs the later view after the same earlier one is then owed it, by 2.7, if both come to the next daemon
    view together; who parts is not. So it is free, or all of them are made to deliver it before any signal.
    """
    if entry.service == _UNRELIABLE or not ("" in changed or any(name in changed for name in entry.groups)):
        return True
    if world.choice.chance(0.5):
        world.count("overtaken_change")
        return True
    if entry.reach != EVERYONE or view.left_for is not None or entry.service >= _CAUSAL:
        return False
    if entry.service == _FIFO and entry.previous is not None:
        return False
    entry.owed = True
    return True


def overtake(world: World, daemon: Daemon, entry: Entry, out: list[Action]) -> None:
    """Deliver a weak bundle before its place in the order."""
    assert entry.bundle is not None
    entry.early |= daemon.bit
    deliver_weak(world, daemon, entry, out)
    daemon.overtook[entry.client] = max(daemon.overtook.get(entry.client, 0), entry.bundle.first_sequence)
    daemon.clock = max(daemon.clock, entry.lamport)
    _take_over_past(daemon, entry)


def _take_over_past(daemon: Daemon, entry: Entry) -> None:
    """Whatever the daemon's clients send from now on has this entry's causal past too, delivered here or not."""
    daemon.raised = max(daemon.raised, entry.past)
    if entry.service != _UNRELIABLE:
        daemon.extras.append(entry)
    daemon.extras += entry.extras
    earlier = entry.previous if entry.service < _FIFO else None
    while earlier is not None and earlier.lamport > daemon.low and not earlier.early & daemon.bit:
        daemon.extras.append(earlier)
        earlier = earlier.previous
    if len(daemon.extras) > _EXTRAS_MAX:
        daemon.raised = max(daemon.raised, *(extra.lamport for extra in daemon.extras))
        daemon.extras.clear()


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
