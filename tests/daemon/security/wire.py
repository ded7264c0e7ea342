"""Guards without daemons, moved by hand: datagrams and streams go from one to the other when the test says so."""

from __future__ import annotations

from collections import deque

from isotone.core.contract import (
    Action,
    Address,
    DatagramsReceived,
    Event,
    MulticastDatagrams,
    SendDatagrams,
)
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.daemon.security import Guard, GuardSettings, Identity, MembersChanged, Note, Outgoing, Pass, Roster
from isotone.daemon.security.keys import KeyPair
from tests.daemon.security.guarded import Source, key_of, roster_of


def daemon(name: str, incarnation: int = 1) -> DaemonId:
    return DaemonId(name, incarnation)


def view(epoch: int, coordinator: str = "a") -> DaemonViewId:
    return DaemonViewId(epoch, daemon(coordinator))


class End:
    """One Guard at the address of its name."""

    def __init__(
        self,
        name: str,
        roster: Roster,
        *,
        key: KeyPair | None = None,
        certificate: bytes = b"",
        incarnation: int = 1,
        settings: GuardSettings | None = None,
    ) -> None:
        self.me = daemon(name, incarnation)
        self.address = Address(name)
        identity = Identity(self.me, key or key_of(name), certificate)
        self.guard = Guard(identity, roster, Source(f"{self.me}"), settings)
        self.passed: list[Event] = []
        self.notes: list[Note] = []

    @property
    def refused(self) -> dict[str, int]:
        return dict(self.guard.counters.refused)

    @property
    def bodies(self) -> list[bytes]:
        """The datagrams that went up."""
        out = []
        for event in self.passed:
            assert isinstance(event, DatagramsReceived)
            data = bytes(event.data)
            out += [data[place : place + event.segment_size] for place in range(0, len(data), event.segment_size)]
        return out


class Wire:
    """All ends on one LAN; what they send lies in ``queue`` until it is delivered or lost."""

    def __init__(self, *names: str, roster: Roster | None = None) -> None:
        self.now = 1_000_000
        self.roster = roster or roster_of(*names)
        self.ends = {name: End(name, self.roster) for name in names}
        self.queue: deque[tuple[Address, Address, list[bytes]]] = deque()  # source, destination, datagrams
        self.heard: list[tuple[Address, Address, bytes]] = []  # everything that was ever sent

    def __getitem__(self, name: str) -> End:
        return self.ends[name]

    def handle(self, name: str, event: Event) -> list[Action]:
        """An event for one end; what it sends is queued. The other actions come back."""
        end, rest = self.ends[name], []
        for action in end.guard.handle(event):
            match action:
                case Pass(event=passed):
                    end.passed.append(passed)
                case Note():
                    end.notes.append(action)
                case SendDatagrams(destination=destination, datagrams=datagrams):
                    self._queue(end.address, destination, [b"".join(parts) for parts in datagrams])
                case MulticastDatagrams(datagrams=datagrams):
                    for other in self.ends.values():
                        if other is not end:
                            self._queue(end.address, other.address, [b"".join(parts) for parts in datagrams])
                case _:
                    rest.append(action)
        return rest

    def _queue(self, source: Address, destination: Address, datagrams: list[bytes]) -> None:
        self.queue.append((source, destination, datagrams))
        self.heard += [(source, destination, datagram) for datagram in datagrams]

    def send(self, source: str, destination: str, *bodies: bytes) -> None:
        self.handle(source, Outgoing(self.now, [SendDatagrams(Address(destination), [[body] for body in bodies])]))

    def multicast(self, source: str, *bodies: bytes) -> None:
        self.handle(source, Outgoing(self.now, [MulticastDatagrams("lan", [[body] for body in bodies])]))

    def inject(self, name: str, source: str, *datagrams: bytes) -> None:
        for datagram in datagrams:
            self.handle(name, DatagramsReceived(self.now, Address(source), datagram, len(datagram)))

    def enter(self, epoch: int, *names: str, members: str | None = None) -> None:
        """A daemon view begins at these ends."""
        ids = tuple(self.ends[name].me for name in (members or "".join(names)))
        for name in names:
            self.handle(name, MembersChanged(self.now, view(epoch, names[0]), ids))

    def step(self) -> None:
        """Deliver what was sent first, as one buffer."""
        source, destination, datagrams = self.queue.popleft()
        end = self.ends.get(destination)
        if end is not None:
            event = DatagramsReceived(self.now, source, b"".join(datagrams), len(datagrams[0]))
            self.handle(destination, event)

    def settle(self) -> None:
        """Deliver everything, and what comes of it."""
        for _ in range(1000):
            if not self.queue:
                return
            self.step()
        raise AssertionError("they never stop talking")

    def lose(self) -> None:
        self.queue.clear()

    def pass_time(self, us: int) -> None:
        self.now += us

    def meet(self) -> None:
        """Everybody talks to everybody once."""
        for one in self.ends:
            for other in self.ends:
                if one != other:
                    self.send(one, other, b"hello")
                    self.settle()
        for end in self.ends.values():
            end.passed.clear()
