"""Throughput and latency of a ring with and without acceleration, on a LAN of daemons that have one processor each.

The whole transport of every daemon runs. What is added is time: a daemon that handles an event is busy for as long as
its packets and tokens cost, what it says leaves when it is done, and what comes meanwhile waits its turn. So
acceleration gains what it gains in a process: while one member packs, the next reads what the one before it sent.

The costs are those that ``python -m isotone.bench ring`` measured (`MEASURED`); system calls are not in them. To see
what they matter, everything is done at half and at double the cost too.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from statistics import median
from typing import Any

import msgspec

from isotone.core.contract import (
    Action,
    Address,
    CancelTimer,
    DatagramsReceived,
    Event,
    MulticastDatagrams,
    SetTimer,
    TimerFired,
    TimerKey,
)
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.services import Service
from isotone.evs.links.contract import DeclareFailed
from isotone.evs.links.ring import RingSettings
from isotone.evs.links.ring.token import PacketKind
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import UnitKind
from isotone.evs.overlay.topology import make_site, make_topology
from isotone.evs.transport import DeliverUnits, Submitted, Transport, TransportSettings, TransportView
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.process import Boot, ClockSettings
from isotone.sim.world import World

TICKS = 10
"""The world counts tenths of a microsecond here: a packet takes 1.1 microseconds at 10 Gbit/s."""

DAEMONS = 8
BITS_PER_SECOND = 10_000_000_000
LATENCY_US = 25
BUNDLE_BYTES = 1_200
TRAIN_PACKETS = 8
"""So many packets reach a daemon as one buffer: receive offload joins what comes within a few microseconds."""

LOADS = (0.25, 0.5, 0.75, 0.9)
FACTORS = (0.5, 1.0, 2.0)
LABEL = "daemon"
CPU_TIMER: TimerKey = ("processor",)
_NUMBER = struct.Struct(">Q")


class Costs(msgspec.Struct, frozen=True):
    """CPU microseconds of a daemon."""

    sent_packet_us: float
    received_packet_us: float
    token_us: float

    def times(self, factor: float) -> Costs:
        """Costs of a faster or slower machine."""
        return Costs(self.sent_packet_us * factor, self.received_packet_us * factor, self.token_us * factor)

    def of(self, event: Event, actions: Sequence[Action]) -> float:
        """What handling this event cost, given what came out of it. Submitting is in the cost of packets."""
        cost = self.sent_packet_us * sum(map(_data_packets, actions))
        if isinstance(event, DatagramsReceived):
            kinds = event.data[:: event.segment_size]
            data = sum(kind == PacketKind.DATA for kind in kinds)
            cost += data * self.received_packet_us + (len(kinds) - data) * self.token_us
        return cost


MEASURED = Costs(sent_packet_us=10.2, received_packet_us=10.4, token_us=25.8)
"""From results/bench-ring.json, rounded."""


class Processor:
    """A daemon that takes time: events wait in the order in which they came, effects until their cause is done."""

    def __init__(self, transport: Transport, costs: Costs, heard: list[int], world: World) -> None:
        self.transport = transport
        self._costs, self._heard, self._world = costs, heard, world
        self._waiting: deque[Event] = deque()
        self._doing: list[Action] | None = None  # effects of the event that is being handled
        self._owed = 0.0  # a fraction of a tick not yet charged

    def handle(self, event: Event) -> list[Action]:
        """Take one event of the world, or the end of one's own work."""
        out: list[Action] = []
        if isinstance(event, TimerFired) and event.key == CPU_TIMER:
            out += self._finished()
        else:
            self._waiting.append(event)
        while self._doing is None and self._waiting:
            out += self._begin(msgspec.structs.replace(self._waiting.popleft(), at=event.at))
        return out

    def _begin(self, event: Event) -> list[Action]:
        self._doing = self.transport.handle(event)
        cost = self._costs.of(event, self._doing) * TICKS + self._owed
        self._owed = cost % 1
        return [SetTimer(CPU_TIMER, int(cost))] if cost >= 1 else self._finished()

    def _finished(self) -> list[Action]:
        done, self._doing = self._doing, None
        assert done is not None
        return [each for action in done for each in self._carried_out(action)]

    def _carried_out(self, action: Action) -> Iterable[Action]:
        match action:
            case DeliverUnits(units=units):
                for unit in units:
                    self._heard[_NUMBER.unpack_from(unit.body)[0]] = self._world.now
                return ()
            case DeclareFailed(reason=reason):
                raise AssertionError(f"the ring failed: {reason}")
            case SetTimer(key=key) | CancelTimer(key=key):
                self._waiting = deque(each for each in self._waiting if not _is_timer(each, key))
            case MulticastDatagrams(site=site, datagrams=packets):
                starts = range(0, len(packets), TRAIN_PACKETS)
                return [MulticastDatagrams(site, packets[start : start + TRAIN_PACKETS]) for start in starts]
        return (action,)


class Lan:
    """The world of one measurement."""

    def __init__(self, costs: Costs, settings: RingSettings, count: int) -> None:
        link = LinkSettings(
            latency_us=LATENCY_US * TICKS,
            jitter_us=0,
            bandwidth_bytes_per_second=BITS_PER_SECOND // 8 // TICKS,
            queue_bytes_max=16 * 1024 * 1024,
        )
        clock = ClockSettings(offset_max_us=0, drift_max_ppm=0)
        self.world = World(seed=1, network=NetworkSettings(lan=link, receive_buffer_bytes_max=1 << 30), clock=clock)
        self.heard = [[0] * count for _ in range(DAEMONS)]  # by daemon and bundle: when it was delivered
        self.sent_at = [0] * count
        self.names = [f"d{place + 1}" for place in range(DAEMONS)]
        members = tuple(DaemonId(name, 1) for name in self.names)
        addresses = {name: Address(f"{name}.1") for name in self.names}
        topology = make_topology([make_site("lan", self.names)], [])
        view = TransportView(DaemonViewId(1, members[0]), members, topology, addresses)
        slow = TransportSettings(ring=_in_ticks(settings), stall_us=30_000_000 * TICKS)
        for place, name in enumerate(self.names):
            self.world.add_process(name, partial(self._program, place, view, slow, costs), site="lan")

    def _program(
        self, place: int, view: TransportView, settings: TransportSettings, costs: Costs, boot: Boot
    ) -> dict[str, Processor]:
        transport = Transport(me=boot.daemon.name, view=view, settings=settings)
        return {LABEL: Processor(transport, costs, self.heard[place], self.world)}

    def send_at(self, at: int, number: int) -> None:
        """One bundle; the daemons take turns."""
        self.sent_at[number] = at
        body = _NUMBER.pack(number).ljust(BUNDLE_BYTES, b".")
        event = Submitted(0, [Draft("sender", UnitKind.BUNDLE, Service.AGREED, body)])
        self.world.at(at, lambda: self.world.tell(self.names[number % DAEMONS], LABEL, event))

    def finish(self) -> list[int]:
        """Let everything arrive; when each bundle was delivered everywhere."""
        assert self.world.run_until_quiet(600_000_000 * TICKS), "the ring never became quiet"
        last = [max(times) for times in zip(*self.heard)]
        assert all(all(times) for times in self.heard), "every bundle is everywhere"
        return last


def ring_acceleration(
    *,
    probes: int = 8_000,
    loads: Sequence[float] = LOADS,
    factors: Sequence[float] = FACTORS,
    costs: Costs = MEASURED,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The parameters that were used, and the rows; ``load`` is a share of the most that this ring can carry."""
    rows = []
    settings = {"off": RingSettings(late_window=0), "on": RingSettings()}
    for factor in factors:
        charged = costs.times(factor)
        for name, each in settings.items():
            most = _most_per_second(charged, each, probes)
            for load in loads:
                row = {"cost": factor, "acceleration": name, "load": load, "most_mbit_per_second": _mbit(most)}
                rows.append({**row, **_row(charged, each, load * most, probes)})
    used = {
        "daemons": DAEMONS,
        "bits_per_second": BITS_PER_SECOND,
        "latency_us": LATENCY_US,
        "bundle_bytes": BUNDLE_BYTES,
        "late_window": settings["on"].late_window,
        "probes": probes,
        **msgspec.structs.asdict(costs),
    }
    return used, rows


def _most_per_second(costs: Costs, settings: RingSettings, probes: int) -> float:
    """Bundles a second when all that there is waits from the start: the middle of the run counts."""
    lan = Lan(costs, settings, probes)
    for number in range(probes):
        lan.send_at(0, number)
    times = sorted(lan.finish())
    begin, end = len(times) // 5, len(times) * 4 // 5
    return (end - begin) * 1_000_000 * TICKS / (times[end] - times[begin])


def _row(costs: Costs, settings: RingSettings, per_second: float, probes: int) -> dict[str, Any]:
    """Evenly spaced bundles at this rate; the first fifth does not count, since the ring has yet to find its pace."""
    lan = Lan(costs, settings, probes)
    gap = 1_000_000 * TICKS / per_second
    for number in range(probes):
        lan.send_at(round(number * gap), number)
    last = lan.finish()
    counted = range(probes // 5, probes)
    latencies = sorted((last[number] - lan.sent_at[number]) / TICKS for number in counted)
    times = sorted(last[number] for number in counted)
    delivered = (len(times) - 1) * 1_000_000 * TICKS / (times[-1] - times[0])
    return {
        "throughput_mbit_per_second": _mbit(delivered),
        "median_us": round(median(latencies)),
        "p99_us": round(latencies[len(latencies) * 99 // 100]),
    }


def _mbit(per_second: float) -> float:
    return round(per_second * BUNDLE_BYTES * 8 / 1e6, 1)


def _in_ticks(settings: RingSettings) -> RingSettings:
    return msgspec.structs.replace(
        settings,
        token_retry_us=settings.token_retry_us * TICKS,
        request_retry_us=settings.request_retry_us * TICKS,
    )


def _data_packets(action: Action) -> int:
    if not isinstance(action, MulticastDatagrams) or action.datagrams[0][0][0] != PacketKind.DATA:
        return 0
    return len(action.datagrams)


def _is_timer(event: Event, key: TimerKey) -> bool:
    return isinstance(event, TimerFired) and event.key == key
