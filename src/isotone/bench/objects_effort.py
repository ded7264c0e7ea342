"""How much the suite ``objects`` measures."""

from __future__ import annotations

import msgspec


class ObjectsEffort(msgspec.Struct, frozen=True, kw_only=True):
    """How many callers there are, and for how long each deed is measured."""

    callers: tuple[int, ...] = (1, 16, 256)
    seconds: float = 5.0
    rounds: int = 3


QUICK_OBJECTS = ObjectsEffort(callers=(1, 4), seconds=0.3, rounds=1)
