"""The normal form of runs: everything that the checks share, computed once, when the first of them asks for it.

Each check is a small function of it. Spark keeps the tables until nobody refers to them any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import RLock

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance import asks, held, lives, messages, network_uses, placing, stays
from isotone.pipeline.conformance.terms import kept
from isotone.pipeline.little import as_one

_APART = ("isotone.pipeline.conformance.network", "isotone.pipeline.conformance.causal")
"""The modules whose checks need nothing of views, and of messages only where they find something to ask."""


class Normal:
    """Tables by run and boundary; docs/protocols/pipeline.md describes each."""

    def __init__(self, silver: DataFrame) -> None:
        self._silver = silver
        self._tables: dict[str, DataFrame | None] = {}
        self._locks = {name: RLock() for name in ("rows", "stood", "said", "other")}

    def prepare(self, checks: Iterable[Callable[..., object]]) -> None:
        """Find at the same time who was where and what was said, if any of these checks asks for both."""
        if all(check.__module__ in _APART for check in checks):
            return
        _ = self.processes
        with ThreadPoolExecutor(1) as pool:
            said = pool.submit(lambda: self.deliveries)
            _ = self.stays
            _ = self.asks
            said.result()

    def _kept(self, name: str, lock: str, make: Callable[[], DataFrame]) -> DataFrame:
        return self._known(name, lock, lambda: kept(make()))

    def _known(self, name: str, lock: str, make: Callable[[], DataFrame]) -> DataFrame:
        with self._locks[lock]:
            if name not in self._tables:
                self._tables[name] = make()
            found = self._tables[name]
        assert found is not None
        return found

    # --- who was there ---------------------------------------------------------------------------------------------

    @property
    def rows(self) -> DataFrame:
        """Silver."""
        return self._kept("rows", "rows", lambda: as_one(self._silver))

    @property
    def runs(self) -> DataFrame:
        """Runs: lossy, settled, quiet, components."""
        return self._kept("runs", "rows", lambda: lives.runs(self.rows))

    @property
    def homes(self) -> DataFrame:
        """Nodes and incarnations."""
        return self._kept("homes", "rows", lambda: lives.homes(self.rows))

    @property
    def boundary_homes(self) -> DataFrame:
        """The same as one boundary knows them."""
        return self._kept("boundary_homes", "rows", lambda: lives.boundary_homes(self.rows, self.homes))

    @property
    def processes(self) -> DataFrame:
        """Processes at their homes."""
        return self._kept("processes", "rows", lambda: lives.processes(self.rows, self.homes))

    # --- where they stood --------------------------------------------------------------------------------------------

    @property
    def touches(self) -> DataFrame:
        """Installations, leaves and signals."""
        return self._kept("touches", "stood", lambda: stays.touches(self.rows))

    @property
    def turns(self) -> DataFrame:
        """What begins or ends a stay."""
        return self._kept("turns", "stood", self._turns)

    def _turns(self) -> DataFrame:
        return stays.turns(self.touches, self.processes, lives.losses(self.rows))

    @property
    def stays(self) -> DataFrame:
        """Installations, with how they were left."""
        return self._kept("stays", "stood", lambda: stays.stays(self.turns, self.touches, self.processes))

    @property
    def asks(self) -> DataFrame:
        """What clients asked for."""
        return self._kept("asks", "stood", lambda: asks.asks(self.rows, self.turns))

    @property
    def regular(self) -> DataFrame:
        """Stays that compare."""
        return self._kept("regular", "stood", lambda: held.regular_stays(self.stays))

    @property
    def together(self) -> DataFrame:
        """Stays left together."""
        return self._kept("together", "stood", lambda: held.together(self.regular))

    # --- what was said -----------------------------------------------------------------------------------------------

    @property
    def sends(self) -> DataFrame:
        """Sends that count."""
        return self._kept("sends", "said", lambda: messages.sends(self.rows, self.processes))

    @property
    def pieces(self) -> DataFrame:
        """Delivery rows with what was sent."""
        return self._known("pieces", "said", lambda: messages.pieces(self.rows, self.sends))

    @property
    def deliveries(self) -> DataFrame:
        """Receivers and pieces."""
        return self._kept("deliveries", "said", lambda: messages.deliveries(self.pieces))

    # --- both --------------------------------------------------------------------------------------------------------

    @property
    def placed(self) -> DataFrame:
        """Sends and deliveries with the stay that they fall into."""
        return self._kept("placed", "other", self._placed)

    def _placed(self) -> DataFrame:
        marks = placing.marks(self.turns, self.touches, self.stays, self.asks)
        return placing.placed(self.deliveries, self.sends, marks)

    @property
    def inside(self) -> DataFrame:
        """Reliable first deliveries in views."""
        return self._kept("inside", "other", lambda: held.inside(self.placed))

    @property
    def held(self) -> DataFrame:
        """The same in stays that compare."""
        return self._kept("held", "other", lambda: held.held(self.placed))

    @property
    def uses(self) -> DataFrame | None:
        """Of the network; none where nothing is recorded of it."""
        with self._locks["other"]:
            if "uses" not in self._tables:
                is_used = not self.rows.where(F.col("kind").isin(*network_uses.TRAFFIC)).isEmpty()
                self._tables["uses"] = kept(network_uses.uses(self.rows)) if is_used else None
            return self._tables["uses"]
