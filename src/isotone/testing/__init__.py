"""Test your own asyncio programs against partitions, crashes and pauses, in virtual time. See docs/guide/testing.md.

Names are loaded when they are first asked for: pytest imports this package for its plug-in, in every run of everybody.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isotone.testing.errors import BrokenPromise as BrokenPromise
    from isotone.testing.errors import Deadlock as Deadlock
    from isotone.testing.errors import DiedUnnoticed as DiedUnnoticed
    from isotone.testing.errors import NotSettled as NotSettled
    from isotone.testing.errors import NotSimulated as NotSimulated
    from isotone.testing.errors import TestingError as TestingError
    from isotone.testing.errors import TimeOver as TimeOver
    from isotone.testing.loop import VirtualLoop as VirtualLoop
    from isotone.testing.running import new_loop as new_loop
    from isotone.testing.running import run as run
    from isotone.testing.seeding import seeds as seeds
    from isotone.testing.simulated import Cluster as Cluster
    from isotone.testing.simulated import cluster as cluster

_ERRORS = ("BrokenPromise", "Deadlock", "DiedUnnoticed", "NotSettled", "NotSimulated", "TestingError", "TimeOver")
_WHERE = dict.fromkeys(_ERRORS, "errors") | {
    "Cluster": "simulated",
    "VirtualLoop": "loop",
    "cluster": "simulated",
    "new_loop": "running",
    "run": "running",
    "seeds": "seeding",
}

__all__ = [  # noqa: PLE0604
    *_ERRORS,
    *("Cluster", "VirtualLoop", "cluster", "new_loop", "run", "seeds"),
]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'isotone.testing' has no attribute {name!r}")
    value: object = getattr(import_module(f"isotone.testing.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
