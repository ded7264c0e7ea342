"""Broadcasts of a site's processes: addressed by the view of the group, begun, held, or tried again.

A site with a member knows the view; while the group grows, its broadcasts wait. Others keep a cached view: what is
rejected is sent again to the updated destinations, once everything sent with the old ones is accepted or rejected.

Implements: [ISIS 3.4] to [ISIS 3.6], [ISIS 4.5], [ISIS 4.1] the monitoring of processes that owe a reply.
Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.isis.abcast import Abcasts
from isotone.isis.cbcast import Cbcasts
from isotone.isis.delivery import digest_of
from isotone.isis.events import AnswerHeard, BroadcastDone, BroadcastWanted, CallOpened, FlushDone, Primitive
from isotone.isis.gbcast import Gbcasts
from isotone.isis.incarnation import Site
from isotone.isis.names import site_of, sites_of
from isotone.isis.settings import BACKLOG_MAX, POOL_MAX, TRIES_MAX, WAITING_MAX
from isotone.isis.wire import (
    AbcastStart,
    Answer,
    Causal,
    GbcastCommit,
    GbcastStart,
    GroupView,
    Kind,
    Label,
    Verdict,
    WhereAsked,
)
from isotone.trace.isis import BroadcastBegun


@dataclass
class Outside:
    """What this site sends to one group from outside."""

    view: GroupView | None = None  # the cache
    open: dict[str, tuple[BroadcastWanted, set[str]]] = field(default_factory=dict)  # by id: sites without a verdict
    rejected: list[BroadcastWanted] = field(default_factory=list)
    newer: GroupView | None = None  # by which they were rejected
    asking: bool = False  # the oldest site, for the view
    tries: int = 0  # GBCASTs that met no member, one after the other


@dataclass
class Sending:
    """The broadcasts that processes of this site want."""

    site: Site
    abcasts: Abcasts
    cbcasts: Cbcasts
    gbcasts: Gbcasts
    waiting: list[BroadcastWanted] = field(default_factory=list)
    outside: dict[str, Outside] = field(default_factory=dict)
    calls: dict[str, tuple[int, set[str]]] = field(default_factory=dict)  # by id: the token, and who owes a reply
    users: dict[str, BroadcastWanted] = field(default_factory=dict)  # GBCASTs under way, by id
    flushes: list[tuple[int, set[str]]] = field(default_factory=list)  # tokens, and ids that are not sent yet

    # --- begin -----------------------------------------------------------------------------------------------------

    def want(self, wanted: BroadcastWanted) -> None:
        """Send now, or when the view of the group is known and not locked; refuse where too much waits."""
        full = self.site.channels.backlog >= BACKLOG_MAX or len(self.cbcasts.buffer) >= POOL_MAX
        if full or max(len(self.waiting), len(self.abcasts.departures.waiting)) >= WAITING_MAX:
            self._refuse(wanted, "too much is under way: try again when some of it is delivered")
            return
        self.waiting.append(wanted)
        self.release()

    def release(self) -> None:
        """Begin all that need not wait, in its order for each group."""
        waiting, self.waiting = self.waiting, []
        stuck: set[str] = set()
        for wanted in waiting:
            group = wanted.group
            if group in stuck or group in self.site.locked or (wanted.causal and self.abcasts.awaits_causal()):
                stuck.add(group)
                self.waiting.append(wanted)
            elif group in self.site.groups:
                self._begin(wanted, self.site.groups[group])
            elif not self._from_outside(wanted):
                stuck.add(group)
                self.waiting.append(wanted)

    def _from_outside(self, wanted: BroadcastWanted) -> bool:
        """By the cache; False: it must wait for that."""
        outside = self.outside.setdefault(wanted.group, Outside())
        if outside.rejected:
            return False
        if outside.view is None:
            if not outside.asking:
                outside.asking = True
                self.site.send(self.site.home, WhereAsked(wanted.group))
            return False
        if not self.site.alive(sites_of(outside.view.members)):
            outside.view = None
            self._refuse(wanted, f"group {wanted.group} has no members")
        elif wanted.primitive is Primitive.GBCAST:
            self._begin(wanted, outside.view, outside=True)
        else:
            id = self._begin(wanted, outside.view, outside=True)
            outside.open[id] = (wanted, set(self.site.alive(sites_of(outside.view.members))))
        return True

    def _refuse(self, wanted: BroadcastWanted, problem: str) -> None:
        if wanted.token:
            self.site.out.append(BroadcastDone(wanted.token, problem=problem))

    def _begin(self, wanted: BroadcastWanted, view: GroupView, *, outside: bool = False) -> str:
        id = self.site.next_id()
        label = self._label(wanted, id)
        self.site.record(
            BroadcastBegun(
                wanted.process,
                id,
                wanted.primitive.value,
                wanted.group,
                label.chain if wanted.primitive is Primitive.CBCAST else wanted.label,
                label.number,
                view.members,
                digest_of(wanted.body),
                wanted.uniform,
                outside,
                wanted.causal,
            )
        )
        if wanted.call:
            self.calls[id] = (wanted.token, set(view.members))
            self.site.out.append(CallOpened(wanted.token, view.members))
        elif wanted.token:
            self.site.out.append(BroadcastDone(wanted.token, id))
        call, sites = wanted.call, sites_of(view.members)
        origin, group, body = wanted.process, wanted.group, wanted.body
        match wanted.primitive:
            case Primitive.ABCAST:
                floor = self._floor() if wanted.causal else 0
                start = AbcastStart(
                    id, origin, group, wanted.label, view.members, wanted.uniform, body, call, outside, floor
                )
                self.abcasts.begin(start)
            case Primitive.CBCAST:
                self.cbcasts.begin(Causal(id, origin, group, label, view.members, sites, body, call, outside))
            case Primitive.GBCAST:
                self.users[id] = wanted
                self.gbcasts.begin(GbcastStart(id, Kind.USER, group, origin, (), sites, body))
        return id

    def _label(self, wanted: BroadcastWanted, id: str) -> Label:
        if wanted.primitive is not Primitive.CBCAST:
            return Label(wanted.label, 0)
        if wanted.number < 0:
            return Label(id, 0)
        if wanted.number:
            self.site.clock = max(self.site.clock, wanted.number)
            return Label(wanted.label, wanted.number)
        self.site.clock += 1
        return Label(wanted.label, self.site.clock)

    def _floor(self) -> int:
        """Of a causal ABCAST: above all that it could be caused by."""
        return max(self.site.clock, self.site.highest, 1)

    def forget(self, process: str) -> None:
        """It ended: what it had not begun is never begun."""
        self.waiting = [each for each in self.waiting if each.process != process]
        for outside in self.outside.values():
            outside.rejected = [each for each in outside.rejected if each.process != process]
            for id, (wanted, _) in list(outside.open.items()):
                if wanted.process == process:
                    del outside.open[id]
        self.users = {id: each for id, each in self.users.items() if each.process != process}

    def on_finished(self, start: GbcastStart, commit: GbcastCommit) -> None:
        """A GBCAST of this site that met a member it did not know is tried again."""
        wanted = self.users.pop(start.id, None)
        if wanted is None or commit.view is not None:
            return
        if (outside := self.outside.get(start.group)) is not None and start.group not in self.site.groups:
            outside.tries += 1
            if outside.tries < TRIES_MAX:
                outside.rejected.append(wanted)
            else:  # sites that are listed, and members nowhere: nobody is there to hear it
                outside.tries = 0
        else:
            self.waiting.insert(0, wanted)

    # --- from outside ----------------------------------------------------------------------------------------------

    def on_where_told(self, view: GroupView) -> None:
        """The oldest site knows this much."""
        outside = self.outside.get(view.name)
        if outside is not None and outside.asking:
            outside.asking, outside.view = False, view

    def on_verdict(self, source: str, verdict: Verdict) -> None:
        """Accepted or rejected; one rejection is one of all."""
        for outside in self.outside.values():
            if verdict.id in outside.open:
                wanted, sites = outside.open[verdict.id]
                sites.discard(source)
                if not verdict.accepted and wanted not in outside.rejected:
                    outside.rejected.append(wanted)
                    self.calls.pop(verdict.id, None)
                    if outside.newer is None or outside.newer.number < verdict.view.number:
                        outside.newer = verdict.view
                if not verdict.accepted or not sites:
                    del outside.open[verdict.id]

    def _update_caches(self) -> None:
        """The flush before a cache changes: when nothing sent by the old one is open."""
        for group in sorted(self.outside):
            outside = self.outside[group]
            if outside.rejected and not outside.open:
                self.waiting = [*outside.rejected, *self.waiting]
                outside.view, outside.newer, outside.rejected = outside.newer, None, []

    # --- what is waited for ----------------------------------------------------------------------------------------

    def flush(self, token: int) -> None:
        """Every message in the buffer, to all its destinations [ISIS 4.5]."""
        ids = set(self.cbcasts.unsent(self.site.view.members))
        self.cbcasts.schedule(sorted(ids))
        self.flushes.append((token, ids))

    def on_answer(self, source: str, answer: Answer) -> None:
        """Of a call; a failure reply never comes before a real one, for it stands behind it on the channel."""
        del source
        if answer.id in self.calls:
            self._heard(answer.id, answer.process, answer.body, failed=answer.failed)

    def _heard(self, id: str, process: str, body: bytes, *, failed: bool) -> None:
        token, owing = self.calls[id]
        if process in owing:
            owing.discard(process)
            self.site.out.append(AnswerHeard(token, process, body, failed))
        if not owing:
            del self.calls[id]

    def on_view(self) -> None:
        """Failure replies for the processes of failed sites; verdicts of the failed are not waited for."""
        for id in list(self.calls):
            for process in sorted(self.calls[id][1]):
                if not self.site.is_up(site_of(process)):
                    self._heard(id, process, b"", failed=True)
        for outside in self.outside.values():
            outside.asking = False
            for id, (_, sites) in list(outside.open.items()):
                sites.intersection_update(self.site.view.members)
                if not sites:
                    del outside.open[id]

    def advance(self) -> None:
        """What is due."""
        self._update_caches()
        if self.waiting:
            self.release()
        open_flushes = []
        for token, ids in self.flushes:
            unsent = {id for id in ids if id in self.cbcasts.buffer and self.cbcasts.buffer[id].remaining}
            if unsent:
                open_flushes.append((token, unsent))
            else:
                self.site.out.append(FlushDone(token))
        self.flushes = open_flushes

    @property
    def idle(self) -> bool:
        """Whether nothing waits."""
        return not (self.waiting or self.calls or self.flushes or any(each.open for each in self.outside.values()))
