"""A fleet of whole daemons in a calm world, and what their membership costs: views, attempts, packets, bytes.

Every daemon is the stack that the daemon runs. What leaves it is counted on the way out: keep-alives, other messages
of the membership that go outside of daemon views (*change*), and packets of links. Daemons are listed by site; the
network loses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from statistics import median
from time import process_time
from typing import Any

from isotone.core.boundary import Indicate
from isotone.core.contract import Action, Address, Event, MulticastDatagrams, SendDatagrams, WriteStream
from isotone.evs.groups import State as GroupState
from isotone.evs.membership import KnownDaemon, MembershipSettings, Reason, State
from isotone.evs.membership.messages import ENVELOPE, MARK
from isotone.evs.stack import Stack, StackSettings
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.process import SERVICE_LABEL, Boot
from isotone.sim.world import World
from isotone.trace.events import DaemonViewDelivered, Row

SECOND = 1_000_000
LOOK_EVERY_US = 10_000
LIMIT_US = 120 * SECOND
LAN = LinkSettings(latency_us=200, jitter_us=50)
WAN = LinkSettings(latency_us=10_000, jitter_us=1_000)
KEEP_ALIVES = (0x40, 0x41)  # tags of PROBE and ANSWER


class Tally:
    """What a daemon, in all its incarnations, did since the last `clear`."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.views = 0  # daemon views that were installed, the first of each incarnation not counted
        self.attempts = 0  # daemon views that this daemon proposed
        self.counted: Counter[str] = Counter()
        self.cpu_seconds = 0.0
        self.longest_seconds = 0.0  # the event that took the most CPU time

    def took(self, seconds: float) -> None:
        """An event was handled in so much CPU time."""
        self.cpu_seconds += seconds
        self.longest_seconds = max(self.longest_seconds, seconds)

    def note(self, action: Action) -> None:
        """An action leaves the daemon; a packet to the whole site is sent once."""
        match action:
            case SendDatagrams(datagrams=datagrams) | MulticastDatagrams(datagrams=datagrams):
                for parts in datagrams:
                    kind = _kind(parts)
                    self.counted[f"{kind} packets"] += 1
                    self.counted[f"{kind} bytes"] += sum(map(len, parts))
            case WriteStream(data=parts):
                self.counted["link bytes"] += sum(map(len, parts))


class Member:
    """One incarnation of a daemon, watched; what its clients hear goes to `hear`."""

    periodic_timers = Stack.periodic_timers

    def __init__(self, stack: Stack, tally: Tally) -> None:
        self.stack, self._tally = stack, tally
        self._formed = 0

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        began = process_time()
        actions = self.stack.handle(event)
        self._tally.took(process_time() - began)
        formed = self.stack.membership.node.entries[Reason.FORMED]
        self._tally.attempts += formed - self._formed
        self._formed = formed
        out = []
        for action in actions:
            if isinstance(action, Indicate):
                self.hear(action)
            else:
                self._tally.note(action)
                out.append(action)
        return out

    def hear(self, action: Indicate) -> None:
        """Clients hear something; here nobody listens."""


class Fleet:
    """``daemons`` of them, spread evenly over ``sites``; names are in the order of sites."""

    member: type[Member] = Member

    def __init__(self, *, daemons: int, sites: int, seed: int | str = 1) -> None:
        self.sites = [f"site{place + 1}" for place in range(sites)]
        self.home = {f"d{place + 1:02}": self.sites[place * sites // daemons] for place in range(daemons)}
        self.names = list(self.home)
        self.tallies = {name: Tally() for name in self.names}
        self._begun: dict[str, int] = {}  # the incarnation whose first daemon view, itself alone, was seen
        known = tuple(KnownDaemon(name, site, Address(f"{name}.1")) for name, site in self.home.items())
        self.settings = StackSettings(membership=MembershipSettings(known=known))
        self.world = World(seed=seed, network=NetworkSettings(lan=LAN, wan=WAN), sink=self._note)
        for name, site in self.home.items():
            self.world.add_process(name, self._program, site=site, start=False)

    def _program(self, boot: Boot) -> dict[str, Member]:
        name = boot.daemon.name
        stack = Stack(
            me=boot.daemon,
            identity=blake2b(name.encode(), digest_size=16).digest(),
            site=boot.site,
            address=boot.address,
            settings=self.settings,
        )
        return {SERVICE_LABEL: self.member(stack, self.tallies[name])}

    def _note(self, row: Row) -> None:
        if isinstance(row.entry, DaemonViewDelivered):
            if self._begun.get(row.node) == row.incarnation:
                self.tallies[row.node].views += 1
            self._begun[row.node] = row.incarnation

    # --- looking ---------------------------------------------------------------------------------------------------

    def of_site(self, *sites: str) -> list[str]:
        """The daemons of these sites."""
        return [name for name, site in self.home.items() if site in sites]

    def watched(self, name: str) -> Member:
        """The incarnation that runs now."""
        member = self.world.automaton(name, SERVICE_LABEL)
        assert isinstance(member, Member)
        return member

    def is_together(self, names: Sequence[str]) -> bool:
        """Whether exactly these are in one daemon view that works, with the groups of all."""
        first = self.watched(names[0]).stack.membership
        if tuple(each.name for each in first.members) != tuple(sorted(names)):
            return False
        return all(self._works(name, first.view) for name in names)

    def _works(self, name: str, view: object) -> bool:
        stack = self.watched(name).stack
        membership = stack.membership
        works = membership.state in (State.OP, State.GATHER) and membership.node.network is not None
        return works and membership.view == view and stack.groups.state is GroupState.GOP

    # --- doing -----------------------------------------------------------------------------------------------------

    def run(self, us: int) -> None:
        """Let time pass."""
        self.world.run_for(us)

    def run_until_together(self, *sides: Sequence[str]) -> float:
        """Virtual seconds until each side is in one daemon view of its own."""
        began = self.world.now
        while not all(map(self.is_together, sides)):
            assert self.world.now - began < LIMIT_US, "they never come together"
            self.world.run_for(LOOK_EVERY_US)
        return (self.world.now - began) / SECOND

    def clear(self) -> None:
        """What happened up to now does not count."""
        for tally in self.tallies.values():
            tally.clear()

    def totals(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """What these daemons did, or all of them."""
        tallies = [self.tallies[name] for name in (names or self.names)]
        views = [tally.views for tally in tallies]
        counted: Counter[str] = sum((tally.counted for tally in tallies), Counter())
        return {
            "views_most": max(views),
            "views_median": median(views),
            "formed": sum(tally.attempts for tally in tallies),
            "change_packets": counted["change packets"],
            "change_kbytes": _kilo(counted["change bytes"]),
            "keep_alive_packets": counted["keep-alive packets"],
            "keep_alive_kbytes": _kilo(counted["keep-alive bytes"]),
            "link_packets": counted["link packets"],
            "link_kbytes": _kilo(counted["link bytes"]),
        }

    def cpu_seconds(self) -> float:
        """Of all daemons together, without the simulator's."""
        return sum(tally.cpu_seconds for tally in self.tallies.values())


def _kilo(amount: int) -> int:
    return round(amount / 1000)


def _kind(parts: Sequence[bytes | memoryview]) -> str:
    head = b"".join(parts[:2]) if parts[0][0] == MARK else b""
    if not head:
        return "link"
    return "keep-alive" if _tag(head[ENVELOPE.size :]) in KEEP_ALIVES else "change"


def _tag(body: bytes) -> int:
    return body[1]
