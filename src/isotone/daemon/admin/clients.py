"""The clients and the groups of one daemon, as they are told to operators: bounded lists with their totals.

The one module of administration that knows how sessions keep what they keep. Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from isotone.core.ids import ClientId
from isotone.core.patterns import Patterns
from isotone.evs.groups.roster import Group
from isotone.evs.sessions.server_session import ServerSession
from isotone.evs.stack import Stack

LISTED_MAX = 1_000
MEMBERS_MAX = 1_000
GROUPS_MAX = 20


class ClientStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One client: its session, or one without (of Spread, or in the daemon's own process), where most is 0."""

    name: str
    id: str
    kind: str
    """``session``; ``spread``; or ``inside``, of programs with an embedded daemon."""
    state: str
    principal: str = ""
    connected: bool = True
    """Whether it has a stream; without one it may come back for a while."""
    groups: int = 0
    held_bytes: int = 0
    """What it was told and has not acknowledged."""
    held_bytes_max: int = 0
    waiting_requests: int = 0
    blocks: bool = False
    """Senders wait for this reader."""
    blocks_us: int = 0
    """So long they have waited."""
    blocked_groups: tuple[str, ...] = ()
    """To which they wait to send, the first `GROUPS_MAX`."""


class GroupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One group as this daemon knows it."""

    name: str
    view: str
    members: tuple[str, ...]
    members_total: int
    local: int
    """Members here that are told."""
    in_transition: bool
    """Signalled, and no new view yet."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """Some of so many."""

    total: int
    groups: tuple[GroupStatus, ...] = ()
    clients: tuple[ClientStatus, ...] = ()


def groups_of(stack: Stack, pattern: str = "*", limit: int = LISTED_MAX) -> Listed:
    """The groups whose names match, by name."""
    by_name = stack.groups.roster.by_name
    wanted = Patterns([pattern])
    names = sorted(name for name in by_name if wanted.match(name))
    return Listed(total=len(names), groups=tuple(_group(by_name[name]) for name in names[: min(limit, LISTED_MAX)]))


def clients_of(stack: Stack, at: int, limit: int = LISTED_MAX, spread: Collection[ClientId] = ()) -> Listed:
    """The clients of this daemon: those who hold most first, then by name. ``spread`` are those of Spread."""
    sessions = () if stack.sessions is None else stack.sessions.all
    limit = min(limit, LISTED_MAX)
    told = sorted(sessions, key=lambda each: (-each.backlog.held_bytes, each.client))[:limit]
    known = {session.client for session in sessions}
    inside = sorted(client for client in stack.groups.roster.open.values() if client not in known)
    found = [*(_session(stack, each, at) for each in told), *(_inside(stack, each, spread) for each in inside)]
    return Listed(total=len(sessions) + len(inside), clients=tuple(found[:limit]))


def _session(stack: Stack, session: ServerSession, at: int) -> ClientStatus:
    assert stack.sessions is not None
    return ClientStatus(
        name=session.client.name,
        id=str(session.client),
        kind="session",
        state=session.state.name.lower(),
        principal=session.principal,
        connected=session.stream is not None,
        groups=len(session.groups),
        held_bytes=session.backlog.held_bytes,
        held_bytes_max=stack.sessions.settings.buffer_bytes_max,
        waiting_requests=len(session.inbox),
        blocks=session.blocks,
        blocks_us=at - session.blocks_since if session.blocks else 0,
        blocked_groups=tuple(sorted(session.groups)[:GROUPS_MAX]) if session.blocks else (),
    )


def _inside(stack: Stack, client: ClientId, spread: Collection[ClientId]) -> ClientStatus:
    is_spread = client in spread
    return ClientStatus(
        name=client.name,
        id=str(client),
        kind="spread" if is_spread else "inside",
        state="open",
        principal=f"spread/{client.name}" if is_spread else "",
        groups=len(stack.groups.roster.groups_of(client)),
    )


def _group(group: Group) -> GroupStatus:
    members = tuple(str(member) for member in group.members[:MEMBERS_MAX])
    return GroupStatus(
        name=group.name,
        view=str(group.id),
        members=members,
        members_total=len(group.members),
        local=len(group.local),
        in_transition=group.marked,
    )
