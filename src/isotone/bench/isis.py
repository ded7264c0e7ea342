"""What broadcasts of ISIS cost its kernels, and that what they keep stays bounded over very many.

The sites stand in one process and exchange encoded frames directly, so the figures are those of the kernels alone: all
sites together, without sockets, daemons and application. ``python -m isotone.bench.isis`` prints them; with
``--broadcasts N`` it sends so many, CBCAST and ABCAST in turn, and says how much was kept at most; ``--beside``
compares with the ordinary client (`isotone.bench.isis_beside`).

Implements: [ISIS 4.4], "the length of an IDlist will be determined by the number of active broadcasts".
"""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path

import click
import msgspec

from isotone.bench.isis_beside import beside
from isotone.isis import events as e
from isotone.isis import wire as w
from isotone.isis.life import Life
from isotone.isis.settings import IsisSettings

DESTINATIONS = (3, 8, 16)
BODY = bytes(100)
COLLECT_EVERY = 64
"""Broadcasts between two rounds of garbage collection."""
AT_ONCE = 8
"""Broadcasts that are under way together where what is kept is looked at."""


class Kept(msgspec.Struct):
    """The most that any site kept at any moment that was looked at."""

    ids: int = 0
    listed: int = 0
    buffered: int = 0
    ranges: int = 0
    queued_frames: int = 0
    packet: int = 0


class Sites:
    """Kernels' lives, with a process of one group each."""

    def __init__(self, count: int) -> None:
        self.names = tuple(f"s{number:02}" for number in range(count))
        members = tuple(f"{name}.1" for name in self.names)
        view = w.SiteView(1, members, tuple((name, 1) for name in self.names))
        self.lives = {site: Life(IsisSettings(name, self.names), site) for name, site in zip(self.names, members)}
        self.kept = Kept()
        self.frames = 0
        for life in self.lives.values():
            life.enter_view(view)
            life.settle(transmit=True)
        for site, life in self.lives.items():
            self.ask(site, e.JoinWanted(0, "p", "g"))
            self.carry()
            assert len(life.site.groups["g"].members) >= 1

    def ask(self, site: str, event: e.JoinWanted | e.BroadcastWanted) -> None:
        """Of the process at a site."""
        self.lives[site].ask(event)
        self.lives[site].settle(transmit=True)

    def cast(self, site: str, primitive: e.Primitive) -> None:
        """One broadcast to the group, until everybody has it."""
        self.ask(site, e.BroadcastWanted(0, "p", "g", primitive, BODY, "q"))
        self.carry()

    def carry(self) -> None:
        """Take frames round until none is left."""
        moved = True
        while moved:
            moved = False
            for life in self.lives.values():
                for frame in life.site.channels.pump():
                    data = w.CODEC.encode(frame)
                    self._receive(data)
                    self.frames += 1
                    moved = True
                life.take()

    def _receive(self, data: bytes) -> None:
        frame = w.CODEC.decode(data)
        assert isinstance(frame, w.Frame)
        if isinstance(frame.body, w.Packet):
            self.kept.packet = max(self.kept.packet, len(frame.body.messages))
        target = self.lives[frame.target]
        target.site.channels.receive(frame)
        target.settle(transmit=True)

    def collect(self) -> None:
        """A round of garbage collection at every site; before it, look at what is kept."""
        for life in self.lives.values():
            kept, ranges = self.kept, life.site.forgotten.ranges
            kept.ids = max(kept.ids, len(life.site.store))
            kept.listed = max(kept.listed, len(life.cbcasts.delivered))
            kept.buffered = max(kept.buffered, len(life.cbcasts.buffer))
            kept.ranges = max(kept.ranges, sum(map(len, ranges.values())))
            kept.queued_frames = max(kept.queued_frames, life.site.channels.backlog)
        for life in self.lives.values():
            life.collect()
            life.settle(transmit=True)
            self.carry()


def cost(count: int, primitive: e.Primitive, broadcasts: int) -> tuple[float, float]:
    """CPU microseconds, and frames, of one broadcast to so many sites."""
    sites = Sites(count)
    senders = list(sites.lives)
    frames, before = sites.frames, time.process_time()
    for number in range(broadcasts):
        sites.cast(senders[number % len(senders)], primitive)
        if number % COLLECT_EVERY == COLLECT_EVERY - 1:
            sites.collect()
    each = (time.process_time() - before) * 1e6 / broadcasts
    return each, (sites.frames - frames) / broadcasts


def endure(broadcasts: int, result: Path | None) -> None:
    """Very many broadcasts among three sites; a line of the result for every tenth of them."""
    sites = Sites(3)
    senders = list(sites.lives)
    for number in range(1, broadcasts + 1):
        primitive = e.Primitive.CBCAST if number % 2 else e.Primitive.ABCAST
        sites.ask(senders[number % 3], e.BroadcastWanted(0, "p", "g", primitive, BODY, "q"))
        if number % AT_ONCE == 0:
            sites.carry()
        if number % COLLECT_EVERY == 0:
            sites.collect()
        if number % max(1, broadcasts // 10) == 0:
            resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            line = json.dumps({"broadcasts": number, **msgspec.to_builtins(sites.kept), "resident_mib": resident})
            click.echo(line)
            if result is not None:
                with result.open("a") as file:
                    file.write(line + "\n")


@click.command()
@click.option("--broadcasts", default=0, help="Send so many and say what was kept; 0: measure the cost of one.")
@click.option("--each", default=300, show_default=True, help="Broadcasts for each figure.")
@click.option("--result", type=click.Path(path_type=Path), help="A file to which lines are added.")
@click.option("--beside", "compares", is_flag=True, help="Compare with the ordinary client on the same daemons.")
def main(broadcasts: int, each: int, result: Path | None, *, compares: bool) -> None:
    """Measure the kernels of ISIS."""
    if compares:
        beside(DESTINATIONS, each)
        return
    if broadcasts:
        endure(broadcasts, result)
        return
    click.echo("destinations  primitive  CPU µs  frames")
    for count in DESTINATIONS:
        for primitive in (e.Primitive.CBCAST, e.Primitive.ABCAST, e.Primitive.GBCAST):
            microseconds, frames = cost(count, primitive, each)
            click.echo(f"{count:12}  {primitive.value:9}  {microseconds:6,.0f}  {frames:6.1f}")


if __name__ == "__main__":
    main()
