"""What a daemon does when its timer fires: some of its work, or all of it once the end is stable."""

from __future__ import annotations

from isotone.core.contract import Action
from isotone.core.services import Service
from isotone.spec.oracle.formation import arrive
from isotone.spec.oracle.model import DATA, NEVER, Daemon, Transition, ViewState, World
from isotone.spec.oracle.ordering import advance, change_groups, deliver_weak, overtake
from isotone.spec.oracle.overtaking import deliver_early
from isotone.spec.oracle.stamping import stamp

_SAFE = int(Service.SAFE)
_TRIM_MIN = 512


def take_step(world: World, daemon: Daemon, out: list[Action]) -> None:
    """Go on a while, and be armed again if more is to do."""
    view = daemon.view
    if view is None:
        return
    if daemon.transition is not None:
        _move_on(world, daemon, view, daemon.transition, out)
        return
    if daemon.cursor == 0 and not world.stable and world.choice.chance(0.4):
        world.arm(daemon, out)  # the group states are not exchanged yet
        return
    _work(world, daemon, view, out)
    if len(view.log) > _TRIM_MIN:
        _trim(view)


def _work(world: World, daemon: Daemon, view: ViewState, out: list[Action]) -> None:
    """Stamp, receive, deliver."""
    choice, settings, stable = world.choice, world.settings, world.stable
    if daemon.pending and daemon.cursor and (stable or not choice.chance(settings.hold_chance)):
        pending = len(daemon.pending)
        stamp(world, daemon, view, pending if stable else choice.between((pending + 1) // 2, pending))
        world.arm_all(view.daemons, view, out)
    end = min(len(view.log), view.cap, view.partial_from)
    limit = _receive(world, daemon, view, end)
    if daemon.cursor and limit > daemon.cursor + 1 and choice.chance(settings.early_chance):
        deliver_early(world, daemon, view, out)
    unblocked = advance(world, daemon, view, limit, out)
    if daemon.cursor and daemon.cursor < len(view.log) and choice.chance(settings.early_chance):
        deliver_early(world, daemon, view, out)
    if daemon.pending or (daemon.cursor < end if unblocked else _all_present(view)):
        world.arm(daemon, out)


def _receive(world: World, daemon: Daemon, view: ViewState, end: int) -> int:
    """Choose how far the daemon has the order now, and how far it goes: all the way once the end is stable."""
    received, cursor, choice = view.received, daemon.cursor, world.choice
    if world.stable:
        received[daemon.place] = end
        return end
    limit = cursor + min(end - cursor, max(choice.below(world.settings.batch_max + 1), (end - cursor) // 2))
    received[daemon.place] = max(received[daemon.place], limit, choice.between(cursor, end))
    return limit


def _all_present(view: ViewState) -> bool:
    """Whether everyone may still come to have what a SAFE bundle waits for."""
    return all(
        daemon.alive and daemon.view is view and daemon.transition is None and not daemon.paused
        for daemon in view.daemons
    )


# --- transitions ---------------------------------------------------------------------------------------------------


def _move_on(world: World, daemon: Daemon, view: ViewState, transition: Transition, out: list[Action]) -> None:
    """Deliver up to the signal, the signal, what follows it, the next view; perhaps not all at once."""
    if not daemon.signalled:
        merged = daemon.cursor > 0
        left = transition.line - daemon.cursor
        some = left if world.stable else min(left, world.choice.below(world.settings.batch_max + 1) + left // 2)
        advance(world, daemon, view, daemon.cursor + some, out)
        if daemon.cursor < transition.line or _rests(world):
            world.arm(daemon, out)
            return
        if not merged and transition.line == 1:
            world.count("cascaded_view")
        _pass_signal(world, daemon, transition, out)
    tail = transition.tail
    while daemon.after_signal < len(tail):
        if _rests(world):
            world.arm(daemon, out)
            return
        _deliver_after(world, daemon, view, transition, out)
    if _rests(world):
        world.arm(daemon, out)
        return
    _arrive(world, daemon, transition, out)


def _rests(world: World) -> bool:
    return not world.stable and world.choice.chance(0.2)


def _pass_signal(world: World, daemon: Daemon, transition: Transition, out: list[Action]) -> None:
    for entry in transition.early:
        if not entry.early & daemon.bit:
            overtake(world, daemon, entry, out)
    daemon.groups.signal(transition.together, out)
    daemon.signalled = True
    if not transition.tail:
        world.count("signal_without_messages")


def _deliver_after(world: World, daemon: Daemon, view: ViewState, transition: Transition, out: list[Action]) -> None:
    entry = transition.tail[daemon.after_signal]
    daemon.after_signal += 1
    if entry.early & daemon.bit:
        return
    if entry.kind != DATA:
        change_groups(world, daemon, view, entry, out)
        return
    world.count("safe_after_signal" if entry.service == _SAFE else "delivered_after_signal")
    deliver_weak(world, daemon, entry, out)


def _arrive(world: World, daemon: Daemon, transition: Transition, out: list[Action]) -> None:
    end = daemon.groups.close()
    assert end == transition.end, f"{daemon.id} arrives in another state than planned"
    arrive(world, daemon, transition.target, out)


# --- bounded memory ------------------------------------------------------------------------------------------------


def _trim(view: ViewState) -> None:
    """Forget what every daemon that is still here has passed, unless someone is leaving or still to come."""
    done = NEVER
    for daemon in view.daemons:
        if daemon.alive:
            if daemon.transition is not None or daemon.view is not view:
                return
            done = min(done, daemon.cursor)
    if done != NEVER and 2 * done >= len(view.log):
        _forget(view, done - 1)


def _forget(view: ViewState, count: int) -> None:
    """Drop entries 1 … count; the merge stays at 0."""
    for entry in view.log[1 : count + 1]:
        entry.previous, entry.extras, entry.ahead = None, (), []
    del view.log[1 : count + 1]
    for daemon in view.daemons:
        if daemon.alive and daemon.view is view:
            daemon.cursor -= count
    view.received = [max(0, had - count) for had in view.received]
    view.high -= count
    view.safe_line = max(1, view.safe_line - count) if view.safe_line else 0
    if view.cap < NEVER:
        view.cap -= count
    if view.partial_from < NEVER:
        view.partial_from -= count
