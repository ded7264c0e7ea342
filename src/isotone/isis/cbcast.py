"""CBCAST: a message is delivered behind all that precedes it, because that travels with it.

The buffer holds what may not be everywhere yet, in the order in which it came to this site. A packet takes along all
that stands before its message there and was not sent to that site; so does everything else that a process has sent to
another site. So what a process sends is nowhere without all that the process was handed or sent before. The site that
began a broadcast sends it to all destinations; others do so only when that site failed, or when a flush asks for it.

Implements: [ISIS 4.3.2] steps (1) to (6) with all three optimisations; [ISIS 3.5], atomicity of sequences; [ISIS 4.5],
flush by a process.
Deviations: D-site; D-along (step (1) takes along what has a smaller label, which does not give [3.5]: a process may
answer a CBCAST by an ABCAST or under a label that does not compare, and only they survive it and the sender).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from isotone.isis.delivery import deliver
from isotone.isis.incarnation import Site, Stored
from isotone.isis.names import origin_of, sites_of
from isotone.isis.settings import PACKET_BYTES_MAX
from isotone.isis.wire import Causal, Label, Packet


@dataclass
class Buffered:
    """A message of the buffer: REM_DESTS as sites, and SENT_TO."""

    message: Causal
    remaining: set[str]
    sent_to: set[str] = field(default_factory=set)
    after: tuple[str, ...] = ()  # ABCASTs and GBCASTs that were begun here before it


@dataclass
class Cbcasts:
    """The CBCASTs of one site."""

    site: Site
    buffer: dict[str, Buffered] = field(default_factory=dict)
    delivered: dict[str, Label] = field(default_factory=dict)  # IDlist: placed on the delivery queue here
    waiting: list[Causal] | None = None  # the wait queue of a GBCAST, while there is one
    due: dict[str, None] = field(default_factory=dict)  # to be transmitted to all remaining destinations

    def begin(self, message: Causal) -> None:
        """Into the buffer; to the own processes at once."""
        self._take(message, "")
        self.buffer[message.id].after = tuple(self.site.begun)
        self.due[message.id] = None

    def transmit_due(self) -> None:
        """Transmit what is scheduled; to other clusters when it may go there, and until then it stays scheduled."""
        ids, self.due = list(self.due), {}
        for id in ids:  # which grows
            if (buffered := self.buffer.get(id)) is None:
                continue
            far = self.site.abroad(tuple(sorted(buffered.remaining)))
            for site in self.site.alive(tuple(buffered.remaining.difference(far))):
                if not self._transmit(buffered, site):
                    self.due[id] = None
            unsent = [site for site in far if site not in buffered.sent_to]
            behind = self._goes_behind(id) if unsent else []
            if behind:
                self.due[id] = None
                ids += [each for each in behind if each not in ids]
                continue
            for site in unsent:
                buffered.sent_to.add(site)
                self._send(site, [self._with_remaining(buffered)])

    def _goes_behind(self, id: str) -> list[str]:
        """What must be at its destinations before this goes to other clusters: all that stood before it here.

        And itself at the local ones. If it began in another cluster that has seen to this.
        """
        if not self.site.is_near(origin_of(id)):
            return []
        buffered = self.buffer[id]
        waits = any(key in self.site.begun for key in buffered.after)
        behind = [id] if waits or any(self.site.is_near(site) for site in buffered.remaining) else []
        for earlier, each in self.buffer.items():
            if earlier == id:
                break
            if each.remaining:
                behind.append(earlier)
        return behind

    def _with_remaining(self, buffered: Buffered) -> Causal:
        return msgspec.structs.replace(buffered.message, remaining=tuple(sorted(buffered.remaining)))

    def transmit_past(self, site: str) -> None:
        """All that may not be everywhere, before something else is sent to this site: D-along."""
        assert self.site.is_near(site), "nothing travels along to another cluster"
        if site != self.site.me:
            self._transmit_up_to(None, site)

    def _transmit(self, buffered: Buffered, site: str) -> bool:
        """Whether it went, then or before."""
        if site not in buffered.sent_to and site != self.site.me:
            self._transmit_up_to(buffered, site)
        return site in buffered.sent_to or site == self.site.me

    def _transmit_up_to(self, last: Buffered | None, site: str) -> None:
        """Steps (1) and (2), with SENT_TO: in the order of the buffer, which has before each what precedes it.

        Up to one that waits for an ABCAST or GBCAST which this site is no destination of.
        """
        packet: list[Causal] = []
        size = 0
        for each in self.buffer.values():
            if each is last or (each.remaining and site not in each.sent_to):
                if self.site.is_held_back(site, each.after):
                    break
                each.sent_to.add(site)
                if packet and size + len(each.message.body) > PACKET_BYTES_MAX:
                    self._send(site, packet)
                    packet, size = [], 0
                packet.append(self._with_remaining(each))
                size += len(each.message.body) + 200
            if each is last:
                break
        if packet:
            self._send(site, packet)

    def _send(self, site: str, packet: list[Causal]) -> None:
        self.site.send(site, Packet(tuple(packet)), ("cbcast", " ".join(each.id for each in packet)))

    def on_sent(self, site: str, ids: str) -> None:
        """Step (3)."""
        for id in ids.split(" "):
            if (buffered := self.buffer.get(id)) is not None:
                buffered.remaining.discard(site)
                self._look(id)

    def on_packet(self, source: str, packet: Packet) -> None:
        """Steps (4) to (6)."""
        for message in packet.messages:
            if self.site.knows(message.id):
                if (buffered := self.buffer.get(message.id)) is not None:
                    buffered.sent_to.add(source)
                    buffered.remaining.discard(source)  # it has it
                    self._look(message.id)
                continue
            self._take(message, source)

    def _take(self, message: Causal, source: str) -> None:
        site = self.site
        site.store[message.id] = Stored(delivered=True, abroad=site.abroad(sites_of(message.destinations)))
        site.clock = max(site.clock, message.label.number)
        remaining = {each for each in message.remaining if each != site.me and site.is_up(each)}
        self.buffer[message.id] = Buffered(message, remaining - {source}, {source} if source else set())
        if site.me in message.remaining:
            if self.waiting is not None:
                self.waiting.append(message)
            else:
                self.hand_over(message)
        if source and not site.is_up(origin_of(message.id)):
            self.due[message.id] = None
        self._look(message.id)

    def hand_over(self, message: Causal) -> None:
        """To the delivery queue."""
        self.delivered[message.id] = message.label
        deliver(self.site, message)

    def _look(self, id: str) -> None:
        """What has no remaining destination may be disposed of."""
        buffered, stored = self.buffer[id], self.site.store.get(id)
        if not buffered.remaining and stored is not None:
            stored.disposable = True

    def on_view(self) -> None:
        """Nothing remains to be sent to the failed; what a failed site began is sent by all who have it."""
        for id, buffered in self.buffer.items():
            buffered.remaining = {site for site in buffered.remaining if self.site.is_up(site)}
            if buffered.remaining and not self.site.is_up(origin_of(id)):
                self.due[id] = None
            self._look(id)

    def schedule(self, ids: Iterable[str]) -> None:
        """For transmission."""
        for id in ids:
            self.due[id] = None

    def is_under_way(self, id: str) -> bool:
        """Whether some destination may not have it."""
        return id in self.buffer and bool(self.buffer[id].remaining)

    def not_everywhere(self) -> list[str]:
        """Messages that some destination may not have."""
        return [id for id, each in self.buffer.items() if each.remaining]

    def unsent(self, sites: tuple[str, ...]) -> list[str]:
        """Messages that some of these sites may not have."""
        wanted = set(sites)
        return [id for id, each in self.buffer.items() if each.remaining & wanted]

    def listed(self, also: tuple[str, ...]) -> dict[str, Label]:
        """The IDlist, these from the wait queue, and all in the buffer that precedes one of them."""
        found = self.delivered | {id: self.buffer[id].message.label for id in also}
        highest: dict[str, int] = {}
        for label in found.values():
            highest[label.chain] = max(highest.get(label.chain, 0), label.number)
        more = {
            id: each.message.label
            for id, each in self.buffer.items()
            if each.message.label.number < highest.get(each.message.label.chain, 0)
        }
        return more | found

    def is_flushed(self) -> bool:
        """Whether nothing that a failed site began is under way."""
        return not any(each.remaining and not self.site.is_up(origin_of(id)) for id, each in self.buffer.items())

    def is_out(self, origin: str) -> bool:
        """Whether all that this process began is at its destinations."""
        return not any(each.remaining and each.message.origin == origin for each in self.buffer.values())

    def dispose(self, id: str) -> None:
        """The delete action of garbage collection."""
        self.buffer.pop(id, None)
        self.delivered.pop(id, None)

    def empty_remaining(self, id: str) -> None:
        """Step (2b) of garbage collection: everybody has it."""
        if (buffered := self.buffer.get(id)) is not None:
            buffered.remaining = set()

    def is_waiting(self, id: str) -> bool:
        """Whether it stands in the wait queue."""
        return self.waiting is not None and any(each.id == id for each in self.waiting)
