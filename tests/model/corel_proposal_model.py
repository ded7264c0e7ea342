"""Order proposals beside primary components, as small as it goes: three servers, two messages, and all their orders.

a has one message and is the source; c has one, older by its timestamp. A quorum is whoever has both a and c, so pairs
with b spread proposals and order nothing. One step is one view and how far its course came at which of its servers, or
that a proposes. Votes are those of `isotone.corel.proposal`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations

import msgspec

from isotone.corel import proposal as proposals
from isotone.corel.message import Message, Origin
from isotone.corel.proposal import Proposal, Vote, merged_proposal
from isotone.corel.queue import MessageQueue

NAMES = ("a", "b", "c")
FIRST = {"a": Message(Origin("a", 1), 1, 2, (b"a",)), "c": Message(Origin("c", 1), 1, 1, (b"c",))}
MESSAGES = {message.name: message for message in FIRST.values()}
Name = tuple[Origin, int]


class Server(msgspec.Struct, frozen=True):
    """Durable variables."""

    name: str
    queue: tuple[Name, ...]
    green: int = 0
    yellow: int = 0
    committed: int = 0
    attempted: int = 0
    applied: int = 0
    proposal: Proposal | None = None


class State(msgspec.Struct, frozen=True):
    """All servers, and the longest green order that anybody had."""

    servers: tuple[Server, ...]
    order: tuple[Name, ...] = ()


Change = Callable[[Server], Server]
VIEWS = ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2))


@cache
def vote(server: Server) -> Vote:
    """As the server itself would say."""
    queue = MessageQueue(held=[MESSAGES[name] for name in server.queue], counters=dict(server.queue))
    queue.green, queue.yellow = server.green, server.yellow
    assert server.proposal is not None
    return proposals.vote_on(server.proposal, queue, server.committed)


class ProposalModel:
    """Explores all runs up to so many primaries and proposals."""

    def __init__(self, number_max: int, proposals_max: int, *, asks: bool = True, waits: bool = True) -> None:
        self.number_max, self.proposals_max = number_max, proposals_max
        self.asks = asks  # a primary asks its members for their votes
        self.waits = waits  # the source waits for the outcome

    def explore(self) -> tuple[int, str]:
        """How many states can be reached, and the first that must not be, in words."""
        start = State(tuple(Server(name, (FIRST[name].name,) if name in FIRST else ()) for name in NAMES))
        seen, frontier = {start}, [start]
        while frontier:
            for following in self._following(frontier.pop()):
                known, wrong = _with_order(following)
                if wrong:
                    return len(seen), wrong
                if known not in seen:
                    seen.add(known)
                    frontier.append(known)
        return len(seen), ""

    def _following(self, state: State) -> Iterator[State]:
        yield from self._proposed(state)
        for members in VIEWS:
            recovered = {place: _voted(_recovered(state, members, place)) for place in members}
            for place in members:
                yield _put(state, {place: recovered[place]})
            yield from self._together(_put(state, recovered), members)

    def _together(self, state: State, members: tuple[int, ...]) -> Iterator[State]:
        return self._primary(state, members) if {0, 2} <= set(members) else self._spread(state, members)

    def _proposed(self, state: State) -> Iterator[State]:
        source = state.servers[0]
        last, number = source.proposal, source.proposal.number + 1 if source.proposal else 1
        decided = last is None or last.rejected or last.committed < source.committed or last.number <= source.applied
        open_ones = source.queue[source.green :]
        if number <= self.proposals_max and open_ones and (decided or not self.waits):
            yellow = source.yellow - source.green
            made = Proposal(number, 0, source.committed, source.applied, source.green, yellow, open_ones, ("a",))
            yield _put(state, {0: msgspec.structs.replace(source, proposal=made)})

    def _spread(self, state: State, members: tuple[int, ...]) -> Iterator[State]:
        """All say their votes; whoever knows that all servers accepted applies."""
        known = None
        for place in members:
            known = merged_proposal(known, state.servers[place].proposal)
        told = _changed(state, members, lambda server: msgspec.structs.replace(server, proposal=known))
        yield told
        if known is not None and known.is_accepted(NAMES):
            for place in members:
                yield _changed(told, (place,), _applied)
            yield _changed(told, members, _applied)

    def _primary(self, state: State, members: tuple[int, ...]) -> Iterator[State]:
        number = max(state.servers[place].attempted for place in members) + 1
        if number > self.number_max:
            return
        attempted = _changed(state, members, lambda server: msgspec.structs.replace(server, attempted=number))
        yield attempted
        accepts = self.asks and all(_accepts(attempted.servers[place]) for place in members)

        def commit(server: Server) -> Server:
            queue = _reordered(server, server.proposal) if accepts and server.proposal else server.queue
            return msgspec.structs.replace(server, queue=queue, yellow=len(queue), committed=number, applied=0)

        for part in _parts(members):
            yield _changed(attempted, part, commit)
        committed = _changed(attempted, members, commit)
        for part in _parts(members):
            yield _changed(committed, part, lambda server: msgspec.structs.replace(server, green=len(server.queue)))


def _parts(members: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for size in range(1, len(members) + 1):
        yield from combinations(members, size)


def _put(state: State, changed: dict[int, Server]) -> State:
    return State(tuple(changed.get(place, each) for place, each in enumerate(state.servers)), state.order)


def _changed(state: State, part: tuple[int, ...], change: Change) -> State:
    return _put(state, {place: change(state.servers[place]) for place in part})


def _recovered(state: State, members: tuple[int, ...], me: int) -> Server:
    """Steps 1 to 7, and what is known of proposals [COReL 7.1.4]."""
    told = [state.servers[place] for place in members]
    level = max((each.committed, each.applied) for each in told)
    representatives = [each for each in told if (each.committed, each.applied) == level]
    green = max(each.green for each in told)
    yellow = min(each.yellow for each in representatives)
    prefix = representatives[0].queue[:yellow]
    rest = {name for each in told for name in each.queue} - set(prefix)
    queue = (*prefix, *sorted(rest, key=lambda name: MESSAGES[name].stamp))
    assert green <= yellow, "a representative lacks what is green somewhere"
    server = msgspec.structs.replace(
        state.servers[me], queue=queue, green=green, yellow=yellow, committed=level[0], applied=level[1]
    )
    for each in told:
        server = _learned(server, each.proposal)
    return server


def _learned(server: Server, told: Proposal | None) -> Server:
    known, merged = server.proposal, merged_proposal(server.proposal, told)
    if known is not None and merged is not None and merged.number > known.number == merged.applied > server.applied:
        server = _applied(server)
    return msgspec.structs.replace(server, proposal=merged)


def _voted(server: Server) -> Server:
    """A vote is given once; who does not know enough gives none."""
    known, name = server.proposal, server.name
    if known is None or name in (*known.accepted, *known.rejected):
        return server
    said = vote(server)
    if said is Vote.LATER:
        return server
    voted = known.with_votes((name,), ()) if said is Vote.ACCEPT else known.with_votes((), (name,))
    return msgspec.structs.replace(server, proposal=voted)


def _accepts(server: Server) -> bool:
    known = server.proposal
    if known is None or known.number <= server.applied or known.rejected:
        return False
    return server.name in known.accepted and vote(server) is Vote.ACCEPT


def _reordered(server: Server, made: Proposal) -> tuple[Name, ...]:
    if server.green >= made.end:
        return server.queue
    order = (*server.queue[: server.green], *made.names[server.green - made.after :])
    rest = sorted(set(server.queue) - set(order), key=lambda name: MESSAGES[name].stamp)
    return (*order, *rest)


def _applied(server: Server) -> Server:
    made = server.proposal
    if made is None or not _accepts(server):
        return server
    end = max(server.green, made.end)
    return msgspec.structs.replace(server, queue=_reordered(server, made), green=end, yellow=end, applied=made.number)


def _with_order(state: State) -> tuple[State, str]:
    """The longest green order; all others must be a beginning of it."""
    order = max([state.order, *(each.queue[: each.green] for each in state.servers)], key=len)
    for name, server in zip(NAMES, state.servers, strict=True):
        green = server.queue[: server.green]
        if order[: len(green)] != green or order[: len(state.order)] != state.order:
            return state, f"{name} has {green} green, and {order} was green elsewhere"
    return State(state.servers, order), ""
