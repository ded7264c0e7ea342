"""What only rows other than messages have: views, and the end of a run; as it travels beside a row."""

from __future__ import annotations

import msgspec

from isotone.pipeline.conformance.survey.facts import View, ViewId


class _DaemonView(msgspec.Struct):
    epoch: int
    name: str
    incarnation: int


class _Stamp(msgspec.Struct):
    lamport: int
    name: str
    incarnation: int


class _View(msgspec.Struct):
    daemon_view: _DaemonView
    next_daemon_view: _DaemonView
    stamp: _Stamp


class Turn(msgspec.Struct):
    """The columns of a silver row that the survey needs of it; ``hash`` is of id and members of a view."""

    hash: int
    view: _View | None = None
    members: tuple[str, ...] = ()
    transitional: tuple[str, ...] = ()
    components: tuple[tuple[str, ...], ...] | None = None
    quiet: bool | None = None

    def view_id(self) -> ViewId:
        """The id of the view."""
        assert self.view is not None
        here, following, stamp = self.view.daemon_view, self.view.next_daemon_view, self.view.stamp
        return (
            here.epoch, here.name, here.incarnation,
            following.epoch, following.name, following.incarnation,
            stamp.lamport, stamp.name, stamp.incarnation,
        )  # fmt: skip

    def installed(self, group: str) -> View:
        """The view that is installed."""
        return View(group, self.hash, self.view_id(), self.members)
