"""What a unit or a draft of a daemon view that works waits for: the delivery rules, read backwards.

Implements: [Spread 5.1, Figures 5.1 and 5.2]. Deviations: those of `isotone.evs.ordering.delivery`.
"""

from __future__ import annotations

from isotone.core.services import Service
from isotone.evs.explain import inside
from isotone.evs.explain.answers import Blocker, Wait
from isotone.evs.explain.words import most_silent
from isotone.evs.membership.network import Network
from isotone.evs.membership.node import Node
from isotone.evs.ordering.delivery import WEAK, SiteStream
from isotone.evs.ordering.units import Unit
from isotone.evs.overlay.topology import Site


class Waiting:
    """One daemon in one daemon view."""

    def __init__(self, node: Node, network: Network, at: int) -> None:
        self._node, self._network, self._at = node, network, at
        self._transport = network.transport
        self._delivery = network.transport.delivery
        self._lines = self._delivery.lines
        self._agreed_since, self._stable_since = inside.lines_since(network.transport)

    def unit(self, unit: Unit) -> list[Blocker]:
        """What a unit that is here and not delivered waits for."""
        if unit.service.is_agreed:
            return self._in_order(unit)
        if unit.behind > self._delivery.last_cut:
            return [self._behind_cut(unit), *self.everywhere(unit.behind[0])]
        return self._behind_session(unit)

    # --- total order -----------------------------------------------------------------------------------------------

    def _in_order(self, unit: Unit) -> list[Blocker]:
        late = self.lines_below(unit.lamport)
        if late:
            return late
        head = inside.lowest(self._delivery)
        if head is not None and head.position < unit.position:
            return [self._behind_safe(head), *self.unacknowledged(head.lamport)]
        return self.unacknowledged(unit.lamport)

    def lines_below(self, lamport: int) -> list[Blocker]:
        """The sites whose lines are below this time, those that hold the agreed line first."""
        late = [site for site, line in enumerate(self._lines.sites) if line.line < lamport]
        late.sort(key=lambda site: self._lines.sites[site].line)
        return [self._line(site, lamport) for site in late]

    def _line(self, site: int, lamport: int) -> Blocker:
        line, where = self._lines.sites[site], self._site(site)
        since = self._agreed_since if line.line == self._lines.agreed else None
        if line.heard >= lamport:
            sequence = line.first_bare
            text = f"unit {sequence} of site {where.name} came without its content, which may be owed here"
            return self._about(site, Wait.CONTENT, text, sequence=sequence, lamport=lamport, since=since)
        known = self._delivery.streams[site].known
        if known > line.contiguous:
            text = f"unit {line.contiguous + 1} of site {where.name} has not come, though {known} exist"
            return self._about(site, Wait.SEQUENCE, text, sequence=line.contiguous + 1, lamport=lamport, since=since)
        if where.name == self._node.site and len(where.daemons) > 1:
            where_is_it, _ = inside.token_text(self._transport, self._network.view.members)
            text = f"this site has not stamped up to there: {where_is_it}"
            return self._about(site, Wait.TOKEN, text, lamport=lamport, since=since)
        text = f"the line of site {where.name} is missing: it may still have stamped something earlier"
        return self._about(site, Wait.LINE, text, lamport=lamport, since=since)

    def unacknowledged(self, lamport: int) -> list[Blocker]:
        """The sites that have not said that all their daemons have everything up to this time."""
        late = [site for site, line in enumerate(self._lines.sites) if line.received_everywhere < lamport]
        late.sort(key=lambda site: self._lines.sites[site].received_everywhere)
        blockers = []
        for site in late:
            since = self._stable_since if self._lines.sites[site].received_everywhere == self._lines.stable else None
            text = f"site {self._site(site).name} has not acknowledged it for all its daemons"
            blockers.append(self._about(site, Wait.ACKNOWLEDGEMENT, text, lamport=lamport, since=since))
        return blockers

    def everywhere(self, lamport: int) -> list[Blocker]:
        """What keeps a unit of this time from being known to be everywhere; lines that we miss, others may miss too."""
        return self.lines_below(lamport) or self.unacknowledged(lamport)

    def _behind_safe(self, head: Unit) -> Blocker:
        sender = self._network.view.members[head.daemon]
        text = f"the {head.service.name} unit {head.lamport}!{sender} stands before it and waits"
        site = self._site(head.site).name
        return Blocker(wait=Wait.ORDER, text=text, site=site, sequence=head.sequence, lamport=head.lamport)

    def _behind_cut(self, unit: Unit) -> Blocker:
        lamport, daemon = unit.behind
        stamp = f"{lamport}!{self._network.view.members[daemon]}"
        text = f"it stands behind the join, leave or kill {stamp}, which is not delivered"
        return Blocker(wait=Wait.JOIN, text=text, lamport=lamport)

    # --- sessions and causal past ----------------------------------------------------------------------------------

    def _behind_session(self, unit: Unit) -> list[Blocker]:
        """FIFO and CAUSAL: back to the first of its session that is not complete, and what that one waits for."""
        stream, first = self._delivery.streams[unit.site], unit
        found: list[Blocker] = []
        while first.previous and not stream.is_complete(first.previous):
            if not found:
                found.append(self._behind_unit(first))
            before = inside.unit_at(stream, first.previous)
            if before is None:
                return [*found, self.missing(unit.site, first.previous)]
            first = before
        if first.service.is_agreed:
            return [*found, *self._in_order(first)]
        return [*found, *self._past(first)]

    def _behind_unit(self, unit: Unit) -> Blocker:
        site = self._site(unit.site).name
        text = f"unit {unit.previous} of site {site}, which its session sent before, is not delivered"
        return Blocker(wait=Wait.SESSION, text=text, site=site, sequence=unit.previous)

    def _past(self, unit: Unit) -> list[Blocker]:
        if unit.service is not Service.CAUSAL:
            return []
        found: list[Blocker] = []
        if self._delivery.last_agreed < unit.agreed_before:
            lamport, daemon = unit.agreed_before
            stamp = f"{lamport}!{self._network.view.members[daemon]}"
            text = f"the agreed unit {stamp} is in its past and is not delivered"
            found = [Blocker(wait=Wait.PAST, text=text, lamport=lamport), *self.lines_below(lamport)]
        for site, (stream, sequence) in enumerate(zip(self._delivery.streams, unit.weak_before)):
            gap = _weak_gap(stream, sequence)
            if gap is None:
                continue
            text = f"unit {gap} of site {self._site(site).name} is in its past and is not delivered"
            found.append(self._about(site, Wait.PAST, text, sequence=gap))
        return found

    def missing(self, site: int, sequence: int) -> Blocker:
        """A unit of a site that has not come."""
        text = f"unit {sequence} of site {self._site(site).name} has not come"
        return self._about(site, Wait.SEQUENCE, text, sequence=sequence)

    def missing_through(self, site: int, lamport: int) -> list[Blocker]:
        """A unit of this site and time has not come."""
        return [self._line(site, lamport)]

    # --- before the stamp ------------------------------------------------------------------------------------------

    def draft(self, *, bulk: bool, unbegun: bool, held: bool) -> list[Blocker]:
        """What a draft of this daemon waits for before it has a place in the order; ``held``: for a link."""
        stamper = self._transport.stamper
        if stamper.unstable_bytes >= stamper.window_bytes:
            text = f"{stamper.unstable_bytes} bytes of this daemon are not everywhere, {stamper.window_bytes} may be"
            oldest = inside.oldest_unstable(stamper)
            return [
                Blocker(wait=Wait.WINDOW, text=text, lamport=oldest),
                *(self.everywhere(oldest) if oldest is not None else []),
            ]
        if held:
            return [self._full_links(bulk=bulk)]
        if unbegun:
            return [Blocker(wait=Wait.TURN, text="as many large messages as may be are begun and not finished")]
        if bulk and any(not is_bulk for _, is_bulk, _ in inside.waiting_drafts(stamper)):
            return [Blocker(wait=Wait.TURN, text="large messages go when nothing else waits")]
        text, names = inside.token_text(self._transport, self._network.view.members)
        return [self._about(self._own_site, Wait.TOKEN, text, daemons=names)]

    def _full_links(self, *, bulk: bool) -> Blocker:
        site = self._site(self._own_site)
        names = inside.full_links(self._transport, bulk=bulk)
        what = "large messages" if bulk else "more"
        if self._transport.gateway is None:
            text = f"the gateway {site.gateway} says that its links have no room for {what}"
            return Blocker(wait=Wait.LINK, text=text, site=site.name, daemons=(site.gateway,))
        if not names:
            text = "a gateway on the way has large messages of this site waiting, or their pace is over for now"
            return Blocker(wait=Wait.LINK, text=text, site=site.name)
        return Blocker(wait=Wait.LINK, text=f"no room for {what} on {', '.join(names)}", site=site.name)

    # --- sites -----------------------------------------------------------------------------------------------------

    @property
    def _own_site(self) -> int:
        return self._network.view.site_index(self._node.site)

    def _site(self, site: int) -> Site:
        return self._network.view.topology.sites[site]

    def _about(
        self,
        site: int,
        wait: Wait,
        text: str,
        *,
        daemons: tuple[str, ...] = (),
        sequence: int | None = None,
        lamport: int | None = None,
        since: int | None = None,
    ) -> Blocker:
        """A blocker of a site, with what the detector says about its daemons."""
        where = self._site(site)
        silence, until = most_silent(self._node, daemons or where.daemons, self._at)
        return Blocker(
            wait=wait,
            text=f"{text} ({silence})" if silence else text,
            site=where.name,
            daemons=daemons or where.daemons,
            sequence=sequence,
            lamport=lamport,
            since=since,
            until=until,
        )


def _weak_gap(stream: SiteStream, sequence: int) -> int | None:
    """The first unit up to this one that is not here, or is weak and not delivered."""
    for unit in stream.queue:
        if unit.sequence > sequence:
            return None
        if unit.service in WEAK and unit.sequence not in stream.early:
            return unit.sequence
    return stream.line.contiguous + 1 if stream.line.contiguous < sequence else None
