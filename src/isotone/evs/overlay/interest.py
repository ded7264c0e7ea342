"""Who needs content: which sites have members of which groups, and so over which branches content must travel.

Where nobody below a branch of the source's tree needs a bundle, its metadata goes there alone. This says what is needed
as far as this site knows; that content is kept until it is stable, and sent to a site whose join turns out to be
ordered before it, is for the ordering to do, with `branch_towards` and `sites_with_content`.

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

CACHE_MAX = 4096


class InterestChanged(Event, frozen=True, gc=False):
    """A site got its first member of a group, or lost its last."""

    site: str
    group: str
    interested: bool


@dataclass(slots=True)
class Interest:
    """The interest of all sites, as one site uses it to forward. Sets of sites are bits of a number, by place."""

    routes: Routes
    at: str
    _bits: dict[str, int] = field(default_factory=dict)  # site to its bit
    _homes: dict[str, int] = field(default_factory=dict)  # daemon to the bit of its site
    _groups: dict[str, int] = field(default_factory=dict)  # group to the sites that have members; never 0
    _unknown: int = 0
    _cache: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = field(default_factory=dict)
    _cached: dict[str, dict[tuple[str, tuple[str, ...]], None]] = field(default_factory=dict)  # group to keys in _cache
    _branches: dict[str, list[tuple[str, int]]] = field(default_factory=dict)  # source to branches and sites below

    def __post_init__(self) -> None:
        for place, site in enumerate(self.routes.topology.sites):
            self._bits[site.name] = 1 << place
            self._homes.update(dict.fromkeys(site.daemons, 1 << place))

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
        self._forget(event.group)
        return True

    def state(self, site: str, groups: Iterable[str]) -> None:
        """All groups in which a site is interested; from now on its interest is known."""
        bit = self._bits.get(site, 0)
        self._unknown &= ~bit
        self._groups = {group: sites & ~bit for group, sites in self._groups.items() if sites & ~bit}
        for group in groups:
            self._groups[group] = self._groups.get(group, 0) | bit
        self._forget_all()

    def forget(self, site: str) -> None:
        """A site's interest is not known any more: until it is stated, the site needs everything."""
        self._unknown |= self._bits.get(site, 0)
        self._forget_all()

    def sites_needing(self, groups: Iterable[str]) -> tuple[str, ...]:
        """The sites that need the content of a bundle to these groups, sorted."""
        needed = self._needed(groups)
        return tuple(site for site, bit in self._bits.items() if needed & bit)

    # --- what that means for a tree ------------------------------------------------------------------------------

    def branches_needing(self, source: str, groups: tuple[str, ...]) -> tuple[str, ...]:
        """The children of this site in the source's tree to which content must go; the others get metadata alone."""
        key = (source, groups)
        found = self._cache.get(key)
        return self._look_up(key) if found is None else found

    def branch_towards(self, source: str, site: str) -> str | None:
        """The child through which a site gets what comes from the source, for content that it is owed after all."""
        return self.routes.branch_towards(source, self.at, site)

    def sites_with_content(self, source: str, groups: Iterable[str]) -> tuple[str, ...]:
        """The sites that hold the content after it was sent: those that need it, and all on the way to them."""
        needed = self._needed(groups)
        tree = self.routes.tree(source)
        return tuple(site for site, below in tree.below.items() if site == source or needed & self._mask(below))

    def _look_up(self, key: tuple[str, tuple[str, ...]]) -> tuple[str, ...]:
        source, groups = key
        needed = self._needed(groups)
        found = tuple(child for child, below in self._branches_of(source) if needed & below)
        if len(self._cache) >= CACHE_MAX:
            self._forget_all()
        self._cache[key] = found
        for group in groups:
            self._cached.setdefault(group, {})[key] = None
        return found

    def _branches_of(self, source: str) -> list[tuple[str, int]]:
        found = self._branches.get(source)
        if found is None:
            children = self.routes.children(source, self.at)
            found = [(child, self._mask(self.routes.below(source, child))) for child in children]
            self._branches[source] = found
        return found

    def _needed(self, groups: Iterable[str]) -> int:
        needed = self._unknown
        for group in groups:
            needed |= self._home(group) if is_private_group(group) else self._groups.get(group, 0)
        return needed

    def _home(self, group: str) -> int:
        """The site of a private group's daemon; nowhere if that daemon is not in the daemon view."""
        return self._homes.get(group.rpartition(PRIVATE_GROUP_MARK)[2], 0)

    def _mask(self, sites: Iterable[str]) -> int:
        return sum(self._bits[site] for site in sites)

    def _forget(self, group: str) -> None:
        for key in self._cached.pop(group, {}):
            del self._cache[key]
            for other in key[1]:
                self._cached.get(other, {}).pop(key, None)

    def _forget_all(self) -> None:
        self._cache.clear()
        self._cached.clear()
