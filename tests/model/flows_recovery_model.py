"""Recovery when all members of a ring are candidates, step by step: the nodes that run, and a register.

Tokens, questions to the register and its answers are under way in no order, and may stay there for ever, which is a
loss. Views of a ring are given: members learn of them at any moment, in order. A node is what it made of the events
that it heard, so a state is these, and what is under way.

Reference: [Flows 3.2], [Flows (8)], [Flows (13)]; Dw5, Dw7.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from isotone.core.contract import Action, Address, DatagramsReceived, Event, SendDatagrams, Started, TimerFired
from isotone.flows.client import InputGiven
from isotone.flows.compiler import compile_text
from isotone.flows.library import PHASES
from isotone.flows.messages import (
    CODEC,
    Bootstrap,
    Record,
    Recorded,
    RingToken,
    RingView,
    WireMember,
    decision_from_bytes,
)
from isotone.flows.node import FlowNode

RULES = compile_text(PHASES)
AUTHORITY = Address("authority")
Heard = tuple[str, bytes | int]
Message = tuple[str, bytes]  # for whom, "register" among them


@dataclass(frozen=True)
class State:
    logs: tuple[tuple[Heard, ...], ...]
    under_way: frozenset[Message] = frozenset()
    register: bytes = b""
    ticks: int = 0
    grown: int = 0
    fell: str = ""


class Recovery:
    """``views``: the members of each view of the ring, by name. ``values``: what each node begins with. ``top``: if
    the ring is the top one, with the register; else what matters is what it tells the ring above."""

    def __init__(self, views: tuple[str, ...], values: dict[str, int], *, top: bool, ticks: int, grown: int) -> None:
        self.views, self.values, self.top, self.ticks, self.grown = views, values, top, ticks, grown
        self.names = tuple(values)
        self.node = lru_cache(maxsize=None)(self._node)

    # --- nodes -----------------------------------------------------------------------------------------------------

    def _node(self, name: str, log: tuple[Heard, ...]) -> tuple[FlowNode, tuple[Message, ...], str]:
        """The node that heard all this, what it said to the last, and whether what it tells the ring above fell."""
        node = FlowNode(me=name, address=Address(name), ring="r", authority=AUTHORITY, rules=RULES)
        said: list[Action] = [
            *node.handle(Started(0)),
            *node.handle(InputGiven(0, {"L": self.values[name]})),
            *node.handle(_datagram(Bootstrap("r", f"{name}/1", *self._above(), 1_000, 100, 0, PHASES))),
        ]
        fell = ""
        for heard in log:
            before = _told_above(node)
            said = node.handle(self._event(name, heard, node))
            after = _told_above(node)
            if before and after and before[0] == after[0] and after[1] < before[1]:
                fell = f"{name} tells the ring above {after[1]} after {before[1]}"
        return node, tuple(self._sent(said)), fell

    def _above(self) -> tuple[str, str]:
        return ("", "") if self.top else ("above", "authority")

    def _event(self, name: str, heard: Heard, node: FlowNode) -> Event:
        match heard:
            case ("tick", _):
                return TimerFired(0, ("tick", "r"))
            case ("view", int(number)):
                members = tuple(
                    WireMember(f"{each}/1", each, self._since(each, number)) for each in self.views[number - 1]
                )
                return _datagram(RingView("r", number, members))
            case ("grow", int(value)):
                return InputGiven(0, {"L": value})
            case (_, bytes(data)):
                return DatagramsReceived(0, AUTHORITY, data, len(data))
        raise AssertionError(heard)

    def _since(self, name: str, number: int) -> int:
        while number > 1 and name in self.views[number - 2]:
            number -= 1
        return number

    def _sent(self, said: list[Action]) -> Iterable[Message]:
        for action in said:
            if isinstance(action, SendDatagrams):
                data = b"".join(action.datagrams[0])
                message = CODEC.decode(data)
                if isinstance(message, RingToken):
                    yield str(action.destination), data
                elif isinstance(message, Record):
                    yield "register", data

    # --- the model -------------------------------------------------------------------------------------------------

    def initial(self) -> Iterable[State]:
        return [State(((),) * len(self.names))]

    def nodes(self, state: State) -> list[tuple[FlowNode, tuple[Message, ...], str]]:
        return [self.node(name, log) for name, log in zip(self.names, state.logs, strict=True)]

    def steps(self, state: State) -> Iterable[tuple[str, State]]:
        for place, (name, (node, _, _)) in enumerate(zip(self.names, self.nodes(state), strict=True)):
            ring = node.stack[0].ring
            for number, members in enumerate(self.views, start=1):
                if number > ring.number and name in members:
                    yield f"{name} enters view {number}", self._hear(state, place, ("view", number))
            if ring.leads and state.ticks < self.ticks:
                after = replace(state, ticks=state.ticks + 1)
                yield f"{name} sends a token", self._hear(after, place, ("tick", 0))
            if state.grown < self.grown:
                after = replace(state, grown=state.grown + 1)
                value = node._inputs["L"]
                assert isinstance(value, int)
                yield f"{name} grows", self._hear(after, place, ("grow", value + 1))
        for message in sorted(state.under_way):
            after = replace(state, under_way=state.under_way - {message})
            if message[0] == "register":
                yield "the register answers", self._register(after, message[1])
            else:
                place = self.names.index(message[0])
                yield f"{message[0]} hears {_shown(message[1])}", self._hear(after, place, ("data", message[1]))

    def _hear(self, state: State, place: int, heard: Heard) -> State:
        log = (*state.logs[place], heard)
        _, said, fell = self.node(self.names[place], log)
        logs = (*state.logs[:place], log, *state.logs[place + 1 :])
        return replace(state, logs=logs, under_way=state.under_way | set(said), fell=state.fell or fell)

    def _register(self, state: State, data: bytes) -> State:
        """Compare and set, and tell what it holds."""
        asked = CODEC.decode(data)
        assert isinstance(asked, Record)
        held, register, fell = decision_from_bytes(state.register, RULES), state.register, ""
        if asked.body and asked.after == held.version:
            offered = decision_from_bytes(asked.body, RULES)
            if offered.version > held.version:
                register = asked.body
                old, new = held.aggregates, offered.aggregates
                if old and isinstance(old[0], int) and isinstance(new[0], int) and new[0] < old[0]:
                    fell = f"the decision falls from {old[0]} to {new[0]}"
        answer = (asked.address, CODEC.encode(Recorded("r", asked.member, register)))
        return replace(state, register=register, under_way=state.under_way | {answer}, fell=state.fell or fell)

    def identity(self, state: State) -> bytes:
        nodes = [_summary(node) for node, _, _ in self.nodes(state)]
        return repr((nodes, sorted(state.under_way), state.register, state.ticks, state.grown, state.fell)).encode()

    def problem(self, state: State) -> str | None:
        return state.fell or None

    def may_end(self, state: State) -> bool:
        return True


def _datagram(message: Bootstrap | RingView) -> DatagramsReceived:
    data = CODEC.encode(message)
    return DatagramsReceived(0, AUTHORITY, data, len(data))


def _told_above(node: FlowNode) -> tuple[str, int] | None:
    """Who we are in the ring above, and what we tell it; None while that is nothing."""
    values = node.stack[1].ring.values if len(node.stack) > 1 else None
    value = values[0] if values else None
    return (node.stack[1].me, value) if isinstance(value, int) else None


def _shown(data: bytes) -> str:
    message = CODEC.decode(data)
    return f"token {message.number}.{message.round}" if isinstance(message, RingToken) else type(message).__name__


def _summary(node: FlowNode) -> tuple[object, ...]:
    component, root = node.stack[0], node.root
    ring = component.ring
    told = tuple(getattr(ring, each) for each in type(ring).__slots__ if each not in ("rules", "_operators"))
    decided = (root.known, root.last, root.pending, root._waiting) if root else ()
    return (told, component.down_version, node.heard_version, node._inputs, decided, _told_above(node))
