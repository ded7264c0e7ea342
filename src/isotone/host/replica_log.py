"""COReL's green order as an `OrderedLog`: a replica in a host, and what an application asks of it.

Service levels [COReL 3.3, 8.2]: `red` yields messages as they reach this server's disk, in no order yet; `follow` the
green records, in the one order; `white` the position up to which every server has them. An append waits for green; when
its time is over, or outside of a primary component, the answer is `Maybe`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import msgspec

from isotone.core.errors import IsotoneError, LocalProtocolError, MachineError
from isotone.core.ordered_log import Snapshot
from isotone.corel import events as corel
from isotone.corel.configuration import Configuration
from isotone.corel.explain import why_no_primary, why_not_green
from isotone.corel.identities import log_identity
from isotone.corel.quorum import Rule
from isotone.corel.replica import Replica
from isotone.corel.settings import ReplicaSettings
from isotone.daemon.node_settings import TraceSettings
from isotone.host.answers import Maybe, Refused
from isotone.host.appends import Answered, Appends
from isotone.host.arguments import (
    checked_bytes,
    checked_call,
    checked_rule,
    checked_snapshot,
    checked_text,
    checked_votes,
    checked_within,
)
from isotone.host.changes import Changes
from isotone.host.deadline import Deadline, within
from isotone.host.entries import Entries
from isotone.host.files import Files
from isotone.host.host import Host
from isotone.host.levels import Levels
from isotone.host.naming import check_log_group, named_message
from isotone.host.outside import Outside
from isotone.host.service import Around, Service, absence_of
from isotone.host.store import SEGMENT_BYTES, Sync
from isotone.replicated.provisional import RedMessages

log = logging.getLogger("isotone.replica")

DISK_WITHIN_MS = 5_000
"""A server whose disk answers nothing for so long leaves its group until it does."""
MAYBE_AFTER_MS = 2_000
"""Who stands outside of a primary component for so long answers *maybe* to appends without a deadline."""
NO_SESSION = "{} orders nothing: it has no session with a daemon: {}."
PASSED = "it is in the order; its position stands before a snapshot that this server learned from"
MICROSECONDS = 1_000_000
MILLISECONDS = 1_000


class ReplicaLog(Levels):
    """One server's end of the log, on the running loop; `start` and `stop`, or ``async with``."""

    replica: Replica

    def __init__(
        self,
        settings: ReplicaSettings,
        *,
        service: Service,
        directory: Path | None,
        sync: Sync = Sync.EVERY_COMMIT,
        segment_bytes: int = SEGMENT_BYTES,
        trace: TraceSettings | None = None,
        files: Files | None = None,
        disk_within_ms: int = DISK_WITHIN_MS,
        maybe_after_ms: int = MAYBE_AFTER_MS,
    ) -> None:
        super().__init__()
        check_log_group(settings.group)
        self.settings = settings = msgspec.structs.replace(settings, snapshots=True)
        self.standing = corel.StandingChanged(corel.Standing.DETACHED, False, (), "not started")
        self.disk_is_low = False
        self.archived: int | None = None  # up to here the log is in its archive; None: it has none
        self.archive_problem = ""  # why the archive does not go on
        self.sync = sync
        self._changes = Changes(lambda: f"the change of servers is not green. {self.why_no_primary()}")
        self.host = Host(
            self._build,
            name=settings.server,
            service=service,
            directory=directory,
            on={
                corel.AppendNamed: self._on_named,
                corel.AppendRefused: self._on_refused,
                corel.DeliverRed: self._on_red,
                corel.DeliverGreen: self._on_green,
                corel.DeliverWhite: self._on_white,
                corel.StandingChanged: self._on_standing,
                corel.InstallSnapshot: self._on_install,
                corel.ReconfigurationAnswered: self._on_reconfiguration,
                corel.ConfigurationChanged: self._on_configuration,
            },
            sync=sync,
            segment_bytes=segment_bytes,
            trace=trace,
            files=files,
            disk_within_s=disk_within_ms / MILLISECONDS,
        )
        self._appends = Appends()
        self._outside = Outside(
            self._appends,
            self._changes,
            after_us=maybe_after_ms * MILLISECONDS,
            orders=lambda: self.orders,
            now=self.host.now,
            why=self._why_open,
        )
        self.host.on_parted = self._outside.look
        self._why_unordered = ""  # once somebody asked; as long as the standing lasts
        self.red_messages = RedMessages()
        self.questions: dict[str, Callable[[str], Awaitable[object]]] = {}  # that what stands on the log answers
        self._asked: list[tuple[int, bytes]] = []  # in this turn of the loop
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.Task[None] | None = None
        self._stop_asked = False  # before it ended by itself

    def _build(self, around: Around) -> Replica:
        self.replica = Replica(self.settings, around.daemon, log_identity(around.identity, around.incarnation))
        return self.replica

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store and join the others; raises when it cannot be opened."""
        await self.host.start()
        queue = self.replica.ledger.queue  # nothing was told yet: all of it stands behind a write
        assert not self.entries.end
        self.entries = Entries(queue.forgotten_records + 1)
        self.entries.extend(queue.forgotten_records + 1, queue.between(queue.forgotten, queue.green))
        self.red_messages.take(queue.between(queue.green, queue.end))
        self.white_position = queue.forgotten_records
        self._outside.look()
        self._watch = asyncio.get_running_loop().create_task(self._watch_host())

    async def stop(self) -> None:
        """A clean stop; appends that are open are answered *maybe*, and who follows comes to its end."""
        self._stop_asked = not self.host.end_reason
        await self.host.stop()
        if self._watch is not None:
            await self._watch

    async def closed(self) -> str:
        """Wait until it ended; why, if nobody asked for it."""
        return await self.host.closed()

    async def __aenter__(self) -> ReplicaLog:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _watch_host(self) -> None:
        reason = await self.host.closed()
        if self._timer is not None:
            self._timer.cancel()
        self._outside.end()
        self._appends.end(reason or "the server was stopped")
        self._changes.end(reason or "the server was stopped")
        self.has_ended, self.end_reason = True, "" if self._stop_asked else reason
        self.tell()

    @property
    def waiting_appends(self) -> int:
        """Appends that are not answered yet."""
        return len(self._appends)

    # --- appending -------------------------------------------------------------------------------------------------

    async def append(self, record: bytes, *, within_s: float | None = None) -> int:
        """Order the record and return its position: it is on the disk of every member of the primary component.

        `Refused` when it is not taken. `Maybe` when nobody can say: with ``within_s`` when it is not green after so
        long, and not before; without, when this server stands outside of a primary component for ``maybe_after_ms``
        without a break: to an append that comes later, as soon as it is sent.
        """
        record, within_s = checked_bytes(record, "a record"), checked_within(within_s)
        deadline = Deadline(within_s)
        try:
            await within(within_s, self.host.room())
        except TimeoutError:
            raise Refused("there was no room for it in time: too much is on its way to disk and daemon") from None
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def answered(outcome: int | IsotoneError) -> None:
            if answer.done():
                return  # who asked has gone
            if isinstance(outcome, int):
                answer.set_result(outcome)
            else:
                answer.set_exception(outcome)

        self.submit(record, answered, within_s=deadline.left_s)
        return await answer

    def submit(self, record: bytes, answered: Answered, *, within_s: float | None = None) -> None:
        """The same without waiting: ``answered`` is called once. All records of one turn of the loop go together."""
        record, within_s = checked_bytes(record, "a record"), checked_within(within_s)
        checked_call(answered, "who is answered")
        self.host.check()
        deadline = None if within_s is None else self.host.now() + int(within_s * MICROSECONDS)
        request = self._appends.begin(answered, deadline)
        if not self._asked:
            asyncio.get_running_loop().call_soon(self._ask)
        self._asked.append((request, record))
        if deadline is None:
            self._outside.begun()
        elif self._timer is None:
            self._arm()

    def _ask(self) -> None:
        asked, self._asked = tuple(self._asked), []
        with suppress(MachineError):  # it ended: then all that is open is answered
            self.host.tell(corel.AppendsWanted(self.host.now(), asked))

    def tell_room(self, *, is_low: bool) -> None:
        """The disk has less room than its reserve, or enough again: while it is low no record is taken."""
        self.disk_is_low = is_low
        self.host.tell(corel.DiskRoom(self.host.now(), is_low))

    def _arm(self) -> None:
        deadline = self._appends.next_deadline
        self._timer = None
        if deadline is not None:
            delay = max(0, deadline - self.host.now()) / MICROSECONDS
            self._timer = asyncio.get_running_loop().call_later(delay, self._expire)

    def _expire(self) -> None:
        self._appends.expire(self.host.now(), self._why_open)
        self._arm()

    def _why_open(self, message: str) -> str:
        """For the answer *maybe*, of which there may be many: where nothing more is ordered nobody looks for the place
        of a message, and what holds for all of them is found out once while the standing lasts.
        """
        if self.orders:
            return self.why_not_green(message)
        if not self._why_unordered:
            self._why_unordered = self.why_no_primary()
        return f"{f'{message} is not green' if message else 'it was not sent yet'}. {self._why_unordered}"

    # --- snapshots -------------------------------------------------------------------------------------------------

    async def snapshot(self) -> Snapshot | None:
        """The newest snapshot, if there is one: an application's own, or that of the server that it learned from."""
        found = self.replica.ledger.snapshot
        return None if found is None else Snapshot(found.head.position, found.state)

    async def offer_snapshot(self, snapshot: Snapshot) -> None:
        """Hand in a snapshot; what it stands for is forgotten once every server has it. Durable when this returns.

        One that is not newer than the last changes nothing; `LocalProtocolError` says why another one is not kept.
        """
        snapshot = checked_snapshot(snapshot)
        if not 1 <= snapshot.position <= self.entries.end:
            raise LocalProtocolError(f"a snapshot at {snapshot.position}; the log ends at {self.entries.end}")
        if self.archived is not None and snapshot.position > self.archived:
            raise LocalProtocolError(
                f"the snapshot at {snapshot.position} is not kept: the archive ends at {self.archived}, and the log is "
                "cut only where it is archived"
            )
        kept = self.replica.ledger.snapshot
        if kept is not None and snapshot.position <= kept.head.position:
            return  # as new as this one, or newer
        if reason := self.replica.flow.why_not_kept(snapshot.position):
            raise LocalProtocolError(f"the snapshot is not kept: {reason}")
        self.host.tell(corel.SnapshotOffered(self.host.now(), snapshot.position, snapshot.state, snapshot.digest))
        await self.host.write([])  # behind what the replica wrote
        self._forget()

    # --- servers ---------------------------------------------------------------------------------------------------

    async def reconfigure(
        self,
        *,
        add: str = "",
        remove: str = "",
        rule: Rule | None = None,
        votes: Mapping[str, int] | None = None,
        within_s: float | None = None,
    ) -> None:
        """Add a server that has caught up, or remove one, or change the quorum rule or the votes; returns when that is
        green here. `Refused`, with the reason; `Maybe` when it is not green in time; without a time, as for `append`.
        """
        add, remove = checked_text(add, "the name of a server"), checked_text(remove, "the name of a server")
        rule, given, within_s = checked_rule(rule), checked_votes(votes), checked_within(within_s)
        request, done = self._changes.begin(add=add, remove=remove, is_patient=within_s is None)
        try:
            self.host.tell(corel.ReconfigurationWanted(self.host.now(), request, add, remove, rule, given))
            await within(within_s, done)
        except TimeoutError:
            raise Maybe(self._changes.why()) from None
        finally:
            self._changes.drop(request)

    def standings(self) -> AsyncIterator[corel.StandingChanged]:
        """How this server stands, now and at each change: whether its component orders, who is in it, why. A change
        that is overtaken by the next one before the reader looks is passed over.
        """
        return self.each(lambda: self.standing)

    def configurations(self) -> AsyncIterator[Configuration]:
        """The servers and the quorum rule of what is green here, now and at each change."""
        return self.each(lambda: self.replica.ledger.queue.configuration)

    # --- why ------------------------------------------------------------------------------------------------------

    @property
    def is_primary(self) -> bool:
        """Whether messages are ordered now."""
        return not self.has_ended and self.replica.flow.is_primary

    @property
    def orders(self) -> bool:
        """Whether what is appended now can become green: not behind a reconfiguration that has no quorum here."""
        return self.is_primary and self.replica.flow.cap is None

    def why_no_primary(self) -> str:
        """In a sentence; empty in a primary component."""
        if self.has_ended:
            return f"The server ended: {self.host.end_reason}."
        absence = absence_of(self.host.service) if self.replica.standing is corel.Standing.DETACHED else ""
        why = NO_SESSION.format(self.settings.server, absence) if absence else why_no_primary(self.replica)
        hanging = self.host.disk_watch.hanging
        return f"{why} {hanging.capitalize()}.".strip() if hanging else why

    def why_not_green(self, message: str, *, no_primary: str = "") -> str:
        """In a sentence, for the message of this name; for one that was not sent yet, why not.

        ``no_primary``: what `why_no_primary` says, if that is known already.
        """
        if not checked_text(message, "the name of a message"):
            return f"it was not sent yet. {no_primary or self.why_no_primary()}".rstrip()
        name = named_message(message)
        if any(each.name == name for each in self.replica.outbox.pending):
            return f"{message} was sent and did not come back yet. {no_primary or self.why_no_primary()}".rstrip()
        if not (no_primary or self.is_primary):
            no_primary = self.why_no_primary()
        return why_not_green(self.replica, name, no_primary=no_primary)

    # --- what the replica tells --------------------------------------------------------------------------------------

    def _on_named(self, action: corel.AppendNamed) -> None:
        self._appends.named(action.requests, action.message)
        self._outside.named(action.requests)

    def _on_refused(self, action: corel.AppendRefused) -> None:
        self._appends.refused(action.request, action.reason)

    def _on_red(self, action: corel.DeliverRed) -> None:
        self.red_messages.take(action.messages)
        self.tell_red(action.messages)
        self._outside.look()  # one may be a reconfiguration without a quorum

    def _on_green(self, action: corel.DeliverGreen) -> None:
        self.entries.extend(action.position, action.messages)
        self.red_messages.greened(action.messages)
        self._appends.greened(action.position, action.messages)
        self.tell()

    def _on_white(self, action: corel.DeliverWhite) -> None:
        self.white_position = max(self.white_position, action.position)
        self._forget()
        self.tell()

    def _forget(self) -> None:
        """What the replica no longer holds."""
        self.entries.forget(self.replica.ledger.queue.forgotten_records)

    def _on_install(self, action: corel.InstallSnapshot) -> None:
        self.entries.jump(action.position)
        queue = self.replica.ledger.queue
        held = {message.name for message in queue.held}
        self._appends.passed(lambda name: queue.has(name) and name not in held, PASSED)
        self.red_messages.passed(lambda name: queue.has(name) and name not in held)
        self.tell()

    def _on_reconfiguration(self, action: corel.ReconfigurationAnswered) -> None:
        self._changes.on_answered(action)
        self._outside.begun()

    def _on_configuration(self, action: corel.ConfigurationChanged) -> None:
        servers = ", ".join(action.servers)
        log.info("replica %s: the servers are %s now; a quorum: %s", self.settings.server, servers, action.rule)
        self._changes.on_changed(action)
        self.tell()

    def _on_standing(self, action: corel.StandingChanged) -> None:
        if (action.primary, action.standing) != (self.standing.primary, self.standing.standing):
            here, primary = ", ".join(action.servers) or "nobody", ", primary" if action.primary else ""
            name, standing = self.settings.server, action.standing.value
            log.info("replica %s: %s%s: %s; here: %s", name, standing, primary, action.reason, here)
        self.standing, self._why_unordered = action, ""
        if action.primary:
            self._outside.end()  # also if that is over by now
        self._outside.look()
        self.tell()
