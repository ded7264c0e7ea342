"""Which daemon views form: the components of the network in the end, and detours on the way there.

A component is settled when its daemons are all in, or on their way to, one view that has exactly them. While it is
not, each round forms the view, or takes a detour: a needless split, a merge in parts, a view that is superseded at
once, a view without daemons that are still in transition, or a view for some whom another view was promised.

One rule keeps group views sound across skipped merges. A daemon that has not installed group views since it parted
from others (`Daemon.parted`) may hold a group under the same view id as they do, but with another history; 2.4.3 would
then call them together, and 2.7 would be broken. So before it meets one of them again it installs its group views.

Implements: [Spread 2.16] in the end, and [Spread 2.2.3] on the way.
"""

from __future__ import annotations

from isotone.core.contract import Action
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.spec.oracle.cut import cut, divert
from isotone.spec.oracle.groups import Snapshot
from isotone.spec.oracle.model import DATA, JOIN, Daemon, Transition, ViewState, World
from isotone.spec.oracle.reach import refresh_reach

Moving = tuple[ViewState | None, Transition | None, list[Daemon]]
"""Daemons that move together: the view they are in, the transition that is diverted, who."""


def reform(world: World, out: list[Action]) -> None:
    """One round: look at each component and change what is not as it shall be."""
    disturbed, world.disturbed = world.disturbed and not world.stable, False
    components = _components(world)
    victim = world.choice.below(len(components)) if disturbed and components else -1
    again = False
    for index, daemons in enumerate(components):
        if index == victim or not _is_settled(daemons):
            present = _without_paused(world, daemons)
            for part in _parts(world, present):
                if index == victim or not _is_settled(part):
                    _try_to_form(world, part, out)
            again = again or not _is_settled(present)
    if again or world.disturbed:
        world.arm_forming(out)


def _components(world: World) -> list[list[Daemon]]:
    """The living who are not excluded, by component, in a fixed order."""
    found: dict[int, list[Daemon]] = {}
    for name in sorted(world.alive):
        daemon = world.alive[name]
        if not daemon.excluded:
            found.setdefault(world.component_of[name], []).append(daemon)
    return list(found.values())


def _is_settled(daemons: list[Daemon]) -> bool:
    if not daemons:
        return True
    target = daemons[0].target
    return (
        target is not None
        and all(daemon.target is target for daemon in daemons)
        and target.members == tuple(daemon.id for daemon in daemons)
    )


def _without_paused(world: World, daemons: list[Daemon]) -> list[Daemon]:
    """A paused daemon cannot take part in a change: it is excluded until it is resumed."""
    for daemon in daemons:
        if daemon.paused:
            daemon.excluded = True
            world.count("paused_excluded")
    return [daemon for daemon in daemons if not daemon.paused]


def _parts(world: World, daemons: list[Daemon]) -> list[list[Daemon]]:
    """The sets that shall form views now: usually one."""
    if world.stable or len(daemons) < 2:
        return [daemons] if daemons else []
    choice = world.choice
    clusters = _clusters(daemons)
    kind = choice.weighted((("whole", 5.0), ("split", 1.0), ("apart", 2.0 * (len(clusters) > 1)), ("again", 1.5)))
    if kind == "split":
        world.count("needless_split")
        chosen = choice.sample(daemons, choice.between(1, len(daemons) - 1))
        return [chosen, [daemon for daemon in daemons if daemon not in chosen]]
    if kind == "apart":
        world.count("late_merge")
        return clusters
    if kind == "again":
        world.disturbed = True
    return [daemons]


def _clusters(daemons: list[Daemon]) -> list[list[Daemon]]:
    """The daemons by the views they are in or on their way to."""
    found: dict[int, list[Daemon]] = {}
    for daemon in daemons:
        found.setdefault(daemon.target.serial if daemon.target else -1 - len(found), []).append(daemon)
    return list(found.values())


# --- forming one view ----------------------------------------------------------------------------------------------


def _try_to_form(world: World, daemons: list[Daemon], out: list[Action]) -> None:
    moving, busy = _ready(world, daemons)
    ready = [daemon for _, _, some in moving for daemon in some]
    if not ready or (busy and (world.stable or world.choice.chance(0.6))):
        return  # in a later round those in transition have arrived
    _form(world, moving, sorted(ready, key=lambda daemon: daemon.id), out)


def _ready(world: World, daemons: list[Daemon]) -> tuple[list[Moving], bool]:
    """Who can move now, by where they come from; and whether someone cannot.

    All who move from one view to the next directly must move together, so per view either those without a transition
    move or those of one transition that is diverted.
    """
    by_view: dict[int, list[Daemon]] = {}
    for daemon in daemons:
        by_view.setdefault(daemon.view.serial if daemon.view else -1 - len(by_view), []).append(daemon)
    members = frozenset(daemon.id for daemon in daemons)
    moving: list[Moving] = []
    for some in by_view.values():
        free = [daemon for daemon in some if daemon.transition is None]
        diverted = None
        if not free and not world.stable and world.choice.chance(0.7):
            diverted = some[0].transition
            assert diverted is not None
            free = [daemon for daemon in some if daemon.transition is diverted and not daemon.signalled]
            if not _is_divertible(diverted, free, members):
                free = []
        if free:
            moving.append((free[0].view, diverted, free))
    return moving, sum(len(some) for _, _, some in moving) < len(daemons)


def _is_divertible(transition: Transition, some: list[Daemon], members: frozenset[DaemonId]) -> bool:
    """Whether these may go elsewhere: not to meet those who hold groups under the same view id."""
    going = frozenset(daemon.id for daemon in some)
    if not transition.divertible or (frozenset(transition.source.members) - going) & members:
        return False
    return transition.settles or not any(daemon.parted & members for daemon in some)


def _form(world: World, moving: list[Moving], daemons: list[Daemon], out: list[Action]) -> None:
    choice = world.choice
    epoch = max(daemon.epoch for daemon in daemons) + 1 + choice.below(3)
    base = max([daemon.clock for daemon in daemons] + [view.log[-1].lamport for view, _, _ in moving if view])
    world.serial += 1
    target = ViewState(world.serial, DaemonViewId(epoch, choice.pick(daemons).id), daemons, base)
    for daemon in daemons:
        daemon.epoch = epoch
    for source, diverted, together in moving:
        if source is None:
            for daemon in together:
                _add_origin(target, [daemon], [])
                arrive(world, daemon, target, out)
        elif diverted is not None:
            _send(world, divert(world, diverted, target, together), together, out)
        else:
            _leave(world, source, target, together, out)
    if sum(map(bool, target.origins)) > 1:
        world.count("empty_transitional_overlap")
    refresh_reach(world, target)


def _leave(world: World, source: ViewState, target: ViewState, together: list[Daemon], out: list[Action]) -> None:
    """Cut the source. When its group views are skipped, those of different origins have nothing in common."""
    if _settles(world, source, target, together):
        _send(world, cut(world, source, target, together, settles=True), together, out)
        return
    world.count("skipped_view")
    by_origin: dict[int, list[Daemon]] = {}
    for daemon in together:
        by_origin.setdefault(source.origin_of[daemon.id], []).append(daemon)
    for some in by_origin.values():
        _send(world, cut(world, source, target, some, settles=False), some, out)


def _settles(world: World, source: ViewState, target: ViewState, together: list[Daemon]) -> bool:
    """Whether the group views of the source are installed before it is left, where they were not yet."""
    if source.safe_line or any(daemon.cursor for daemon in together):
        return True
    members = frozenset(target.members)
    return any(daemon.parted & members for daemon in together) or world.choice.chance(0.5)


def _add_origin(target: ViewState, together: list[Daemon], end: Snapshot) -> None:
    concerns: dict[str, None] = {}
    for daemon in together:
        target.origin_of[daemon.id] = len(target.origins)
        concerns.update(dict.fromkeys(group.name for group in daemon.groups.by_name.values() if group.local))
        for kind, _, payload, _ in daemon.pending:
            if kind == DATA:
                concerns.update(dict.fromkeys(payload.groups))  # type: ignore[union-attr]
        if daemon.view is not None:
            concerns.update(dict.fromkeys(each.group for each in daemon.view.log[daemon.cursor :] if each.kind == JOIN))
    target.origins.append(end)
    target.concerns.append(concerns)


def _send(world: World, transition: Transition, together: list[Daemon], out: list[Action]) -> None:
    """Commit the daemons to their way."""
    source, target = transition.source, transition.target
    _add_origin(target, together, transition.end)
    if source.left_for is not None and source.left_for is not target:
        world.count("diverging_components")
    source.left_for = target
    for daemon in together:
        daemon.transition = transition
        world.arm(daemon, out)
    for daemon in source.daemons:  # the others may wait for what will not come
        if daemon.alive and daemon.view is source and daemon.transition is None:
            world.arm(daemon, out)


def arrive(world: World, daemon: Daemon, target: ViewState, out: list[Action]) -> None:
    """Install a daemon view."""
    source, transition = daemon.view, daemon.transition
    if source is not None and transition is not None:
        left = frozenset(source.members) - transition.together
        daemon.parted = left if transition.settles else daemon.parted | left
    daemon.view, daemon.transition, daemon.signalled, daemon.after_signal = target, None, False, 0
    daemon.place = target.members.index(daemon.id)
    daemon.bit = 1 << daemon.place
    daemon.enter_order(base=target.log[0].lamport)
    daemon.clock = max(daemon.clock, daemon.low)
    refresh_reach(world, target)
    world.arm_all(target.daemons, target, out)
    if source is not None and not any(each.alive and source in (each.view, each.target) for each in source.daemons):
        source.log.clear()  # nobody is in it or will be
