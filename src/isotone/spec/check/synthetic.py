"""Valid traces of any length, fast: to measure the checkers, and to have something good to corrupt.

A toy of a correct system: one total order per component, which each node follows at its own pace through a queue. Views
change by joins, leaves, partitions, merges, crashes and restarts. It is far tamer than the oracle.

Implements: nothing of the papers; what it writes satisfies [Spread 2.2.3] to [Spread 2.2.5]. Deviations: none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from isotone.core.choice import Choice
from isotone.core.ids import NO_DAEMON_VIEW, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.services import Service
from isotone.trace import events as trace
from isotone.trace.events import Entry, Row


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How the run looks."""

    seed: int = 1
    bundles: int = 1000
    nodes: int = 5
    clients_per_node: int = 4
    groups: int = 3
    messages_max: int = 20
    messages_min: int = 5
    change_every: int = 50
    """About so many bundles lie between two changes of views."""
    lag_max: int = 40
    """A node is behind the order by at most this many entries."""
    daemons: bool = False
    """Whether to record EVS-S too."""
    network: bool = False
    """Whether to record the network below too: a use of it for each component, on which every bundle is multicast."""


class _Node:
    def __init__(self, name: str) -> None:
        self.name = name
        self.incarnation = 0
        self.alive = False
        self.clients: list[str] = []  # sessions, as ids
        self.queue: deque[Entry] = deque()
        self.index = 0

    @property
    def id(self) -> str:
        return f"{self.name}#{self.incarnation}"


class _Group:
    """A group in one component."""

    def __init__(self, id: GroupViewId, members: list[str]) -> None:
        self.id = id
        self.members = members


class _Component:
    def __init__(self, view: DaemonViewId, nodes: list[_Node]) -> None:
        self.view = view
        self.network = f"n{view.epoch}"
        self.nodes = nodes
        self.groups: dict[str, _Group] = {}


class Synthetic:
    """Writes one run; iterate over it for its rows."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._choice = Choice(f"synthetic/{shape.seed}")
        self._nodes = [_Node(f"d{number + 1}") for number in range(shape.nodes)]
        self._components: list[_Component] = []
        self._sequences: dict[str, int] = {}
        self._clock = 0
        self._epoch = 0
        self._session = 0
        self._at = 0
        self._rows: list[Row] = []

    def __iter__(self) -> Iterator[Row]:
        self._start()
        sent = 0
        while not self._is_enough(sent):
            sent += 1
            if self._choice.below(self.shape.change_every) == 0:
                self._change()
            self._send()
            self._work()
            yield from self._taken()
        for node in self._nodes:
            self._follow(node, len(node.queue))
        yield from self._taken()
        components = tuple(tuple(sorted(node.name for node in each.nodes)) for each in self._components)
        self._at += 1
        yield Row("", 1, 0, self._at, trace.Stabilised(components))
        yield Row("", 1, 1, self._at, trace.Ended(True))

    def _is_enough(self, sent: int) -> bool:
        """Whether so many bundles make the trace long enough."""
        return sent >= self.shape.bundles

    def _taken(self) -> list[Row]:
        rows, self._rows = self._rows, []
        return rows

    # --- the record ------------------------------------------------------------------------------------------------

    def _record(self, node: _Node, entry: Entry) -> None:
        self._at += 1
        self._rows.append(Row(node.name, node.incarnation, node.index, self._at, entry))
        node.index += 1

    def _work(self) -> None:
        """Some nodes follow the order for a while; nobody falls back too far."""
        for node in self._nodes:
            if node.queue and (len(node.queue) > self.shape.lag_max or self._choice.chance(0.5)):
                self._follow(node, 1 + self._choice.below(len(node.queue)))

    def _follow(self, node: _Node, count: int) -> None:
        for _ in range(count):
            self._record(node, node.queue.popleft())

    # --- messages --------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        component = self._choice.pick(self._components)
        node = self._choice.pick(component.nodes)
        if not node.clients:
            return
        client = self._choice.pick(node.clients)
        names = [f"g{self._choice.below(self.shape.groups)}"]
        if self._choice.chance(0.1):
            names = sorted({*names, f"g{self._choice.below(self.shape.groups)}"})
        count = self._choice.between(self.shape.messages_min, self.shape.messages_max)
        first = self._sequences.get(client, 0) + 1
        self._sequences[client] = first + count - 1
        service = Service(self._choice.below(6))
        digests = tuple(range(self._at << 8, (self._at << 8) + count))
        sent = trace.Sent(client, first, service, tuple(names), (8,) * count, digests)
        self._record(node, sent)
        self._order(component, node, sent)

    def _order(self, component: _Component, node: _Node, sent: trace.Sent) -> None:
        self._clock += 1
        if self.shape.network:
            self._multicast(component, node, sent.digests[0])
        if self.shape.daemons:
            self._order_daemons(component, node, sent)
        for each in component.nodes:
            receivers = self._receivers(component, each, sent.groups)
            if receivers:
                each.queue.append(
                    trace.Delivered(
                        receivers,
                        sent.client,
                        sent.first_sequence,
                        sent.service,
                        sent.groups,
                        sent.lengths,
                        sent.digests,
                        self._clock,
                        node.id,
                    )
                )

    def _order_daemons(self, component: _Component, node: _Node, sent: trace.Sent) -> None:
        content = (self._clock, sent.service, (sum(sent.lengths),), sent.digests[:1])
        self._record(node, trace.DaemonSent(node.id, *content))
        for each in component.nodes:
            each.queue.append(trace.DaemonDelivered(each.id, node.id, *content, self._clock, node.id))

    def _multicast(self, component: _Component, node: _Node, digest: int) -> None:
        """The network is prompt; it is the order above it that a node follows at its own pace."""
        self._record(node, trace.NetworkSent(node.id, component.network, self._clock, digest))
        for each in component.nodes:
            received = trace.NetworkReceived(each.id, component.network, node.id, self._clock, digest)
            self._record(each, received)

    def _receivers(self, component: _Component, node: _Node, names: tuple[str, ...]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for name in names:
            group = component.groups.get(name)
            if group is not None:
                found.update(dict.fromkeys(client for client in group.members if client in node.clients))
        return tuple(sorted(found))

    # --- changes ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        for node in self._nodes:
            self._boot(node)
        self._form([(None, self._nodes)])
        for node in self._nodes:
            for client in node.clients:
                self._join(self._components[0], client, f"g{self._choice.below(self.shape.groups)}")

    def _boot(self, node: _Node) -> None:
        node.incarnation += 1
        node.alive, node.index = True, 0
        node.queue.clear()
        self._record(node, trace.Recovered(node.id))
        node.clients = []
        for number in range(self.shape.clients_per_node):
            self._session += 1
            client = f"#c{number}#{node.id}#{self._session}"
            node.clients.append(client)
            self._record(node, trace.Connected(client))

    def _change(self) -> None:
        kind = self._choice.weighted((("join", 4.0), ("leave", 2.0), ("cut", 2.0), ("merge", 3.0), ("crash", 1.0)))
        component = self._choice.pick(self._components)
        if kind in ("join", "leave"):
            node = self._choice.pick(component.nodes)
            if node.clients:
                client = self._choice.pick(node.clients)
                name = f"g{self._choice.below(self.shape.groups)}"
                (self._join if kind == "join" else self._leave)(component, client, name)
        elif kind == "cut" and len(component.nodes) > 1:
            self._cut(component)
        elif kind == "merge" and len(self._components) > 1:
            self._merge()
        elif kind == "crash" and len(component.nodes) > 1:
            self._crash(component)

    def _join(self, component: _Component, client: str, name: str) -> None:
        group = component.groups.get(name)
        if group is not None and client in group.members:
            return
        self._clock += 1
        before = list(group.members) if group is not None else []
        component.groups[name] = _Group(self._light_id(component), sorted([*before, client]))
        self._tell(component, name, before)
        self._tell(component, name, [client])

    def _leave(self, component: _Component, client: str, name: str) -> None:
        group = component.groups.get(name)
        if group is None or client not in group.members:
            return
        self._clock += 1
        members = [each for each in group.members if each != client]
        for node in component.nodes:
            if client in node.clients:
                node.queue.append(trace.SelfLeft(client, name))
        if not members:
            del component.groups[name]
            return
        component.groups[name] = _Group(self._light_id(component), members)
        self._tell(component, name, members)

    def _light_id(self, component: _Component) -> GroupViewId:
        return GroupViewId(component.view, NO_DAEMON_VIEW, Stamp(self._clock, component.view.coordinator))

    def _tell(self, component: _Component, name: str, together: list[str]) -> None:
        """Queue the group's view for those who come to it together."""
        group = component.groups[name]
        for node in component.nodes:
            receivers = tuple(client for client in together if client in node.clients)
            if receivers:
                members = tuple(group.members)
                view = trace.ViewDelivered(receivers, name, group.id, members, tuple(together), "network")
                node.queue.append(view)

    def _cut(self, component: _Component) -> None:
        nodes = list(component.nodes)
        self._choice.shuffle(nodes)
        border = 1 + self._choice.below(len(nodes) - 1)
        self._components.remove(component)
        self._part(component, nodes[:border], nodes[border:])

    def _part(self, component: _Component, *sides: list[_Node]) -> None:
        """Signal groups that lose members, then give each side views of its own."""
        for name, group in component.groups.items():
            homes = [any(client in node.clients for node in side for client in group.members) for side in sides]
            if sum(homes) + self._dead(component, sides, group) > 1:
                for node in component.nodes:
                    receivers = tuple(client for client in group.members if client in node.clients)
                    if receivers:
                        node.queue.append(trace.SignalDelivered(receivers, name, group.id))
        if self.shape.daemons:
            for node in component.nodes:
                node.queue.append(trace.DaemonSignalDelivered(node.id, component.view))
        if self.shape.network:
            for node in component.nodes:
                self._record(node, trace.LinkFailed(node.id, component.network, "wire", "silent"))
        for side in sides:
            self._form([(component, sorted(side, key=lambda node: node.name))])

    def _dead(self, component: _Component, sides: tuple[list[_Node], ...], group: _Group) -> bool:
        living = {client for side in sides for node in side for client in node.clients}
        return any(client not in living for client in group.members)

    def _merge(self) -> None:
        self._choice.shuffle(self._components)
        first, second = self._components.pop(), self._components.pop()
        self._form([(first, first.nodes), (second, second.nodes)])

    def _crash(self, component: _Component) -> None:
        """One node ends somewhere in its queue; the others go on; it comes back alone and is merged later."""
        node = self._choice.pick(component.nodes)
        self._follow(node, self._choice.below(len(node.queue) + 1))
        self._record(node, trace.Crashed(node.id))
        self._components.remove(component)
        component.nodes = [each for each in component.nodes if each is not node]
        node.clients = []
        self._part(component, component.nodes)
        self._boot(node)
        self._form([(None, [node])])

    def _form(self, origins: list[tuple[_Component | None, list[_Node]]]) -> None:
        """A new component out of (parts of) old ones."""
        self._epoch += 1
        nodes = sorted((node for _, part in origins for node in part), key=lambda node: node.name)
        view = DaemonViewId(self._epoch, DaemonId(nodes[0].name, nodes[0].incarnation))
        component = _Component(view, nodes)
        self._components.append(component)
        if self.shape.network:
            servers = tuple(node.id for node in nodes)
            for node in nodes:
                self._record(node, trace.NetworkStarted(node.id, component.network, servers))
        if self.shape.daemons:
            self._tell_daemons(component, origins)
        parts: dict[str, list[tuple[_Group, list[str]]]] = {}
        for origin, part in origins:
            for name, group in origin.groups.items() if origin is not None else ():
                members = [client for client in group.members if any(client in node.clients for node in part)]
                if members:
                    parts.setdefault(name, []).append((group, members))
        for name, found in parts.items():
            self._form_group(component, name, found)

    def _form_group(self, component: _Component, name: str, found: list[tuple[_Group, list[str]]]) -> None:
        if len(found) == 1 and found[0][0].members == found[0][1]:
            component.groups[name] = _Group(found[0][0].id, found[0][1])
            return
        members = sorted(client for _, part in found for client in part)
        component.groups[name] = _Group(GroupViewId(component.view), members)
        for _, part in found:
            self._tell(component, name, part)

    def _tell_daemons(self, component: _Component, origins: list[tuple[_Component | None, list[_Node]]]) -> None:
        members = tuple(node.id for node in component.nodes)
        for origin, part in origins:
            together = tuple(sorted(node.id for node in part))
            for node in part:
                transitional = together if origin is not None else (node.id,)
                node.queue.append(trace.DaemonViewDelivered(node.id, component.view, members, transitional))
