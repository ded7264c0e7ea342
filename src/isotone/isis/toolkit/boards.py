"""Bulletin boards: shared data that anybody posts and reads without waiting, in the order that the reader needs.

A board has a level: ``unordered`` (everybody has the same posts), ``causal`` (behind what its poster had seen of
causal boards), or ``total`` (all see one sequence). The level is part of the board's name in a group: each level has
boards of its own.

Implements: [ISIS 5], bulletin boards. Deviations: none.
"""

from __future__ import annotations

from typing import Any

from isotone.core.contract import Action
from isotone.core.errors import LocalProtocolError
from isotone.isis.toolkit.layer import Order
from isotone.isis.toolkit.member import Member, Tool
from isotone.isis.toolkit.wire import PART_BYTES_MAX, Body, Post, Removal
from isotone.trace.toolkit import PostMade, PostSeen

POSTS_MAX = 10_000
LEVELS = (Order.UNORDERED, Order.CAUSAL, Order.TOTAL)
Place = tuple[str, str]  # level and board


class Posted(Action, frozen=True, gc=False):
    """A post is on a board here."""

    group: str
    board: str
    level: str
    id: str
    value: bytes


class Boards(Tool):
    """The boards of one group."""

    name = "boards"
    deeds = ("post", "remove")
    takes = (Post, Removal)

    def __init__(self, member: Member) -> None:
        super().__init__(member)
        self.boards: dict[Place, dict[str, bytes]] = {}
        self.seen: dict[Place, int] = {}  # posts that ever were on a board
        self._early: set[str] = set()  # posts removed before they came: only where there is no order
        self._number = 0

    def state(self) -> Any:
        """Boards by name, posts in their order."""
        boards = [
            (*place, list(posts.items()), self.seen.get(place, 0)) for place, posts in sorted(self.boards.items())
        ]
        return [boards, sorted(self._early)]

    def essence(self) -> Any:
        """The order of posts counts on boards with one order only."""
        boards = [
            (*place, list(posts) if place[0] == Order.TOTAL.value else sorted(posts))
            for place, posts in sorted(self.boards.items())
        ]
        return [boards, sorted(self._early)]

    def load(self, state: Any) -> None:
        """Of a snapshot."""
        boards, early = state
        self.boards = {(level, board): dict(posts) for level, board, posts, _ in boards}
        self.seen = {(level, board): seen for level, board, _, seen in boards}
        self._early = set(early)

    def post(self, board: str, level: Order, value: bytes) -> str:
        """Post something; its name."""
        if len(value) > PART_BYTES_MAX or len(self.read(board, level)) >= POSTS_MAX:
            raise LocalProtocolError(f"a board has {POSTS_MAX} posts of {PART_BYTES_MAX} bytes at most: {board!r}")
        self._number += 1
        id = f"{self.member.me}:{self.member.view.number}:{self._number}"
        self._cast(level, board, Post(board, level.value, id, value))
        self.member.out.record(PostMade(self.member.me, self.member.group, board, level.value, id))
        return id

    def remove(self, board: str, level: Order, id: str) -> None:
        """Take a post away, everywhere."""
        self._cast(level, board, Removal(board, level.value, id))

    def _cast(self, level: Order, board: str, body: Body) -> None:
        if level not in LEVELS:
            raise LocalProtocolError(f"a board is unordered, causal or total, not {level.value}")
        self.member.cast(level, body, f"board/{board}" if level is Order.TOTAL else "")

    def read(self, board: str, level: Order) -> list[tuple[str, bytes]]:
        """What is on it here and now: names and values."""
        return list(self.boards.get((level.value, board), {}).items())

    def hear(self, sender: str, message: Body) -> None:
        """Of another poster, or one's own."""
        match message:
            case Post(board=board, level=level, id=id, value=value):
                self._on_post((level, board), id, value)
            case Removal(board=board, level=level, id=id):
                if self.boards.get((level, board), {}).pop(id, None) is None and level == Order.UNORDERED.value:
                    self._early.add(id)

    def _on_post(self, place: Place, id: str, value: bytes) -> None:
        level, board = place
        self.seen[place] = self.seen.get(place, 0) + 1
        number = self.seen[place] if level == Order.TOTAL.value else 0
        member = self.member
        member.out.record(PostSeen(member.me, member.group, board, level, id, number))
        if id in self._early:
            self._early.discard(id)
            return
        self.boards.setdefault(place, {})[id] = value
        member.out.say(Posted(member.group, board, level, id, value))
