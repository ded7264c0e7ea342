"""Replicated read and write locks of named items.

A read lock is taken at one member and registered at the others by a CBCAST, behind which its owner goes on at once. A
write lock is asked for by an ABCAST with the item as label and granted by every member that was there; a member with
a reader of the item grants when that is done. Owners ask for items in the order of their names, so nobody waits in a
circle. A lock belongs to an *owner*; the *steward* is the member that acts for it. When a steward fails its owner's
locks go to the next one if there is one, as for an action that a cohort takes over; otherwise they are free.

Implements: [ISIS 5.3]. Deviations: D-register (the registration is a CBCAST: its sender goes on at once); D-heir (a
lock outlives its steward only if its owner does).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from isotone.core.contract import Action
from isotone.core.errors import LocalProtocolError
from isotone.isis.toolkit.layer import Order, Viewed
from isotone.isis.toolkit.member import Member, Tool
from isotone.isis.toolkit.wire import Body, Freed, Granted, ReadTaken, WriteAsked
from isotone.trace.toolkit import LockFreed, LockTaken


class LockHeld(Action, frozen=True, gc=False):
    """The owner has the lock it asked for."""

    group: str
    item: str
    owner: str
    writes: bool


@dataclass
class Writer:
    """Of an item, in its queue."""

    owner: str
    steward: str
    required: list[str]  # members that must grant
    turn: int  # writers of the item that asked before it


@dataclass
class Item:
    """A lock."""

    queue: list[Writer] = field(default_factory=list)
    readers: dict[str, str] = field(default_factory=dict)  # their stewards, by owner
    asked: int = 0  # writers that ever were in the queue

    @property
    def place(self) -> int:
        """Writers before this one have all left the queue."""
        return self.queue[0].turn if self.queue else self.asked


class Locks(Tool):
    """The locks of one group."""

    name = "locks"
    deeds = ("ask", "free")
    takes = (WriteAsked, ReadTaken, Freed, Granted)

    def __init__(self, member: Member, heir: Callable[[str], str | None], held: Callable[[str, str], bool]) -> None:
        super().__init__(member)
        self.items: dict[str, Item] = {}
        self._heir, self._held = heir, held
        self._wanted: dict[tuple[str, str], bool] = {}  # (owner, item) asked here and not held yet: to write?
        self._granted: dict[tuple[str, str], dict[str, int]] = {}  # by (owner, item): turns by member
        self._told: set[tuple[str, str, str]] = set()  # (owner, item, steward) that were granted from here
        self._reading: set[tuple[str, str]] = set()  # (owner, item) whose registration is not heard yet
        self._holding: dict[tuple[str, str], bool] = {}  # (owner, item) that this steward said are held

    # --- state -----------------------------------------------------------------------------------------------------

    def state(self) -> Any:
        """Of all items, sorted."""
        return [
            (
                name,
                [(each.owner, each.steward, each.required, each.turn) for each in item.queue],
                sorted(item.readers.items()),
                item.asked,
            )
            for name, item in sorted(self.items.items())
            if item.queue or item.readers or item.asked  # others were only asked for here
        ]

    def load(self, state: Any) -> None:
        """Of a snapshot."""
        self.items = {
            name: Item([Writer(*writer) for writer in queue], dict(readers), asked)
            for name, queue, readers, asked in state
        }

    def begin_anew(self) -> None:
        """Whoever had a lock has it no more, also who left meanwhile and is back."""
        for item in self.items.values():
            item.queue.clear()
            item.readers.clear()

    def resume(self) -> None:
        """Grant what this member owes."""
        self._look()

    def _item(self, name: str) -> Item:
        return self.items.setdefault(name, Item())

    def place_of(self, item: str) -> int:
        """The turn of the writer that is or comes next; those before it have left the queue."""
        return self._item(item).place

    # --- asked here ------------------------------------------------------------------------------------------------

    def ask(self, item: str, owner: str, writes: bool) -> None:
        """For an owner whose steward is this member; `LockHeld` says when. Twice is once."""
        for asked, name in (*self._wanted, *self._holding):
            if asked == owner and name > item:
                raise LocalProtocolError(f"{owner} has asked for {name!r}: ask for locks in the order of their names")
        key = (owner, item)
        if writes and not self._holding.get(key, self._wanted.get(key, True)):
            raise LocalProtocolError(f"{owner} reads {item!r}: it gives that lock back before it asks to write")
        if key in self._holding or key in self._wanted:
            return
        self._wanted[owner, item] = writes
        known = self._item(item)
        if writes and not any(each.owner == owner for each in known.queue):
            self.member.cast(Order.TOTAL, WriteAsked(item, owner), item)
        self._look()

    def free(self, item: str, owner: str) -> None:
        """Give it back, or do not want it any more; a writer that waits is taken out behind its `WriteAsked`."""
        waits = self._wanted.get((owner, item), False)
        self._note_freed(item, owner)
        self.member.cast(Order.TOTAL if waits else Order.CAUSAL, Freed(item, owner), item if waits else "")

    def drop_owner(self, owner: str) -> None:
        """At every member, in the same place of the order: the owner is done."""
        for name in sorted(self.items):
            self._remove(name, owner)
        for asked, item in [key for key in (*self._wanted, *self._holding) if key[0] == owner]:
            self._note_freed(item, asked)
        self._look()

    # --- heard -----------------------------------------------------------------------------------------------------

    def hear(self, sender: str, message: Body) -> None:
        """Of stewards."""
        match message:
            case WriteAsked(item=item, owner=owner):
                known = self._item(item)
                if not any(each.owner == owner for each in known.queue):
                    known.queue.append(Writer(owner, sender, list(self.member.applied.members), known.asked))
                    known.asked += 1
            case ReadTaken(item=item, owner=owner):
                self._item(item).readers[owner] = sender
                if sender == self.member.me:
                    self._on_own_read(item, owner)
            case Freed(item=item, owner=owner):
                self._remove(item, owner)
                if sender == self.member.me:
                    self._reading.discard((owner, item))
        self._look()

    def told(self, sender: str, message: Body) -> None:
        """A grant."""
        if isinstance(message, Granted):
            self._granted.setdefault((message.owner, message.item), {})[sender] = message.turn
            self._look()

    def _on_own_read(self, item: str, owner: str) -> None:
        """It counts if no writer came in between; otherwise it is undone, and asked for again later."""
        if (owner, item) not in self._wanted or self._item(item).queue:
            self.member.cast(Order.CAUSAL, Freed(item, owner))
        else:
            self._reading.discard((owner, item))
            self._hold(item, owner, writes=False)

    def _remove(self, name: str, owner: str) -> None:
        item = self._item(name)
        item.queue = [each for each in item.queue if each.owner != owner]
        item.readers.pop(owner, None)
        self._granted.pop((owner, name), None)
        self._told = {each for each in self._told if each[:2] != (owner, name)}

    def _note_freed(self, item: str, owner: str) -> None:
        self._wanted.pop((owner, item), None)
        writes = self._holding.pop((owner, item), None)
        if writes is not None:
            me, group = self.member.me, self.member.group
            self.member.out.record(LockFreed(me, group, item, owner, writes, self._item(item).place))

    def on_view(self, view: Viewed) -> None:
        """Nobody waits for the failed; their owners' locks go to heirs, or are free."""
        for name in sorted(self.items):
            item = self.items[name]
            for writer in list(item.queue):
                writer.required = [each for each in writer.required if each in view.members]
                if writer.steward not in view.members:
                    writer.steward = self._heir(writer.owner) or ""
                    if not writer.steward:
                        self._remove(name, writer.owner)
            for owner, steward in sorted(item.readers.items()):
                if steward not in view.members:
                    item.readers[owner] = self._heir(owner) or ""
                    if not item.readers[owner]:
                        self._remove(name, owner)
        self._look()

    # --- what follows ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Grant, hold and read what can be."""
        me = self.member.me
        for name in sorted(self.items):
            item = self.items[name]
            if item.queue and me not in item.readers.values():
                self._grant(name, item.queue[0])
            if item.queue and item.queue[0].steward == me:
                self._look_at_own(name, item)
        for (owner, name), writes in sorted(self._wanted.items()):
            if writes or (owner, name) not in self._wanted:
                continue
            known = self._item(name)
            if known.readers.get(owner) == me and (owner, name) not in self._reading:
                self._hold(name, owner, writes=False)
            elif not known.queue and (owner, name) not in self._reading and owner not in known.readers:
                self._reading.add((owner, name))
                self.member.cast(Order.CAUSAL, ReadTaken(name, owner))

    def _grant(self, name: str, writer: Writer) -> None:
        key = (writer.owner, name, writer.steward)
        if self.member.me in writer.required and key not in self._told:
            self._told.add(key)
            self.member.tell(writer.steward, Granted(name, writer.owner, writer.turn))

    def _look_at_own(self, name: str, item: Item) -> None:
        writer = item.queue[0]
        owner, key = writer.owner, (writer.owner, name)
        granted = self._granted.get(key, {})
        ready = not item.readers and all(granted.get(each) == writer.turn for each in writer.required)
        if ready and self._wanted.get(key) and key not in self._holding:
            self._hold(name, owner, writes=True)

    def _hold(self, item: str, owner: str, *, writes: bool) -> None:
        del self._wanted[owner, item]
        self._holding[owner, item] = writes
        member = self.member
        member.out.record(LockTaken(member.me, member.group, item, owner, writes, self._item(item).place))
        if not self._held(owner, item):
            member.out.say(LockHeld(member.group, item, owner, writes))
