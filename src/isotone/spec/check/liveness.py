"""What a run with a stable, quiet end owes.

Implements: [Spread 2.15], [Spread 2.16], [Spread 2.17]. Deviations: D-termination.
"""

from __future__ import annotations

from collections.abc import Iterator

from isotone.spec.check.people import People
from isotone.spec.check.records import Bundle, Process, Stay
from isotone.spec.check.tally import Tally
from isotone.spec.verdicts import EventId


def _alive(people: People) -> Iterator[Process]:
    for home in (*people.homes.values(), *people.left_over):
        if not home.ended:
            yield from (process for process in home.processes.values() if not process.ended and not process.ghost)


def judge_self_delivery(people: People, tally: Tally) -> None:
    """Who sent to a group that it is still in has delivered it."""
    for process in _alive(people):
        if any(stay.membership.sent for stay in process.stays.values()):
            tally.exercised.add("2.15")
        for bundle in process.own:
            assert bundle.sent is not None
            tally.accuse(
                "2.15",
                (bundle.sent,),
                f"{process.text} never delivered its own {bundle}.",
            )


def judge_termination(people: People, tally: Tally) -> None:
    """What was sent in a sender's last view has reached all members of that view."""
    for process in _alive(people):
        for stay in process.stays.values():
            if stay.sent:
                tally.exercised.add("2.17")
                for bundle in stay.sends:
                    _judge_reach(people, tally, process, stay, bundle)


def _judge_reach(people: People, tally: Tally, process: Process, stay: Stay, bundle: Bundle) -> None:
    for text in stay.view.members:
        member = people.find(text)
        if member is None or any(member not in piece.by for piece in bundle.pieces):
            assert bundle.sent is not None
            tally.accuse(
                "2.17",
                (bundle.sent,),
                (
                    f"{process.text} sent {bundle} in its last view {stay.view.id}; the member {text} "
                    "never delivered it."
                ),
            )


def judge_precision(people: People, tally: Tally, components: tuple[tuple[str, ...], ...], *, daemons: bool) -> None:
    """In each component the members of a group are in one view with exactly them; all daemons are of theirs."""
    for component in components:
        silent = [name for name in component if name not in people.homes] if daemons else []
        groups: dict[str, list[Process]] = {}
        for process in _alive(people):
            if process.home.node in component:
                for group in (*process.stays, *process.joining):
                    groups.setdefault(group, []).append(process)
        for group, members in groups.items():
            tally.exercised.add("2.16")
            _judge_group(tally, group, members, silent)


def _judge_group(tally: Tally, group: str, members: list[Process], silent: list[str]) -> None:
    texts = {process.text for process in members}
    installed: dict[object, EventId] = {}
    for process in members:
        stay = process.stays.get(group)
        if stay is None:
            _accuse(tally, (process.event(process.joining[group]),), group, f"{process.text} never came to a view")
            continue
        event = process.event(stay.at)
        if silent or set(stay.view.members) != texts:
            _accuse(tally, (event,), group, f"{process.text} ended in view {stay.view.id}, which has other members")
        elif stay.view.id not in installed or event < installed[stay.view.id]:
            installed[stay.view.id] = event
    first = min(installed.values(), default=None)
    for event in installed.values():
        if first is not None and event != first:
            _accuse(tally, (first, event), group, "its members ended in different views")


def _accuse(tally: Tally, events: tuple[EventId, ...], group: str, what: str) -> None:
    place = f"In group {group}, " if group else "Among the daemons, "
    tally.accuse("2.16", events, f"{place}{what}.")
