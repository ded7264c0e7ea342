"""What clients cost their daemon: many of them and many groups, idleness, a reader that stops, a test over seeds.

Daemons are processes of their own on loopback, so that what they take is theirs alone; the clients are all in this
process. CPU times do not mind other work on the machine much, rates do: those are compared within one run only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

from isotone.bench.clients_blocked import measure_block
from isotone.bench.clients_idle import measure_idle
from isotone.bench.clients_many import measure_many
from isotone.bench.clients_seeds import measure_seeds, source_root
from isotone.bench.clients_slow import measure_disconnect
from isotone.bench.foundation import Effort, Say
from isotone.bench.measure import Figure


def measure_clients(effort: Effort, say: Say) -> Iterator[Figure]:
    """All figures of clients, as they come."""
    root = source_root()  # before everything else: what is missing is told at once
    yield Figure("load of the machine", os.getloadavg()[0], "processes", "average of a minute, when this began")
    for measure in (measure_many, measure_idle, measure_disconnect, measure_block):
        yield from asyncio.run(measure(effort.clients, say))
    yield from measure_seeds(effort.clients, say, root)
