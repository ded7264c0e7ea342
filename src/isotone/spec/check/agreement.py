"""Views with the same id have the same members. Of every view id, a hash and one row per home are kept for all time.

Implements: [Spread 2.20]. Deviations: D-agreement.
"""

from __future__ import annotations

from hashlib import blake2b

from isotone.spec.check.records import Home, View
from isotone.spec.check.tally import Tally
from isotone.spec.check.terms import ViewId
from isotone.spec.verdicts import EventId


class Agreement:
    """The member sets of all view ids."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self._irregular: set[tuple[str, ViewId, str, int]] = set()
        # by view id and hash of the member set: the first row at each home
        self._ids: dict[tuple[str, ViewId], dict[bytes, dict[tuple[str, int], int]]] = {}

    def judge(self, group: str, id: ViewId, members: tuple[str, ...], event: EventId) -> None:
        """One more installation."""
        known = self._ids.setdefault((group, id), {})
        if known:
            self.tally.exercised.add("2.20")
        mine = _digest(members)
        known.setdefault(mine, {}).setdefault(event[:2], event[2])
        if len(known) > 1:
            for other, rows in known.items():
                if other != mine:
                    witness = min((*home, index) for home, index in rows.items())
                    self.tally.accuse("2.20", (witness, event), f"View {id} was installed with different members.")

    def note_irregular(self, group: str, id: ViewId, home: Home) -> None:
        """An installation of this id at this home is compared with nobody's."""
        self._irregular.add((group, id, home.node, home.incarnation))

    def is_irregular(self, view: View, home: Home) -> bool:
        """Whether the view was installed so at this home."""
        return (view.group, view.id, home.node, home.incarnation) in self._irregular

    def disputed(self, view: View, home: Home) -> bool:
        """Whether the view's id was installed at this home with other members."""
        known = self._ids[(view.group, view.id)]
        if len(known) == 1:
            return False
        mine = _digest(view.members)
        return any((home.node, home.incarnation) in rows for other, rows in known.items() if other != mine)


def _digest(members: tuple[str, ...]) -> bytes:
    return blake2b("\n".join(sorted(members)).encode(), digest_size=8).digest()
