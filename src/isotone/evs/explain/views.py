"""Why is there no new view? Where the membership stands, whom it waits for, what happens next and when."""

from __future__ import annotations

from isotone.evs.explain import inside
from isotone.evs.explain.answers import Blocker, ViewAnswer, Wait
from isotone.evs.explain.words import listed, silence_of, span
from isotone.evs.groups import State as GroupsState
from isotone.evs.membership.states import Standing, State
from isotone.evs.stack import Stack


def why_no_view(stack: Stack, at: int) -> ViewAnswer:
    """What keeps this daemon from the next view, be it a daemon view or the views of its groups."""
    standing, node = stack.membership.standing(at), inside.node_of(stack)
    network = node.network
    working = network is not None and network.installed
    waiting = _waiting(stack, standing, at)
    step, step_at = _next(stack, standing)
    members = tuple(member.name for member in node.past.members)
    missing = tuple(daemon.name for daemon in stack.groups.missing())
    held = inside.penalties(node, at)
    parts = [
        f"{stack.me} is {standing.state.value} for {span(at - standing.since)}, because {standing.reason.value}"
        + (f" ({node.culprit})" if node.culprit else ""),
        f"daemon view {standing.view} of {listed(members)} {_age(stack, at)}",
        *(each.text for each in waiting),
        *_groups_text(stack),
        *(f"{each.daemon} is under a penalty for {span(each.until - at)}" for each in held),
        step if step_at is None else f"{step} in {span(step_at - at)} at the latest",
    ]
    return ViewAnswer(
        text="; ".join(parts),
        state=standing.state.name,
        reason=standing.reason.name,
        culprit=node.culprit,
        since=standing.since,
        ended_at=None if working else node.ended_at,
        daemon_view=str(standing.view),
        members=members,
        is_working=working,
        forming="" if standing.forming is None else str(standing.forming),
        waiting_for=tuple(waiting),
        next_step=step,
        next_at=step_at,
        penalties=held,
        groups_state=stack.groups.state.name,
        groups_missing=missing,
    )


def view_blocker(stack: Stack, at: int) -> Blocker:
    """That there is no daemon view, as something that a message waits for."""
    answer = why_no_view(stack, at)
    daemons = tuple(name for each in answer.waiting_for for name in each.daemons)
    return Blocker(
        wait=Wait.DAEMON_VIEW,
        text=f"no daemon view takes it yet: {answer.text}",
        daemons=daemons,
        since=answer.since if answer.ended_at is None else answer.ended_at,
        until=answer.next_at,
    )


def _age(stack: Stack, at: int) -> str:
    node = inside.node_of(stack)
    if inside.installed(stack) is not None:
        return "works"
    return "is over" if node.ended_at is None else f"is over for {span(at - node.ended_at)}"


# --- whom ----------------------------------------------------------------------------------------------------------


def _waiting(stack: Stack, standing: Standing, at: int) -> list[Blocker]:
    node = inside.node_of(stack)
    blockers = []
    for name in standing.waiting_for:
        silence, until = ("it is this daemon", None) if name == node.me.name else silence_of(node, name, at)
        text = f"{name}: {standing.waiting_text} ({silence})"
        blockers.append(Blocker(wait=Wait.DAEMON, text=text, daemons=(name,), since=standing.since, until=until))
    if standing.state is State.EVS:
        blockers += _recovering(stack)
    if standing.state is State.GATHER:
        blockers += _blocked(stack)
    return blockers


def _recovering(stack: Stack) -> list[Blocker]:
    lacking, to_send, done = inside.recovery_lacking(stack.membership.recovering)
    if done or not (lacking or to_send):
        return []
    text = f"{lacking} units of the last daemon view have yet to come, {to_send} have yet to be sent again"
    return [Blocker(wait=Wait.SEQUENCE, text=text)]


def _blocked(stack: Stack) -> list[Blocker]:
    """Those who would follow and are cut off from somebody who is taken."""
    taken, names = inside.gathered(stack.membership.gather)
    if not names:
        return []
    text = f"{listed(names)} would come, but not everybody of {listed(taken)}, who are taken, and they reach each other"
    return [Blocker(wait=Wait.DAEMON, text=text, daemons=names)]


def _groups_text(stack: Stack) -> list[str]:
    groups = stack.groups
    if groups.state is GroupsState.GOP:
        return []
    text = f"groups are {groups.state.value}, because {groups.reason.value}"
    missing = listed(str(daemon) for daemon in groups.missing())
    return [f"{text}; the GROUPS of {missing} are missing" if groups.missing() else text]


# --- what happens next ---------------------------------------------------------------------------------------------


def _next(stack: Stack, standing: Standing) -> tuple[str, int | None]:
    """The next thing that this daemon does if nothing comes, and when at the latest."""
    node = inside.node_of(stack)
    match standing.state:
        case State.SEG:
            return "the smallest of the site gathers, the others follow it", node.ends_at
        case State.REP:
            return "without a word of its representative it looks around again", node.ends_at
        case State.GATHER:
            taken = listed(inside.gathered(stack.membership.gather)[0])
            return f"the gathering ends, as it stands with a daemon view of {taken}", inside.gather_limit(stack)
        case State.STATETRANS | State.EVS:
            return "if nothing more comes, this attempt is given up", node.ends_at
        case State.OP:
            head = node.past.members[0]
            if head != node.me:
                return f"its representative {head} looks for others", None
            return "it looks for others", node.looks_at
