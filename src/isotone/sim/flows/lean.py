"""Tens of thousands of nodes: the same rings, rules and root, without packets, processes and timers of their own.

One event is one hop of one token. Membership is simulated as [Flows 4] does: a failure is noticed after a while,
changes that come together make one view, and all members enter it at once. Tokens are handed over as objects; how
long they would be in bytes is measured on a sample.

Implements: [Flows 4] (the simulation's model). Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil, log
from typing import Protocol

import msgspec

from isotone.core.choice import Choice
from isotone.flows.compiler import Rules, Values
from isotone.flows.component import patience
from isotone.flows.messages import token_to_wire
from isotone.flows.pace import Pace
from isotone.flows.ring import NO_VERSION, Member, Ring, Token, Version
from isotone.flows.root import Root
from isotone.flows.values import RangeSet, Value

SAMPLES_PER_S = 40
"""So many tokens are measured, about."""


class LeanSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of [Flows 4]; times in seconds."""

    nodes: int
    ring_size: int = 8
    token_rate: float = 10.0
    latency: float = 0.010
    mttf: float = 0.0  # 0: nobody fails
    reboot: float = 5.0
    detection: float = 0.15
    ranges_max: int = 100
    bytes_per_s: int = 0  # 0: neither rate nor k_max adapts
    seed: int = 1


class LeanClient(Protocol):
    """The clients of all nodes."""

    def values(self, node: int, at: float) -> Values:
        """What this node adds now."""
        ...

    def hear(self, node: int, at: float, values: tuple[Value, ...]) -> None:
        """Decisions reached this node."""
        ...

    def reboot(self, node: int, at: float) -> None:
        """The node begins anew."""
        ...


class _Seat:
    """A node's part in one ring, for as long as it is a member."""

    __slots__ = ("above", "down", "down_version", "has_counted", "level", "life", "node", "pace", "ring", "since")

    def __init__(self, node: int, life: int, level: int, ring: Ring, pace: Pace) -> None:
        self.node, self.life, self.level, self.ring, self.pace = node, life, level, ring, pace
        self.since = 0
        self.above: _Seat | None = None  # what is embedded, while it leads
        self.down_version: Version = NO_VERSION
        self.down: tuple[Value, ...] = ()
        self.has_counted = False


class _Circle:
    """One ring with its membership service."""

    __slots__ = ("due", "level", "number", "parent", "seats", "ticks", "wanted")

    def __init__(self, level: int, parent: _Circle | None) -> None:
        self.level, self.parent = level, parent
        self.number = 0
        self.ticks = 0  # a timer that was set before the last is void
        self.seats: list[_Seat] = []  # of the present view, the leader first
        self.wanted: list[_Seat] = []
        self.due = False


class LeanRun:
    """A whole hierarchy in virtual time."""

    def __init__(self, rules: Rules, client: LeanClient, settings: LeanSettings) -> None:
        self.rules, self.client, self.settings = rules, client, settings
        self.now = 0.0
        self.hops = 0
        self.token_bytes: list[int] = []  # of a sample of tokens that came back
        self.down_bytes: list[int] = []  # what of each is decisions on their way down
        self.value_bytes: list[int] = []  # of results at the top: without what goes down and the last result
        self.ranges: list[int] = []  # of the largest value in each
        self.truncated: list[bool] = []
        self.views = 0
        self._choice = Choice(f"lean/{settings.seed}")
        self._heap: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._count = self._finished = 0
        self._sample = round(settings.nodes / settings.ring_size * settings.token_rate / SAMPLES_PER_S) | 1
        self._life = [0] * settings.nodes
        self.up = [True] * settings.nodes
        self._root = Root(rules)
        self._root.known = True
        self._names = 0
        self._children: dict[_Circle, list[_Circle]] = {}
        self._leaves = self._make_tree()
        for node in range(settings.nodes):
            self._join(self._home(node), node, None)
            if settings.mttf:
                self._at(self._exponential(settings.mttf), self._fail, node)

    def _make_tree(self) -> list[_Circle]:
        """The fewest layers in which no ring is larger than wanted, filled evenly."""
        size = self.settings.ring_size
        self.layers = max(1, ceil(log(self.settings.nodes) / log(size) - 1e-9))
        counts = [1]
        for layer in range(1, self.layers):
            counts.append(ceil(self.settings.nodes / size ** (self.layers - layer)))
        above = [_Circle(0, None)]
        for layer, count in enumerate(counts[1:], start=1):
            parents = above
            above = [_Circle(layer, parents[place * len(parents) // count]) for place in range(count)]
            for place, circle in enumerate(above):
                self._children.setdefault(parents[place * len(parents) // count], []).append(circle)
        self._leaf_level = self.layers - 1
        return above

    # --- time ------------------------------------------------------------------------------------------------------

    def _at(self, after: float, call: Callable[..., None], *arguments: object) -> None:
        self._count += 1
        heappush(self._heap, (self.now + after, self._count, call, arguments))

    def run_until(self, when: float) -> None:
        """Let virtual time pass."""
        heap = self._heap
        while heap and heap[0][0] <= when:
            self.now, _, call, arguments = heappop(heap)
            call(*arguments)
        self.now = when

    def _exponential(self, mean: float) -> float:
        return -mean * log(1.0 - self._choice.real())

    # --- churn and membership --------------------------------------------------------------------------------------

    def _fail(self, node: int) -> None:
        self.up[node] = False
        self._life[node] += 1
        self._at(self._exponential(self.settings.reboot), self._boot, node)

    def _boot(self, node: int) -> None:
        self.up[node] = True
        self.client.reboot(node, self.now)
        self._join(self._home(node), node, None)
        self._at(self._exponential(self.settings.mttf), self._fail, node)

    def _home(self, node: int) -> _Circle:
        return self._leaves[node * len(self._leaves) // self.settings.nodes]

    def _join(self, circle: _Circle, node: int, below: _Seat | None) -> _Seat:
        self._names += 1
        told = self.settings
        pace = Pace(round(1e6 / told.token_rate), told.ranges_max, told.bytes_per_s)
        seat = _Seat(node, self._life[node], circle.level, Ring(str(self._names), self.rules), pace)
        circle.wanted.append(seat)
        if below is not None:
            below.above = seat
        self._soon(circle, self.settings.latency)
        return seat

    def _soon(self, circle: _Circle, after: float) -> None:
        if not circle.due:
            circle.due = True
            self._at(after + 0.02, self._view, circle)

    def _alive(self, seat: _Seat) -> bool:
        return self.up[seat.node] and self._life[seat.node] == seat.life

    def _view(self, circle: _Circle) -> None:
        """The membership service numbers a view; members enter it one latency later."""
        circle.due = False
        circle.wanted = [seat for seat in circle.wanted if self._alive(seat)]
        circle.number += 1
        self.views += 1
        for seat in circle.wanted:
            seat.since = seat.since or circle.number
        seats = list(circle.wanted)
        self._at(self.settings.latency, self._enter, circle, circle.number, seats)

    def _enter(self, circle: _Circle, number: int, seats: list[_Seat]) -> None:
        if number < circle.number and circle.seats and circle.seats[0].ring.number > number:
            return
        before = circle.seats[0] if circle.seats else None
        circle.seats = seats
        members = [Member(seat.ring.me, "", seat.since) for seat in seats]
        for seat in seats:
            seat.ring.take_view(number, members)
        if seats and seats[0] is not before:
            if (
                circle.parent is None and self._root.last.version > seats[0].down_version
            ):  # a new root reads the register
                held = self._root.last
                values = tuple(held.flows[name] for name in self.rules.down)
                self._hand_down(circle, seats[0], held.version, values)
            if before is not None:
                self._sleep(circle, before)
            self._lead(circle, seats[0])
        if seats:
            seats[0].pace.new_view()
            circle.ticks += 1
            self._tick(circle, seats[0], circle.ticks)

    def _lead(self, circle: _Circle, seat: _Seat) -> None:
        if circle.parent is not None and self._alive(seat):
            self._join(circle.parent, seat.node, seat)

    def _sleep(self, circle: _Circle, seat: _Seat) -> None:
        above, seat.above = seat.above, None
        if above is not None and circle.parent is not None:
            self._sleep(circle.parent, above)
            if above in circle.parent.wanted:
                circle.parent.wanted.remove(above)
                self._soon(circle.parent, self.settings.latency)

    def _suspect(self, circle: _Circle) -> None:
        """Somebody let no token pass: whoever failed long enough ago is left out."""
        if any(not self._alive(seat) for seat in circle.wanted):
            self._soon(circle, 0.0)

    # --- tokens ----------------------------------------------------------------------------------------------------

    def _tick(self, circle: _Circle, leader: _Seat, tick: int) -> None:
        if tick != circle.ticks:
            return
        if not self._alive(leader):
            self._at(self.settings.detection, self._suspect, circle)
            return
        self._at(leader.pace.interval_us / 1e6, self._tick, circle, leader, tick)
        ring = leader.ring
        if ring.recovering:
            self._recover(circle, leader)
        token = ring.begin_round(patience(ring), leader.pace.ranges_max)
        if token is None:
            return
        leader.pace.sent(token.round, round(self.now * 1e6))
        token.down_version, token.down = leader.down_version, leader.down
        self._hop(circle, token, 1 % len(circle.seats), circle.seats)

    def _recover(self, circle: _Circle, leader: _Seat) -> None:
        ring = leader.ring
        if circle.parent is None:
            ring.floor, ring.floor_known = self._root.last.aggregates or None, True
            return
        ring.floor, ring.floor_known = None, True
        if leader.above is not None and leader.above.has_counted:
            self._sleep(circle, leader)
            self._lead(circle, leader)

    def _hop(self, circle: _Circle, token: Token, place: int, seats: list[_Seat]) -> None:
        """The token reaches the member at this place."""
        seat = seats[place]
        if not self._alive(seat):
            self._at(self.settings.detection, self._suspect, circle)
            return
        self.hops += 1
        ring = seat.ring
        if circle.level == self._leaf_level:
            ring.values = self.client.values(seat.node, self.now)
        if place == 0:
            if ring.may_finish(token):
                self._finish(circle, seat, token)
            return
        if not ring.may_pass(token):
            return
        if token.down_version > seat.down_version:
            self._hand_down(circle, seat, token.down_version, token.down)
            if circle.level == self._leaf_level:
                ring.values = self.client.values(seat.node, self.now)
        ring.add_to(token)
        self._at(self._latency(), self._hop, circle, token, (place + 1) % len(seats), seats)

    def _latency(self) -> float:
        return self.settings.latency * (0.5 + self._choice.real())

    def _finish(self, circle: _Circle, leader: _Seat, token: Token) -> None:
        _, complete = leader.ring.finish_round(token)
        self._measure(circle, leader, token)
        if not complete:
            return
        if circle.parent is None:
            decision = self._root.take_result((token.number, token.round), tuple(token.values))
            if decision is not None:  # to the register and back
                self._at(2 * self.settings.latency, self._decided, circle, leader)
        elif leader.above is not None:
            leader.above.ring.values = tuple(token.values)
            leader.above.has_counted = True

    def _measure(self, circle: _Circle, leader: _Seat, token: Token) -> None:
        adapts = self.settings.bytes_per_s > 0
        self._finished += 1
        chosen = self._finished % self._sample == 0
        if circle.parent is None:
            without = msgspec.structs.replace(token, results=(), down=())
            self.value_bytes.append(len(token_to_wire("r", without, 0).body))
            self.ranges.append(max((each.ranges for each in token.values if isinstance(each, RangeSet)), default=0))
            self.truncated.append(token.is_truncated)
        if not adapts and not chosen:
            return
        length = len(token_to_wire("r.1.1", token, 0).body)
        if adapts:
            leader.pace.came_back(token.round, round(self.now * 1e6), length, token.is_truncated)
        if chosen:
            without = msgspec.structs.replace(token, down=())
            self.token_bytes.append(length)
            self.down_bytes.append(length - len(token_to_wire("r.1.1", without, 0).body))

    def _decided(self, circle: _Circle, leader: _Seat) -> None:
        held = self._root.pending
        assert held is not None
        onward = self._root.learn(held)
        leader.ring.keep_reach(held.aggregates)
        values = tuple(held.flows[name] for name in self.rules.down)
        self._hand_down(circle, leader, held.version, values)
        if onward is not None:
            self._at(2 * self.settings.latency, self._decided, circle, leader)

    def _hand_down(self, circle: _Circle, seat: _Seat, version: Version, values: tuple[Value, ...]) -> None:
        """To the ring that this node leads below, and so on; at a leaf, to the client."""
        seat.down_version, seat.down = version, values
        if circle.level == self._leaf_level:
            self.client.hear(seat.node, self.now, values)
            return
        for below in self._children.get(circle, ()):
            if below.seats and below.seats[0].above is seat:
                self._hand_down(below, below.seats[0], version, values)
