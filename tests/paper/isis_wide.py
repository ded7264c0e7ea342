"""Sites in two clusters, ``a b`` and ``c d e``, whose frames a test carries by hand."""

from __future__ import annotations

from isotone.core.contract import Action
from isotone.isis import events as e
from isotone.isis import wire as w
from isotone.isis.life import Life
from isotone.isis.settings import IsisSettings
from tests.paper.isis_cluster import Cluster

CLUSTERS = (("a", "b"), ("c", "d", "e"))
SITES = tuple(f"{name}.1" for cluster in CLUSTERS for name in cluster)


class WideCluster(Cluster):
    """The processes ``p`` of ``members`` are in the group g."""

    def __init__(self, members: tuple[str, ...] = SITES) -> None:
        self.lives: dict[str, Life] = {}
        self.heard: dict[str, list[Action]] = {site: [] for site in SITES}
        self.cut: set[tuple[str, str]] = set()
        self.carried: list[tuple[str, str, object]] = []
        self.views = [w.NO_VIEW, w.NO_VIEW]
        for place, names in enumerate(CLUSTERS):
            for name in names:
                self.lives[f"{name}.1"] = Life(IsisSettings(name, names, clusters=CLUSTERS), f"{name}.1")
            self.views[place] = self._view(place, 1)
        for place in range(2):
            for site in self.views[1 - place].members:
                self.lives[site].learn(place, self.views[place])
        for place in range(2):
            self.install(place)
        self.run()
        for site in members:
            self.ask(site, e.JoinWanted(0, "p", "g"))
            self.run()
        self.carried.clear()

    def _view(self, place: int, number: int) -> w.SiteView:
        members = tuple(f"{name}.1" for name in CLUSTERS[place] if f"{name}.1" in self.lives)
        return w.SiteView(number, members, tuple((name, 1) for name in CLUSTERS[place]))

    def install(self, place: int) -> None:
        """The last site view of a cluster, at its own sites."""
        for site in self.views[place].members:
            self.lives[site].enter_view(self.views[place])
            self.lives[site].settle(transmit=True)

    def tell_others(self, place: int) -> None:
        """The last site view of a cluster, to the other."""
        for site in self.views[1 - place].members:
            self.lives[site].learn(place, self.views[place])
            self.lives[site].settle(transmit=True)
        self.run()

    def fail_in(self, place: int, *failed: str, told: bool = True) -> None:
        """The survivors in a cluster install a site view without these; the other cluster learns of it."""
        for site in failed:
            del self.lives[site]
        self.views[place] = self._view(place, self.views[place].number + 1)
        self.install(place)
        self.run()
        if told:
            self.tell_others(place)

    def apart(self) -> None:
        """Nothing goes from one cluster to the other."""
        near, far = ([f"{name}.1" for name in names] for names in CLUSTERS)
        self.cut |= {(one, other) for one in near for other in far} | {(other, one) for one in near for other in far}
