"""The way of one process through the daemon views of a group: when it came to a later one, left, or lost rows.

A SAFE message that others had in a view must be with a member, in whatever view, when it comes to a later daemon view
or leaves the group. It has come there with the first view that was made before the signal of that daemon view: what is
made behind it, with a next daemon view in its id, belongs to the end, where others may be with what they still lack.
Of a way the last 128 to 256 steps are remembered.

Implements: [Spread 2.14.2] and [Spread 2.14.3], their deadline at EVS-C.
Deviations: D-other-side, see `isotone.spec.properties`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from isotone.core.ids import NO_DAEMON_VIEW
from isotone.spec.check.terms import Left, ViewId, comparable

if TYPE_CHECKING:
    from isotone.spec.check.records import Bundle, Stay, View

STEPS_MAX = 256


class Step(NamedTuple):
    """The first view of a daemon view before its signal (`MOVED`), the view left (`LEFT`), or rows lost (`LOST`)."""

    at: int
    how: Left
    id: ViewId
    highest: Any  # of the views of the membership that was left, by daemon view and stamp


class Owed(NamedTuple):
    """A SAFE message that these had in a view, and a member of the view had not yet; and the clause that says so."""

    clause: str
    view: View
    bundle: Bundle
    first: int
    last: int
    holders: list[Stay]


class Trail:
    """The steps of one process in one group."""

    __slots__ = ("dropped", "highest", "owed", "steps")

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.dropped = False  # earlier steps are no longer among them
        self.owed: list[Owed] = []
        self.highest: Any = None  # of the views of this membership

    def come(self, id: ViewId, at: int) -> bool:
        """Note an installation; whether it is the first of its daemon view, before the signal."""
        here = comparable(id)
        self.highest = here if self.highest is None else max(self.highest, here)
        if id.next_daemon_view != NO_DAEMON_VIEW:
            return False
        last = self.steps[-1] if self.steps else None
        if last is not None and last.how is Left.MOVED and last.id.daemon_view == id.daemon_view:
            return False
        self._add(Step(at, Left.MOVED, id, None))
        return True

    def go(self, how: Left, id: ViewId, at: int) -> None:
        """Note a leave, or a loss of rows."""
        self._add(Step(at, how, id, self.highest))
        self.highest = None

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        if len(self.steps) > STEPS_MAX:
            self.dropped = True
            del self.steps[: STEPS_MAX // 2]

    def passed(self, id: ViewId) -> Step | None:
        """The step with which it was too late to have what others had in this view, or rows were lost before."""
        for step in self.steps:
            if step.how is Left.LOST or is_past(step, id):
                return step
        return None


def is_past(step: Step, id: ViewId) -> bool:
    """Whether nothing that was delivered in this view can come any more behind this step."""
    if step.how is Left.MOVED:
        return bool(step.id.daemon_view > id.daemon_view)
    return step.how is Left.LEFT and bool(step.id >= id and step.highest >= comparable(id))
