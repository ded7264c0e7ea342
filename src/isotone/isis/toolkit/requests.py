"""Coordinator-cohort: an action asked of a group is carried out by one member, and by another one if that fails.

All members have the request in the same view and choose the same coordinator. It ends with one broadcast that has the
result and all changes; the answer goes out behind it, so an answer that is heard has its changes at all members that
live on. A caller repeats its request until it is answered; requests are known by their ids.

Implements: [ISIS 5.2]. Deviations: D-one-message (changes count when the action is done, so a cohort begins with the
state that the coordinator began with, and actions need not be deterministic).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from isotone.core.errors import LocalProtocolError
from isotone.isis.delivery import digest_of
from isotone.isis.names import name_of, site_of
from isotone.isis.toolkit.layer import CastWanted, Order, TellWanted, Viewed
from isotone.isis.toolkit.member import Member, Tool
from isotone.isis.toolkit.wire import Body, Done, Letter, Reply, Request, Settle, Staged, cut, encode
from isotone.trace.toolkit import ActionBegun, ActionDone

RESULTS_MAX = 10_000
"""Results that are kept for callers that have not settled them; the oldest by name go first."""
CALLERS_MAX = 10_000
"""Callers of which a group remembers what they have settled."""


class Performer(Protocol):
    """Carries actions out at their coordinator, and takes their changes over at every member."""

    def perform(self, id: str, caller: str, body: bytes) -> None:
        """Begin; `Requests.finish` ends it."""
        ...

    def change(self, id: str, changes: bytes, *, failed: bool) -> None:
        """An action is done."""
        ...


@dataclass
class Pending:
    """A request that is not done."""

    caller: str
    number: int
    body: bytes
    coordinator: str
    staged: dict[int, bytes] = field(default_factory=dict)


@dataclass
class Kept:
    """A result for a caller that may ask again."""

    caller: str
    number: int
    result: bytes
    failed: bool
    coordinator: str
    nested: dict[str, list[str]]


def coordinator_for(caller: str, members: tuple[str, ...], sites: tuple[str, ...]) -> str:
    """The member whose site is nearest to the caller's by its place among all sites; the older one of two."""
    places = {name: place for place, name in enumerate(sites)}
    home = places.get(name_of(site_of(caller)), 0)
    return min(
        members, key=lambda each: (abs(places.get(name_of(site_of(each)), len(sites)) - home), members.index(each))
    )


class Requests(Tool):
    """The requests of one group."""

    name = "requests"
    deeds = ("stage", "finish")
    takes = (Request, Staged, Done, Settle)

    def __init__(self, member: Member, sites: tuple[str, ...], performer: Performer) -> None:
        super().__init__(member)
        self.pending: dict[str, Pending] = {}
        self.results: dict[str, Kept] = {}
        self.settled: dict[str, int] = {}  # by caller: it has all answers up to here
        self._sites, self._performer = sites, performer
        self._staging: dict[str, int] = {}  # parts that were staged, by action that was begun here

    # --- state -----------------------------------------------------------------------------------------------------

    def state(self) -> Any:
        """All of it, sorted."""
        pending = [
            (id, each.caller, each.number, each.body, each.coordinator, sorted(each.staged.items()))
            for id, each in sorted(self.pending.items())
        ]
        results = [
            (id, each.caller, each.number, each.result, each.failed, each.coordinator, each.nested)
            for id, each in sorted(self.results.items())
        ]
        return [pending, results, sorted(self.settled.items())]

    def load(self, state: Any) -> None:
        """Of a snapshot."""
        pending, results, settled = state
        self.pending = {
            id: Pending(caller, number, body, coordinator, dict(staged))
            for id, caller, number, body, coordinator, staged in pending
        }
        self.results = {id: Kept(*rest) for id, *rest in results}
        self.settled = dict(settled)
        self._staging = {}

    def begin_anew(self) -> None:
        """Who has no answer yet asks again; who has one is not to be surprised."""
        self.pending = {}

    def steward_of(self, owner: str) -> str | None:
        """Who carries an action out now, if it is one that is not done."""
        return self.pending[owner].coordinator if owner in self.pending else None

    def resume(self) -> None:
        """Carry out what this member is the coordinator of."""
        for id in sorted(self.pending):
            if self.pending[id].coordinator == self.member.me:
                self._begin(id)

    # --- a request -------------------------------------------------------------------------------------------------

    def hear(self, sender: str, message: Body) -> None:
        """Of callers and coordinators."""
        match message:
            case Request():
                self._on_request(message)
            case Staged(id=id, place=place, data=data):
                if id in self.pending and self.pending[id].coordinator == sender:
                    self.pending[id].staged[place] = data
            case Done():
                self._on_done(sender, message)
            case Settle(ids=ids):
                for id in ids:
                    self.results.pop(id, None)

    def _on_request(self, request: Request) -> None:
        id, caller = request.id, request.caller
        if (kept := self.results.get(id)) is not None:
            kept.caller = caller
            if kept.coordinator == self.member.me:
                self._reply(id)
        elif id in self.pending:
            self.pending[id].caller = caller
        elif not 0 < request.number <= self.settled.get(caller, 0):
            chosen = coordinator_for(caller, self.member.applied.members, self._sites)
            self.pending[id] = Pending(caller, request.number, request.body, chosen)
            if chosen == self.member.me:
                self._begin(id)
        self._settle(caller, request.settled)

    def _settle(self, caller: str, settled: int) -> None:
        if settled > self.settled.get(caller, 0):
            self.settled[caller] = settled
            if len(self.settled) > CALLERS_MAX:
                del self.settled[min(self.settled)]
            for id in [id for id, each in self.results.items() if each.caller == caller]:
                if 0 < self.results[id].number <= settled:
                    del self.results[id]

    def _begin(self, id: str) -> None:
        if id in self._staging:
            return
        pending = self.pending[id]
        self._staging[id] = 0
        self.member.out.record(ActionBegun(self.member.me, self.member.group, id))
        self._performer.perform(id, pending.caller, pending.body)

    # --- its end ---------------------------------------------------------------------------------------------------

    def stage(self, id: str, data: bytes) -> None:
        """As its coordinator: changes that count when the action is done; others have them already then."""
        if self.steward_of(id) != self.member.me:
            raise LocalProtocolError(f"this process does not carry out {id}")
        for part in cut(data):
            self.member.cast(Order.CAUSAL, Staged(id, self._staging[id], part))
            self._staging[id] += 1

    def finish(
        self,
        id: str,
        result: bytes,
        changes: bytes,
        failed: bool = False,
        nested: dict[str, list[str]] | None = None,
    ) -> None:
        """As its coordinator: it is done."""
        if self.steward_of(id) != self.member.me:
            return  # another one carries it out by now
        *first, last = cut(changes)
        for part in first:
            self.stage(id, part)
        self.member.cast(Order.CAUSAL, Done(id, result, failed, self._staging[id], last, nested or {}))

    def _on_done(self, sender: str, done: Done) -> None:
        pending = self.pending.get(done.id)
        if pending is None or pending.coordinator != sender:
            return
        changes = b"".join(pending.staged[place] for place in range(done.staged)) + done.data
        del self.pending[done.id]
        self.results[done.id] = Kept(pending.caller, pending.number, done.result, done.failed, sender, done.nested)
        self._staging.pop(done.id, None)
        member = self.member
        member.out.record(ActionDone(member.me, member.group, done.id, digest_of(done.result)))
        self._performer.change(done.id, changes, failed=done.failed)
        if sender == member.me:
            self._close(done.id)
        if 0 < pending.number <= self.settled.get(pending.caller, 0):
            del self.results[done.id]
        while len(self.results) > RESULTS_MAX:
            del self.results[min(self.results)]

    def _close(self, id: str) -> None:
        """Answer; before that let others forget what was asked of them, so that nobody who comes later has to."""
        out = self.member.out
        for group, ids in sorted(self.results[id].nested.items()):
            out.asked.append(CastWanted(out.at, group, Order.CAUSAL, encode(Settle(tuple(ids)))))
        self._reply(id)

    def _reply(self, id: str) -> None:
        kept, out = self.results[id], self.member.out
        letter = Letter("", Reply(id, kept.result, kept.failed))
        out.asked.append(TellWanted(out.at, kept.caller, encode(letter)))

    # --- failures --------------------------------------------------------------------------------------------------

    def on_view(self, view: Viewed) -> None:
        """Cohorts take over what coordinators that are gone had to do, answers included."""
        for id, pending in sorted(self.pending.items()):
            if pending.coordinator not in view.members:
                pending.coordinator = coordinator_for(pending.caller, view.members, self._sites)
                pending.staged = {}
                if pending.coordinator == self.member.me:
                    self._begin(id)
        for id, kept in sorted(self.results.items()):
            if kept.coordinator not in view.members:
                kept.coordinator = coordinator_for(kept.caller, view.members, self._sites)
                if kept.coordinator == self.member.me:
                    self._close(id)
