"""What daemons that come from one daemon view hold together: the same at all of them, made of their holdings alone.

Below the highest agreed line nothing is missing at the daemon that has that line, but what was pruned for it: such
content may be missing here altogether. Who has metadata alone sends that again, so that all know the place. A *hole* is
a sequence that somebody knows to exist and nobody has with content, and that is not known to be everywhere.

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
        self.stable = max(each.stable_line for each in lines)
        if self.stable > min(each.agreed_line for each in lines):
            raise RemoteProtocolError("a holding below what another one knows to be everywhere")
        self.committed = max(each.committed_line for each in lines)
        self.settled = [max(each.sites[site].settled for each in lines) for site in range(sites)]
        self.content = [united(*(runs[site] for runs in self._content.values())) for site in range(sites)]
        bare = {
            daemon: [unpacked(site.metadata, known=site.known) for site in each.sites]
            for daemon, each in self.holdings.items()
        }
        self.metadata = [united(*(runs[site] for runs in bare.values())) for site in range(sites)]
        self._places = {
            daemon: [united(runs, through(site.settled)) for runs, site in zip(bare[daemon], each.sites)]
            for daemon, each in self.holdings.items()
        }
        self.places = [united(*(runs[site] for runs in self._places.values())) for site in range(sites)]
        self._known = [max(each.sites[site].known for each in lines) for site in range(sites)]

    def resent_by(self, daemon: int, site: int) -> list[Run]:
        """What this daemon sends again: it has it, nobody before it has it, and somebody lacks it."""
        mine = self._content[daemon][site]
        others = [runs[site] for other, runs in self._content.items() if other < daemon]
        lacking = [self.lacked_by(other, site) for other in self.holdings if other != daemon]
        return shared(without(mine, united(*others)), united(*lacking))

    def metadata_resent_by(self, daemon: int, site: int) -> list[Run]:
        """The metadata that it sends again: it has it, nobody before it has it, somebody lacks it; and no content."""
        others = [self._places[other][site] for other in self.holdings if other < daemon]
        lacking = [self.metadata_lacked_by(other, site) for other in self.holdings if other != daemon]
        return shared(without(self._places[daemon][site], united(*others)), united(*lacking))

    def metadata_lacked_by(self, daemon: int, site: int) -> list[Run]:
        """Known to another, without content anywhere here, and not even known to this daemon."""
        return without(self.places[site], united(self.content[site], self._places[daemon][site]))

    def lacked_by(self, daemon: int, site: int) -> list[Run]:
        """What is here and this daemon does not have."""
        settled = self.holdings[daemon].sites[site].settled
        return without(self.content[site], united(through(settled), self._content[daemon][site]))

    def hole(self, site: int) -> int | None:
        """The first sequence of the site that is known to exist and that nobody has."""
        there = united(through(self.settled[site]), self.content[site])
        first = there[0][1] + 1 if there and there[0][0] == 1 else 1
        return first if first <= self._known[site] else None

    def has_content(self, site: int, sequence: int) -> bool:
        """Whether somebody here has it with content."""
        return contains(self.content[site], sequence)
