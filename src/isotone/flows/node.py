"""A node: a stack of ring components, each embedded in the one below and awake only while this node leads that ring.

```
 client ── component of the leaf ring ── component of its parent's ring ── … ── root
           always awake                  awake while we lead the leaf ring      awake while we lead the top ring
```

Results go up the stack, decisions come down. A component that falls asleep is forgotten; when it wakes it joins its
ring as a new member, which is a candidate. So also after a recovery of the ring below: what flowed there before binds
nobody.

Implements: [Flows 3.1], [Flows 3.2]. Deviations: Dw5, Dw7; see ``docs/protocols/flows.md``.
"""

from __future__ import annotations

from collections.abc import Mapping

from isotone.core.codec.control import ControlMessage
from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    DatagramsReceived,
    DatagramsRefused,
    Event,
    SendDatagrams,
    SetTimer,
    Started,
    Stopping,
    TimerFired,
)
from isotone.core.contract import (
    Record as Note,
)
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.flows.client import FlowOutput, InputGiven, PacketTaken, ShareOutput
from isotone.flows.compiler import Rules, Values, contributions, initial_inputs, plain_rules
from isotone.flows.component import Component, patience
from isotone.flows.messages import (
    CODEC,
    Alive,
    Bootstrap,
    Depart,
    Enrol,
    Packet,
    Probe,
    ProbeAnswer,
    Record,
    Recorded,
    RingToken,
    RingView,
    decision_from_bytes,
    decision_to_bytes,
    to_member,
    token_from_wire,
    token_to_wire,
)
from isotone.flows.operators import at_most
from isotone.flows.recording import completion, contribution, shown
from isotone.flows.ring import NO_VERSION, Token, Version
from isotone.flows.root import Decision, Root
from isotone.flows.values import Pairs, Value, to_plain
from isotone.trace import flows as trace

ALIVE_US = 100_000
BODY_BYTES_MAX = 60_000
"""Of a token or a decision: what is longer does not fit into a datagram."""
DEPTH_MAX = 12
"""Rings above one another; a chain of authorities that is longer is a loop."""


class FlowNode:
    """One node. ``me`` is its id in this life: no later life has the same."""

    periodic_timers = ("alive", "tick")

    def __init__(
        self, *, me: str, address: Address, ring: str, authority: Address, rules: Rules, name: str = ""
    ) -> None:
        self.me = me
        self.name = name or me  # how pairs call this node
        self._address = address
        self.rules = rules
        self._leaf = (ring, authority)
        self._count = 0  # of components that were ever awake
        self.stack: list[Component] = []
        self.root: Root | None = None
        self._inputs: dict[str, Value] = initial_inputs(rules)
        self._input_version = 0
        self._heard: dict[str, Value] = {}
        self.heard_version: Version = NO_VERSION
        self.left_out = 0  # how often one of our rings went on without us
        self.too_long = 0  # tokens and decisions that were not sent

    def handle(self, event: Event) -> list[Action]:
        """Take one event, say what to do."""
        match event:
            case DatagramsReceived(_, source, data, size):
                actions: list[Action] = []
                for begin in range(0, len(data), size):
                    actions += self._on_message(CODEC.decode(data[begin : begin + size]), source, event.at)
                return actions
            case TimerFired(at, ("tick", str(ring))):
                return self._on_tick(ring, at)
            case TimerFired(_, "alive"):
                return [*self._say_alive(), SetTimer("alive", self._alive_us())]
            case InputGiven(_, values):
                return self._on_input(values)
            case Started():
                return self._on_started()
            case Stopping():
                return [_send(each.authority, Depart(each.name, each.me)) for each in self.stack]
            case DatagramsRefused():
                return []
        raise LocalProtocolError(f"a flow node takes no {type(event).__name__}")

    @property
    def is_regular(self) -> bool:
        """Whether our own values count in our ring."""
        return bool(self.stack) and self.stack[0].ring.regular

    # --- the client ------------------------------------------------------------------------------------------------

    def _on_started(self) -> list[Action]:
        self._wake(*self._leaf)
        note = Note(trace.FlowStarted(self.me, self._leaf[0], shown(plain_rules(self.rules))))
        return [note, *self._renew_inputs(), *self._say_alive(), SetTimer("alive", ALIVE_US)]

    def check_inputs(self, values: Mapping[str, Value]) -> None:
        """A `LocalProtocolError` for inputs that the program does not have, or that go the wrong way."""
        orders = {each.name: each.order for each in self.rules.inputs}
        for name, value in values.items():
            if name not in orders:
                raise LocalProtocolError(f"{self.rules.program} has no input {name}; it has {', '.join(orders)}")
            if type(value) is not type(self._inputs[name]):
                raise LocalProtocolError(f"{name} is not of this type: {to_plain(value)}")
            order = orders[name]
            if order is not None and self._input_version > 1 and not at_most(self._inputs[name], value, order):
                raise LocalProtocolError(f"{name} {order.value}, and {to_plain(value)} goes the other way")

    def _on_input(self, values: Mapping[str, Value]) -> list[Action]:
        self.check_inputs(values)
        self._inputs |= values
        return self._renew_inputs()

    def _renew_inputs(self) -> list[Action]:
        self._input_version += 1
        self._refresh()
        told = {name: to_plain(value) for name, value in self._inputs.items()}
        return [Note(trace.FlowInput(self.me, self._input_version, shown(told)))]

    def _refresh(self) -> None:
        """What we add to the leaf ring, by the client rules."""
        leaf = self.stack[0]
        leaf.ring.values = contributions(self.rules, self._inputs, self._heard, self.name)
        number, round = self.heard_version
        leaf.origin = f"input {self._input_version} {number}.{round}"

    # --- membership ------------------------------------------------------------------------------------------------

    def _wake(self, ring: str, authority: Address) -> Component:
        self._count += 1
        component = Component(ring, authority, f"{self.me}/{self._count}", self.rules)
        self.stack.append(component)
        return component

    def _sleep_above(self, component: Component) -> list[Action]:
        """Forget all that is embedded in this component."""
        place = self.stack.index(component)
        above, self.stack = self.stack[place + 1 :], self.stack[: place + 1]
        self.root = None
        actions: list[Action] = []
        for each in above:
            actions += [_send(each.authority, Depart(each.name, each.me)), CancelTimer(("tick", each.name))]
        return actions

    def _alive_us(self) -> int:
        """A sign of life for each token, where tokens are rare; authorities of many members would drown in more."""
        return max([ALIVE_US, *(each.pace.interval_us for each in self.stack)])

    def _say_alive(self) -> list[Action]:
        actions: list[Action] = []
        for each in self.stack:
            if each.ring.place >= 0 and each.is_booted:
                actions.append(_send(each.authority, Alive(each.name, each.me, each.ring.number)))
            else:
                actions.append(_send(each.authority, Enrol(each.name, each.me, self._address)))
        return [*actions, *self._ask_register()]

    def _component(self, ring: str) -> Component | None:
        return next((each for each in self.stack if each.name == ring), None)

    def _on_message(self, message: ControlMessage, source: Address, at: int) -> list[Action]:
        if isinstance(message, Packet):
            return [PacketTaken(message.number, message.payload)]
        component = self._component(getattr(message, "ring", ""))
        if component is None:
            return []  # of a component that sleeps by now
        match message:
            case RingToken(place=place):
                token = token_from_wire(message, self.rules)
                if place != component.ring.place:
                    return []
                actions = self._on_token(component, token)
                component.pace.came_back(token.round, at, len(message.body), token.is_truncated)
                return actions
            case RingView():
                return self._on_view(component, message, at)
            case Bootstrap():
                return self._on_bootstrap(component, message, at)
            case Probe(ring, member, nonce):
                return [_send(source, ProbeAnswer(ring, member, nonce))] if member == component.me else []
            case Recorded():
                return self._on_recorded(component, message)
        raise RemoteProtocolError("not a message for a node")

    def _on_bootstrap(self, component: Component, message: Bootstrap, at: int) -> list[Action]:
        if message.member != component.me or component.is_booted:
            return []
        if message.program != self.rules.text:
            raise RemoteProtocolError("the authority runs another program")
        component.boot(message)
        return self._follow_lead(component, at)

    def _on_view(self, component: Component, message: RingView, at: int) -> list[Action]:
        ring = component.ring
        entered = any(each.id == component.me for each in message.members)
        if not entered and ring.place < 0:
            return []  # of the time before we are let in
        if not ring.take_view(message.number, [to_member(each) for each in message.members]):
            return []
        if not entered:
            return self._rejoin(component)
        names = tuple(each.id for each in message.members)
        note = trace.RingEntered(component.name, component.me, message.number, names, ring.regular)
        component.pace.new_view()
        return [Note(note), *self._follow_lead(component, at)]

    def _rejoin(self, component: Component) -> list[Action]:
        """We were left out: all that we were in this ring is over, and we ask to be let in as somebody new."""
        actions = self._sleep_above(component)
        self.left_out += 1
        self._count += 1
        component.begin_again(f"{self.me}/{self._count}")
        return [
            *actions,
            CancelTimer(("tick", component.name)),
            _send(component.authority, Enrol(component.name, component.me, self._address)),
        ]

    def _follow_lead(self, component: Component, at: int) -> list[Action]:
        """Wake what is embedded if we lead, and send a token at once; else let it sleep."""
        if not component.is_booted or component.ring.place < 0:
            return []
        if not component.ring.leads:
            return [*self._sleep_above(component), CancelTimer(("tick", component.name))]
        actions: list[Action] = []
        if self.stack[-1] is component and (self.root is None or not component.is_top):
            actions += self._wake_above(component)
        return [*actions, *self._on_tick(component.name, at)]

    def _wake_above(self, component: Component) -> list[Action]:
        if component.is_top:
            self.root = Root(self.rules)
            return self._ask_register()
        if len(self.stack) >= DEPTH_MAX:
            raise RemoteProtocolError(f"more than {DEPTH_MAX} rings above one another")
        above = self._wake(component.parent, component.parent_authority)
        return [_send(above.authority, Enrol(above.name, above.me, self._address))]

    # --- tokens ----------------------------------------------------------------------------------------------------

    def _on_tick(self, name: str, at: int) -> list[Action]:
        component = self._component(name)
        if component is None or not component.ring.leads:
            return []
        ring, pace = component.ring, component.pace
        actions: list[Action] = [SetTimer(("tick", name), pace.interval_us)]
        if ring.recovering:
            actions += self._prepare_recovery(component)
        token = ring.begin_round(patience(ring), pace.ranges_max)
        if token is None:
            return actions
        component.load(token)
        if len(ring.members) == 1:
            return [*actions, *self._finish(component, token)]
        pace.sent(token.round, at)
        return [*actions, *self._forward(component, token)]

    def _prepare_recovery(self, component: Component) -> list[Action]:
        """The top ring has the register's floor. Another ring begins a new life: so must what is embedded in it."""
        ring = component.ring
        if component.is_top:
            if self.root is not None and self.root.known:
                ring.floor = self.root.last.aggregates or None
                ring.floor_known = True
            return []
        ring.floor, ring.floor_known = None, True
        place = self.stack.index(component)
        if len(self.stack) > place + 1 and self.stack[place + 1].has_counted:
            return [*self._sleep_above(component), *self._wake_above(component)]
        return []

    def _forward(self, component: Component, token: Token) -> list[Action]:
        """To the next member. What is longer than a datagram is lost, and counted for whoever asks."""
        members = component.ring.members
        place = (component.ring.place + 1) % len(members)
        message = token_to_wire(component.name, token, place)
        if len(message.body) > BODY_BYTES_MAX:
            self.too_long += 1
            return []
        return [_send(Address(members[place].address), message)]

    def _on_token(self, component: Component, token: Token) -> list[Action]:
        ring = component.ring
        if ring.leads:
            return self._finish(component, token) if ring.may_finish(token) else []
        if not ring.may_pass(token):
            return []
        actions = self._take_down(component, token)
        standing = ring.add_to(token)
        return [*actions, *contribution(component, token, standing), *self._forward(component, token)]

    def _take_down(self, component: Component, token: Token) -> list[Action]:
        """What came from above, and our share of what is dealt out."""
        actions: list[Action] = []
        if token.down_version > component.down_version:
            actions += self._hand_down(self.stack.index(component), token.down_version, token.down)
        share = component.take_share(token, self._allowed(component))
        return [*actions, *self._hand_shares(self.stack.index(component), share)]

    def _allowed(self, component: Component) -> list[object]:
        """For each distribution, the numbers that we, or those below us, can serve."""
        values = component.ring.values
        return [None if rule.known < 0 or values is None else values[rule.known] for rule in self.rules.shares]

    def _finish(self, component: Component, token: Token) -> list[Action]:
        ring = component.ring
        share = component.take_share(token, self._allowed(component))
        actions = self._hand_shares(self.stack.index(component), share)
        standing, complete = ring.finish_round(token)
        actions += contribution(component, token, standing)
        if ring.recovering:
            actions += self._prepare_recovery(component)
        if complete:
            actions.append(completion(component, token))
        if complete or any(value is not None for value in token.values):
            actions += self._hand_up(component, (token.number, token.round), tuple(token.values))
        return actions

    # --- up and down -----------------------------------------------------------------------------------------------

    def _hand_up(self, component: Component, version: Version, values: Values) -> list[Action]:
        if component.is_top:
            if self.root is None:
                return []
            decision = self.root.take_result(version, values)
            component.ring.recovering |= self.root.fell
            return self._propose(component, decision)
        place = self.stack.index(component)
        if len(self.stack) > place + 1:
            above = self.stack[place + 1]
            above.ring.values = values
            above.origin = f"ring {component.name} {version[0]}.{version[1]}"
            above.has_counted = above.has_counted or all(values[each] is not None for each, _ in self.rules.guards)
        return []

    def _hand_down(self, place: int, version: Version, values: tuple[Value, ...]) -> list[Action]:
        """To this component and all below, to the client at last."""
        for component in self.stack[: place + 1]:
            if version > component.down_version:
                component.down_version, component.down = version, values
        if version <= self.heard_version:
            return []
        self.heard_version = version
        self._heard = dict(zip(self.rules.down, values, strict=True))
        self._refresh()
        told = {name: to_plain(value) for name, value in self._heard.items()}
        note = Note(trace.Flowed(self.me, *version, shown(told)))
        return [note, FlowOutput(version, self._outputs())]

    def _outputs(self) -> dict[str, Value]:
        """The outputs that come to all; disseminations by their own names."""
        sources = self.rules.sources
        names = {name: sources.get(name, name) for name in self.rules.outputs}
        return {name: self._heard[source] for name, source in names.items() if source in self._heard}

    def _hand_shares(self, place: int, share: tuple[Version, list[Pairs]] | None) -> list[Action]:
        """To the ring below, which deals it out again; at the lowest, to the client."""
        if share is None:
            return []
        version, pairs = share
        if place > 0:
            self.stack[place - 1].deal(version, pairs)
            return []
        named = {rule.flow: each for rule, each in zip(self.rules.shares, pairs, strict=True) if each}
        if not named:
            return []
        told = {name: to_plain(value) for name, value in named.items()}
        return [Note(trace.Dealt(self.me, *version, shown(told))), ShareOutput(version, named)]

    # --- the root --------------------------------------------------------------------------------------------------

    def _ask_register(self) -> list[Action]:
        """Once more, until there is an answer."""
        if self.root is None:
            return []
        top = self.stack[-1]
        if self.root.pending is not None:
            return self._propose(top, self.root.pending)
        if not self.root.known:
            return [_send(top.authority, Record(top.name, top.me, self._address, NO_VERSION, b""))]
        return []

    def _propose(self, top: Component, decision: Decision | None) -> list[Action]:
        if decision is None:
            return []
        assert self.root is not None
        body = decision_to_bytes(decision)
        if len(body) > BODY_BYTES_MAX:
            self.too_long += 1
            return []
        return [_send(top.authority, Record(top.name, top.me, self._address, self.root.last.version, body))]

    def _on_recorded(self, component: Component, message: Recorded) -> list[Action]:
        if self.root is None or message.member != component.me or not component.is_top:
            return []
        held, asked = decision_from_bytes(message.body, self.rules), self.root.pending
        onward = self.root.learn(held)
        component.ring.recovering |= self.root.fell
        if held.aggregates:
            component.ring.keep_reach(held.aggregates)
        actions: list[Action] = []
        if held.version > component.down_version:
            values = tuple(held.flows[name] for name in self.rules.down)
            actions += self._hand_down(len(self.stack) - 1, held.version, values)
        if asked is not None and asked.version == held.version:  # nobody else deals it out
            component.deal(held.version, [self._pairs_of(held, rule.source) for rule in self.rules.shares])
        return [*actions, *self._propose(component, onward)]

    def _pairs_of(self, held: Decision, name: str) -> Pairs:
        value = held.flows[name]
        assert isinstance(value, Pairs)
        return value


def _send(destination: Address, message: ControlMessage) -> SendDatagrams:
    return SendDatagrams(destination, ((CODEC.encode(message),),))
