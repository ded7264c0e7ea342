"""Distributed garbage collection of the associative store: an id is forgotten when nobody can send a copy any more.

Implements: [ISIS 4.4] steps (1) to (3), [ISIS 4.6].
Deviations: D-late (the IDlist keeps an id until step (3), and a site answers step (2) only when it has delivered what
is listed: by the paper's step (1) one member of a group could forget a CBCAST that another still has in the wait queue
of a GBCAST, and the two would order them differently), D-ranges (a site remembers what it has forgotten, as ranges of
numbers: a site that joined in the middle would otherwise tell the others of ids that they have forgotten, and they
would collect them again without end), D-wide-garbage (sites of other clusters that are destinations answer too: a
cluster that forgets what they have not delivered could not take it over; rounds with them are apart, since they may
last).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.isis.cbcast import Cbcasts
from isotone.isis.incarnation import Site, Stored
from isotone.isis.settings import GARBAGE_MAX
from isotone.isis.wire import Garbage


@dataclass
class Collector:
    """Of one site; one round at a time."""

    site: Site
    cbcasts: Cbcasts
    wide: bool  # of what has destinations in other clusters: a round of these may last, and holds no lock
    round: int = 0
    ids: tuple[str, ...] = ()  # of the round under way
    awaited: set[str] = field(default_factory=set)
    asked: list[tuple[str, Garbage]] = field(default_factory=list)  # lists that are not answered yet

    @property
    def holds_lock(self) -> bool:
        """Whether a round holds the read-lock."""
        return bool(self.ids) and not self.wide

    def _is_busy(self, id: str) -> bool:
        stored = self.site.store.get(id)
        if stored is None:
            return False
        return id in self.site.queue or stored.gbcast is not None or self.cbcasts.is_waiting(id)

    def _is_disposable(self, stored: Stored) -> bool:
        """Marked, or left by a coordinator that failed before it could mark it."""
        left = stored.delivered and stored.coordinator != "" and not self.site.is_up(stored.coordinator)
        return stored.disposable or left

    def begin(self) -> None:
        """Step (1)."""
        if self.ids:
            return
        found = [
            id
            for id, stored in self.site.store.items()
            if bool(stored.abroad) == self.wide and self._is_disposable(stored) and not self._is_busy(id)
        ]
        self.ids = tuple(found[:GARBAGE_MAX])
        if not self.ids:
            return
        self.round += 1
        self.awaited = set()
        for site in self.site.all_up() if self.wide else self.site.view.members:
            near = self.site.is_near(site)
            listed = tuple(
                id
                for id in self.ids
                if site not in self.site.store[id].dont_send and (near or site in self.site.store[id].abroad)
            )
            if site != self.site.me and listed:
                self.awaited.add(site)
                self.site.send(site, Garbage(self.round, listed, wide=self.wide))
        self.finish_if_all()

    def on_garbage(self, source: str, garbage: Garbage) -> None:
        """Step (2), or an answer to step (1)."""
        if garbage.answer:
            if garbage.round == self.round:
                self.awaited.discard(source)
                self.finish_if_all()
            return
        for id in garbage.ids:
            if self.site.forgotten.has(id):
                continue
            stored = self.site.store.setdefault(id, Stored(delivered=True))
            self.cbcasts.empty_remaining(id)
            stored.disposable = True
            stored.dont_send.add(source)
        self.asked.append((source, garbage))
        self.answer_ready()

    def answer_ready(self) -> None:
        """Lists of which everything is delivered here."""
        waiting = []
        for source, garbage in self.asked:
            if any(self._is_busy(id) for id in garbage.ids):
                waiting.append((source, garbage))
            else:
                self.site.send(source, Garbage(garbage.round, (), True, self.wide))
        self.asked = waiting

    def finish_if_all(self) -> None:
        """Step (3)."""
        if self.ids and not self.awaited:
            for id in self.ids:
                self.cbcasts.dispose(id)
                self.site.forgotten.add(id)
                self.site.store.pop(id, None)
            self.ids = ()

    def on_view(self) -> None:
        """The failed do not answer."""
        self.awaited = {site for site in self.awaited if self.site.is_up(site)}
        self.asked = [(source, each) for source, each in self.asked if self.site.is_up(source)]
        self.finish_if_all()
