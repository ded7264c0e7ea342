"""A reader that stops, where the policy is ``block``: senders wait for it, and all go on when it reads again.

In each round the reader reads, stops until nothing of anybody is taken any more, and goes on. At the end everybody must
have heard everything that was taken. Once all are at one daemon, and once a sender is at another.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

from isotone.bench.clients_crowd import MESSAGE_BYTES, OF_EACH, SLOTH_SETTINGS, Crowd, Reader, windows
from isotone.bench.clients_daemons import DaemonProcess, Daemons
from isotone.bench.clients_effort import MIB, ClientsEffort
from isotone.bench.foundation import Say
from isotone.bench.measure import Figure, median_figure
from isotone.core.errors import MachineError

NAME = "sloth"
GONE = "the reader that stopped was disconnected, in spite of the policy"
CASES = {"block": 1, "block far": 2}
"""How figures begin, and over how many daemons the senders are spread: one at each."""
LIMITS = """\
buffer_bytes_max = {buffer}
slow_policy = "block"

[timeouts]
silence_floor_ms = 10000
"""
"""Between daemons that suspect each other, as on a busy machine, messages are not for all readers."""


class Round(msgspec.Struct, kw_only=True):
    """Messages per second before, while nothing moves, and after; bytes that the reader did not read; memory."""

    before: float
    until_still_s: float
    stopped: float
    """Taken from all senders together."""
    unread_bytes: int
    held_bytes: int
    resident_bytes: int
    stopped_resident_bytes: int
    resume_s: float = 0.0
    after: float = 0.0


async def measure_block(effort: ClientsEffort, say: Say) -> list[Figure]:
    """Rates, bytes and memory around each stop."""
    figures = []
    for case, daemons in CASES.items():
        with Daemons(daemons, limits=LIMITS.format(buffer=effort.buffer_bytes_max)) as (daemon, *others):
            async with Crowd(daemon, *others) as crowd:
                rounds = await _rounds(crowd, daemon, effort, say)
                figures += _figures(case, rounds, effort, daemon)
    return figures


async def _rounds(crowd: Crowd, daemon: DaemonProcess, effort: ClientsEffort, say: Say) -> list[Round]:
    sloth = await crowd.reader(NAME, SLOTH_SETTINGS)
    await crowd.begin()
    await crowd.window(effort.slow_seconds)
    rounds = []
    for number in range(effort.slow_rounds):
        say(f"a reader stops and {crowd.where} wait, {number + 1} of {effort.slow_rounds}")
        each = await _stop(crowd, sloth, daemon, effort)
        await _resume(crowd, sloth, each, effort)
        rounds.append(each)
    await _heard_all(crowd, sloth)
    return rounds


async def _stop(crowd: Crowd, sloth: Reader, daemon: DaemonProcess, effort: ClientsEffort) -> Round:
    before, resident = await crowd.window(effort.slow_seconds), daemon.resident_bytes()
    heard = sloth.heard_bytes
    sloth.reads.clear()
    began = time.perf_counter()
    still_at = await _still(crowd, effort.still_seconds)
    taken = crowd.taken_bytes
    await asyncio.sleep(effort.slow_seconds)
    stopped = (crowd.taken_bytes - taken) / MESSAGE_BYTES / effort.slow_seconds
    return Round(
        before=before.rate,
        until_still_s=still_at - began,
        stopped=stopped,
        unread_bytes=min(reader.heard_bytes for reader in crowd.readers) - heard,
        held_bytes=await asyncio.to_thread(_held_bytes, daemon),
        resident_bytes=resident,
        stopped_resident_bytes=daemon.resident_bytes(),
    )


async def _still(crowd: Crowd, still_seconds: float) -> float:
    """Until nothing was taken for a while; when that began."""
    seen, since = crowd.taken_bytes, time.perf_counter()

    def is_still() -> bool:
        nonlocal seen, since
        if NAME in crowd.readers[0].left_at:
            raise MachineError(GONE)
        if crowd.taken_bytes != seen:
            seen, since = crowd.taken_bytes, time.perf_counter()
        return time.perf_counter() - since >= still_seconds

    await crowd.wait(is_still, "the senders to run out of credits")
    return since


def _held_bytes(daemon: DaemonProcess) -> int:
    """What the daemon keeps for the reader."""
    for client in daemon.ask("/clients")["clients"]:
        if client["name"] == NAME:
            return int(client["held_bytes"])
    raise MachineError(GONE)


async def _resume(crowd: Crowd, sloth: Reader, each: Round, effort: ClientsEffort) -> None:
    taken, began = crowd.taken_bytes, time.perf_counter()
    sloth.reads.set()
    await crowd.wait(lambda: crowd.taken_bytes > taken, "the senders to go on")
    each.resume_s = time.perf_counter() - began
    each.after = (await crowd.window(effort.slow_seconds)).rate
    sloth.check()


async def _heard_all(crowd: Crowd, sloth: Reader) -> None:
    """Nothing was lost on the way: everybody hears all that was taken."""
    await crowd.finish()
    total = crowd.taken_bytes
    readers = (*crowd.readers, sloth)
    await crowd.wait(lambda: all(each.heard_bytes >= total for each in readers), "all readers to hear everything")
    if any(each.heard_bytes > total for each in readers):
        raise MachineError("a reader heard more than was sent")


# --- figures -------------------------------------------------------------------------------------------------------


def _figures(case: str, rounds: list[Round], effort: ClientsEffort, daemon: DaemonProcess) -> list[Figure]:
    return [*_rate_figures(case, rounds, effort), *_memory_figures(case, rounds, effort, daemon)]


def _rate_figures(case: str, rounds: list[Round], effort: ClientsEffort) -> list[Figure]:
    over = f"{windows(len(rounds), effort.slow_seconds)}; {OF_EACH}"
    unit, name = "messages/s", f"{case}, others"
    stopped = [each.stopped for each in rounds]
    ratios = [each.after / each.before for each in rounds]
    still = [each.until_still_s for each in rounds]
    resumed = [each.resume_s for each in rounds]
    return [
        median_figure(f"{name}, before", [each.before for each in rounds], unit, over),
        median_figure(f"{case}, until senders stand still", still, "s", "without credits"),
        median_figure(f"{case}, taken while they do", stopped, unit, "of all senders", "0"),
        median_figure(f"{case}, until senders go on", resumed, "s", "when the reader reads again"),
        median_figure(f"{name}, after", [each.after for each in rounds], unit, over),
        median_figure(f"{name}, after to before", ratios, "ratio of rates", "within each round; all was heard by all"),
    ]


def _memory_figures(case: str, rounds: list[Round], effort: ClientsEffort, daemon: DaemonProcess) -> list[Figure]:
    """Of the reader's daemon."""
    buffer = effort.buffer_bytes_max / MIB
    bound = f"at most {2 * buffer:g}"
    unread = [each.unread_bytes / MIB for each in rounds]
    before, most = rounds[0].resident_bytes, daemon.resident_bytes_most()
    grown = [(each.stopped_resident_bytes - before) / MIB for each in rounds]
    held = [each.held_bytes / MIB for each in rounds]
    over = "than before the first stop"
    return [
        median_figure(
            f"{case}, held for the reader", held, "MiB", f"buffer of {buffer:g} MiB, bound twice that", bound
        ),
        median_figure(f"{case}, others are ahead by", unread, "MiB", "held, on the way, in the reader's inbox"),
        median_figure(f"{case}, memory while stopped", grown, "MiB more", f"{over}, resident", bound),
        Figure(f"{case}, most memory", (most - before) / MIB, "MiB more", f"{over}, ever", goal=bound),
        Figure(f"{case}, most resident memory", most / MIB, "MiB", "of the daemon, ever"),
    ]
