"""What daemons that come from one daemon view hold together: the same at all of them, made of their holdings alone.

Below the highest agreed line nothing is missing at the daemon that has that line, so after resending nobody misses
anything that is owed to him, with one exception: content that was pruned for that daemon and that nobody else here has
(`has_bare`). A *hole* is a sequence above that line that somebody knows to exist and nobody has.

Implements: [Spread 6.1.9, Figure 6.13]: PARU, PH, LH and MissingMessages. Deviations: D-own only holdings of one's own
previous daemon view are united (DESIGN 6); D-holding as in `holding`.
"""

from __future__ import annotations

from collections.abc import Mapping

from isotone.core.errors import RemoteProtocolError
from isotone.evs.ordering.holding import (
    Holding,
    Run,
    check_holding,
    contains,
    shared,
    through,
    united,
    unpacked,
    without,
)


class Union:
    """The holdings of one attempt, by the index of their daemon in the view that ended."""

    def __init__(self, holdings: Mapping[int, Holding], *, sites: int) -> None:
        self.holdings = {daemon: holdings[daemon] for daemon in sorted(holdings)}
        lines = self.holdings.values()
        for each in lines:
            check_holding(each, sites=sites)
        self._content = {
            daemon: [unpacked(site.content, known=site.known) for site in each.sites]
            for daemon, each in self.holdings.items()
        }
        self.agreed = max(each.agreed_line for each in lines)
        self.lowest_agreed = min(each.agreed_line for each in lines)
        self.stable = max(each.stable_line for each in lines)
        if self.stable > self.lowest_agreed:
            raise RemoteProtocolError("a holding below what another one knows to be everywhere")
        self.committed = max(each.committed_line for each in lines)
        self.settled = [max(each.sites[site].settled for each in lines) for site in range(sites)]
        self.content = [united(*(runs[site] for runs in self._content.values())) for site in range(sites)]
        self.metadata = [
            united(*(unpacked(each.sites[site].metadata, known=each.sites[site].known) for each in lines))
            for site in range(sites)
        ]
        self._known = [max(each.sites[site].known for each in lines) for site in range(sites)]
        self.settled_by_all = [min(each.sites[site].settled for each in lines) for site in range(sites)]
        self.has_bare = any(
            without([(low + 1, high)], content)
            for low, high, content in zip(self.settled_by_all, self.settled, self.content)
            if low < high
        )

    def resent_by(self, daemon: int, site: int) -> list[Run]:
        """What this daemon sends again: it has it, nobody before it has it, and somebody lacks it."""
        mine = self._content[daemon][site]
        others = [runs[site] for other, runs in self._content.items() if other < daemon]
        lacking = [self.lacked_by(other, site) for other in self.holdings if other != daemon]
        return shared(without(mine, united(*others)), united(*lacking))

    def lacked_by(self, daemon: int, site: int) -> list[Run]:
        """What is here and this daemon does not have."""
        settled = self.holdings[daemon].sites[site].settled
        return without(self.content[site], united(through(settled), self._content[daemon][site]))

    def hole(self, site: int) -> int | None:
        """The first sequence of the site that is known to exist and that nobody has."""
        there = united(through(self.settled[site]), self.content[site])
        first = there[0][1] + 1 if there and there[0][0] == 1 else 1
        return first if first <= self._known[site] else None

    def was_agreed_with_content(self, site: int, sequence: int, lamport: int) -> bool:
        """Whether somebody has this unit below his agreed line, with content: he may have delivered it."""
        return any(
            each.agreed_line >= lamport and contains(self._content[daemon][site], sequence)
            for daemon, each in self.holdings.items()
        )
