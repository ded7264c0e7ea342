"""What the seed draws for a run of data centres beside its topology: settings, links, and what the operator does."""

from __future__ import annotations

import msgspec

from isotone.core.choice import Choice
from isotone.hab.settings import HabSettings, Mode
from isotone.sim.links import LinkSettings
from isotone.sim.plan import Topology

CONSENSUS, COREL = "consensus", "corel"


class Terms(msgspec.Struct, frozen=True):
    """Of one run."""

    settings: HabSettings
    snapshot_every: int
    wide: LinkSettings
    declares_after_us: int  # so long after a disaster the operator declares it


def centres_of(topology: Topology) -> dict[str, tuple[str, ...]]:
    """The processes of each centre."""
    found: dict[str, tuple[str, ...]] = {}
    for node in topology.nodes:
        found[node.site] = (*found.get(node.site, ()), node.name)
    return found


def draw_terms(seed: int, topology: Topology, stack: str) -> Terms:
    """The same for the same seed, topology and stack."""
    choice = Choice(f"hab/{seed}").derive("settings")
    latency = choice.pick((2_000, 10_000, 30_000))
    settings = HabSettings(
        centres=centres_of(topology),
        mode=choice.pick((Mode.WAITING, Mode.WAITING, Mode.AT_ONCE)),
        ahead_max=choice.pick((2, 16)),
        lease_us=choice.pick((300_000, 1_000_000)),
        window_max=choice.pick((4, 16, 64)),
        batch_max=choice.pick((1, 8, 64)),
        batch_bytes_max=16 * 1024,
        stores_under_way_max=choice.pick((1, 4)),
        snapshots=True,
        history_max=choice.pick((40, 100)),
        answer_us=4 * latency + choice.pick((40_000, 150_000)),
        alive_us=100_000,
        state_every=choice.pick((10, 60)) if stack == COREL else 0,
        confirmations=2 if choice.derive("wishes").chance(0.2) else 1,
    )
    wide = LinkSettings(
        latency_us=latency,
        jitter_us=latency // 5,
        loss=choice.pick((0.0, 0.0, 0.02, 0.1)),
        reorder=choice.pick((0.0, 0.05)),
        reorder_us=latency,
        duplicate=choice.pick((0.0, 0.05)),
    )
    return Terms(settings, choice.pick((5, 20)), wide, choice.between(20_000, 600_000))
