"""Replicated objects over an ordered log, on an asyncio loop: follow the log, apply it, order commands, keep the lease.

A copy of the whole state is kept here, so reads are local once it is known that they may be. A linearizable read goes
behind a mark that was ordered after it began; reads that begin together share one mark [COReL 8.1].

Implements: [COReL 8.1], [COReL 8.2]; docs/protocols/replicated.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any

from isotone.core.errors import IsotoneError, LocalProtocolError, MachineError
from isotone.core.ordered_log import LogEntry, Maybe, OrderedLog, Refused, Rewound
from isotone.replicated.caller import Reply
from isotone.replicated.class_state import Classes
from isotone.replicated.client_session import OPEN_MAX, ROUND_US, ClientSession
from isotone.replicated.database.state import Databases
from isotone.replicated.errors import Rejected, SessionLost, TimedOut, Unsettled
from isotone.replicated.factory import ObjectFactory
from isotone.replicated.machine import Machine
from isotone.replicated.outcome import Answer
from isotone.replicated.pulse import Pulse
from isotone.replicated.reading import ReadRounds
from isotone.replicated.recording import HistoryRecorder
from isotone.replicated.records import Closed, encode
from isotone.replicated.snapshots import SnapshotOffers, may_always_cut

log = logging.getLogger("isotone.replicated")

US = 1_000_000
LEASE_S = 10.0
CLOSE_WITHIN_S = 2.0
AGAIN_S = 0.05
AGAIN_MAX_S = 1.0
OPEN_AGAIN_S = 10.0
WAITING_METHODS = frozenset({"acquire", "take", "arrive", "wait"})  # abandoned when nobody waits for them any more


def always_orders() -> str:
    """A log that says nothing about itself."""
    return ""


class ReplicatedState(ObjectFactory):
    """One program's replicated objects. ``server``: it is one of the servers, and ticks."""

    def __init__(
        self,
        log: OrderedLog,
        *,
        nonce: Callable[[], str],
        server: str = "",
        servers: Callable[[], tuple[str, ...]] = tuple,
        why_no_order: Callable[[], str] = always_orders,
        lease_s: float = LEASE_S,
        round_us: int = ROUND_US,
        refuse_in_minority: bool = False,
        classes: Iterable[type[Any]] = (),
        databases: Databases | None = None,
        red: Callable[[], list[bytes]] | None = None,
        may_cut: Callable[[int], bool] = may_always_cut,
    ) -> None:
        self.log = log
        self.history: HistoryRecorder | None = None
        self.server, self.servers, self.why_no_order = server, servers, why_no_order
        self.machine = Machine(Classes(), databases, is_server=bool(server))
        self.round_us, self.lease = round_us, max(2, round(lease_s * US / round_us) + 1)
        for each in classes:
            self.machine.classes.add(each)
        self._empty = self.machine.snapshot()
        self.session: ClientSession | None = None
        self.record_bytes = 0  # applied since the last snapshot
        self.failure: IsotoneError | None = None  # it is over
        self._snapshots = SnapshotOffers(self, may_cut)
        self._nonce, self._refuse, self._red = nonce, refuse_in_minority, red
        self._pending: dict[tuple[int, int], asyncio.Future[Reply]] = {}
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._room = asyncio.Semaphore(OPEN_MAX)
        self._reads = ReadRounds(self)
        self._pulse = Pulse(self)

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take the newest snapshot, and follow."""
        self._clock = asyncio.get_running_loop().time
        await self._catch_up()
        self.spawn(self._follow(), "follow")
        self.spawn(self._pulse.run(), "pulse")

    async def close(self) -> None:
        """End the session, so that others need not wait for its lease, and stop."""
        session = self.session
        if session is not None and session.number and not session.is_over and self.failure is None:
            with suppress(IsotoneError, TimeoutError):
                async with asyncio.timeout(CLOSE_WITHIN_S):
                    await self.append(encode(Closed(session.number)), CLOSE_WITHIN_S)
        self._fail(MachineError("the replicated objects were closed"))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.machine.databases.close()

    async def __aenter__(self) -> ReplicatedState:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def now(self) -> int:
        """This program's clock, in microseconds."""
        return int(self._clock() * US)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run beside; whatever kills it ends all."""
        task = asyncio.get_running_loop().create_task(work, name=f"replicated {name}")
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, IsotoneError):
            log.error("replicated objects failed", exc_info=error)
            error = MachineError(f"replicated objects failed: {error!r}")
        self._fail(error)

    def _fail(self, error: IsotoneError) -> None:
        if self.failure is None:
            self.failure = error
        for future in self._pending.values():
            if not future.done():
                future.set_exception(error)
        self._pending.clear()
        self._tell()

    # --- following ---------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            entries = aiter(self.log.follow(self.machine.state.position + 1))
            while True:
                try:
                    entry = await anext(entries)
                except StopAsyncIteration:
                    raise MachineError("the log ended") from None
                except Rewound as rewound:
                    await self._begin_anew(str(rewound))
                    break
                except LocalProtocolError:
                    if not await self._catch_up():
                        raise
                    break
                self._apply(entry)

    async def _catch_up(self) -> bool:
        """By a snapshot, if there is one that is newer."""
        snapshot = await self.log.snapshot()
        if snapshot is None or snapshot.position <= self.machine.state.position:
            return False
        self.machine.restore(snapshot.state)
        self._look_at_session()
        self._tell()
        return True

    async def _begin_anew(self, why: str) -> None:
        """Forget what is not part of the order."""
        log.warning("the copy begins anew: %s", why)
        self._snapshots.drop()
        snapshot = await self.log.snapshot()
        self.machine.restore(self._empty if snapshot is None else snapshot.state)
        self._look_at_session()
        self._tell()

    def _look_at_session(self) -> None:
        """What became of ours, in a state that came all at once."""
        session, sessions = self.session, self.machine.state.sessions
        if session is None:
            return
        if not session.number:
            session.number = next((each for each, known in sessions.items() if known.nonce == session.nonce), 0)
        elif session.number in sessions:
            for answer in sessions[session.number].results.values():
                if answer is not None:
                    self._on_answer(answer)
        else:
            self._on_over(session)

    def _apply(self, entry: LogEntry) -> None:
        outcome = self.machine.apply(entry.position, entry.record)
        self.record_bytes += len(entry.record)
        session = self.session
        if session is not None:
            if outcome.opened is not None and outcome.opened[0] == session.nonce and not session.number:
                session.number = outcome.opened[1]
            for answer in outcome.answers:
                if answer.session == session.number:
                    self._on_answer(answer)
            if session.number in outcome.expired:
                self._on_over(session)
        if outcome.new_round:
            self._pulse.on_round()
        self._tell()

    def _on_answer(self, answer: Answer) -> None:
        assert self.session is not None
        self.session.answered(answer.request)
        future = self._pending.pop((answer.session, answer.request), None)
        if future is None or future.done():
            return
        if answer.error:
            future.set_exception(Rejected(answer.error))
        else:
            future.set_result(Reply(answer.value, answer.session, self.machine.state.position))

    def _on_over(self, session: ClientSession) -> None:
        """Whatever it had open was not applied, and never will be."""
        session.is_over = True
        log.info("the session %s is over", session.number)
        for key in [key for key in self._pending if key[0] == session.number]:
            future = self._pending.pop(key)
            if not future.done():
                future.set_exception(SessionLost("the session ran out before the command was applied"))

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def check(self) -> None:
        """Raise why it is over, if it is."""
        if self.failure is not None:
            raise self.failure

    async def applied_beyond(self, position: int) -> None:
        """Until the copy has more than this."""
        while self.machine.state.position <= position:
            self.check()
            await self._news.wait()

    # --- commands ----------------------------------------------------------------------------------------------------

    async def append(self, record: bytes, within_s: float | None, *, is_patient: bool = False) -> int:
        """Order a record; what breaks off is sent again, as it has a number. ``is_patient``: also while none serves."""
        pause, doubt = AGAIN_S, ""  # behind a break a *no* is none: the first copy may be ordered
        try:
            async with asyncio.timeout(within_s):
                while True:
                    try:
                        return await self.log.append(record)
                    except Maybe as maybe:
                        if maybe.message:
                            raise
                        doubt = maybe.reason
                    except IsotoneError as error:
                        if self.failure is not None:
                            raise (Maybe(f"{doubt}; sent again: {error}") if doubt else error) from None
                        is_away = isinstance(error, MachineError)
                        if not (doubt or (is_away and is_patient)):
                            raise (Refused(f"it was not sent: {error}") if is_away else error) from None
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, AGAIN_MAX_S)
        except TimeoutError:
            raise Maybe(self.why_no_order() or "the log did not answer in time") from None

    async def _open_session(self, within_s: float | None) -> ClientSession:
        """The one that is open, or a new one; all callers share it."""
        while True:
            self.check()
            session = self.session
            if session is None or session.is_over:
                session = self.session = ClientSession(self._nonce(), self.lease, self.round_us)
                self.spawn(self._send_open(session), "open")
            while not session.number and not session.is_over:
                if session.doubt and within_s is None:
                    raise Refused(f"the command was not sent: no session could be opened: {session.doubt}")
                await self._news.wait()
                self.check()
            if not session.is_over:
                return session
            if session.doubt and within_s is None:
                raise Refused(f"the command was not sent: no session could be opened: {session.doubt}")
            await asyncio.sleep(AGAIN_S)

    async def _send_open(self, session: ClientSession) -> None:
        try:
            position = await self.append(session.open_record(self.now()), None)
            await self.applied_beyond(position - 1)
            if not session.number:
                session.doubt, session.is_over = "there are too many sessions", True
        except Maybe as maybe:  # it may still come; after a while another one is tried
            session.doubt = maybe.reason
            self._tell()
            await asyncio.sleep(OPEN_AGAIN_S)
            session.is_over = not session.number
        except IsotoneError as error:
            session.doubt, session.is_over = str(error), True
        self._tell()

    async def call(
        self, kind: str, name: str, method: str, arguments: tuple[Any, ...], *, within_s: float | None = None
    ) -> Reply:
        """Order a command and wait for its answer."""
        self.check()
        if self._refuse and (why := self.why_no_order()):
            raise Refused(f"the command was not sent: {why}")
        waits = method in WAITING_METHODS
        request, known = 0, False
        session: ClientSession | None = None
        try:
            async with asyncio.timeout(within_s), self._room:
                session = await self._open_session(within_s)
                request, record = session.request(self.now(), kind, name, method, arguments)
                future = self._begin(session, request)
                await self._order(session, request, record, is_timed=within_s is not None)
                known = True
                return await asyncio.shield(future)
        except TimeoutError:
            return await self._give_up(session, request, (kind, name), waits=waits, ordered=known)
        except asyncio.CancelledError:
            if waits and request and session is not None:
                self._abandon(session, kind, name, request)
            raise

    def _begin(self, session: ClientSession, request: int) -> asyncio.Future[Reply]:
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_look_at_error)
        self._pending[session.number, request] = future
        return future

    async def _order(self, session: ClientSession, request: int, record: bytes, *, is_timed: bool) -> None:
        """Append it. Whoever gave a time waits for it, also where the log would give up."""
        try:
            await self.append(record, None, is_patient=is_timed)
        except Maybe as maybe:
            future = self._pending.get((session.number, request))
            if is_timed or future is None or future.done():
                return
            raise Unsettled(maybe.reason, maybe.message, lambda: _value_of(future)) from None
        except IsotoneError:  # it was not taken: it will not come
            session.open.pop(request, None)
            self._pending.pop((session.number, request), None)
            raise

    async def _give_up(
        self, session: ClientSession | None, request: int, where: tuple[str, str], *, waits: bool, ordered: bool
    ) -> Reply:
        """Its time is over."""
        if session is None or not request:
            raise Refused("the command was not sent in time: no session could be opened") from None
        future = self._pending.get((session.number, request))
        if waits:
            self._abandon(session, *where, request)
            raise TimedOut(f"{where[1]} was not granted in time" if ordered else "it could not be asked for in time")
        if future is None:
            raise Maybe("it was answered while its time ran out")
        why = self.why_no_order() or "it is ordered and not applied here yet"
        raise Unsettled(f"there is no answer in time: {why}", "", lambda: _value_of(future))

    def _abandon(self, session: ClientSession, kind: str, name: str, request: int) -> None:
        async def abandon() -> None:
            with suppress(IsotoneError):
                await self.call(kind, name, "abandon", (request,))

        if not session.is_over and self.failure is None:
            self.spawn(abandon(), "abandon")

    # --- reading -----------------------------------------------------------------------------------------------------

    async def go_behind(
        self, *, stale_ok: bool = False, at_least: int | None = None, within_s: float | None = None
    ) -> None:
        """Until the copy may be read; see `ReadRounds`."""
        self.check()
        await self._reads.go_behind(stale_ok=stale_ok, at_least=at_least, within_s=within_s)

    async def red_records(self) -> list[bytes]:
        """What is red at this server, once the copy has all that is green here; for programs that are servers."""
        if self._red is None:
            raise LocalProtocolError(
                "provisional reads are for programs that are servers: others do not see what is red"
            )
        while True:
            self.check()
            end = await self.log.end()
            if self.machine.state.position >= end:
                return self._red()
            await self.applied_beyond(end - 1)

    # --- leases ------------------------------------------------------------------------------------------------------

    def is_trusted(self, session: int) -> bool:
        """Whether what this session holds is certainly still its own."""
        mine = self.session
        return mine is not None and mine.number == session and self.failure is None and mine.is_trusted(self.now())

    def trust_left_s(self, session: int) -> float:
        """So long nobody else can have what this session holds, by this clock, if it is not renewed any more."""
        mine = self.session
        if mine is None or mine.number != session or mine.is_over:
            return 0.0
        return max(0.0, (mine.heard_us + mine.trust_us - self.now()) / US)

    async def until_lost(self, session: int, *, ahead_s: float = 0.0) -> str:
        """Until it is not, or not for longer than this, and why."""
        while self.is_trusted(session) and (left_s := self.trust_left_s(session)) > ahead_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s - ahead_s):
                    await self._news.wait()
        if self.failure is not None:
            return str(self.failure)
        if self.session is None or self.session.number != session or self.session.is_over:
            return "the session is over"
        return "no renewal was confirmed in time: others may take its place from now on"

    # --- comparing ---------------------------------------------------------------------------------------------------

    async def digests_at(self, position: int) -> dict[str, Any]:
        """What `DigestWanted` at this position found here, and what a scan of the databases finds now."""
        await self.applied_beyond(position - 1)
        digests = {name: f"{digest:016x}" for name, digest in self.machine.compared.get(position, {}).items()}
        return {"server": self.server, "digests": digests, "problems": self.machine.problems()}

    # --- snapshots ---------------------------------------------------------------------------------------------------

    async def offer_snapshot(self) -> bool:
        """Hand the state to the log, so that it may forget what is behind it; whether it was kept."""
        return await self._snapshots.offer()


async def _value_of(future: asyncio.Future[Reply]) -> Any:
    return (await asyncio.shield(future)).value


def _look_at_error(future: asyncio.Future[Any]) -> None:
    """Nobody may be left to look."""
    if not future.cancelled():
        future.exception()
