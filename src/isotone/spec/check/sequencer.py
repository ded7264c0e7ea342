"""Puts rows into an order in which every send stands before its deliveries.

A node's rows wait behind a delivery whose send was not taken yet; what waits is as much as the nodes are apart in the
input. Which rows are taken does not depend on how the nodes are interleaved, since a taken row only ever allows more.
At the end of the trace a delivery without a send is taken as it is. What still waits then waits in a circle, which no
run can make: it counts against 2.6, and causality is not judged beyond it.

Implements: [Spread 2.6], "a send precedes its deliveries", as the order of work. Deviations: none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from isotone.trace.events import Row


class Need(NamedTuple):
    """What a delivery row waits for: messages of a sender at a boundary (0 clients, 1 daemons)."""

    boundary: int
    sender: str
    first: int
    last: int


class Sequencer:
    """Queues of rows by node. ``take`` handles a row and says whether waiting rows should be looked at again."""

    def __init__(self, take: Callable[[Row], None], need: Callable[[Row], Need | None]) -> None:
        self._take = take
        self._need = need
        self._queues: dict[str, deque[Row]] = {}
        self._waiting: dict[tuple[int, str], dict[str, None]] = {}  # by sender: nodes whose first row needs it
        self._woken: deque[str] = deque()
        self._coming: dict[tuple[int, str], list[Need]] = {}  # at the end of the trace: sends that wait, by sender

    def feed(self, row: Row) -> None:
        """One more row of its node."""
        if self._waiting or self._queues:
            queue = self._queues.get(row.node)
            if queue:
                queue.append(row)
                return
        need = self._need(row)
        if need is not None:
            self._block(row, need)
            return
        self._take(row)
        while self._woken:
            self._drain(self._woken.popleft())

    def wake(self, boundary: int, sender: str) -> None:
        """A sender went on: look at those who wait for it."""
        if self._waiting:
            self._woken.extend(self._waiting.pop((boundary, sender), ()))

    def wake_all(self) -> None:
        """Somebody ended: look at all who wait."""
        for nodes in self._waiting.values():
            self._woken.extend(nodes)
        self._waiting.clear()

    def _block(self, row: Row, need: Need) -> None:
        self._queues.setdefault(row.node, deque()).append(row)
        self._waiting.setdefault(need[:2], {})[row.node] = None

    def _drain(self, node: str) -> None:
        queue = self._queues[node]
        while queue:
            need = self._need(queue[0])
            if need is not None:
                self._waiting.setdefault(need[:2], {})[node] = None
                return
            self._take(queue.popleft())

    # --- the end of the trace --------------------------------------------------------------------------------------

    def flush(
        self,
        sends: Callable[[Row], Need | None],
        circle: Callable[[list[Row]], None],
        send_early: Callable[[Row], None],
    ) -> None:
        """Take all that waits: first what waits in vain, then circles, each broken at its first node.

        There the delivery is taken before its send; ``send_early`` says which that is, so that both are one message.
        """
        self._note_coming(sends)
        while True:
            self._take_ready()
            if self._release_vain():
                continue
            blocked = sorted(node for node, queue in self._queues.items() if queue)
            if not blocked:
                return
            for rows in self._circles(blocked, sends):
                circle(rows)
            need = self._need(self._queues[blocked[0]][0])
            for row in self._sends_for(need, sends):
                send_early(row)
            self._force(blocked[0])

    def _take_ready(self) -> None:
        """All that needs to wait no more, whether somebody said so or not."""
        before = -1
        while before != len(self):
            before = len(self)
            self._woken.extend(self._queues)
            while self._woken:
                self._drain(self._woken.popleft())

    def _note_coming(self, sends: Callable[[Row], Need | None]) -> None:
        """Count the sends that wait, once; each is struck out when it is taken."""
        take = self._take
        for queue in self._queues.values():
            for row in queue:
                sent = sends(row)
                if sent is not None:
                    self._coming.setdefault(sent[:2], []).append(sent)

        def take_and_strike(row: Row) -> None:
            sent = sends(row)
            if sent is not None:
                self._coming[sent[:2]].remove(sent)
            take(row)

        self._take = take_and_strike

    def _release_vain(self) -> bool:
        for node in sorted(self._queues):
            queue = self._queues[node]
            need = self._need(queue[0]) if queue else None
            if need is not None and not _overlap(need, self._coming.get(need[:2], ())):
                self._force(node)
                return True
        return False

    def _force(self, node: str) -> None:
        self._take(self._queues[node].popleft())
        self.wake_all()
        self._woken.append(node)
        while self._woken:
            self._drain(self._woken.popleft())

    def _sends_for(self, need: Need | None, sends: Callable[[Row], Need | None]) -> list[Row]:
        """The sends that wait and that this delivery needs, and those that its sender made before them."""
        found = []
        for queue in self._queues.values():
            for row in queue:
                sent = sends(row)
                if need is not None and sent is not None and sent[:2] == need[:2] and sent.first <= need.last:
                    found.append(row)
        return found

    def _circles(self, blocked: list[str], sends: Callable[[Row], Need | None]) -> list[list[Row]]:
        """Deliveries and the sends that they wait for, along each circle of waiting nodes."""
        edges: dict[str, tuple[str, Row]] = {}
        for node in blocked:
            need = self._need(self._queues[node][0])
            assert need is not None  # what needs nothing was taken before
            for other in blocked:
                for row in self._queues[other]:
                    sent = sends(row)
                    if sent is not None and sent[:2] == need[:2] and _overlap(need, (sent,)):
                        edges.setdefault(node, (other, row))
        found = []
        for start in blocked:
            path: list[str] = []
            node = start
            while node in edges and node not in path:
                path.append(node)
                node = edges[node][0]
            if node == start and path:
                found.append([row for each in path for row in (self._queues[each][0], edges[each][1])])
        return found

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))


def _overlap(need: Need, sends: tuple[Need, ...] | list[Need]) -> bool:
    return any(sent.first <= need.last and need.first <= sent.last for sent in sends)
