"""Replicated data: an update is one CBCAST, complete when it is carried out here.

Updates of an item that do not follow each other come in any order, so an item has one writer at a time: who holds its
write lock (lock items by the same name), or the one process that it belongs to.

Implements: [ISIS 5.1]. Deviations: none.
"""

from __future__ import annotations

from typing import Any

from isotone.core.contract import Action
from isotone.core.errors import LocalProtocolError
from isotone.isis.toolkit.layer import Order
from isotone.isis.toolkit.member import Member, Tool
from isotone.isis.toolkit.wire import PART_BYTES_MAX, Body, ItemPut


class ItemChanged(Action, frozen=True, gc=False):
    """A replicated item has another value here."""

    group: str
    item: str
    value: bytes


class Data(Tool):
    """The items of one group."""

    name = "data"
    deeds = ("put",)
    takes = (ItemPut,)

    def __init__(self, member: Member) -> None:
        super().__init__(member)
        self.items: dict[str, bytes] = {}
        self._own: dict[str, list[bytes]] = {}  # by item: updates of this member that it has not heard yet

    def state(self) -> Any:
        """All items."""
        return sorted(self.items.items())

    def load(self, state: Any) -> None:
        """Of a snapshot."""
        self.items, self._own = dict(state), {}

    def get(self, item: str) -> bytes | None:
        """Its value here: with what this member has put, wherever that is on its way."""
        own = self._own.get(item)
        return own[-1] if own else self.items.get(item)

    def put(self, item: str, value: bytes) -> None:
        """Update an item, here at once and at all others later."""
        if len(value) > PART_BYTES_MAX:
            raise LocalProtocolError(f"an item has at most {PART_BYTES_MAX} bytes, {item!r} would have {len(value)}")
        self._own.setdefault(item, []).append(value)
        self.member.cast(Order.CAUSAL, ItemPut(item, value))

    def hear(self, sender: str, message: Body) -> None:
        """An update."""
        if isinstance(message, ItemPut):
            self.items[message.item] = message.value
            own = self._own.get(message.item)
            if own and sender == self.member.me and own[0] == message.value:
                own.pop(0)
            self.member.out.say(ItemChanged(self.member.group, message.item, message.value))
