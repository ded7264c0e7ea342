"""What only our own stack is told to do: large messages, joins and leaves while views change, and senders outside.

Each is drawn from a stream of its own, on some seeds, and added to the workload that all stacks share. Large messages
travel as fragments; they are sent when somebody has fallen silent and that is not noticed yet, so that daemon views end
while half of one is stamped. Views change some time after a fault; that is when members come and go here.

Implements: [DESIGN 4], the simulator's workload for boundary B4.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

import msgspec

from isotone.core.choice import Choice
from isotone.core.services import Service
from isotone.sim.faults import MILLISECOND, Crash, Cut, Fault, Partition, Pause
from isotone.sim.plan import Step
from isotone.sim.workload import Drawing, JoinStep, LeaveStep, More, SendStep, Session, draw_send

LARGE_SHARE = 0.4
"""Of the seeds; a large message costs about as much as fifty usual bundles."""
LARGE_MAX = 6
LARGE_LENGTHS = (((70_000, 130_000), 3.0), ((130_000, 300_000), 1.0))
RESTLESS_SHARE = 0.5
OUTSIDERS_SHARE = 0.7
BEFORE_CUT_US = 400 * MILLISECOND
"""So long before a way is lost its ends have members of the group in which they talk then."""
HASTY_SHARE = 0.7
HASTY_US = 150 * MILLISECOND
"""Of those who are not heard while they crash; from so long before on nothing is SAFE, which would hold up the rest."""
SILENCING = (Partition, Cut, Crash, Pause)
UNNOTICED_US = 400 * MILLISECOND
NOTICED_US = 900 * MILLISECOND
"""From a fault to the views that follow from it, mostly; for about half of that it is not noticed at all."""


def draw_large(drawing: Drawing) -> None:
    """A few messages that do not fit into a bundle, and what their clients say right behind them."""
    drawing = replace(drawing, choice=drawing.choice.derive("large"))
    choice = drawing.choice
    if not choice.chance(LARGE_SHARE):
        return
    for _ in range(choice.between(2, LARGE_MAX)):
        at = _near_fault(drawing, choice.between(-30 * MILLISECOND, UNNOTICED_US), SILENCING)
        session = _online(drawing, at)
        if session is None:
            continue
        large = msgspec.structs.replace(draw_send(drawing, session, at), lengths=(_large_length(choice),))
        drawing.steps.append(large)
        for _ in range(choice.pick((0, 1, 3))):
            at += choice.between(0, 3 * MILLISECOND)
            drawing.steps.append(draw_send(drawing, session, at))


def draw_restless(drawing: Drawing) -> None:
    """Members leave and come back, others join, about when views change."""
    drawing = replace(drawing, choice=drawing.choice.derive("restless"))
    choice = drawing.choice
    if not choice.chance(RESTLESS_SHARE):
        return
    for _ in range(choice.between(10, 20 + drawing.scale.sends_min // 100)):
        at = _near_fault(drawing, choice.between(0, NOTICED_US))
        session = _online(drawing, at)
        if session is not None:
            drawing.steps += _moves(drawing, session, at)


def draw_outsiders(drawing: Drawing) -> None:
    """Sites without members of a group, and senders there that are no members; others send while they are not heard."""
    drawing = replace(drawing, choice=drawing.choice.derive("outsiders"))
    choice, nodes = drawing.choice, drawing.topology.nodes
    sites = {node.name: node.site for node in nodes}
    if len(set(sites.values())) < 2 or not choice.chance(OUTSIDERS_SHARE):
        return
    cuts = [fault for fault in drawing.faults if isinstance(fault, Cut) and fault.one_way]
    silenced = [cut for cut in cuts if _crashes_after(drawing, cut)]
    groups = list(drawing.topology.groups)
    choice.shuffle(groups)
    for cut, group in zip(silenced, groups):
        ends = {sites[cut.source], sites[cut.target]}
        outside = {name for name, site in sites.items() if site not in ends}
        _keep_out(drawing, outside, [group])
        _bring_in(drawing, cut, group)
        _send_across(drawing, cut, outside, [group])
        if choice.chance(HASTY_SHARE):
            _without_safe(drawing, cut)
    if not silenced:
        groups = groups[: choice.between((len(groups) + 1) // 2, len(groups))]
        away = choice.pick(sorted(set(sites.values())))
        outside = {name for name, site in sites.items() if site == away}
        _keep_out(drawing, outside, groups)
        for cut in cuts:
            _send_across(drawing, cut, outside, groups)


def _crashes_after(drawing: Drawing, cut: Cut) -> bool:
    """Whether who is not heard crashes before that is noticed."""
    crashes = [fault.at for fault in drawing.faults if isinstance(fault, Crash) and fault.node == cut.source]
    return any(0 <= at - cut.at <= UNNOTICED_US for at in crashes)


def _keep_out(drawing: Drawing, outside: Set[str], groups: Sequence[str]) -> None:
    """Nobody there joins these groups."""
    drawing.steps[:] = [
        step
        for step in drawing.steps
        if not (isinstance(step, JoinStep | LeaveStep) and step.node in outside and step.group in groups)
    ]
    for session in drawing.sessions:
        if session.node in outside:
            session.groups = tuple(group for group in session.groups if group not in groups)


def _bring_in(drawing: Drawing, cut: Cut, group: str) -> None:
    """Both ends have a member of the group."""
    at = cut.at - BEFORE_CUT_US
    for node in (cut.source, cut.target):
        here = [each for each in drawing.sessions if each.node == node and each.ready <= at and cut.at < each.end]
        for session in here[:1]:
            drawing.steps.append(JoinStep(at=at, node=node, client=session.client, group=group))


def _without_safe(drawing: Drawing, cut: Cut) -> None:
    """What is SAFE waits for who is not heard, and all behind it; here everything can overtake him."""
    drawing.steps[:] = [
        msgspec.structs.replace(step, service=Service.AGREED)
        if isinstance(step, SendStep) and step.service is Service.SAFE and -HASTY_US <= step.at - cut.at <= UNNOTICED_US
        else step
        for step in drawing.steps
    ]


def _send_across(drawing: Drawing, cut: Cut, outside: Set[str], groups: Sequence[str]) -> None:
    """Whoever is cut off sends, and soon somebody outside."""
    choice = drawing.choice
    for _ in range(choice.between(3, 8)):
        group = choice.pick(groups)
        at = cut.at + choice.between(0, 60 * MILLISECOND)
        for nodes, later in (({cut.source}, 0), (outside, choice.between(10, 100) * MILLISECOND)):
            here = [each for each in drawing.sessions if each.node in nodes and each.ready <= at + later < each.end]
            if here:
                send = draw_send(drawing, choice.pick(here), at + later)
                service = choice.pick((Service.AGREED, Service.AGREED, Service.SAFE))
                drawing.steps.append(msgspec.structs.replace(send, service=service, groups=(group,)))


def _moves(drawing: Drawing, session: Session, at: int) -> list[Step]:
    """Whoever is in the group leaves, and mostly comes back; whoever is not only joins."""
    choice, (node, client) = drawing.choice, (session.node, session.client)
    group = choice.pick(drawing.topology.groups)
    back = at + choice.between(1 * MILLISECOND, 200 * MILLISECOND)
    steps: list[Step] = [LeaveStep(at=at, node=node, client=client, group=group)]
    if choice.chance(0.8):
        steps.append(JoinStep(at=back, node=node, client=client, group=group))
    return steps


def _near_fault(drawing: Drawing, distance_us: int, kinds: tuple[type[Fault], ...] = (Fault,)) -> int:
    faults = [fault.at for fault in drawing.faults if isinstance(fault, kinds)] or [drawing.scale.faults_end_us // 2]
    return max(0, drawing.choice.pick(faults) + distance_us)


def _online(drawing: Drawing, at: int) -> Session | None:
    online = [session for session in drawing.sessions if session.ready <= at < session.end]
    return drawing.choice.pick(online) if online else None


def _large_length(choice: Choice) -> int:
    return choice.between(*choice.weighted(LARGE_LENGTHS))


MORE: tuple[More, ...] = (draw_large, draw_restless, draw_outsiders)
"""As `draw_workload` takes them."""
