"""What the clients of a run do: the steps of the EVS workload, and how they are drawn from a seed.

The drawing knows the fault schedule: sessions follow the lives of their daemons, and many sends fall close to a fault,
because that is where order and views can go wrong. All services, bundles of 1 to 50 messages, several groups at once,
groups that the sender is not in, private groups and empty messages occur.

Implements: [DESIGN 4], the simulator's workload for boundary B4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from isotone.core.choice import Choice
from isotone.core.services import Service
from isotone.sim.faults import MILLISECOND, Crash, Fault, KillClient, Restart
from isotone.sim.plan import Scale, Step, Topology

LENGTH_MAX = 1_200  # fifty of them still fit into one bundle


class ConnectStep(Step, frozen=True, tag="connect"):
    """A client opens a session."""

    client: str


class DisconnectStep(Step, frozen=True, tag="disconnect"):
    """A client closes its session."""

    client: str


class JoinStep(Step, frozen=True, tag="join"):
    """A client joins a group."""

    client: str
    group: str


class LeaveStep(Step, frozen=True, tag="leave"):
    """A client leaves a group."""

    client: str
    group: str


class SendStep(Step, frozen=True, tag="send"):
    """A client sends one bundle: a length per message."""

    client: str
    service: Service
    groups: tuple[str, ...]
    lengths: tuple[int, ...]


ClientStep = ConnectStep | DisconnectStep | JoinStep | LeaveStep | SendStep

SERVICES: tuple[tuple[Service, float], ...] = (
    (Service.UNRELIABLE, 1.0),
    (Service.RELIABLE, 1.5),
    (Service.FIFO, 1.5),
    (Service.CAUSAL, 2.0),
    (Service.AGREED, 3.0),
    (Service.SAFE, 3.0),
)


class Session(msgspec.Struct):
    """A stretch of time in which a client means to be connected, from when on it sends, and what it joins at once."""

    node: str
    client: str
    start: int
    ready: int
    end: int
    groups: tuple[str, ...]


class Mood(msgspec.Struct, frozen=True):
    """What this run does more or less of: runs that differ find more than runs that are all alike."""

    services: tuple[tuple[Service, float], ...]
    join: float
    leave: float
    disconnect: float
    near_fault: float
    big_bundles: float


def draw_mood(choice: Choice) -> Mood:
    """Each service more or less often, groups full or sparse, clients restless or not."""
    return Mood(
        services=tuple((service, weight * choice.pick((0.3, 1.0, 1.0, 2.5))) for service, weight in SERVICES),
        join=choice.pick((0.4, 0.65, 0.65, 0.9)),
        leave=choice.pick((0.1, 0.3, 0.6)),
        disconnect=choice.pick((0.1, 0.3, 0.5)),
        near_fault=choice.pick((0.15, 0.4, 0.6)),
        big_bundles=choice.pick((0.5, 1.0, 2.0)),
    )


@dataclass
class Drawing:
    """A workload while it is drawn."""

    choice: Choice
    mood: Mood
    topology: Topology
    faults: Sequence[Fault]
    scale: Scale
    sessions: list[Session] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


More = Callable[[Drawing], None]
"""Adds steps to a workload that is drawn; it draws from a stream of its own."""


def draw_workload(
    choice: Choice, topology: Topology, faults: Sequence[Fault], scale: Scale, more: Sequence[More] = ()
) -> tuple[Step, ...]:
    """The steps of a run in the order of time, with at least ``scale.sends_min`` sends while faults happen."""
    drawing = Drawing(choice, draw_mood(choice.derive("mood")), topology, faults, scale)
    for node in topology.nodes:
        for client in node.clients:
            _draw_sessions(drawing, node.name, client)
    _draw_sends(drawing)
    _draw_closing(drawing)
    for add in more:
        add(drawing)
    drawing.steps.sort(key=lambda step: step.at)
    return tuple(drawing.steps)


# --- sessions ------------------------------------------------------------------------------------------------------


def _draw_sessions(drawing: Drawing, node: str, client: str) -> None:
    choice = drawing.choice
    for born, died in _lives(drawing.faults, node, client, drawing.scale.faults_end_us):
        late = 700 if choice.chance(0.15) else 40
        start = born + choice.between(0, late * MILLISECOND)
        while start < died:
            end = died
            if choice.chance(drawing.mood.disconnect):
                end = start + choice.between(200 * MILLISECOND, 3_000 * MILLISECOND)
                # Who would be gone at the end mostly stays: liveness is about those who are there.
                end = died if end + 200 * MILLISECOND > died and choice.chance(0.9) else min(end, died)
            _draw_session(drawing, node, client, start, end, breaks_off=end == died)
            start = end + choice.between(5 * MILLISECOND, 400 * MILLISECOND)


def _lives(faults: Sequence[Fault], node: str, client: str, end: int) -> list[tuple[int, int]]:
    """The stretches of time in which the client could stay connected: from a start or a kill to a crash or a kill."""
    lives, born = [], 0
    up = True
    for fault in faults:
        match fault:
            case Crash(node=name) if name == node and up:
                lives.append((born, fault.at))
                up = False
            case Restart(node=name) if name == node and not up:
                born, up = fault.at, True
            case KillClient(node=name, client=killed) if name == node and killed == client and up:
                lives.append((born, fault.at))
                born = fault.at
    return [*lives, (born, end + 1)] if up else lives


def _draw_session(drawing: Drawing, node: str, client: str, start: int, end: int, *, breaks_off: bool) -> None:
    choice, steps = drawing.choice, drawing.steps
    groups = [group for group in drawing.topology.groups if choice.chance(drawing.mood.join)]
    if not groups and choice.chance(0.9):  # few sessions only send and never join
        groups = [choice.pick(drawing.topology.groups)]
    steps.append(ConnectStep(at=start, node=node, client=client))
    for group in groups:
        join = JoinStep(at=start + choice.between(0, 60 * MILLISECOND), node=node, client=client, group=group)
        steps.append(join)
        if choice.chance(drawing.mood.leave):
            steps += _draw_leave(choice, join, end)
    if not breaks_off:
        steps.append(DisconnectStep(at=end, node=node, client=client))
    drawing.sessions.append(Session(node, client, start, start + 10 * MILLISECOND, end, tuple(groups)))


def _draw_leave(choice: Choice, join: JoinStep, end: int) -> list[Step]:
    """Leave, and sometimes come back."""
    left = join.at + choice.between(1 * MILLISECOND, max(2 * MILLISECOND, end - join.at))
    steps: list[Step] = [LeaveStep(at=left, node=join.node, client=join.client, group=join.group)]
    if choice.chance(0.6):
        back = left + choice.between(1 * MILLISECOND, 300 * MILLISECOND)
        steps.append(msgspec.structs.replace(join, at=back))
    return steps


# --- sends ---------------------------------------------------------------------------------------------------------


def _draw_sends(drawing: Drawing) -> None:
    """A tenth more than needed, since a session may end before what it was to send."""
    choice, end = drawing.choice, drawing.scale.faults_end_us
    faults = [fault.at for fault in drawing.faults] or [end // 2]
    lasting = [session for session in drawing.sessions if session.ready < session.end]
    wanted = drawing.scale.sends_min * 11 // 10 if lasting else 0
    sent = 0
    while sent < wanted:
        at = choice.between(end // 50, end)
        if choice.chance(drawing.mood.near_fault):
            at = choice.pick(faults) + choice.between(-25 * MILLISECOND, 40 * MILLISECOND)
        online = [session for session in lasting if session.ready <= at < session.end]
        session = choice.pick(online or lasting)
        if not online:
            at = session.ready
        for _ in range(choice.pick((1, 1, 1, 2, 5))):
            drawing.steps.append(draw_send(drawing, session, at))
            sent += 1
            at += choice.between(0, 3 * MILLISECOND)


def draw_send(drawing: Drawing, session: Session, at: int) -> SendStep:
    """A bundle of this session, of any service, to any groups."""
    choice = drawing.choice
    return SendStep(
        at=at,
        node=session.node,
        client=session.client,
        service=choice.weighted(drawing.mood.services),
        groups=_destination(drawing, session),
        lengths=tuple(_length(choice) for _ in range(_count(choice, drawing.mood))),
    )


def _destination(drawing: Drawing, session: Session) -> tuple[str, ...]:
    """Mostly a group of one's own; also foreign ones, several at once, and private groups."""
    choice, topology = drawing.choice, drawing.topology
    kind = choice.weighted((("own", 6.0), ("any", 2.0), ("several", 1.5), ("private", 0.7), ("mixed", 0.4)))
    if kind == "own" and session.groups:
        return (choice.pick(session.groups),)
    if kind == "several" and len(topology.groups) > 1:
        return tuple(choice.sample(topology.groups, choice.between(2, min(3, len(topology.groups)))))
    other = choice.pick(drawing.sessions)
    private = f"#{other.client}#{other.node}"
    if kind == "private":
        return (private,)
    if kind == "mixed":
        return (private, choice.pick(topology.groups))
    return (choice.pick(topology.groups),)


def _count(choice: Choice, mood: Mood) -> int:
    low, high = choice.weighted((((1, 1), 7.0), ((2, 5), 2.5), ((6, 50), 0.5 * mood.big_bundles)))
    return choice.between(low, high)


def _length(choice: Choice) -> int:
    low, high = choice.weighted((((0, 0), 1.0), ((1, 64), 8.5), ((65, LENGTH_MAX), 0.5)))
    return choice.between(low, high)


def _draw_closing(drawing: Drawing) -> None:
    """After everything is healed each client that is there sends a little more: liveness is judged on that too."""
    end = drawing.scale.faults_end_us
    for session in [session for session in drawing.sessions if session.end > end]:
        for _ in range(2):
            at = end + drawing.choice.between(50 * MILLISECOND, 600 * MILLISECOND)
            drawing.steps.append(draw_send(drawing, session, at))
