"""Settings of a site, and the bounds of what it keeps."""

from __future__ import annotations

import msgspec

from isotone.core.errors import LocalProtocolError
from isotone.isis.names import GROUP_PREFIX, check_site_name

TICK_US = 50_000
SUSPECT_US = 300_000
COLLECT_US = 100_000
RECONNECT_US = 20_000

WINDOW_MAX = 64  # frames of a channel that are under way
BACKLOG_MAX = 4_096  # frames that wait for a channel: then broadcasts are refused
POOL_MAX = 4_096  # CBCASTs that are not everywhere: then broadcasts are refused
WAITING_MAX = 1_024  # broadcasts that wait for a view of their group: then more are refused
TRIES_MAX = 8  # times that a GBCAST from outside is sent to a group without meeting a member
PACKET_BYTES_MAX = 40 * 1024
HISTORY_MAX = 8  # committed site views that are kept
ORIGINS_MAX = 256  # incarnations of which a site remembers what it has collected; the one longest silent goes first
GARBAGE_MAX = 256  # ids of one round of garbage collection


class IsisSettings(msgspec.Struct, frozen=True):
    """Of one site. ``sites``: the names of all; a majority of them must be operational."""

    site: str
    sites: tuple[str, ...]
    system: str = "isis"
    tick_us: int = TICK_US
    suspect_us: int = SUSPECT_US
    collect_us: int = COLLECT_US
    defer_us: int = 0
    """So long a CBCAST may wait for others that travel in the same packet."""
    clusters: tuple[tuple[str, ...], ...] = ()
    """Of a wide-area network: the sites of every cluster, the same everywhere; ``sites`` are one of them."""

    @property
    def everywhere(self) -> tuple[str, ...]:
        """The names of the sites of all clusters."""
        return tuple(name for cluster in self.clusters for name in cluster) or self.sites

    @property
    def cluster(self) -> int:
        """The place of this site's cluster."""
        return self.clusters.index(self.sites) if self.clusters else 0

    @property
    def group(self) -> str:
        """The group at B4 in which the kernels find each other."""
        return GROUP_PREFIX + self.system

    @property
    def majority(self) -> int:
        """So many sites at least are in a site view."""
        return len(self.sites) // 2 + 1


def check_sites(settings: IsisSettings) -> None:
    """Raise what is wrong with the names of the sites."""
    names = settings.everywhere
    for name in names:
        check_site_name(name)
    if settings.clusters and (settings.sites not in settings.clusters or len(set(names)) != len(names)):
        raise LocalProtocolError(f"clusters have each site once, and {', '.join(settings.sites)} are one of them")
    if settings.site not in settings.sites or len(set(settings.sites)) != len(settings.sites):
        raise LocalProtocolError(f"the sites {', '.join(settings.sites)} do not have {settings.site!r} once")
