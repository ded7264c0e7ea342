"""Storms: faults drawn from the seed, and mended at the end.

The schedule comes from the simulator's own families of faults, in bursts, since two faults within one view change are
where programs break. What makes no sense when its time comes (a crash of a daemon that is down) is passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from isotone.core.choice import Choice
from isotone.core.errors import LocalProtocolError
from isotone.sim.disk import DiskSettings
from isotone.sim.faults import FAMILIES, Fault, apply_fault, draw_faults

if TYPE_CHECKING:
    from isotone.testing.simulated import Cluster

STORM = ("partition", "cut", "crash", "pause")
NOT_FOR_CLIENTS = ("move",)
"""Programs here know their daemons by address, so daemons do not move."""
FAULTS_PER_SECOND = 2.0


class KeptFaults:
    """Which faults of the storms of one run happen, by their places among all of them: what shrinking leaves."""

    def __init__(self) -> None:
        self.places: frozenset[int] | None = None  # None: all
        self.drawn = 0  # in this run

    def begin(self, places: frozenset[int] | None) -> None:
        """The next run has these, or all."""
        self.places, self.drawn = places, 0

    def of(self, faults: Sequence[Fault]) -> tuple[Fault, ...]:
        """Those of one storm that happen."""
        first, self.drawn = self.drawn, self.drawn + len(faults)
        if self.places is None:
            return tuple(faults)
        return tuple(fault for place, fault in enumerate(faults, first) if place in self.places)


kept_faults = KeptFaults()
"""Set for each run by `isotone.testing.seeding`."""


class Storm:
    """One storm over one cluster."""

    def __init__(self, cluster: Cluster, choice: Choice, duration: float, families: Sequence[str]) -> None:
        unknown = [name for name in families if name not in FAMILIES or name in NOT_FOR_CLIENTS]
        if unknown:
            raise LocalProtocolError(f"no storm has the faults {unknown}; it may have {', '.join(_borne())}")
        self._cluster = cluster
        end = round(duration * 1_000_000)
        count = max(1, round(duration * FAULTS_PER_SECOND))
        clients = dict.fromkeys(cluster.daemons, ("*",))
        drawn = draw_faults(choice, families=families, clients=clients, count=count, end=end) if families else ()
        self.faults: tuple[Fault, ...] = kept_faults.of(drawn)
        loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = loop.create_future()
        self._timers = [loop.call_later(fault.at / 1_000_000, self._strike, fault) for fault in self.faults]
        self._timers.append(loop.call_later(duration, self._end))

    def _strike(self, fault: Fault) -> None:
        apply_fault(fault, self)

    def _end(self) -> None:
        self._cluster.calm()
        if not self.over.done():
            self.over.set_result(None)

    def cancel(self) -> None:
        """No fault comes any more."""
        for timer in self._timers:
            timer.cancel()
        self.over.cancel()

    # --- what faults do ----------------------------------------------------------------------------------------------

    def partition(self, sides: Sequence[Sequence[str]]) -> None:
        """Cut the cluster into these sides."""
        self._cluster.partition(*sides)

    def cut(self, source: str, target: str, *, one_way: bool) -> None:
        """Cut one link."""
        self._cluster.cut(source, target, one_way=one_way)

    def heal(self) -> None:
        """Undo partitions and cuts."""
        self._cluster.heal()

    def crash(self, node: str) -> None:
        """End a daemon that runs."""
        if self._cluster.is_up(node):
            self._cluster.crash(node)

    def restart(self, node: str, *, elsewhere: bool = False) -> None:
        """Start a daemon that is down."""
        assert not elsewhere
        if not self._cluster.is_up(node):
            self._cluster.restart(node)

    def pause(self, node: str) -> None:
        """Let a daemon stand still."""
        if self._cluster.is_up(node):
            self._cluster.pause(node)

    def resume(self, node: str) -> None:
        """Let it go on."""
        if self._cluster.is_up(node):
            self._cluster.resume(node)

    def kill_client(self, node: str, client: str) -> None:
        """The streams of all programs at this daemon break; sessions outlive that."""
        del client
        self._cluster.break_streams(node)

    def slow_disk(self, node: str, sync_us: int | None) -> None:
        """Every sync takes this long, or as long as usual."""
        settings = DiskSettings() if sync_us is None else DiskSettings(sync_us=sync_us)
        self._cluster.world.disk(node).settings = settings


def _borne() -> list[str]:
    return [name for name in FAMILIES if name not in NOT_FOR_CLIENTS]
