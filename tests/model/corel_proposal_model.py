"""Order proposals beside primary components, as small as it goes: three servers, two messages, and all their orders.

a has one message and is the source; c has one, older by its timestamp. A quorum is whoever has both a and c, so pairs
with b spread proposals and order nothing. f takes part and is not asked: a learner, or a server that was removed. One
step is one view and how far its course came at which of its servers, or that a proposes. What a server says, and
whether a proposal stands, is asked of `isotone.corel.proposal`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations

import msgspec
from msgspec.structs import replace

from isotone.corel import proposal as proposals
from isotone.corel.configuration import Configuration
from isotone.corel.message import Message, Origin
from isotone.corel.proposal import Level, Proposal, Vote, merged_proposal
from isotone.corel.queue import MessageQueue

NAMES = ("a", "b", "c")
PARTICIPANT = "f"
CONFIGURATION = Configuration(0, NAMES, b"")
FIRST = {"a": Message(Origin("a", 1), 1, 2, (b"a",)), "c": Message(Origin("c", 1), 1, 1, (b"c",))}
MESSAGES = {message.name: message for message in FIRST.values()}
Name = tuple[Origin, int]


class Server(msgspec.Struct, frozen=True, cache_hash=True):
    """Durable variables."""

    name: str
    queue: tuple[Name, ...]
    green: int = 0
    yellow: int = 0
    committed: int = 0
    attempted: int = 0
    applied: int = 0
    proposal: Proposal | None = None

    @property
    def level(self) -> Level:
        return self.committed, self.applied

    def messages(self) -> MessageQueue:
        """As a replica has them."""
        queue = MessageQueue(held=[MESSAGES[name] for name in self.queue], counters=dict(self.queue))
        queue.green, queue.yellow, queue.configuration = self.green, self.yellow, CONFIGURATION
        return queue


class State(msgspec.Struct, frozen=True):
    """All servers, and the longest green order that anybody had."""

    servers: tuple[Server, ...]
    order: tuple[Name, ...] = ()


Members = tuple[Server, ...]


def founded() -> Iterator[State]:
    """No primary yet; a and c have their own messages."""
    yield State(tuple(Server(name, (FIRST[name].name,) if name in FIRST else ()) for name in NAMES))


def lagging() -> Iterator[State]:
    """A primary of all, and of f, was broken off: f has less of its order yellow than the servers."""
    order = tuple(MESSAGES)
    servers = [Server(name, order, 0, len(order), 1, 1) for name in NAMES]
    for end in range(len(order)):
        yield State((*servers, Server(PARTICIPANT, order[:end], 0, end, 1, 1)))


def ahead() -> Iterator[State]:
    """A primary of all, and of f, was broken off: all have its order yellow, and f alone knows that it is green."""
    order = tuple(MESSAGES)
    servers = [Server(name, order, 0, len(order), 1, 1) for name in NAMES]
    yield State((*servers, Server(PARTICIPANT, order, len(order), len(order), 1, 1)), order)


@cache
def vote(server: Server) -> Vote:
    """As the server itself would say."""
    assert server.proposal is not None
    return proposals.vote_on(server.proposal, server.messages(), server.level)


@cache
def stands(server: Server) -> bool:
    """Whether it can be ordered as proposed, here and now."""
    return server.proposal is not None and proposals.stands(server.proposal, server.messages(), server.level)


def is_asked(server: Server) -> bool:
    """Whether its vote counts."""
    return server.proposal is not None and proposals.is_asked(server.name, server.proposal, CONFIGURATION)


class ProposalModel:
    """Explores all runs up to so many primaries and proposals."""

    def __init__(
        self,
        number_max: int,
        proposals_max: int,
        *,
        asks: bool = True,
        waits: bool = True,
        cuts: bool = True,
        lazy: bool = False,
        decides: bool = True,
        covers: bool = True,
    ) -> None:
        self.number_max, self.proposals_max = number_max, proposals_max
        self.cuts = cuts  # a view may end in the middle of a recovery too
        self.asks = asks  # a primary asks its members for their votes
        self.waits = waits  # the source waits for the outcome
        self.lazy = lazy  # a server may vote in a later view, as one does that is set to be silent for a while
        self.covers = covers  # all that is yellow at the source is in its proposal
        self.decides = decides  # who has not voted when it attempts a primary rejects
        self._courses: dict[Members, list[Members]] = {}

    def explore(self, starts: Callable[[], Iterator[State]] = founded) -> tuple[int, str]:
        """How many states can be reached, and the first that must not be, in words."""
        frontier = deque(starts())
        seen = set(frontier)
        while frontier:
            for following in self._following(frontier.popleft()):
                known, wrong = _with_order(following)
                if wrong:
                    return len(seen), wrong
                if known not in seen:
                    seen.add(known)
                    frontier.append(known)
        return len(seen), ""

    def _following(self, state: State) -> Iterator[State]:
        for members in _parts(state.servers):
            for became in self._course(members):
                changed = {server.name: server for server in became}
                yield State(tuple(changed.get(each.name, each) for each in state.servers), state.order)

    def _course(self, members: Members) -> list[Members]:
        """What may become of these in one view: nobody else has part in it."""
        if members not in self._courses:
            self._courses[members] = list(dict.fromkeys(self._steps(members)))
        return self._courses[members]

    def _steps(self, members: Members) -> Iterator[Members]:
        if members[0].name == "a" and len(members) == 1:
            yield from self._proposed(members[0])
        recovered = tuple(_recovered(members, server) for server in members)
        yield from self._voted_on(tuple(map(_voted, recovered)))
        if self.lazy:
            for silent in _parts(recovered):
                yield from self._voted_on(_changed(recovered, tuple(set(recovered) - set(silent)), _voted))

    def _voted_on(self, recovered: Members) -> Iterator[Members]:
        yield recovered
        if self.cuts:
            yield from ((server,) for server in recovered)
        yield from self._primary(recovered) if {"a", "c"} <= _names(recovered) else self._spread(recovered)

    def _proposed(self, source: Server) -> Iterator[Members]:
        last, number = source.proposal, source.proposal.number + 1 if source.proposal else 1
        decided = last is None or last.rejected or last.committed < source.committed or last.number <= source.applied
        open_ones = source.queue[source.green :][: None if self.covers else 1]
        if number <= self.proposals_max and open_ones and (decided or not self.waits):
            yellow = min(source.yellow - source.green, len(open_ones))
            made = Proposal(number, 0, source.committed, source.applied, source.green, yellow, open_ones, ("a",))
            yield (replace(source, proposal=made),)

    def _spread(self, members: Members) -> Iterator[Members]:
        """All say their votes; whoever knows that all servers accepted applies."""
        known = None
        for server in members:
            known = merged_proposal(known, server.proposal)
        told = tuple(replace(server, proposal=known) for server in members)
        yield told
        if known is not None and known.is_accepted(NAMES):
            for place in range(len(told)):
                yield (*told[:place], _applied(told[place]), *told[place + 1 :])
            yield tuple(map(_applied, told))

    def _primary(self, members: Members) -> Iterator[Members]:
        number = max(server.attempted for server in members) + 1
        if number > self.number_max:
            return
        decided = map(_decided, members) if self.decides else members
        attempted = tuple(replace(server, attempted=number) for server in decided)
        yield attempted
        accepts = self.asks and all(map(_agrees, attempted))

        def commit(server: Server) -> Server:
            queue = _reordered(server, server.proposal) if accepts and server.proposal else server.queue
            return replace(server, queue=queue, yellow=len(queue), committed=number, applied=0)

        for part in _parts(attempted):
            yield _changed(attempted, part, commit)
        committed = tuple(map(commit, attempted))
        for part in _parts(committed):
            yield _changed(committed, part, lambda server: replace(server, green=len(server.queue)))


def _names(members: Members) -> set[str]:
    return {server.name for server in members}


def _parts(members: Members) -> Iterator[Members]:
    for size in range(1, len(members) + 1):
        yield from combinations(members, size)


def _changed(members: Members, part: Members, change: Callable[[Server], Server]) -> Members:
    return tuple(change(server) if server in part else server for server in members)


def _recovered(members: Members, server: Server) -> Server:
    """Steps 1 to 7, and what is known of proposals [COReL 7.1.4]."""
    level = max(each.level for each in members)
    representatives = [each for each in members if each.level == level]
    green = max(each.green for each in members)
    yellow = min(each.yellow for each in representatives)
    prefix = representatives[0].queue[:yellow]
    rest = {name for each in members for name in each.queue} - set(prefix)
    queue = (*prefix, *sorted(rest, key=lambda name: MESSAGES[name].stamp))
    assert green <= yellow, "a representative lacks what is green somewhere"
    server = replace(server, queue=queue, green=green, yellow=yellow, committed=level[0], applied=level[1])
    for each in members:
        server = _learned(server, each.proposal)
    return server


def _learned(server: Server, told: Proposal | None) -> Server:
    known, merged = server.proposal, merged_proposal(server.proposal, told)
    if known is not None and merged is not None and merged.number > known.number == merged.applied > server.applied:
        server = _applied(server)
    return replace(server, proposal=merged)


def _voted(server: Server) -> Server:
    """A vote is given once; who does not know enough gives none."""
    known, name = server.proposal, server.name
    if known is None or not is_asked(server) or name in (*known.accepted, *known.rejected):
        return server
    said = vote(server)
    if said is Vote.LATER:
        return server
    voted = known.with_votes((name,), ()) if said is Vote.ACCEPT else known.with_votes((), (name,))
    return replace(server, proposal=voted)


def _decided(server: Server) -> Server:
    """Who is asked and did not vote rejects."""
    known = server.proposal
    if known is None or not is_asked(server) or server.name in (*known.accepted, *known.rejected):
        return server
    return replace(server, proposal=known.with_votes((), (server.name,)))


def _agrees(server: Server) -> bool:
    known = server.proposal
    return known is not None and stands(server) and (server.name in known.accepted or not is_asked(server))


def _reordered(server: Server, made: Proposal) -> tuple[Name, ...]:
    if server.green >= made.end:
        return server.queue
    order = (*server.queue[: server.green], *made.names[server.green - made.after :])
    rest = sorted(set(server.queue) - set(order), key=lambda name: MESSAGES[name].stamp)
    return (*order, *rest)


def _applied(server: Server) -> Server:
    made = server.proposal
    if made is None or not stands(server):
        return server
    end = max(server.green, made.end)
    return replace(server, queue=_reordered(server, made), green=end, yellow=end, applied=made.number)


def _with_order(state: State) -> tuple[State, str]:
    """The longest green order; all others must be a beginning of it."""
    order = max([state.order, *(each.queue[: each.green] for each in state.servers)], key=len)
    for server in state.servers:
        green = server.queue[: server.green]
        if order[: len(green)] != green or order[: len(state.order)] != state.order:
            return state, f"{server.name} has {green} green, and {order} was green elsewhere"
    return State(state.servers, order), ""
