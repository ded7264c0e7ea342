"""What the network lets daemons have of each other's entries while a view is split between components.

Entries that were stamped before the split are on their way to everyone, and each transition chooses what arrived.
Those stamped after it reach the stamping daemon's component, and whom that meets later.
"""

from __future__ import annotations

from isotone.spec.oracle.model import EVERYONE, NEVER, ViewState, World


def place_components(world: World) -> None:
    """Number the components; a daemon that is in none is alone."""
    if world.components is None:
        world.component_of = dict.fromkeys(world.alive, 0)
        return
    found = {name: index for index, names in enumerate(world.components) for name in names}
    for name in sorted(world.alive):
        found.setdefault(name, len(world.components) + len(found))
    world.component_of = found


def refresh_views(world: World) -> list[ViewState]:
    """After a change in the world: see anew which views are split. The views that someone is in, or is going to."""
    views: dict[int, ViewState] = {}
    for name in sorted(world.alive):
        daemon = world.alive[name]
        for view in (daemon.view, daemon.target):
            if view is not None:
                views[view.serial] = view
    for view in views.values():
        refresh_reach(world, view)
    return list(views.values())


def refresh_reach(world: World, view: ViewState) -> None:
    """See anew who of the view reaches whom."""
    masks: dict[int, int] = {}
    for place, daemon in enumerate(view.daemons):
        if daemon.alive:
            component = world.component_of[daemon.id.name]
            masks[component] = masks.get(component, 0) | 1 << place
    view.split = len(masks) > 1
    if view.split:
        view.line = max(view.line, view.log[-1].lamport)  # what comes now stands behind what is on its way
    for daemon in view.daemons:
        if daemon.alive and daemon.view is view:
            daemon.reach = masks[world.component_of[daemon.id.name]]
    if view.partial_from != NEVER:
        _spread(view, list(masks.values()))


def _spread(view: ViewState, masks: list[int]) -> None:
    """Entries go from those who have them to those who reach them now."""
    log, first = view.log, NEVER
    for index in range(view.partial_from, len(log)):
        entry = log[index]
        for mask in masks:
            if entry.reach & mask:
                entry.reach = EVERYONE if len(masks) == 1 else entry.reach | mask
        if entry.reach != EVERYONE and first == NEVER:
            first = index
    view.partial_from = first
