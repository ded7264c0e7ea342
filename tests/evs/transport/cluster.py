"""Speakers in a small world, for tests: sites as text, what was heard by whom, and the verdicts."""

from __future__ import annotations

from functools import partial

from isotone.core.contract import Address
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.core.services import Service
from isotone.evs.overlay.topology import LinkLimits, LinkProtocol, make_link, make_site, make_topology
from isotone.evs.transport import Transport, TransportSettings, TransportView
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.process import Boot
from isotone.sim.speakers import SPEAKER, SpeakDue, Speaker
from isotone.sim.world import World
from isotone.spec.check import check
from isotone.trace.events import Ended, Row, Stabilised

SECOND = 1_000_000


class Cluster:
    """``sites`` as in "ab c d": one word per site, one letter per daemon; links as in "ab-c c-d", by gateways."""

    def __init__(
        self,
        sites: str,
        links: str = "",
        *,
        seed: int = 1,
        settings: TransportSettings | None = None,
        protocol: LinkProtocol = LinkProtocol.HOP,
        limits: LinkLimits | None = None,
        network: NetworkSettings | None = None,
    ) -> None:
        words = sites.split()
        self.names = [letter for word in words for letter in word]
        home = {letter: word for word in words for letter in word}
        pairs = [pair.split("-") for pair in links.split()]
        made = [make_link(home[a], home[b], 1, protocol, limits) for a, b in pairs]
        members = tuple(DaemonId(name, 1) for name in sorted(self.names))
        topology = make_topology([make_site(word, list(word)) for word in words], made)
        addresses = {name: Address(f"{name}.1") for name in self.names}
        self.view = TransportView(DaemonViewId(1, members[0]), members, topology, addresses)
        self.settings = settings or TransportSettings(record_network=True)
        self.rows: list[Row] = []
        quiet = NetworkSettings(lan=LinkSettings(jitter_us=0), wan=LinkSettings(latency_us=10_000, jitter_us=0))
        self.world = World(seed=seed, network=network or quiet, sink=self.rows.append)
        for name in self.names:
            self.world.add_process(name, partial(self._program), site=home[name])

    def _program(self, boot: Boot) -> dict[str, Speaker]:
        transport = Transport(me=boot.daemon.name, view=self.view, settings=self.settings)
        return {SPEAKER: Speaker(boot.daemon, transport, self.view)}

    def speaker(self, name: str) -> Speaker:
        speaker = self.world.automaton(name, SPEAKER)
        assert isinstance(speaker, Speaker)
        return speaker

    def transport(self, name: str) -> Transport:
        return self.speaker(name).transport

    def send(self, name: str, service: Service, *lengths: int) -> None:
        self.world.tell(name, SPEAKER, SpeakDue(0, service, lengths or (10,)))

    def run(self, seconds: float = 60) -> bool:
        """Until nothing more is to happen; says whether that came."""
        return self.world.run_until_quiet(int(seconds * SECOND))

    def heard(self, name: str) -> list[tuple[str, int]]:
        """Sender and site sequence of everything delivered, in order."""
        return [(self.view.members[unit.daemon].name, unit.sequence) for unit in self.speaker(name).heard]

    def failed(self) -> dict[str, str]:
        return {name: self.speaker(name).failed for name in self.names if self.speaker(name).failed}

    def violations(self) -> dict[str, str]:
        """End the record as stable and quiet, and judge it."""
        self.world.record("", Stabilised(self.world.components()))
        self.world.record("", Ended(not self.failed()))
        report = check(self.rows)
        return {label: each.violation.explanation for label, each in report.verdicts.items() if each.violation}
