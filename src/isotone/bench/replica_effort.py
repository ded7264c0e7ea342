"""How much the suite ``replica`` measures."""

from __future__ import annotations

import msgspec


class ReplicaEffort(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured."""

    clients: tuple[int, ...] = (1, 16, 256)
    seconds: float = 5.0
    rounds: int = 3
    losses: int = 3
    learner_mib: int = 1024


QUICK_REPLICA = ReplicaEffort(clients=(1, 16), seconds=0.5, rounds=1, losses=1, learner_mib=8)
