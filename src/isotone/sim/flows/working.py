"""Working components: what the clients of the library's programs do with inputs and outputs in a simulated run.

Implements: [Flows 3.1] (working component), [Flows 4.1] (clients of the phase program). Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from isotone.core.choice import Choice
from isotone.core.contract import Action, Address, Event, SendDatagrams, Started
from isotone.flows.client import FlowOutput, InputGiven, PacketTaken, ShareOutput
from isotone.flows.messages import CODEC, Packet
from isotone.flows.node import FlowNode
from isotone.flows.values import Decisions, Pairs, RangeSet, Value, interval, range_set


class StepDue(Event, frozen=True, gc=False):
    """The workload's step for this node."""

    number: int


class Work(Protocol):
    """A client: each method returns what its inputs hold from now on, if that changed."""

    def begin(self) -> Mapping[str, Value]:
        """At the start."""
        ...

    def step(self, number: int) -> Mapping[str, Value]:
        """The workload goes on."""
        ...

    def hear(self, outputs: Mapping[str, Value]) -> Mapping[str, Value]:
        """Global flows came."""
        ...

    def missing(self, everything: RangeSet) -> str:
        """What is not yet done, of what the run wants; empty when all is."""
        ...


class PhasesWork:
    """Enters the phase that it may, up to the last."""

    def __init__(self, last: int) -> None:
        self.entered = 0
        self.may = 0
        self._last = last

    def begin(self) -> Mapping[str, Value]:
        """In no phase."""
        return {}

    def step(self, number: int) -> Mapping[str, Value]:
        """Nothing is asked of it."""
        return {}

    def hear(self, outputs: Mapping[str, Value]) -> Mapping[str, Value]:
        """Enter at once."""
        may = outputs["N"]
        assert isinstance(may, int)
        self.may = may
        entered = min(may, self._last)
        if entered <= self.entered:
            return {}
        self.entered = entered
        return {"L": entered}

    def missing(self, everything: RangeSet) -> str:
        """All entered the last phase, and know it."""
        return "" if self.may > self._last else f"may enter phase {self.may} of {self._last}"


class MulticastWork:
    """Receives packets from the network or from other nodes, and delivers those that all have."""

    def __init__(self) -> None:
        self.received = RangeSet()
        self.delivered = RangeSet()

    def begin(self) -> Mapping[str, Value]:
        """Without packets."""
        return {}

    def step(self, number: int) -> Mapping[str, Value]:
        """A packet was received."""
        self.received = self.received.union(interval(number, number))
        return {"R": self.received}

    def hear(self, outputs: Mapping[str, Value]) -> Mapping[str, Value]:
        """Deliver."""
        delivered = outputs["D"]
        assert isinstance(delivered, RangeSet)
        self.delivered = delivered
        return {}

    def missing(self, everything: RangeSet) -> str:
        """Every packet is delivered."""
        left = everything.difference(self.delivered)
        return f"has not delivered {left.numbers()[:5]}" if left else ""


class CommitWork:
    """Votes on transactions in its own way, always the same."""

    def __init__(self, choice: Choice, abort: float, submitted: Sequence[int]) -> None:
        self._choice, self._abort = choice, abort
        self._submitted = submitted
        self._for: set[int] = set()
        self._against: set[int] = set()
        self.decided = RangeSet()

    def begin(self) -> Mapping[str, Value]:
        """Whoever starts is told of all transactions so far."""
        for number in self._submitted:
            self._vote(number)
        return self._inputs()

    def step(self, number: int) -> Mapping[str, Value]:
        """A transaction came."""
        self._vote(number)
        return self._inputs()

    def _vote(self, number: int) -> None:
        against = self._choice.derive(str(number)).chance(self._abort)
        (self._against if against else self._for).add(number)

    def _inputs(self) -> Mapping[str, Value]:
        return {"C": range_set(self._for), "A": range_set(self._against)}

    def hear(self, outputs: Mapping[str, Value]) -> Mapping[str, Value]:
        """Learn what is decided."""
        decisions = outputs["D"]
        assert isinstance(decisions, Decisions)
        self.decided = decisions.decided()
        return {}

    def missing(self, everything: RangeSet) -> str:
        """Every transaction is decided."""
        left = everything.difference(self.decided)
        return f"does not know what became of {left.numbers()[:5]}" if left else ""


class HealthWork:
    """Tells how it is; versions only grow."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._lowest = -1

    def begin(self) -> Mapping[str, Value]:
        """Well, and empty."""
        return {"well": True}

    def step(self, number: int) -> Mapping[str, Value]:
        """An upgrade, and some load."""
        return {"well": number % 3 > 0, "used": number * 7 % 101}

    def hear(self, outputs: Mapping[str, Value]) -> Mapping[str, Value]:
        """Run the version after the lowest."""
        lowest = outputs["lowest"]
        assert isinstance(lowest, int)
        if lowest <= self._lowest:
            return {}
        self._lowest = lowest
        return {"version": min(lowest + 1, self._last)}

    def missing(self, everything: RangeSet) -> str:
        """All run the last version."""
        return "" if self._lowest == self._last else f"knows of version {self._lowest} of {self._last}"


class FlowClient:
    """A flow node with its working component: what the node tells the client, the client answers with inputs."""

    periodic_timers = FlowNode.periodic_timers

    def __init__(
        self,
        node: FlowNode,
        work: Work,
        where: Callable[[str], Address],
        strike: Callable[[list[Action]], list[Action]] | None = None,
    ) -> None:
        self.node = node
        self.work = work
        self._where = where
        self._strike = strike

    def handle(self, event: Event) -> list[Action]:
        """Hand it to the node, and play the client."""
        if isinstance(event, StepDue):
            actions = self._given(event.at, self.work.step(event.number))
        else:
            actions = self._played(event.at, self.node.handle(event))
            if isinstance(event, Started):
                actions += self._given(event.at, self.work.begin())
        return self._strike(actions) if self._strike else actions

    def _given(self, at: int, inputs: Mapping[str, Value]) -> list[Action]:
        return self._played(at, self.node.handle(InputGiven(at, inputs))) if inputs else []

    def _played(self, at: int, said: list[Action]) -> list[Action]:
        actions: list[Action] = []
        for action in said:
            match action:
                case FlowOutput(_, values):
                    actions += self._given(at, self.work.hear(values))
                case ShareOutput(_, values):
                    actions += self._forwarded(values)
                case PacketTaken(number):
                    actions += self._given(at, self.work.step(number))
                case _:
                    actions.append(action)
        return actions

    def _forwarded(self, shares: Mapping[str, Pairs]) -> list[Action]:
        """Send the packets that others lack."""
        ring = self.node.stack[0].name
        return [
            SendDatagrams(self._where(node), ((CODEC.encode(Packet(ring, number, b"")),),))
            for pairs in shares.values()
            for node, numbers in pairs.entries
            for number in numbers.numbers()
        ]
