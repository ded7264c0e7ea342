"""Sites with their daemons, and the links between sites: a value that every daemon of a daemon view shares.

The representative fixes it when a daemon view forms, measured weights included, and everybody computes routes from
it. So it has one form: sites, daemons and links are sorted and every weight is a whole number.

Implements: [Spread 3.3] the overlay's input, [Spread 4.4] fanout and tree as two weightings.
Deviations: Do1 weights are fixed by the representative and not by each daemon's settings file, because measured
weights differ from daemon to daemon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from isotone.core.errors import InputError, LocalProtocolError
from isotone.core.names import DAEMON_NAME_MAX, check_daemon_name

WEIGHT_MAX = 2**40
SITE_NAME_MAX = DAEMON_NAME_MAX


class LinkProtocol(Enum):
    """How a link between two sites is made reliable [Spread 4.2, 4.3]."""

    HOP = "hop"
    TCP = "tcp"


class LinkLimits(msgspec.Struct, frozen=True, gc=False):
    """The leaky bucket of a link; 0 means no limit."""

    bits_per_second: int = 0
    burst_bytes: int = 0


class Site(msgspec.Struct, frozen=True, gc=False):
    """A LAN: its daemons by name, sorted, and the one that holds the links to other sites."""

    name: str
    daemons: tuple[str, ...]
    gateway: str


class Link(msgspec.Struct, frozen=True, gc=False):
    """A link between two sites, ``a < b``; packets may take it both ways at the same weight."""

    a: str
    b: str
    weight: int = 1
    protocol: LinkProtocol = LinkProtocol.HOP
    limits: LinkLimits = LinkLimits()

    @property
    def name(self) -> str:
        """The same at both ends."""
        return f"{self.a}~{self.b}"

    def other(self, site: str) -> str:
        """The site at the far end."""
        assert site in (self.a, self.b)
        return self.b if site == self.a else self.a


class Topology(msgspec.Struct, frozen=True, gc=False):
    """All sites and links, sorted. Make one with `make_topology`; check one that came over the wire."""

    sites: tuple[Site, ...]
    links: tuple[Link, ...]

    def site(self, name: str) -> Site:
        """The site of this name."""
        return next(site for site in self.sites if site.name == name)

    def with_weights(self, weights: Sequence[int]) -> Topology:
        """The same links, in their order, with other weights."""
        assert len(weights) == len(self.links)
        links = [msgspec.structs.replace(link, weight=weight) for link, weight in zip(self.links, weights)]
        return make_topology(self.sites, links)


def make_site(name: str, daemons: Iterable[str], gateway: str = "") -> Site:
    """A site in its one form; without a gateway, the first daemon by name is it."""
    ordered = tuple(sorted(daemons))
    return Site(name, ordered, gateway or (ordered[0] if ordered else ""))


def make_link(
    a: str,
    b: str,
    weight: int = 1,
    protocol: LinkProtocol = LinkProtocol.HOP,
    limits: LinkLimits | None = None,
) -> Link:
    """A link in its one form, whichever end is named first."""
    return Link(min(a, b), max(a, b), weight, protocol, limits or LinkLimits())


def make_topology(sites: Iterable[Site], links: Iterable[Link]) -> Topology:
    """Sort, check and join; raises `InputError` that lists everything that is wrong."""
    topology = Topology(
        tuple(sorted((make_site(site.name, site.daemons, site.gateway) for site in sites), key=lambda site: site.name)),
        tuple(sorted((_normal(link) for link in links), key=lambda link: (link.a, link.b))),
    )
    problems = topology_problems(topology)
    if problems:
        raise InputError("topology: " + "; ".join(problems))
    return topology


def topology_problems(topology: Topology) -> list[str]:
    """Everything that is wrong with a topology, in words; for one from a peer, that is a `RemoteProtocolError`."""
    problems = _order_problems(topology)
    names = [site.name for site in topology.sites]
    problems += [f"site {name!r} is there twice" for name in _repeated(names)]
    problems += [
        f"daemon {name!r} is there twice" for name in _repeated([d for s in topology.sites for d in s.daemons])
    ]
    problems += [f"link {name} is there twice" for name in _repeated([link.name for link in topology.links])]
    for site in topology.sites:
        problems += _site_problems(site)
    for link in topology.links:
        problems += _link_problems(link, names)
    return problems


def fanout(topology: Topology) -> Topology:
    """All links alike: every source sends directly wherever there is a link [Spread 4.4]."""
    return topology.with_weights([1] * len(topology.links))


def shared_tree(topology: Topology) -> Topology:
    """One tree for all sources [Spread 4.4]: the minimum spanning tree by weight, ties by name.

    A link outside the tree weighs more than any path inside it, so no route takes it.
    """
    root = {site.name: site.name for site in topology.sites}
    chosen: set[str] = set()
    for link in sorted(topology.links, key=lambda link: (link.weight, link.a, link.b)):
        one, other = _root(root, link.a), _root(root, link.b)
        if one != other:
            root[other] = one
            chosen.add(link.name)
    outside = len(topology.sites)
    return topology.with_weights([1 if link.name in chosen else outside for link in topology.links])


def _root(root: dict[str, str], site: str) -> str:
    while root[site] != site:
        site = root[site]
    return site


def _normal(link: Link) -> Link:
    return make_link(link.a, link.b, link.weight, link.protocol, link.limits)


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []


def _order_problems(topology: Topology) -> list[str]:
    """What a peer could get wrong and `make_topology` cannot: then daemons would differ about one value's form."""
    problems = []
    if list(topology.sites) != sorted(topology.sites, key=lambda site: site.name):
        problems.append("sites are not sorted")
    if list(topology.links) != sorted(topology.links, key=lambda link: (link.a, link.b)):
        problems.append("links are not sorted")
    problems += [f"the daemons of site {s.name!r} are not sorted" for s in topology.sites if _unsorted(s.daemons)]
    problems += [f"the ends of link {link.name} are not sorted" for link in topology.links if link.a > link.b]
    return problems


def _unsorted(names: Sequence[str]) -> bool:
    return list(names) != sorted(names)


def _site_problems(site: Site) -> list[str]:
    problems = []
    if not 1 <= len(site.name) <= SITE_NAME_MAX or any(not "\x24" <= letter <= "\x7e" for letter in site.name):
        problems.append(f"site name {site.name!r} must have 1 to {SITE_NAME_MAX} characters from $ to ~")
    if not site.daemons:
        problems.append(f"site {site.name!r} has no daemon")
    elif site.gateway not in site.daemons:
        problems.append(f"the gateway {site.gateway!r} of site {site.name!r} is none of its daemons")
    for daemon in site.daemons:
        try:
            check_daemon_name(daemon)
        except LocalProtocolError as error:
            problems.append(f"site {site.name!r}: {error}")
    return problems


def _link_problems(link: Link, sites: Sequence[str]) -> list[str]:
    ends = sorted({link.a, link.b})
    problems = [f"link {link.name} ends at {end!r}, which is no site" for end in ends if end not in sites]
    if link.a == link.b:
        problems.append(f"link {link.name} ends where it begins")
    if not 0 <= link.weight <= WEIGHT_MAX:
        problems.append(f"link {link.name} has weight {link.weight}, outside 0 to {WEIGHT_MAX}")
    if min(link.limits.bits_per_second, link.limits.burst_bytes) < 0:
        problems.append(f"link {link.name} has a negative limit")
    return problems
