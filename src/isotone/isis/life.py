"""One incarnation of a site in the site view: its protocols, put together.

Implements: [ISIS 4], Figure 2. Deviations: none.
"""

from __future__ import annotations

import msgspec

from isotone.core.contract import Action
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.isis import wire as w
from isotone.isis.abcast import Abcasts
from isotone.isis.cbcast import Cbcasts
from isotone.isis.channels import Channels
from isotone.isis.delivery import fail_calls
from isotone.isis.departures import Departures
from isotone.isis.events import (
    AnswerGiven,
    BroadcastWanted,
    FlushWanted,
    JoinWanted,
    LeaveWanted,
    ProcessEnded,
    SiteViewChanged,
)
from isotone.isis.garbage import Collector
from isotone.isis.gbcast import Gbcasts
from isotone.isis.groups import Groups
from isotone.isis.incarnation import Site
from isotone.isis.names import check_process_name, origin_of, process_id
from isotone.isis.sending import Sending
from isotone.isis.settings import IsisSettings
from isotone.trace.isis import NeighbourKnown, SiteViewInstalled, StoreCounted

Asked = JoinWanted | LeaveWanted | ProcessEnded | BroadcastWanted | FlushWanted | AnswerGiven
ROUNDS_MAX = 100_000


class Life:
    """From the first site view with this incarnation to its end."""

    def __init__(self, settings: IsisSettings, me: str) -> None:
        self.site = Site(settings, me, w.NO_VIEW, Channels(me))
        self.cbcasts = Cbcasts(self.site)
        self.departures = Departures(self.site, self.cbcasts)
        self.abcasts = Abcasts(self.site, self.departures)
        self.gbcasts = Gbcasts(self.site, self.abcasts, self.cbcasts, self.departures)
        self.groups = Groups(self.site, self.abcasts, self.cbcasts, self.gbcasts)
        self.sending = Sending(self.site, self.abcasts, self.cbcasts, self.gbcasts)
        self.collectors = [Collector(self.site, self.cbcasts, wide=False)]
        if settings.clusters:
            self.collectors.append(Collector(self.site, self.cbcasts, wide=True))
        self._senders: dict[str, Abcasts | Cbcasts | Gbcasts | Departures] = {
            "departures": self.departures,
            "abcast": self.abcasts,
            "cbcast": self.cbcasts,
            "gbcast": self.gbcasts,
        }
        self._counted = 0

    @property
    def read_locks(self) -> int:
        """How many protocols need that the site view does not grow."""
        return int(self.groups.is_flushing) + sum(each.holds_lock for each in self.collectors)

    def enter_view(self, view: w.SiteView) -> None:
        """The next site view."""
        site = self.site
        site.view = view
        site.record(SiteViewInstalled(site.me, view.number, view.members))
        site.out.append(SiteViewChanged(view))
        self._on_views()

    def learn(self, place: int, view: w.SiteView) -> None:
        """The next site view that is known here of another cluster."""
        self.site.neighbours[place] = view
        self.site.record(NeighbourKnown(self.site.me, view.number, view.members))
        if self.site.view.number:
            self._on_views()

    def _on_views(self) -> None:
        self.site.channels.enter_view(self.site.all_up(), self.site.views)
        self.departures.on_view()
        self.abcasts.on_view()
        self.cbcasts.on_view()
        self.gbcasts.on_view()
        self.sending.on_view()
        for collector in self.collectors:
            collector.on_view()
        self.groups.on_view()

    def ask(self, event: Asked) -> None:
        """Of a process here."""
        site = self.site
        match event:
            case JoinWanted(process=process, group=group):
                self.groups.join(process_id(site.me, check_process_name(process)), group)
            case LeaveWanted(process=process, group=group):
                self.groups.leave(process_id(site.me, process), group, w.Kind.LEAVE)
            case ProcessEnded(process=process):
                self._end_process(process_id(site.me, process))
            case BroadcastWanted(process=process):
                if self.groups.departures.get((event.group, process_id(site.me, process))) is w.Kind.FAIL:
                    raise LocalProtocolError(f"process {process} has ended: it sends nothing any more")
                self.sending.want(msgspec.structs.replace(event, process=process_id(site.me, process)))
            case FlushWanted(token=token):
                self.sending.flush(token)
            case AnswerGiven(process=process, message=message, body=body):
                answering = process_id(site.me, process)
                if site.calls.pop((message, answering), True) is None:
                    self.departures.send(w.Answer(message, answering, body), (origin_of(message),))

    def _end_process(self, process: str) -> None:
        fail_calls(self.site, process)
        self.sending.forget(process)
        groups = {name for name, view in self.site.groups.items() if process in view.members}
        groups |= {group for group, each in self.groups.joins if each == process}
        for group in sorted(groups):
            self.groups.leave(process, group, w.Kind.FAIL)

    def settle(self, *, transmit: bool) -> None:
        """Handle all that is there, until nothing follows from it."""
        channels = self.site.channels
        for _ in range(ROUNDS_MAX):
            if channels.sent:
                site, (whose, what) = channels.sent.popleft()
                self._senders[whose].on_sent(site, what)
            elif channels.inbox:
                self._dispatch(*channels.inbox.popleft())
            elif not self._advance(transmit):
                self._count_if_empty()
                return
        raise AssertionError("the protocols of a site never come to rest")

    def _advance(self, transmit: bool) -> bool:
        """What waits for a condition; whether anything came of it."""
        channels = self.site.channels
        progress = self.abcasts.deliver_ready()
        self.gbcasts.answer_ready()
        self.gbcasts.advance_head()
        while self.gbcasts.finished:
            start, commit = self.gbcasts.finished.popleft()
            self.groups.on_finished(start, commit)
            self.sending.on_finished(start, commit)
            progress = True
        self.groups.look_for_joined()
        self.groups.advance()
        self.sending.advance()
        self.departures.advance()
        for collector in self.collectors:
            collector.answer_ready()
        if transmit or self.gbcasts.at_head or self.groups.is_flushing or self.sending.flushes:
            self.cbcasts.transmit_due()
        return progress or bool(channels.inbox or channels.sent)

    def _dispatch(self, source: str, body: w.Body) -> None:
        match body:
            case w.AbcastStart():
                self.abcasts.on_start(source, body)
            case w.AbcastPriority():
                self.abcasts.on_priority(source, body)
            case w.AbcastFixed():
                self.abcasts.on_fixed(source, body)
            case w.AbcastCommit():
                self.abcasts.on_commit(body)
            case w.Packet():
                self.cbcasts.on_packet(source, body)
            case w.GbcastStart():
                self.gbcasts.on_start(source, body)
            case w.GbcastPriority():
                self.gbcasts.on_priority(source, body)
            case w.GbcastReady():
                self.gbcasts.on_ready(source, body)
            case w.GbcastCommit():
                self.gbcasts.on_commit(source, body)
            case w.Garbage():
                self.collectors[body.wide and len(self.collectors) > 1].on_garbage(source, body)
            case w.Verdict():
                self.sending.on_verdict(source, body)
            case w.Answer():
                self.sending.on_answer(source, body)
            case _:
                self._dispatch_group(source, body)

    def _dispatch_group(self, source: str, body: w.Body) -> None:
        match body:
            case w.Orphan(abcast=abcast, gbcast=gbcast):
                if abcast is not None:
                    self.abcasts.adopt(abcast)
                if gbcast is not None:
                    self.gbcasts.adopt(gbcast)
            case w.Flushed():
                self.groups.on_flushed(source, body)
            case w.CensusAsked():
                self.groups.on_census_asked(source)
            case w.CensusTold():
                self.groups.on_census_told(source, body)
            case w.JoinAsked():
                self.groups.on_join_asked(source, body)
            case w.Created():
                self.groups.on_created(body)
            case w.WhereAsked():
                self.groups.on_where_asked(source, body)
            case w.WhereTold(view=view):
                self.groups.on_view_told(view)
                self.sending.on_where_told(view)
            case _:
                raise RemoteProtocolError(f"{type(body).__name__} has no place on a channel")

    def collect(self) -> None:
        """Periodically: begin a round of garbage collection, and count what is kept."""
        for collector in self.collectors:
            collector.begin()
        if len(self.site.store) != self._counted and self.idle:
            self._count()

    def _count_if_empty(self) -> None:
        if self._counted and not self.site.store:
            self._count()

    def _count(self) -> None:
        self._counted = len(self.site.store)
        counted = StoreCounted(self.site.me, self._counted, len(self.cbcasts.buffer), len(self.cbcasts.delivered))
        self.site.record(counted)

    def take(self) -> list[Action]:
        """What is to be done."""
        out, self.site.out = self.site.out, []
        return out

    @property
    def idle(self) -> bool:
        """Whether no protocol but garbage collection has anything left to do."""
        running = self.abcasts.active or self.gbcasts.active or self.site.queue or self.site.locked
        return (
            not (running or self.departures.waiting)
            and self.groups.idle
            and self.sending.idle
            and self.cbcasts.is_flushed()
        )
