"""A storm from a seed: daemons, sites, links, weather and faults are drawn; then everything heals.

Either all faults end and one daemon view is demanded, or cuts stay and daemon views are demanded that stay too.
"""

from __future__ import annotations

from isotone.core.choice import Choice
from isotone.core.services import Service
from isotone.evs.membership import KnownDaemon, LinkPlan, MembershipSettings, PeersChanged
from isotone.evs.overlay.topology import LinkProtocol
from isotone.sim.links import LinkSettings
from tests.evs.membership.cluster import LABEL, SECOND, Cluster

SERVICES = tuple(Service)
PAUSES_US = (1_000, 20_000, 100_000, 300_000, 1_000_000)


class Storm:
    """One run."""

    def __init__(
        self, seed: int | str, *, settings: MembershipSettings | None = None, loss: float | None = None
    ) -> None:
        choice = self.choice = Choice(f"storm/{seed}")
        count = choice.between(2, 8)
        self.letters = "abcdefgh"[:count]
        words = [""] * choice.between(1, min(4, count))
        for place, letter in enumerate(self.letters):
            words[place if place < len(words) else choice.below(len(words))] += letter
        self.loss = choice.pick((0.0, 0.0, 0.01, 0.03, 0.1)) if loss is None else loss
        self.cluster = Cluster(" ".join(words), seed=seed, settings=settings, links=self._links(words))
        self.moved = False
        weather = choice.derive("weather")
        for one in self.letters:
            for other in self.letters:
                if one != other:
                    near = self.cluster.home[one] == self.cluster.home[other]
                    self.cluster.world.network.link(one, other).change(self._weather(weather, near=near))

    def _links(self, words: list[str]) -> tuple[LinkPlan, ...]:
        choice = self.choice
        if choice.chance(0.5):
            return ()
        links = []
        for place in range(1, len(words)):
            stream = choice.chance(0.4) and self.loss <= 0.03
            protocol = LinkProtocol.TCP if stream else LinkProtocol.HOP
            links.append(LinkPlan(a=words[place], b=words[choice.below(place)], protocol=protocol))
        return tuple(links)

    def _weather(self, choice: Choice, *, near: bool) -> LinkSettings:
        latency = choice.between(100, 600) if near else choice.between(2_000, 60_000)
        return LinkSettings(
            latency_us=latency,
            jitter_us=latency // choice.pick((2, 4, 10)),
            loss=self.loss * choice.pick((0.5, 1.0)),
            reorder=choice.pick((0.0, 0.05, 0.2)),
            reorder_us=latency * choice.pick((1, 3)),
            duplicate=choice.pick((0.0, 0.05, 0.2)),
        )

    # --- faults ----------------------------------------------------------------------------------------------------

    def rage(self, seconds: float) -> None:
        """Talk and break."""
        world, choice = self.cluster.world, self.choice
        end = world.now + int(seconds * SECOND)
        while world.now < end:
            self.talk(choice.between(0, 20))
            self._fault(choice.below(14))
            world.run_for(choice.pick(PAUSES_US))

    def talk(self, times: int) -> None:
        """Some daemons say something."""
        world, choice = self.cluster.world, self.choice
        awake = [name for name in self.cluster.up if not world.is_paused(name)]
        for _ in range(times if awake else 0):
            self.cluster.talk(choice.pick(awake), choice.pick(SERVICES), choice.pick((10, 100, 3_000)))

    def _fault(self, kind: int) -> None:
        world, choice = self.cluster.world, self.choice
        one, other = choice.sample(self.letters, 2)
        match kind:
            case 0:
                mixed = choice.sample(self.letters, len(self.letters))
                place = choice.between(1, len(mixed) - 1)
                world.partition(mixed[:place], mixed[place:])
            case 1 | 2:
                world.heal()
            case 3 if world.is_up(one):
                world.crash(one)
            case 4 | 5:
                self._restart()
            case 6 | 7:
                world.cut(one, other, one_way=choice.chance(0.5))
            case 8 if world.is_up(one):
                world.pause(one)
            case 9:
                self._resume()
            case 10 if world.is_up(one) and not world.is_paused(one) and choice.chance(0.3):
                world.stop(one)

    def _restart(self) -> None:
        world, choice = self.cluster.world, self.choice
        down = [name for name in self.letters if not world.is_up(name)]
        if down:
            name = choice.pick(down)
            elsewhere = choice.chance(0.3)
            self.moved |= elsewhere
            world.restart(name, str(world.new_address(name)) if elsewhere else None)

    def _resume(self) -> None:
        for name in self.letters:
            if self.cluster.world.is_paused(name):
                self.cluster.world.resume(name)

    # --- the end ---------------------------------------------------------------------------------------------------

    def heal(self) -> float:
        """Everything works again; seconds until there is one daemon view."""
        world = self.cluster.world
        world.heal()
        self._resume()
        for name in self.letters:
            if not world.is_up(name):
                world.restart(name)
        if self.moved:
            self._tell_addresses()
        return self.cluster.run_until_together(limit=30)

    def _tell_addresses(self) -> None:
        """What discovery does: daemons that all moved at once cannot find each other by themselves."""
        world, home = self.cluster.world, self.cluster.home
        known = tuple(KnownDaemon(name, home[name], world.nodes[name].address) for name in self.letters)
        for name in self.letters:
            world.tell(name, LABEL, PeersChanged(0, known))

    def verdict(self) -> dict[str, str]:
        """Say a last word, come to rest, and be judged."""
        for name in self.letters:
            self.cluster.talk(name, self.choice.pick(SERVICES))
        assert self.cluster.settle(), self.cluster.explain()
        assert not self.cluster.world.refused, self.cluster.world.refused
        return self.cluster.violations()


def cut_for_good(storm: Storm) -> set[tuple[str, str]]:
    """Some links end for good, both ways or one way; which ones pass nothing in a direction."""
    choice, world = storm.choice, storm.cluster.world
    cuts: set[tuple[str, str]] = set()
    for _ in range(choice.between(1, len(storm.letters) + 2)):
        one, other = choice.sample(storm.letters, 2)
        one_way = choice.chance(0.4)
        world.cut(one, other, one_way=one_way)
        cuts |= {(one, other)} if one_way else {(one, other), (other, one)}
        if choice.chance(0.5):
            world.run_for(choice.pick((1_000, 100_000, 700_000)))
    return cuts
