"""Transfer of a group's state to who joins: parts from a coordinator, resumed by a cohort when the coordinator fails.

Every member that has the state keeps a snapshot as of the view with the joining process; the first by rank sends it.
Snapshots of one instant are equal to the byte, so a cohort goes on where the coordinator stopped.

Implements: [ISIS 3.7]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from isotone.isis.delivery import digest_of
from isotone.isis.toolkit.wire import Body, Complete, Offer, Part, Want, cut

WINDOW = 8
"""So many parts are under way."""
Tell = Callable[[str, Body], None]


@dataclass
class Snapshot:
    """The state as of one view, for those who joined in it."""

    view: int
    parts: tuple[bytes, ...]
    digest: int
    targets: list[str]
    offered: set[str] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)  # told so by us


@dataclass
class Sender:
    """The snapshots that a member keeps."""

    tell: Tell
    cast: Callable[[Body], None]
    snapshots: dict[int, Snapshot] = field(default_factory=dict)

    def keep(self, view: int, data: bytes, targets: list[str]) -> None:
        """A snapshot for them."""
        if targets:
            self.snapshots[view] = Snapshot(view, cut(data), digest_of(data), targets)

    def drop(self, process: str) -> None:
        """It has the state, or is gone."""
        for view, snapshot in list(self.snapshots.items()):
            snapshot.targets = [each for each in snapshot.targets if each != process]
            if not snapshot.targets:
                del self.snapshots[view]

    def offer(self) -> None:
        """As coordinator: to all who were not offered it yet."""
        for snapshot in self.snapshots.values():
            for process in snapshot.targets:
                if process not in snapshot.offered:
                    snapshot.offered.add(process)
                    self.tell(process, Offer(snapshot.view, snapshot.digest, len(snapshot.parts)))

    def on_want(self, process: str, want: Want) -> None:
        """The next parts; or all are there, and everybody is told."""
        snapshot = self.snapshots.get(want.view)
        if snapshot is None or process not in snapshot.targets or want.digest != snapshot.digest:
            return
        if want.part >= len(snapshot.parts):
            if process not in snapshot.completed:
                snapshot.completed.add(process)
                self.cast(Complete(process))
            return
        for place in range(want.part, min(want.part + WINDOW, len(snapshot.parts))):
            self.tell(process, Part(want.view, want.digest, place, snapshot.parts[place]))


@dataclass
class Receiver:
    """What a process that loads has of the state as of one view."""

    view: int
    tell: Tell
    digest: int = 0
    total: int = 0  # 0: nothing was offered
    parts: list[bytes] = field(default_factory=list)
    _until: int = 0  # parts below it were asked for
    _source: str = ""

    def on_offer(self, process: str, offer: Offer) -> None:
        """From a coordinator, or one that takes over: go on with what is there."""
        if offer.view != self.view:
            return
        if (offer.digest, offer.parts) != (self.digest, self.total):
            self.digest, self.total, self.parts = offer.digest, offer.parts, []
        self._source = process
        self._want()

    def _want(self) -> None:
        self._until = min(len(self.parts) + WINDOW, self.total)
        self.tell(self._source, Want(self.view, self.digest, len(self.parts)))

    def on_part(self, process: str, part: Part) -> None:
        """The next one; others are late or foreign."""
        foreign = process != self._source or (part.view, part.digest) != (self.view, self.digest)
        if foreign or part.part != len(self.parts) or self.is_whole:
            return
        self.parts.append(part.data)
        if len(self.parts) == self._until:
            self._want()

    @property
    def is_whole(self) -> bool:
        """Whether all parts are there."""
        return 0 < self.total == len(self.parts)

    def data(self) -> bytes:
        """The state."""
        return b"".join(self.parts)
