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
from isotone.sim.workload import Drawing, JoinStep, LeaveStep, More, Session, draw_send

LARGE_SHARE = 0.4
"""Of the seeds; a large message costs about as much as fifty usual bundles."""
LARGE_MAX = 6
LARGE_LENGTHS = (((70_000, 130_000), 3.0), ((130_000, 300_000), 1.0))
RESTLESS_SHARE = 0.5
OUTSIDERS_SHARE = 0.4
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
    sites = sorted({node.site for node in nodes})
    if len(sites) < 2 or not choice.chance(OUTSIDERS_SHARE):
        return
    known = drawing.topology.groups
    site, groups = choice.pick(sites), choice.sample(known, choice.between((len(known) + 1) // 2, len(known)))
    outside = {node.name for node in nodes if node.site == site}
    drawing.steps[:] = [
        step
        for step in drawing.steps
        if not (isinstance(step, JoinStep | LeaveStep) and step.node in outside and step.group in groups)
    ]
    for session in drawing.sessions:
        if session.node in outside:
            session.groups = tuple(group for group in session.groups if group not in groups)
    for fault in drawing.faults:
        if isinstance(fault, Cut) and fault.one_way:
            _send_across(drawing, fault, outside, groups)


def _send_across(drawing: Drawing, cut: Cut, outside: Set[str], groups: Sequence[str]) -> None:
    """Whoever is cut off sends, and soon somebody outside."""
    choice = drawing.choice
    for _ in range(choice.between(3, 8)):
        group = choice.pick(groups)
        at = cut.at + choice.between(0, 60 * MILLISECOND)
        for nodes, later in (({cut.source}, 0), (outside, choice.between(10, 150) * MILLISECOND)):
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
