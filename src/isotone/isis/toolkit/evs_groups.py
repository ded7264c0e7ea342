"""The groups of a system as a table that is the same at all its processes, since all hear one order of messages.

A change of a group (a process enters or leaves it, or an event) is a flush: each member says when it sends nothing more
before the change, and then the change takes place. A new primary view is a flush of all groups.

Implements: [ISIS 3.1], [ISIS 3.6] on view-synchronous groups. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import msgspec

from isotone.core.contract import Action
from isotone.isis.toolkit.evs_wire import Enter, Exit, GroupFlushed, Instant
from isotone.isis.toolkit.layer import Exited, Heard, Viewed
from isotone.isis.toolkit.wire import encode

NUMBERS = 1 << 32
"""So many group views fit into one primary view."""
Deed = Enter | Exit | Instant


class GroupChange(msgspec.Struct, frozen=True, array_like=True):
    """What is asked of a group, by whom."""

    id: int
    process: str
    deed: Deed


class GroupEntry(msgspec.Struct, array_like=True):
    """One group: who is in it, and what is asked of it."""

    members: tuple[str, ...] = ()  # by age
    number: int = 0
    changes: list[GroupChange] = []  # the first one is being flushed
    flushed: list[str] = []  # for the first one


class GroupTable(msgspec.Struct, array_like=True):
    """What who is new needs. ``processes``: by site."""

    processes: dict[str, str]
    groups: dict[str, GroupEntry]
    count: int


_TABLE = msgspec.msgpack.Decoder(GroupTable)


@dataclass
class Groups:
    """As one process knows them."""

    me: str = ""
    table: GroupTable = field(default_factory=lambda: GroupTable({}, {}, 0))
    heard: list[Action] = field(default_factory=list)
    flushes: list[GroupFlushed] = field(default_factory=list)  # to be said

    def encoded(self) -> bytes:
        """The table, for who is new."""
        return encode(self.table)

    def behind(self, messages: Iterable[tuple[str, object]]) -> Groups:
        """As they will be behind these messages."""
        groups = Groups()
        groups.load(self.encoded())
        for process, message in messages:
            if isinstance(message, Deed | GroupFlushed):
                groups.hear(process, message)
        return groups

    def load(self, data: bytes) -> None:
        """The table of somebody who goes on."""
        self.table = _TABLE.decode(data)

    def is_member(self, group: str) -> bool:
        """Whether this process is."""
        row = self.table.groups.get(group)
        return row is not None and self.me in row.members

    def is_blocked(self, group: str) -> bool:
        """Whether this process has flushed for a change."""
        row = self.table.groups.get(group)
        return row is not None and bool(row.changes) and self.me in row.members

    # --- changes ---------------------------------------------------------------------------------------------------

    def hear(self, process: str, message: Deed | GroupFlushed) -> None:
        """In the order of messages."""
        if isinstance(message, GroupFlushed):
            self._on_flushed(process, message)
        else:
            self._ask(process, message)

    def _ask(self, process: str, deed: Deed) -> None:
        row = self.table.groups.setdefault(deed.group, GroupEntry())
        self.table.count += 1
        row.changes.append(GroupChange(self.table.count, process, deed))
        if len(row.changes) == 1:
            self._flush(deed.group, row)

    def _on_flushed(self, process: str, told: GroupFlushed) -> None:
        row = self.table.groups.get(told.group)
        if row is not None and row.changes and row.changes[0].id == told.change:
            row.flushed.append(process)
            self._advance(told.group, row)

    def _flush(self, group: str, row: GroupEntry) -> None:
        row.flushed = []
        if self.me in row.members:
            self.flushes.append(GroupFlushed(group, row.changes[0].id))
        self._advance(group, row)

    def _advance(self, group: str, row: GroupEntry) -> None:
        if any(each not in row.flushed for each in row.members):
            return
        self._change(group, row, row.changes.pop(0))
        if row.changes:
            self._flush(group, row)
        elif not row.members:
            del self.table.groups[group]

    def _change(self, group: str, row: GroupEntry, change: GroupChange) -> None:
        process = change.process
        match change.deed:
            case Enter() if process not in row.members:
                self._view(group, row, (*row.members, process))
            case Exit() if process in row.members:
                self._view(group, row, tuple(each for each in row.members if each != process))
                if process == self.me:
                    self.heard.append(Exited(group))
            case Instant(body=body) if self.me in row.members and process in row.members:
                self.heard.append(Heard(group, process, body))

    def _view(self, group: str, row: GroupEntry, members: tuple[str, ...]) -> None:
        self.table.count += 1
        row.members, row.number = members, self.table.count
        if self.me in members:
            self.heard.append(Viewed(group, row.number, members))

    # --- primary views ---------------------------------------------------------------------------------------------

    def enter_primary(self, number: int, processes: dict[str, str], surviving: Collection[str]) -> None:
        """All changes take place that were asked by processes that go on, and then the others are in no group."""
        self.table.processes, self.flushes = processes, []
        self.table.count = max(self.table.count, number * NUMBERS)
        for group, row in sorted(self.table.groups.items()):
            changes, row.changes, row.flushed = row.changes, [], []
            for change in changes:
                if change.process in surviving or isinstance(change.deed, Instant):
                    self._change(group, row, change)
            staying = tuple(each for each in row.members if each in surviving)
            if staying != row.members:
                self._view(group, row, staying)
            if not staying:
                del self.table.groups[group]
