"""Who needs content: which sites have members of which groups, and so which sites content passes on its way.

Where nobody below a branch of the source's tree needs a bundle, its metadata goes there alone. This says what is needed
as far as this site knows; that content is kept until it is stable, and sent to a site whose join turns out to be
ordered before it, is for the ordering to do.

A site whose interest is not known yet, as after a daemon view formed, needs everything: pruning is never a guess. A
private group needs no interest: it lives at the site of its daemon.

Implements: [Spread 3.4.2]. Deviations: Do3 what the thesis takes for sufficient, adding a site as soon as the join is
seen, is only half of the rule; the other half is DESIGN's, in the ordering.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from isotone.core.contract import Event
from isotone.core.names import PRIVATE_GROUP_MARK, is_private_group
from isotone.evs.overlay.routes import Routes


class InterestChanged(Event, frozen=True, gc=False):
    """A site got its first member of a group, or lost its last."""

    site: str
    group: str
    interested: bool


@dataclass(slots=True)
class Interest:
    """The interest of all sites, as one daemon knows it. Sets of sites are bits of a number, by place."""

    routes: Routes
    _bits: dict[str, int] = field(default_factory=dict)  # site to its bit
    _homes: dict[str, int] = field(default_factory=dict)  # daemon to the bit of its site
    _groups: dict[str, int] = field(default_factory=dict)  # group to the sites that have members; never 0
    _unknown: int = 0

    def __post_init__(self) -> None:
        for place, site in enumerate(self.routes.topology.sites):
            self._bits[site.name] = 1 << place
            self._homes.update(dict.fromkeys(site.daemons, 1 << place))

    @classmethod
    def unknown(cls, routes: Routes) -> Interest:
        """Of sites that have stated nothing yet."""
        made = cls(routes)
        for site in routes.topology.sites:
            made.forget(site.name)
        return made

    # --- what sites want ----------------------------------------------------------------------------------------

    def change(self, event: InterestChanged) -> bool:
        """A site's interest in one group; says whether that was news. Unknown sites and groups are no error."""
        bit = self._bits.get(event.site, 0)
        before = self._groups.get(event.group, 0)
        after = before | bit if event.interested else before & ~bit
        if after == before:
            return False
        if after:
            self._groups[event.group] = after
        else:
            del self._groups[event.group]
        return True

    def state(self, site: str, groups: Iterable[str]) -> None:
        """All groups in which a site is interested; from now on its interest is known."""
        bit = self._bits.get(site, 0)
        self._unknown &= ~bit
        self._groups = {group: sites & ~bit for group, sites in self._groups.items() if sites & ~bit}
        for group in groups:
            self._groups[group] = self._groups.get(group, 0) | bit

    def forget(self, site: str) -> None:
        """A site's interest is not known any more: until it is stated, the site needs everything."""
        self._unknown |= self._bits.get(site, 0)

    # --- what that means for a tree ------------------------------------------------------------------------------

    def sites_with_content(self, source: str, groups: Iterable[str]) -> tuple[str, ...]:
        """The sites that hold the content after it was sent: those that need it, and all on the way to them."""
        needed = self.sites_needed(groups)
        tree = self.routes.tree(source)
        return tuple(site for site, below in tree.below.items() if site == source or needed & self.mask(below))

    def sites_needed(self, groups: Iterable[str]) -> int:
        """The sites that need the content, as bits."""
        needed = self._unknown
        for group in groups:
            needed |= self._home(group) if is_private_group(group) else self._groups.get(group, 0)
        return needed

    def _home(self, group: str) -> int:
        """The site of a private group's daemon; nowhere if that daemon is not in the daemon view."""
        return self._homes.get(group.rpartition(PRIVATE_GROUP_MARK)[2], 0)

    def mask(self, sites: Iterable[str]) -> int:
        """These sites as bits."""
        return sum(self._bits[site] for site in sites)
