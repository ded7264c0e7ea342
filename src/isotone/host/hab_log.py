"""One process of several data centres, as an `OrderedLog`: HAB on COReL's green order of its centre, in a host, with
streams to the other centres.

An append is answered when the record is delivered here. In the first centre of the order that is when every centre that
is not lost has stored it, elsewhere when this centre has. If the settings say *at once*, the first centre does not wait
for the others: the answer is then `AtRisk`, and `until_confirmed` waits. When the centre was declared lost, what was
under way is answered `Maybe`. When it comes back it takes the others' state, which may lack what it delivered last:
then whoever follows is told by `Rewound`, and begins anew.

Implements: [HAB 2.4], HA-Broadcast and HA-Deliver, as [DESIGN 2] "One ordered log".
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, get_args

from isotone.core.errors import IsotoneError, LocalProtocolError, MachineError
from isotone.core.ordered_log import LogEntry, Rewound, Snapshot
from isotone.corel.identities import log_identity
from isotone.daemon.node_settings import TraceSettings
from isotone.daemon.security.keys import KeyPair
from isotone.hab import events
from isotone.hab.centre import Role
from isotone.hab.messages import Kind, Wide
from isotone.hab.process import Hab
from isotone.hab.rows import message_name
from isotone.hab.settings import Mode
from isotone.hab.stack import HabOnCorel
from isotone.host.answers import Maybe, Refused
from isotone.host.appends import Appends
from isotone.host.arguments import checked_bytes, checked_position, checked_snapshot, checked_within
from isotone.host.deadline import within
from isotone.host.entries import Entries
from isotone.host.hab_operators import OperatorPort
from isotone.host.hab_settings import CentresFile
from isotone.host.hab_status import CentreStatus, status_of
from isotone.host.hab_streams import Proof, WideStreams
from isotone.host.host import Host
from isotone.host.levels import FOLLOW_BATCH_MAX, Levels
from isotone.host.service import Around, Service
from isotone.host.store import Sync

log = logging.getLogger("isotone.centres")

RETURNED = "this data centre came back with the state of the others"
LOOK_S = 0.02
KINDS = {kind.__struct_config__.tag: kind.__name__ for kind in get_args(Wide)}
TAG_AT = 2  # of an encoded message: behind the head of the array, and that of the number
OPEN_MAX = 1_024
"""Appends on their way; who comes then waits. The process itself refuses more than its ``pending_max``."""


class _Ordered(NamedTuple):
    """One record of the order, as `Entries` keeps it."""

    records: tuple[bytes, ...]
    name: str

    def __str__(self) -> str:
        return self.name


class AtRisk(int):
    """The position of a record that other centres may lack: if this one is lost now, so is the record."""


class CentreLog(Levels):
    """One process' end of the order of all centres, on the running loop; `start` and `stop`, or ``async with``."""

    stack: HabOnCorel

    def __init__(
        self,
        file: CentresFile,
        name: str,
        pair: KeyPair,
        *,
        service: Service,
        directory: Path | None,
        listen: str = "",
        sync: Sync = Sync.EVERY_COMMIT,
        trace: TraceSettings | None = None,
    ) -> None:
        """``listen``: where other centres are listened to, if not at the address of the file."""
        super().__init__()
        self.file, self.name, self.settings = file, name, file.settings()
        self.centre_name = file.centre_of(name).name
        processes = file.processes
        self._listen = listen or processes[name].wide
        others = {each: at.wide for each, at in processes.items() if self.settings.centre_of(each) != self.centre_name}
        if file.witness is not None:
            others[file.witness.name] = file.witness.wide
        self.operators = OperatorPort(self)
        self.streams = WideStreams(Proof(name, pair, file.roster()), others, self._on_packet, self.operators.serve)
        self.host = Host(
            self._build,
            name=name,
            service=service,
            directory=directory,
            on={
                events.SendPacket: self._on_send,
                events.HaDeliver: self._on_deliver,
                events.InstallState: self._on_install,
                events.BroadcastRefused: self._on_refused,
                events.StandingChanged: self._on_standing,
            },
            sync=sync,
            trace=trace,
        )
        self.crossed: Counter[str] = Counter()  # messages to other centres, by their kind
        self.life = 0  # of the centre, as far as it was told to whoever follows
        self._appends = Appends()
        self._room = asyncio.Semaphore(OPEN_MAX)
        self._watch: asyncio.Task[None] | None = None
        self._stop_asked = False
        self._returns = 0  # how often the order began anew here

    def _build(self, around: Around) -> HabOnCorel:
        identity = log_identity(around.identity, around.incarnation)
        self.stack = HabOnCorel(
            self.settings,
            self.name,
            around.daemon,
            identity,
            incarnation=around.incarnation,
            group=self.file.group,
            founder=False,  # an operator begins the system, once
        )
        return self.stack

    @property
    def hab(self) -> Hab:
        """The process of the protocol."""
        return self.stack.hab

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, listen for other centres, and go on where this process was."""
        await self.host.start()
        try:
            await self.streams.start(self._listen)
        except MachineError:
            await self.host.stop()
            raise
        if self.settings.declare_unsafely_after_us:
            seconds = self.settings.declare_unsafely_after_us / 1_000_000
            log.warning("process %s declares a data centre lost by itself after %g s of silence", self.name, seconds)
        self._watch = asyncio.get_running_loop().create_task(self._watch_host())

    async def stop(self) -> None:
        """A clean stop; appends that are open are answered *maybe*."""
        self._stop_asked = not self.host.end_reason
        await self.streams.stop()
        await self.host.stop()
        if self._watch is not None:
            await self._watch

    async def __aenter__(self) -> CentreLog:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _watch_host(self) -> None:
        reason = await self.host.closed()
        self._end("" if self._stop_asked else reason or "the process was stopped")

    def _end(self, reason: str) -> None:
        if not self.has_ended:
            self._appends.end(reason or "the process was stopped")
            self.has_ended, self.end_reason = True, reason
            self.tell()

    # --- appending -------------------------------------------------------------------------------------------------

    async def append(self, record: bytes, *, within_s: float | None = None) -> int:
        """HA-broadcast it; its position, once it is delivered here, as `AtRisk` where the others may lack it. `Refused`
        when it is not taken, and `Maybe` when nobody can say: not in time, or this centre was declared lost meanwhile.
        """
        record, within_s = checked_bytes(record, "a record"), checked_within(within_s)
        async with self._room:
            answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

            def answered(outcome: int | IsotoneError) -> None:
                if answer.done():
                    return
                if isinstance(outcome, int):
                    answer.set_result(outcome)
                else:
                    answer.set_exception(outcome)

            self._check_end()
            request = self._appends.begin(answered, None)
            self.host.tell(events.BroadcastWanted(self.host.now(), request, record))
            try:
                return await within(within_s, answer)
            except TimeoutError:
                raise Maybe(self.why_no_primary() or "it is not ordered in time") from None

    @property
    def confirmed(self) -> int:
        """Every centre that is not lost has the order up to this position; what stands behind it may be lost."""
        centre = self.hab.centre
        return centre.log.position_at(min(centre.confirmed, centre.log.end))

    async def until_confirmed(self, position: int) -> None:
        """Until every centre that is not lost has the record at this position. In the mode *waiting* an append in the
        primary is answered no earlier; *at once*, and in a backup, it is.
        """
        returns = self._returns
        while self.confirmed < checked_position(position):
            self._check_end()
            if self._returns != returns:
                raise Rewound(RETURNED)
            await asyncio.sleep(LOOK_S)

    # --- reading ---------------------------------------------------------------------------------------------------

    async def follow(self, first: int) -> AsyncIterator[LogEntry]:
        """All entries from ``first`` on; `Rewound` when the order begins anew here."""
        first, returns = checked_position(first), self._returns
        while True:
            changed = self._changed
            if self._returns != returns:
                raise Rewound(RETURNED)
            entries = self.entries.read(first, first + FOLLOW_BATCH_MAX - 1)
            for entry in entries:
                yield entry
            first += len(entries)
            if not entries and await self._waits_no_more(changed):
                self._check_end()
                return

    # --- snapshots -------------------------------------------------------------------------------------------------

    async def snapshot(self) -> Snapshot | None:
        """The newest that all processes of this centre agree on."""
        found = self.hab.centre.snapshot
        return None if found is None else Snapshot(found.position, found.state)

    async def offer_snapshot(self, snapshot: Snapshot) -> None:
        """Hand in a snapshot; the centre keeps it once what it stands for is confirmed."""
        snapshot = checked_snapshot(snapshot)
        if not 1 <= snapshot.position <= self.entries.end:
            raise LocalProtocolError(f"a snapshot at {snapshot.position}; the log ends at {self.entries.end}")
        if len(snapshot.state) > self.settings.snapshot_bytes_max:
            raise LocalProtocolError(
                f"a snapshot has at most {self.settings.snapshot_bytes_max} bytes, not {len(snapshot.state)}"
            )
        self.host.tell(events.SnapshotOffered(self.host.now(), snapshot.position, snapshot.state))

    # --- why -------------------------------------------------------------------------------------------------------

    @property
    def orders(self) -> bool:
        """Whether what is appended now can be ordered, as far as it is known here."""
        return not self.why_no_primary()

    def why_no_primary(self) -> str:
        """Why nothing is ordered, in a sentence; empty if something is."""
        if self.has_ended:
            return f"The process ended: {self.end_reason}."
        centre = self.hab.centre
        if not centre.epoch:
            return (
                "This data centre has no state: `isotone site found` begins a new system; else it waits to come back."
            )
        if centre.role is Role.OUT:
            return f"The data centre {centre.name} was declared lost: `isotone site rejoin` asks back."
        if not self.stack.replica.flow.is_primary:
            return f"Too few processes of the data centre {centre.name} are there."
        if centre.is_centre_lost(centre.leader):
            return f"The data centre {centre.leader} is lost, and nobody has taken over yet."
        if centre.role is Role.PRIMARY and not centre.has_quorum():
            return "Too few data centres are left: no majority is there."
        return ""

    def status(self) -> CentreStatus:
        """For operators."""
        return status_of(self.hab, self.streams.address, self.host.now(), self.crossed)

    # --- what the process tells --------------------------------------------------------------------------------------

    def _on_packet(self, source: str, data: bytes) -> None:
        if not self.has_ended:
            self.host.tell(events.PacketReceived(self.host.now(), source, data))

    def _on_send(self, action: events.SendPacket) -> None:
        self.crossed[KINDS[action.data[TAG_AT]]] += 1
        self.streams.send(action.to, action.data)

    def _on_deliver(self, action: events.HaDeliver) -> None:
        for entry in action.entries:
            if entry.kind is Kind.RECORD:
                name = message_name(entry.origin, entry.incarnation, entry.counter)
                self.entries.extend(entry.position, (_Ordered((entry.record,), name),))
        at_once = self.settings.mode is Mode.AT_ONCE and self.hab.centre.role is Role.PRIMARY
        for request, position in action.own:
            is_sure = not at_once or position <= self.confirmed
            self._appends.settle(request, position if is_sure else AtRisk(position))
        self._forget()
        self.tell()

    def _on_install(self, action: events.InstallState) -> None:
        position = action.snapshot.position if action.snapshot is not None else 0
        self.entries = Entries(position + 1)
        self._returns += 1
        self.life = action.life
        self.tell()

    def _on_refused(self, action: events.BroadcastRefused) -> None:
        error: IsotoneError = Maybe(action.reason) if action.perhaps else Refused(action.reason)
        self._appends.settle(action.request, error)

    def _on_standing(self, action: events.StandingChanged) -> None:
        log.info("process %s of %s: %s: %s", self.name, self.centre_name, action.role, action.why)
        self.tell()

    def _forget(self) -> None:
        """What a snapshot covers, and the centre no longer holds."""
        self.entries.forget(self.hab.centre.log.base_position)
