"""The servers of a log, as a source of Spark asks them: what each one keeps, and the records of a range.

All are asked at the same time, over connections that stay open. One that does not answer is left alone for a while,
so that it does not cost its time at every look. A range is read from the server that was chosen for it, and from the
next one where that fails.

Implements: [DESIGN 5], tables and streams. Deviations: none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from isotone.core.errors import InputError, IsotoneError, LocalProtocolError, MachineError
from isotone.core.ordered_log import LogEntry
from isotone.corel.port.events import Unwelcome
from isotone.host.log_client import RemoteLog
from isotone.pipeline.log.options import LogOptions
from isotone.replicated.archive.segments import table_of

ANSWER_WITHIN_S = 30.0
"""So long a query that runs waits for any server at all, and for a server to have what another one told of."""
FIRST_WITHIN_S = 5.0
"""So long one that begins waits while all servers refuse connections."""
OTHERS_WITHIN_S = 5.0
"""So long it waits for the others when one has answered."""
AGAIN_AFTER_S, AGAIN_AFTER_MAX_S = 5.0, 60.0
"""One that did not answer is not asked for so long, twice as long each time."""
LOOK_AGAIN_S = 0.1
READ_RECORDS_MAX = 4_096


class Kept(msgspec.Struct, frozen=True):
    """What one server has: the positions ``first`` … ``last``."""

    address: str
    is_voter: bool
    first: int
    last: int

    def has(self, position: int) -> bool:
        """Whether this position is among them."""
        return self.first <= position <= self.last


class Servers:
    """Those that the options name. It may travel to another process, without its connections."""

    def __init__(self, options: LogOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.problems: dict[str, str] = {}  # of those that do not answer
        self._is_unwelcome = False  # a server does not take us: to ask again is no use
        self._options, self._clock = options, clock
        self._runner: asyncio.Runner | None = None
        self._logs: dict[str, RemoteLog] = {}
        self._pauses: dict[str, tuple[float, float]] = {}  # until when one is left alone, and how long that is

    def __reduce__(self) -> tuple[Any, ...]:
        return Servers, (self._options,)

    def kept(self) -> tuple[Kept, ...]:
        """What each that answers keeps: those first that do not vote. `MachineError` when none answers."""
        give_up_at = self._clock() + FIRST_WITHIN_S
        while not (found := self._look()):
            if self._is_unwelcome or self._clock() > give_up_at:
                raise MachineError(f"no server of the log answers: {self.described_problems()}")
            time.sleep(LOOK_AGAIN_S)
        return tuple(sorted(found, key=lambda each: (each.is_voter, self._options.replicas.index(each.address))))

    def _look(self) -> list[Kept]:
        """Those that are left alone are asked when nobody else answers."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        now = self._clock()
        due = [each for each in self._options.replicas if now >= self._pauses.get(each, (now, 0.0))[0]]
        found = self._runner.run(self._ask(due)) if due else []
        others = [each for each in self._options.replicas if each not in due]
        return found or (self._runner.run(self._ask(others)) if others else [])

    def described_problems(self) -> str:
        """Who does not answer, and why."""
        return "; ".join(self.problems.values())

    def close(self) -> None:
        """Part from all of them."""
        if self._runner is not None:
            for address in list(self._logs):
                self._runner.run(self._part(address))
            self._runner.close()
            self._runner = None

    async def _ask(self, addresses: list[str]) -> list[Kept]:
        asking = {address: asyncio.ensure_future(self._ask_one(address)) for address in addresses}
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await _first_success(list(asking.values()))
                await asyncio.wait(asking.values(), timeout=OTHERS_WITHIN_S)
        except TimeoutError:
            pass  # nobody has answered
        found = []
        for address, answer in asking.items():
            if answer.done() and answer.exception() is None:
                found.append(answer.result())
                self._pauses.pop(address, None)
                self.problems.pop(address, None)
                continue
            error = answer.exception() if answer.done() else MachineError(f"{address}: it does not answer in time")
            self.problems[address] = _reason(error)
            self._is_unwelcome = isinstance(error, Unwelcome)
            answer.cancel()
            await self._part(address)
            pause = min(2 * self._pauses.get(address, (0.0, AGAIN_AFTER_S / 2))[1], AGAIN_AFTER_MAX_S)
            self._pauses[address] = (self._clock() + pause, pause)
        return found

    async def _ask_one(self, address: str) -> Kept:
        log = self._logs.get(address)
        if log is None:
            log = self._logs[address] = remote_log(address, self._options)
        status = await log.status()
        return Kept(address, status["is_voter"], status["first_position"], status["green_position"])

    async def _part(self, address: str) -> None:
        log = self._logs.pop(address, None)
        if log is not None:
            await log.close()


async def _first_success(asking: list[asyncio.Future[Kept]]) -> None:
    """Until one has answered, or all have failed."""
    for answer in asyncio.as_completed(asking):
        try:
            await answer
        except IsotoneError:
            continue
        return


def _reason(error: BaseException | None) -> str:
    if not isinstance(error, IsotoneError):
        assert error is not None
        raise error
    return str(error).removeprefix("no server of the log answers: ")


def read_range(addresses: tuple[str, ...], first: int, last: int, options: LogOptions) -> Iterator[Any]:
    """Arrow tables with exactly these positions, in order; `InputError` when all servers have cut them away."""
    problems: dict[str, IsotoneError] = {}
    give_up_at = time.monotonic() + ANSWER_WITHIN_S
    with asyncio.Runner() as runner:
        while True:
            for address in addresses:
                log = runner.run(_opened(address, options))
                try:
                    while first <= last:
                        entries = runner.run(_some(log, first, min(last, first + READ_RECORDS_MAX - 1)))
                        yield table_of(entries)
                        first += len(entries)
                        give_up_at = time.monotonic() + ANSWER_WITHIN_S
                    return
                except IsotoneError as error:
                    problems[address] = error
                finally:
                    runner.run(log.close())
            told = "; ".join(f"{address}: {_reason(error)}" for address, error in problems.items())
            if all(isinstance(error, LocalProtocolError) for error in problems.values()):
                raise InputError(f"position {first} was cut away: {told}")
            if time.monotonic() > give_up_at:
                raise MachineError(f"no server gives position {first}: {told}")
            time.sleep(LOOK_AGAIN_S)


async def _opened(address: str, options: LogOptions) -> RemoteLog:
    return remote_log(address, options)


async def _some(log: RemoteLog, first: int, last: int) -> list[LogEntry]:
    """At least one."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            entries = await log.read(first, last)
    except TimeoutError:
        raise MachineError(f"no answer within {ANSWER_WITHIN_S:g} seconds") from None
    if not entries:
        raise MachineError(f"it does not have position {first} yet")
    return entries


def remote_log(address: str, options: LogOptions) -> RemoteLog:
    """One server, on the running loop; it is asked once, for there are others."""
    log = RemoteLog(address, name="spark", credential=credential_of(options))
    log.patience.tries_again = False
    return log


def credential_of(options: LogOptions) -> bytes:
    """The credential for the servers; empty without one."""
    if not options.credential_file:
        return b""
    try:
        return (Path(options.credential_file).read_bytes().splitlines() or [b""])[0].strip()
    except OSError as error:
        raise InputError(f"cannot read the credential in {options.credential_file}: {error.strerror}") from error
