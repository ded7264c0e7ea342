"""What the seed draws for a run of replicated objects: rounds, leases, snapshots, clocks, bad disks."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from isotone.core.choice import Choice
from isotone.corel.quorum import Majority
from isotone.corel.settings import ReplicaSettings
from isotone.sim.full_system import FULL

GROUP = "objects"
LABEL = "objects"
FAST = 10.0


class Terms(msgspec.Struct, frozen=True):
    """Of one run."""

    servers: tuple[str, ...]
    round_us: int
    lease_s: float
    snapshot_every: int
    rates: Mapping[str, float]  # how fast the clocks of the programs run
    failing: tuple[str, ...] = ()  # whose disks fail now and then
    proposals: bool = False

    def settings(self, server: str) -> ReplicaSettings:
        """Of one server."""
        return ReplicaSettings(
            server=server,
            servers=self.servers,
            group=GROUP,
            quorum=Majority(self.servers),
            checkpoint_records=64,
            snapshots=True,
            proposals=self.proposals,
        )


def draw_terms(seed: int, names: tuple[str, ...], stack: str) -> Terms:
    """The same for the same seed. Clocks differ by up to a tenth, and less than half of them may run wild."""
    choice = Choice(f"replicated/{seed}").derive("settings")
    rates = {name: choice.between(950, 1_050) / 1_000 for name in names}
    if choice.chance(0.5):
        for name in choice.sample(names, (len(names) - 1) // 2):
            rates[name] = FAST
    round_us = choice.pick((60_000, 120_000)) if stack == FULL else choice.pick((30_000, 200_000))
    return Terms(
        servers=names,
        round_us=round_us,
        lease_s=choice.pick((4, 6)) * round_us / 1_000_000,
        snapshot_every=choice.pick((20, 60, 1_000)),
        rates=rates,
        failing=tuple(choice.sample(names, len(names) // 2)) if choice.chance(0.3) else (),
        proposals=choice.chance(0.3),
    )
