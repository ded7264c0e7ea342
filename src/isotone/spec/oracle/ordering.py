"""One daemon on its way along the order of its view: everything in its place, SAFE only when all daemons have it.

Implements: [Spread 2.2.3.2] and [Spread 6.4.4]. Deviations: D-unreliable, see `isotone.spec.properties`.
"""

from __future__ import annotations

from isotone.core.boundary import Indicate
from isotone.core.contract import Action
from isotone.core.ids import NO_DAEMON_VIEW, GroupViewId
from isotone.core.services import Service
from isotone.core.views import Cause
from isotone.spec.oracle.groups import Groups, MergedGroup, merge_of
from isotone.spec.oracle.model import DATA, JOIN, KILL, LEAVE, MERGE, Daemon, Entry, Transition, ViewState, World

_UNRELIABLE, _FIFO, _AGREED, _SAFE = map(int, (Service.UNRELIABLE, Service.FIFO, Service.AGREED, Service.SAFE))
_EXTRAS_MAX = 8


def advance(world: World, daemon: Daemon, view: ViewState, limit: int, out: list[Action]) -> bool:
    """Deliver in order up to the limit. False when a SAFE bundle stops it that not everyone has yet."""
    log, cursor, bit, stable = view.log, daemon.cursor, daemon.bit, -1
    begin, planned = cursor, daemon.transition is not None
    while cursor < limit:
        entry = log[cursor]
        if not entry.early & bit:
            if entry.service == _SAFE and not planned:
                if cursor >= stable:
                    stable = min(view.received)
                    if cursor >= stable:
                        break
                view.safe_line = max(view.safe_line, cursor + 1)
            if entry.kind != DATA:
                for before in entry.ahead:
                    if not before.early & bit:
                        overtake(world, daemon, before, out)
                change_groups(world, daemon, view, entry, out)
            elif entry.service >= _AGREED:
                receivers = daemon.groups.receivers(entry.groups)
                if receivers:
                    out.append(Indicate(receivers, entry.message))  # type: ignore[arg-type]
            else:
                deliver_weak(world, daemon, entry, out)
        cursor += 1
    if cursor != begin:
        _moved(daemon, view, cursor)
    return cursor == limit


def _moved(daemon: Daemon, view: ViewState, cursor: int) -> None:
    daemon.cursor = cursor
    daemon.low = view.log[cursor - 1].lamport
    daemon.clock = max(daemon.clock, daemon.low)
    if cursor > view.high:
        view.high = cursor
        view.line = max(view.line, daemon.low)


def change_groups(world: World, daemon: Daemon, view: ViewState, entry: Entry, out: list[Action]) -> None:
    """Deliver a merge, join, leave or kill."""
    if entry.kind == MERGE:
        daemon.groups.merge(merged_of(view), view.origin_of[daemon.id], out)
        daemon.parted = frozenset()
        return
    daemon.mark += 1
    if daemon.signalled:
        world.count("join_in_transition" if entry.kind == JOIN else "leave_in_transition")
    apply_change(daemon.groups, view, entry, daemon.transition if daemon.signalled else None, out)


def apply_change(
    groups: Groups, view: ViewState, entry: Entry, transition: Transition | None, out: list[Action]
) -> None:
    """What a join, leave or kill does to the groups; with a transition, behind its signal."""
    target, together = (transition.target.id, transition.together) if transition else (NO_DAEMON_VIEW, None)
    id = GroupViewId(view.id, target, entry.stamp)
    if entry.kind == JOIN:
        groups.join(entry.client, entry.group, id, together, out)
    elif entry.kind == LEAVE:
        groups.leave(entry.client, entry.group, id, Cause.LEAVE, out)
    elif entry.kind == KILL:
        groups.kill(entry.client, id, out)


def merged_of(view: ViewState) -> dict[str, MergedGroup]:
    """The groups after the view's merge; the same for all its daemons."""
    if view.merged is None:
        view.merged = merge_of(view.origins, view.concerns, GroupViewId(view.id))
    return view.merged


def deliver_weak(world: World, daemon: Daemon, entry: Entry, out: list[Action]) -> None:
    """Deliver a bundle below AGREED, or drop it if it may be."""
    if entry.service == _UNRELIABLE and _is_dropped(world, daemon, entry):
        return
    groups = daemon.groups
    receivers = groups.receivers(entry.groups)
    if not receivers:
        return
    out.append(Indicate(receivers, entry.message))  # type: ignore[arg-type]
    group = groups.by_name.get(entry.groups[0])
    if group is not None and group.local:
        if entry.seen_in is None:
            entry.seen_in = group.id
        elif entry.seen_in != group.id:
            world.count("view_split_weak_message")


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


def _is_dropped(world: World, daemon: Daemon, entry: Entry) -> bool:
    """UNRELIABLE bundles get lost, and a late one is dropped rather than delivered behind a later one of its client."""
    assert entry.bundle is not None
    late = entry.bundle.first_sequence < daemon.overtook.get(entry.client, 0)
    if late or world.choice.chance(world.settings.drop_chance):
        world.count("dropped_unreliable")
        return True
    return False
