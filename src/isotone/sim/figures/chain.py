"""A chain of sites with one daemon each, as in [Spread Figures 4.4 and 5.3]: who sent what, and who had it when."""

from __future__ import annotations

import struct
from functools import partial
from itertools import pairwise

import msgspec

from isotone.core.contract import Action, Address, Event
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.services import Service
from isotone.evs.links.contract import DeclareFailed
from isotone.evs.links.fragments import FRAGMENT_HEADER_BYTES
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import UnitKind
from isotone.evs.overlay.topology import LinkLimits, LinkProtocol, make_link, make_site, make_topology
from isotone.evs.transport import DeliverUnits, Submitted, Transport, TransportSettings, TransportView
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.process import Boot
from isotone.sim.world import World

LABEL = "daemon"
PACKET_BYTES = 1_400
FEED_US = 1_000_000
_NUMBER = struct.Struct(">Q")


class ChainSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The thesis' chain of Figure 5.3, unless somebody says otherwise."""

    sites: int = 4
    bits_per_second: int = 1_500_000
    latency_us: int = 30_000
    loss: float = 0.0
    protocol: LinkProtocol = LinkProtocol.HOP
    payload_bytes: int = 100


class Listener:
    """A transport whose deliveries the chain notes."""

    def __init__(self, chain: Chain, site: int, transport: Transport) -> None:
        self.transport = transport
        self._chain, self._site = chain, site

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        out: list[Action] = []
        for action in self.transport.handle(event):
            if isinstance(action, DeliverUnits):
                for unit in action.units:
                    if unit.kind is UnitKind.BUNDLE:
                        (number,) = _NUMBER.unpack_from(unit.body)
                        self._chain.heard[number][self._site] = self._chain.world.now
            elif isinstance(action, DeclareFailed):
                raise AssertionError(f"a link of the chain failed: {action.reason}")
            else:
                out.append(action)
        return out


class Chain:
    """The world of one measurement; sites are 0 to n − 1 from end to end."""

    def __init__(self, settings: ChainSettings, seed: int) -> None:
        self.settings = settings
        self.heard: list[dict[int, int]] = []  # by number: when each site delivered it
        self.sent_at: list[int] = []
        wan = LinkSettings(
            latency_us=settings.latency_us,
            jitter_us=0,
            loss=settings.loss,
            bandwidth_bytes_per_second=settings.bits_per_second // 8,
        )
        self.world = World(seed=seed, network=NetworkSettings(wan=wan))
        self._names = [f"d{site + 1}" for site in range(settings.sites)]
        self.view = view = self._view()
        self.bulk_left: list[Draft] = []
        for site, name in enumerate(self._names):
            self.world.add_process(name, partial(self._program, view, site), site=f"s{site + 1}")

    def _view(self) -> TransportView:
        settings = self.settings
        names = [f"s{site + 1}" for site in range(settings.sites)]
        limits = LinkLimits(settings.bits_per_second, burst_bytes=PACKET_BYTES)
        links = [make_link(a, b, 1, settings.protocol, limits) for a, b in pairwise(names)]
        sites = [make_site(site, [daemon]) for site, daemon in zip(names, self._names)]
        members = tuple(DaemonId(name, 1) for name in self._names)
        addresses = {name: Address(f"{name}.1") for name in self._names}
        return TransportView(DaemonViewId(1, members[0]), members, make_topology(sites, links), addresses)

    def _program(self, view: TransportView, site: int, boot: Boot) -> dict[str, Listener]:
        transport = Transport(me=boot.daemon.name, view=view, settings=TransportSettings())
        return {LABEL: Listener(self, site, transport)}

    def transport(self, site: int) -> Transport:
        """One daemon, to look at."""
        listener = self.world.automaton(self._names[site], LABEL)
        assert isinstance(listener, Listener)
        return listener.transport

    def send_at(self, at: int, site: int, service: Service) -> int:
        """Let a site send then; the number of the message."""
        number = len(self.sent_at)
        self.sent_at.append(at)
        self.heard.append({})
        self.world.at(at, partial(self._send, number, site, service))
        return number

    def _send(self, number: int, site: int, service: Service) -> None:
        body = _NUMBER.pack(number).ljust(self.settings.payload_bytes, b".")
        draft = Draft("prober", UnitKind.BUNDLE, service, body)
        self.world.tell(self._names[site], LABEL, Submitted(0, [draft]))

    def send_bulk_at(self, at: int, site: int, size: int) -> None:
        """Let a site send a large message then, as fragments, as fast as its transport takes them."""
        body = bytes(self.view.fragment_bytes())
        count = -(-size // (len(body) - FRAGMENT_HEADER_BYTES))
        self.bulk_left = [Draft("bulk", UnitKind.FRAGMENT, Service.AGREED, body)] * count
        self.world.at(at, partial(self._feed_bulk, site))

    def _feed_bulk(self, site: int) -> None:
        """Hand over what there is room for, and look again soon."""
        count = self.transport(site).room // self.view.fragment_bytes()
        drafts, self.bulk_left = self.bulk_left[:count], self.bulk_left[count:]
        self.world.tell(self._names[site], LABEL, Submitted(0, drafts))
        if self.bulk_left:
            self.world.after(FEED_US, partial(self._feed_bulk, site))

    def finish(self) -> None:
        """Let everything arrive."""
        assert self.world.run_until_quiet(600_000_000), "the chain never became quiet"

    def latency_us(self, number: int, site: int) -> int:
        """From the send to the delivery at a site."""
        return self.heard[number][site] - self.sent_at[number]

    def last_us(self, number: int) -> int:
        """From the send to the last delivery."""
        assert len(self.heard[number]) == self.settings.sites, f"message {number} is not everywhere"
        return max(self.heard[number].values()) - self.sent_at[number]


def diameter_us(settings: ChainSettings) -> int:
    """D: the idle one-way time of a RELIABLE probe over the whole chain, serialisation included."""
    chain = Chain(settings, seed=0)
    number = chain.send_at(1_000_000, 0, Service.RELIABLE)
    chain.finish()
    return chain.latency_us(number, settings.sites - 1)


def wire_bytes(settings: ChainSettings, service: Service) -> int:
    """What one message alone takes on a link."""
    chain = Chain(settings, seed=0)
    chain.send_at(1_000_000, 0, service)
    chain.world.run_until(1_000_001 + settings.latency_us // 2)
    return chain.transport(0).gateway.trunks[0].link.counters.bytes_sent  # type: ignore[union-attr]
