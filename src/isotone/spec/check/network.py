"""The reliable network below: who may use it, that it loses, alters and repeats nothing, and that it ends.

A message is held until all servers of its sender's set have it; after that its sequence is in the runs of what each
server received. It may be read before its send, for nodes are apart in the input; no verdict depends on that.

Implements: [Spread 2.21], [Spread 2.22], [Spread 2.23]. Deviations: none.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

from isotone.spec.check.tally import Tally
from isotone.spec.properties import Boundary
from isotone.spec.verdicts import EventId
from isotone.trace.events import LinkFailed, NetworkReceived, NetworkSent, NetworkStarted, Row


class _Use:
    """One daemon's use of one network, until it begins another."""

    __slots__ = ("daemon", "event", "failed", "network", "of", "servers")

    def __init__(self, daemon: str, network: str, of: _Network, servers: tuple[str, ...], event: EventId) -> None:
        self.daemon = daemon
        self.network = network
        self.of = of
        self.servers = frozenset(servers)
        self.event = event
        self.failed: EventId | None = None


class _Message:
    """A multicast under way."""

    __slots__ = ("by", "digest", "sent", "servers")

    def __init__(self) -> None:
        self.sent: EventId | None = None
        self.servers: frozenset[str] | None = None  # to whom it is owed: the set with which its sender began
        self.digest = 0
        self.by: dict[str, tuple[EventId, int]] = {}  # receiver: row and digest


class _Network:
    """What is known of one network in all."""

    __slots__ = ("began", "broken", "done", "freed", "messages", "sets", "users")

    def __init__(self) -> None:
        self.sets: dict[frozenset[str], EventId] = {}
        self.users: dict[str, None] = {}  # servers that use it now
        self.began: set[str] = set()  # all who ever did
        self.broken = False  # a link failed, or a server crashed
        self.messages: dict[tuple[str, int], _Message] = {}
        self.freed: dict[str, dict[frozenset[str], _Runs]] = {}  # by sender, and by who had it when it was freed
        self.done: dict[tuple[str, str], _Runs] = {}  # (receiver, sender): what came to others after it was freed

    def free(self, sender: str, sequence: int, receivers: Iterable[str]) -> None:
        """Only that these had the message is kept."""
        freed = self.freed.setdefault(sender, {})
        runs = freed.setdefault(frozenset(receivers), _Runs())
        runs.add(sequence)

    def freed_to(self, sender: str, sequence: int) -> frozenset[str] | None:
        """Who had the message when it was freed; None if it was not."""
        for receivers, runs in self.freed.get(sender, _NO_RUNS).items():
            if sequence in runs:
                return receivers
        return None


class _Runs:
    """A set of numbers that mostly come upwards."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts = array("q")
        self._lasts = array("q")

    def add(self, number: int) -> None:
        firsts, lasts = self._firsts, self._lasts
        place = bisect_left(lasts, number)  # the first run that does not end below it
        if place < len(lasts) and firsts[place] <= number:
            return
        joins_next = place < len(firsts) and firsts[place] == number + 1
        if place and lasts[place - 1] == number - 1:
            lasts[place - 1] = lasts[place] if joins_next else number
            if joins_next:
                del firsts[place], lasts[place]
        elif joins_next:
            firsts[place] = number
        else:
            firsts.insert(place, number)
            lasts.insert(place, number)

    def __contains__(self, number: int) -> bool:
        lasts = self._lasts
        if not lasts or number > lasts[-1]:
            return False
        return self._firsts[bisect_left(lasts, number)] <= number


_NO_RUNS: dict[frozenset[str], _Runs] = {}


class NetworkChecker:
    """The network's three properties."""

    def __init__(self) -> None:
        self.tally = Tally(Boundary.NETWORK)
        self._uses: dict[str, _Use] = {}  # by node: the present one
        self._networks: dict[str, _Network] = {}
        self._lossy: set[str] = set()  # nodes
        self._over: set[str] = set()  # daemons that crashed

    # --- lives -----------------------------------------------------------------------------------------------------

    def started(self, row: Row, entry: NetworkStarted) -> None:
        """A daemon begins to use a network."""
        event = _event(row)
        self._finish_use(row.node)
        network = self._network(entry.network)
        use = self._uses[row.node] = _Use(entry.daemon, entry.network, network, entry.servers, event)
        network.users[entry.daemon] = None
        network.began.add(entry.daemon)
        sets = network.sets
        if sets:
            self.tally.exercised.add("2.21")
        if use.servers not in sets or event < sets[use.servers]:
            sets[use.servers] = event
        for other, witness in sets.items():
            if other != use.servers:
                self.tally.accuse(
                    "2.21",
                    (witness, event),
                    f"Network {entry.network} was begun with different sets of servers.",
                )

    def _network(self, name: str) -> _Network:
        network = self._networks.get(name)
        if network is None:
            network = self._networks[name] = _Network()
        return network

    def _finish_use(self, node: str) -> None:
        use = self._uses.pop(node, None)
        if use is not None:
            network = self._networks[use.network]
            network.users.pop(use.daemon, None)
            self._free_broken(network)

    def _free_broken(self, network: _Network) -> None:
        """Nothing is owed on a broken network that all servers left; only what lacks its send is still of interest."""
        servers = frozenset[str]().union(*network.sets)
        lossy = any(server.rpartition("#")[0] in self._lossy for server in servers)
        if network.broken and not network.users and servers <= network.began and not lossy:
            network.messages = {key: each for key, each in network.messages.items() if each.sent is None}
            network.done, network.freed = {}, {}

    def failed(self, row: Row, entry: LinkFailed) -> None:
        """A daemon declares a link failed."""
        use = self._uses.get(row.node)
        network = self._network(entry.network)
        network.broken = True
        if use is not None and use.network == entry.network and use.failed is None:
            use.failed = _event(row)
            self.tally.exercised.add("2.23")

    def crashed(self, node: str, incarnation: int) -> None:
        """A node's incarnation is over."""
        self._over.add(f"{node}#{incarnation}")
        use = self._uses.get(node)
        if use is not None:
            self._networks[use.network].broken = True
            self._finish_use(node)

    def lost(self, node: str) -> None:
        """Rows of this node are missing: its present use is no longer known."""
        self._lossy.add(node)
        self._finish_use(node)

    # --- messages --------------------------------------------------------------------------------------------------

    def sent(self, row: Row, entry: NetworkSent) -> None:
        """A daemon multicasts."""
        event = (row.node, row.incarnation, row.index)
        use = self._uses.get(row.node)
        self._judge_use(use, event, entry.daemon, entry.network, entry.daemon)
        network = self._network(entry.network)
        if network.freed_to(entry.daemon, entry.sequence) is not None:
            return  # sent again, which no property forbids
        message = self._message(network, entry.daemon, entry.sequence)
        if message.sent is not None:
            return
        message.sent, message.digest = event, entry.digest
        if use is not None and use.network == entry.network:
            message.servers = use.servers
        for receiver, (received, digest) in message.by.items():
            self._judge_received(entry, message, receiver, received, digest)
            if receiver == entry.daemon and received[0] == row.node:
                self.tally.accuse("2.22", (received, event), f"{entry.daemon} received its message before it sent it.")
        self._free(network, entry.daemon, entry.sequence, message)

    def received(self, row: Row, entry: NetworkReceived) -> None:
        """A daemon receives."""
        event = (row.node, row.incarnation, row.index)
        daemon, sender, sequence = entry.daemon, entry.sender, entry.sequence
        use = self._uses.get(row.node)
        if not self._judge_use(use, event, daemon, entry.network, sender):
            return
        network = use.of if use is not None and use.network == entry.network else self._network(entry.network)
        message = network.messages.get((sender, sequence))
        if message is None:
            if not self._is_first(network, entry, event):
                return
            message = self._message(network, sender, sequence)
        if daemon in message.by:
            self.tally.accuse("2.22", (event,), _twice(entry))
            return
        self.tally.exercised.add("2.22")
        message.by[daemon] = (event, entry.digest)
        if message.sent is not None:
            self._judge_received(entry, message, daemon, event, entry.digest)
            self._free(network, sender, sequence, message)

    def _is_first(self, network: _Network, entry: NetworkReceived, event: EventId) -> bool:
        """Whether the message, which is not under way, was not freed; if it was, it may come only once."""
        receivers = network.freed_to(entry.sender, entry.sequence)
        if receivers is None:
            return True
        done = network.done.get((entry.daemon, entry.sender))
        if entry.daemon in receivers or (done is not None and entry.sequence in done):
            self.tally.accuse("2.22", (event,), _twice(entry))
            return False
        self.tally.exercised.add("2.22")  # it is not owed to this one: 2.21 says the rest
        network.done.setdefault((entry.daemon, entry.sender), _Runs()).add(entry.sequence)
        return False

    @staticmethod
    def _message(network: _Network, sender: str, sequence: int) -> _Message:
        message = network.messages.get((sender, sequence))
        if message is None:
            message = network.messages[(sender, sequence)] = _Message()
        return message

    def _judge_received(
        self, entry: NetworkSent | NetworkReceived, message: _Message, receiver: str, event: EventId, digest: int
    ) -> None:
        owed = message.servers is None or receiver in message.servers
        if owed and digest != message.digest and message.sent is not None:
            self.tally.accuse(
                "2.22",
                (message.sent, event),
                f"{receiver} received message {entry.sequence} on network {entry.network} altered.",
            )

    def _free(self, network: _Network, sender: str, sequence: int, message: _Message) -> None:
        """Once all servers have it, only that they have it stays."""
        servers, by = message.servers, message.by
        if servers is not None and len(by) >= len(servers) and servers <= by.keys():
            del network.messages[(sender, sequence)]
            network.free(sender, sequence, servers if len(by) == len(servers) else by)

    def _judge_use(self, use: _Use | None, event: EventId, daemon: str, network: str, peer: str) -> bool:
        """Inside the network that the daemon began, among its servers, before its link failed; false if outside."""
        self.tally.exercised.add("2.21")
        if use is None or use.network != network:
            if event[0] not in self._lossy:
                rows = (event,) if use is None else (use.event, event)
                self.tally.accuse("2.21", rows, f"{daemon} used network {network} without having begun it.")
                return False
            return True
        if use.failed is not None:
            failed = use.failed
            self.tally.accuse(
                "2.23", (failed, event), f"{daemon} used network {network} after a link of it had failed."
            )
        servers = use.servers
        if daemon not in servers or peer not in servers:
            for each in (daemon, peer):
                if each not in servers:
                    self.tally.accuse("2.21", (use.event, event), f"{each} is no server of network {network}.")
        return True

    # --- the end ---------------------------------------------------------------------------------------------------

    def named(self) -> set[str]:
        """The daemons that anybody began a network with."""
        return {server for network in self._networks.values() for servers in network.sets for server in servers}

    def finish(self, *, quiet: bool, lossy: bool, components: tuple[tuple[str, ...], ...]) -> None:
        """The trace is over."""
        if lossy:
            return
        for node, use in self._uses.items() if quiet else ():
            if not self._networks[use.network].broken:
                self._judge_began(use, next((each for each in components if node in each), ()))
        for name, network in self._networks.items():
            for (sender, sequence), message in network.messages.items():
                what = f"message {sequence} of {sender} on network {name}"
                if message.sent is None:
                    for receiver, (event, _) in message.by.items():
                        self.tally.accuse("2.22", (event,), f"{receiver} received {what}, which was never sent.")
                elif quiet and not network.broken:
                    self._judge_reach(network, sender, message, what)

    def _judge_began(self, use: _Use, component: tuple[str, ...]) -> None:
        """All servers within reach began what one of them still uses."""
        for server in sorted(use.servers - self._networks[use.network].began - self._over):
            if server.rpartition("#")[0] in component:
                explanation = f"{server} never began network {use.network}, which {use.daemon} uses with it."
                self.tally.accuse("2.21", (use.event,), explanation)

    def _judge_reach(self, network: _Network, sender: str, message: _Message, what: str) -> None:
        servers = message.servers
        if servers is None or sender not in network.users:
            return
        self.tally.exercised.add("2.22")
        for server in sorted(servers):
            if server in network.users and server not in message.by and message.sent is not None:
                self.tally.accuse("2.22", (message.sent,), f"{server} never received {what}.")

    def retained(self) -> int:
        """Messages under way."""
        return sum(len(network.messages) for network in self._networks.values())


def _twice(entry: NetworkReceived) -> str:
    return f"{entry.daemon} received message {entry.sequence} of {entry.sender} on network {entry.network} twice."


def _event(row: Row) -> EventId:
    return (row.node, row.incarnation, row.index)
