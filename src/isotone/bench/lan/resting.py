"""What daemons take when nothing happens, their memory, and what a modest client gets beside a flooding one."""

from __future__ import annotations

import time

import msgspec

from isotone.bench.lan.board import Word
from isotone.bench.lan.cells import Cell
from isotone.bench.lan.clusters import Running, daemons_cpu
from isotone.bench.lan.latency import percentiles
from isotone.bench.lan.measuring import Effort, Members, check_outcomes
from isotone.bench.lan.processes import memory_bytes

SETTLE_S = 1.0
MIB = 1024 * 1024
MODEST_SHARE = 0.05


def idle(cell: Cell, running: Running, seconds: float) -> dict[str, float]:
    """Members are there and silent: the share of one core that each daemon takes, and its memory."""
    with Members(cell, running) as members:
        time.sleep(SETTLE_S)
        began, before = time.monotonic(), daemons_cpu(running)
        time.sleep(seconds)
        taken = daemons_cpu(running) - before
        share = taken / (time.monotonic() - began) / len(running.daemons)
        members.check()
    return {"cpu_percent": share * 100, "resident_mib": _memory(running, "VmRSS")}


def memory_after_flood(running: Running) -> dict[str, float]:
    """The most that a daemon ever had, after what it carried so far."""
    return {"most_resident_mib": _memory(running, "VmHWM"), "resident_mib": _memory(running, "VmRSS")}


def _memory(running: Running, field: str) -> float:
    return max(memory_bytes(daemon.pid, field) for daemon in running.daemons) / MIB


def fairness(cell: Cell, running: Running, effort: Effort, capacity: float) -> dict[str, float]:
    """Member 0 floods; those at other daemons, and member 3 at the same one, offer little. What do these get?"""
    modest = capacity * MODEST_SHARE
    crowd = msgspec.structs.replace(cell, senders=4, members=4)
    with Members(crowd, running, latency=True, rates=[0.0, modest, modest, modest]) as members:
        members.go()
        time.sleep(effort.warm_up_s)
        before, began = _sent(members), time.monotonic()
        time.sleep(effort.seconds)
        after, lasted = _sent(members), time.monotonic() - began
        outcomes = members.stop()
    check_outcomes(crowd, outcomes)
    rates = [(late - early) / lasted for early, late in zip(before, after)]
    found = {"flooder_rate": rates[0], "offered": modest}
    for name, place in (("elsewhere", 1), ("beside", 3)):
        times = percentiles(outcomes[place].latencies_us)
        found |= {f"{name}_rate": rates[place], f"{name}_p50_us": times["p50"], f"{name}_p99_us": times["p99"]}
    return found


def _sent(members: Members) -> list[int]:
    return [members.board.slot(place).get(Word.SENT) for place in range(members.count)]
