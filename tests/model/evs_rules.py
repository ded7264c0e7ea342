"""EVS-S on what daemons delivered so far, as plain as possible: a second version beside `isotone.spec`.

Reference: [Spread 2.4].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.views import DaemonView
from isotone.evs.boundary import DeliverSignal

Delivered = DaemonView | DeliverSignal | bytes
Incarnation = tuple[str, int]


@dataclass
class Stay:
    """The time that one incarnation spent in one daemon view."""

    who: DaemonId
    view: DaemonView
    previous: DaemonView | None
    units: list[bytes] = field(default_factory=list)
    following: DaemonView | None = None


def broken_rule(histories: Sequence[tuple[Incarnation, tuple[Delivered, ...]]]) -> str | None:
    """The first rule of EVS-S that these histories break [Spread 2.4]."""
    stays: list[Stay] = []
    for (name, incarnation), history in histories:
        begun = _stays(DaemonId(name, incarnation), history)
        problem = next((text for stay in begun if (text := _broken_alone(stay))), None)
        if problem:
            return problem
        stays += begun
    by_view: dict[DaemonViewId, list[Stay]] = {}
    for stay in stays:
        by_view.setdefault(stay.view.id, []).append(stay)
    for together in by_view.values():
        for place, one in enumerate(together):
            for other in together[place + 1 :]:
                if problem := _broken_between(one, other):
                    return problem
    return None


def _stays(who: DaemonId, history: Sequence[Delivered]) -> list[Stay]:
    stays: list[Stay] = []
    for each in history:
        if isinstance(each, DaemonView):
            stays.append(Stay(who, each, stays[-1].view if stays else None))
            if len(stays) > 1:
                stays[-2].following = each
        elif isinstance(each, bytes):
            stays[-1].units.append(each)
    return stays


def _broken_alone(stay: Stay) -> str | None:
    """2.2, 2.3, what 2.4 says of one daemon, and no unit twice."""
    who, view, previous = stay.who, stay.view, stay.previous
    if who not in view.members:
        return f"self inclusion: {who} installs {view.id} without itself"
    if previous is not None and previous.id >= view.id:
        return f"local monotonicity: {who} installs {view.id} after {previous.id}"
    came = (who,) if previous is None else previous.members
    if who not in view.transitional or not set(view.transitional) <= {*came} & {*view.members}:
        return f"transitional set: {who} comes to {view.id} with {view.transitional}"
    if len(set(stay.units)) < len(stay.units):
        return f"{who} delivers a unit twice in {view.id}"
    return None


def _broken_between(one: Stay, other: Stay) -> str | None:
    """Agreement on views 2.20, transitional set 2.4, virtual synchrony and one total order, for one daemon view."""
    if one.view.members != other.view.members:
        return f"agreement: {one.who} and {other.who} install {one.view.id} with different members"
    if one.who == other.who:
        return f"{one.who} installs {one.view.id} twice"
    came_along = one.previous is not None and other.previous is not None and one.previous.id == other.previous.id
    for here, there in ((one, other), (other, one)):
        if (there.who in here.view.transitional) != came_along:
            return f"transitional set: {here.who} and {there.who} on who came to {one.view.id}"
    common = {*one.units} & {*other.units}
    if [unit for unit in one.units if unit in common] != [unit for unit in other.units if unit in common]:
        return f"order: {one.who} and {other.who} in {one.view.id}: {one.units}, {other.units}"
    moved = one.following is not None and other.following is not None and one.following.id == other.following.id
    if moved and set(one.units) != set(other.units):
        return f"virtual synchrony: {one.who} and {other.who} leave {one.view.id} with {one.units}, {other.units}"
    return None
