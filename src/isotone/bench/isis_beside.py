"""CPU of a CBCAST and an ABCAST beside the ordinary client's CAUSAL and AGREED, on the same daemons.

Our own daemons run in one process, on the simulator's LAN, each with one member of one group: once with an ISIS site as
a client of each, once with an ordinary client. Broadcasts of 100 bytes follow one another at all members in turn. A
figure is the CPU of the whole, simulator included, less that of the same time without broadcasts, for one broadcast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import click

from isotone.core.contract import Action, Automaton
from isotone.core.services import Service
from isotone.isis.events import Deliver
from isotone.isis.kernel import Kernel
from isotone.isis.settings import IsisSettings
from isotone.sim.evs_clients import StepDue
from isotone.sim.full_cluster import FullCluster
from isotone.sim.isis.node import CastStep, IsisNode
from isotone.sim.process import Boot

LABEL = "isis"
GROUP, PROCESS = "g", "p"
BODY_BYTES = 100
APART_MS = 5
SETTLE_MS = 3_000


class Sited(FullCluster):
    """Every daemon has an ISIS site, with one process in the group."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.delivered = 0
        super().__init__(*names)

    def _program(self, boot: Boot) -> Mapping[str, Automaton]:
        name = boot.daemon.name
        boot.players[name] = LABEL
        kernel = Kernel(boot.daemon, IsisSettings(site=name, sites=self._names, suspect_us=2_000_000))
        node = IsisNode(kernel, {PROCESS: (GROUP,)}, self._heard, replies=0)
        return {**super()._program(boot), LABEL: node}

    def _heard(self, name: str, action: Action) -> None:
        self.delivered += isinstance(action, Deliver)

    def cast(self, name: str, primitive: str) -> None:
        """Let the process at this site broadcast by this primitive."""
        step = CastStep(
            at=0,
            node=name,
            process=PROCESS,
            group=GROUP,
            primitive=primitive,
            label="",
            place=0,
            uniform=False,
            length=BODY_BYTES,
        )
        self.world.tell(name, LABEL, StepDue(0, step))


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"s{number:02}" for number in range(count))


def _cpu_us(cluster: FullCluster, broadcasts: int, cast: Callable[[str], None]) -> float:
    """Of one broadcast; the second half of the time has none."""
    names = sorted(cluster._site_of)
    began = time.process_time()
    for number in range(broadcasts):
        cast(names[number % len(names)])
        cluster.run_for(APART_MS)
    between = time.process_time()
    cluster.run_for(APART_MS * broadcasts)
    busy, idle = between - began, time.process_time() - between
    return (busy - idle) * 1e6 / broadcasts


def of_isis(count: int, primitive: str, broadcasts: int) -> float:
    """CPU microseconds of one broadcast to so many sites."""
    cluster = Sited(*_names(count))
    cluster.run_for(SETTLE_MS + 500 * count)
    kernel = cluster.world.automaton(_names(count)[0], LABEL)
    assert isinstance(kernel, IsisNode) and kernel.kernel.life is not None
    assert len(kernel.kernel.life.site.groups[GROUP].members) == count, "not all have joined: wait longer"
    before = cluster.delivered
    cpu_us = _cpu_us(cluster, broadcasts, lambda name: cluster.cast(name, primitive))
    assert cluster.delivered - before == count * broadcasts
    return cpu_us


def of_client(count: int, service: Service, broadcasts: int) -> float:
    """CPU microseconds of one message to so many clients at a daemon each."""
    cluster = FullCluster(*_names(count))
    cluster.run_for(SETTLE_MS)
    for name in _names(count):
        cluster.join(name, PROCESS, GROUP)
    cluster.run_for(SETTLE_MS)
    body = bytes(BODY_BYTES)
    cpu_us = _cpu_us(cluster, broadcasts, lambda name: cluster.send(name, PROCESS, GROUP, body, service=service))
    assert all(len(cluster.messages(name, PROCESS)) == broadcasts for name in _names(count))
    return cpu_us


def beside(counts: tuple[int, ...], broadcasts: int) -> None:
    """Print a line for each number of destinations."""
    click.echo(
        f"CPU µs for one broadcast of {BODY_BYTES} bytes, all daemons and members together, {broadcasts} of each"
    )
    click.echo("destinations    CBCAST    ABCAST    CAUSAL    AGREED")
    for count in counts:
        figures = (
            of_isis(count, "cbcast", broadcasts),
            of_isis(count, "abcast", broadcasts),
            of_client(count, Service.CAUSAL, broadcasts),
            of_client(count, Service.AGREED, broadcasts),
        )
        click.echo(f"{count:12}" + "".join(f"{figure:10,.0f}" for figure in figures))
