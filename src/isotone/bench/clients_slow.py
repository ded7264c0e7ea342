"""A reader that stops, where the policy is ``disconnect``: what the others lose while the daemon still keeps it.

Each round has three windows: the reader is away, it reads, it has stopped. The last one goes on until the daemon has
disconnected it at least. While it reads it takes time of this process and of the daemon, so a rate without it is the
fairer one to compare with; both are told. So is the daemon's CPU time per message: other work on the machine changes
rates from window to window, but hardly that.
"""

from __future__ import annotations

import time

import msgspec

from isotone.bench.clients_crowd import OF_EACH, SLOTH_SETTINGS, Crowd, Window, windows
from isotone.bench.clients_daemons import DaemonProcess, Daemons
from isotone.bench.clients_effort import MIB, ClientsEffort
from isotone.bench.foundation import Say
from isotone.bench.measure import Figure, median_figure

GOAL = "at least 0.9"
LIMITS = """\
buffer_bytes_max = {buffer}

[[limits.client]]
pattern = "sloth*"
slow_policy = "disconnect"
"""


class Round(msgspec.Struct, frozen=True):
    """The three windows; and how long the daemon kept the reader."""

    away: Window
    reading: Window
    stopped: Window
    kept_seconds: float


async def measure_disconnect(effort: ClientsEffort, say: Say) -> list[Figure]:
    """Rates of the others, and their ratios within each round."""
    with Daemons(1, limits=LIMITS.format(buffer=effort.buffer_bytes_max)) as (daemon,):
        async with Crowd(daemon) as crowd:
            await crowd.begin()
            await crowd.window(effort.slow_seconds)
            rounds = []
            for number in range(effort.slow_rounds):
                say(f"a reader stops and is disconnected, {number + 1} of {effort.slow_rounds}")
                rounds.append(await _round(crowd, f"sloth{number}", effort))
        return _figures(rounds, effort, daemon)


async def _round(crowd: Crowd, name: str, effort: ClientsEffort) -> Round:
    away = await crowd.window(effort.slow_seconds)
    sloth = await crowd.reader(name, SLOTH_SETTINGS)
    watcher = crowd.readers[0]
    await crowd.wait(lambda: name in watcher.members, "the view with the new reader")
    reading = await crowd.window(effort.slow_seconds)
    sloth.check()
    sloth.reads.clear()
    began = time.perf_counter()
    stopped = await crowd.window(effort.slow_seconds, lambda: name in watcher.left_at)
    await sloth.leave()
    return Round(away, reading, stopped, watcher.left_at[name] - began)


def _figures(rounds: list[Round], effort: ClientsEffort, daemon: DaemonProcess) -> list[Figure]:
    over = f"{windows(len(rounds), effort.slow_seconds)}; {OF_EACH}"
    unit, name = "messages/s", "disconnect, others"
    to_away = [each.stopped.rate / each.away.rate for each in rounds]
    to_reading = [each.stopped.rate / each.reading.rate for each in rounds]
    cpu = [each.away.cpu_us / each.stopped.cpu_us for each in rounds]
    out = [each.kept_seconds for each in rounds]
    bound = f"its buffer has {effort.buffer_bytes_max / MIB:g} MiB"
    return [
        median_figure(f"{name}, reader away", [each.away.rate for each in rounds], unit, over),
        median_figure(f"{name}, reader reads", [each.reading.rate for each in rounds], unit, over),
        median_figure(f"{name}, reader stopped", [each.stopped.rate for each in rounds], unit, over),
        median_figure(f"{name}, stopped to away", to_away, "ratio of rates", "within each round", GOAL),
        median_figure(f"{name}, stopped to reads", to_reading, "ratio of rates", "within each round", GOAL),
        *_cpu_figures(rounds),
        median_figure("disconnect, CPU, away to stopped", cpu, "ratio", "the rate that a busy daemon keeps"),
        median_figure("disconnect, until it is out", out, "s", bound),
        Figure("disconnect, most resident memory", daemon.resident_bytes_most() / MIB, "MiB", "of the daemon, ever"),
    ]


def _cpu_figures(rounds: list[Round]) -> list[Figure]:
    unit, over = "µs per message", "of the daemon, to take it and tell all"
    return [
        median_figure("disconnect, CPU, reader away", [each.away.cpu_us for each in rounds], unit, over),
        median_figure("disconnect, CPU, reader reads", [each.reading.cpu_us for each in rounds], unit, over),
        median_figure("disconnect, CPU, reader stopped", [each.stopped.cpu_us for each in rounds], unit, over),
    ]
