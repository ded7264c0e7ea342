"""What is promised about views, sets and signals: 2.2 to 2.4, 2.8, 2.16 and 2.20.

Each function yields one truth value for every case in which the premise of its property is true.
Implements: [Spread 2.2.3.1], [Spread 2.2.3.2] for signals, [Spread 2.2.5] for agreement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, permutations

from tests.spec.naive.history import Delivery, History, Message, Process, Stay

Cases = Iterator[bool]


def self_inclusion(history: History) -> Cases:
    """2.2: a process that installs a view is one of its members."""
    for stay in history.stays:
        yield stay.process.id in stay.members


def local_monotonicity(history: History) -> Cases:
    """2.3: the ids of the views that a process installs in a group grow; judged per name."""
    installed: dict[tuple[str, str], list[Stay]] = defaultdict(list)
    for stay in history.stays:
        installed[stay.process.name, stay.group].append(stay)
    for stays in installed.values():
        for earlier, later in combinations(stays, 2):
            yield earlier.view < later.view  # type: ignore[operator]


def first_transitional_set(history: History) -> Cases:
    """2.4.1: the transitional set of a first view is the process alone."""
    for stay in history.stays:
        if stay.previous is None:
            yield stay.transitional == {stay.process.id}


def transitional_subset(history: History) -> Cases:
    """2.4.2: the transitional set of a later view lies within the members of the previous and of the new view."""
    for stay in history.stays:
        if stay.previous is not None:
            yield stay.transitional <= stay.previous.members & stay.members


def in_same_view(history: History) -> Iterator[tuple[Stay, Stay]]:
    """Every two stays of different processes in one view, both ways round."""
    for one, other in permutations(history.stays, 2):
        if one.key == other.key and one.process is not other.process:
            yield one, other


def came_together(one: Stay, other: Stay) -> bool:
    """Whether two stays in one view came from the same previous view; a first view has none."""
    return one.previous is not None and other.previous is not None and one.previous.view == other.previous.view


def transitional_exact(history: History) -> Cases:
    """2.4.3: of two who install a view, each is in the other's set exactly when both came from the same view.

    The two may be one: whoever has a previous view is in its own set.
    """
    for stay in history.stays:
        if stay.previous is not None:
            yield stay.process.id in stay.transitional
    for one, other in in_same_view(history):
        yield (other.process.id in one.transitional) == came_together(one, other)


def transitional_agreed(history: History) -> Cases:
    """2.4.4: those who install a view out of the same previous view have equal transitional sets."""
    for one, other in in_same_view(history):
        if came_together(one, other):
            yield one.transitional == other.transitional


def membership_agreement(history: History) -> Cases:
    """2.20: views with the same id have the same members."""
    for one, other in combinations(history.stays, 2):
        if (one.group, one.view) == (other.group, other.view):
            yield one.members == other.members


def together(history: History) -> Iterator[tuple[Stay, Stay]]:
    """Every two stays of processes that were together in a view, both ways round."""
    for one, other in in_same_view(history):
        if one.next is not None and other.next is not None and one.next.view == other.next.view:
            yield one, other


def one_signal(history: History) -> Cases:
    """2.8.1: at most one signal occurs at a process in a view."""
    for stay in history.stays:
        if stay.signals:
            yield len(stay.signals) == 1


def signals_together(history: History) -> Cases:
    """2.8.2: of processes together in a view all or none have the signal, the same agreed messages on each side."""
    for one, other in together(history):
        if one.signals:
            yield bool(other.signals) and _sides(one) == _sides(other)


def _sides(stay: Stay) -> tuple[set[Message], set[Message]]:
    """The agreed messages before and after the first signal of a stay."""
    agreed = [each for each in stay.deliveries if each.service.is_agreed]

    def is_before(delivery: Delivery) -> bool:
        return delivery.place < stay.signals[0]

    return {each.message for each in agreed if is_before(each)}, {
        each.message for each in agreed if not is_before(each)
    }


def membership_precision(history: History) -> Cases:
    """2.16: in a stable component the members of a group end in one view that holds exactly them.

    Who asked to join and not to leave again is a member too; at EVS-S, every daemon of the component.
    """
    is_used = bool(history.stays) or not history.is_daemons  # on the oracle daemons have no views
    for component in (history.components or ()) if history.is_stable and is_used else ():
        living = [each for each in history.processes.values() if not each.has_ended and _daemon(each) in component]
        known = {_daemon(process) for process in history.processes.values()}
        is_whole = not history.is_daemons or set(component) <= known
        for group in sorted({group for process in living for group in (*process.current, *process.asked_to_join)}):
            members = [each for each in living if group in each.current or group in each.asked_to_join]
            ids, resting = (
                {each.id for each in members},
                [each.current[group] for each in members if group in each.current],
            )
            is_one = len({stay.view for stay in resting}) == 1
            yield is_whole and len(resting) == len(members) and is_one and all(stay.members == ids for stay in resting)


def _daemon(process: Process) -> str:
    return process.name.split("#")[-1]
