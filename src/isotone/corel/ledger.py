"""All durable state of a server, and how each record changes it: live and when a log is read again, by one function.

Implements: [COReL 5.5], [COReL 5.6], the variables on stable storage. Deviations: D-log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from isotone.core.contract import StoredLog
from isotone.core.errors import LocalProtocolError
from isotone.corel import records as r
from isotone.corel.checkpoint import become
from isotone.corel.configuration import Configuration, founded
from isotone.corel.proposal import Level, Proposal
from isotone.corel.queue import MessageQueue
from isotone.corel.quorum import History, Majority, Primary, Rule
from isotone.corel.snapshot import Snapshot


@dataclass
class Arriving:
    """A snapshot, piece by piece."""

    begun: r.SnapshotBegun
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0


@dataclass
class Ledger:
    """What a crash does not take, once it is written."""

    history: History
    queue: MessageQueue = field(default_factory=MessageQueue)
    life: int = 0
    identity: bytes = b""  # of this log, since its first life
    committed: int = 0  # Last_Committed_Primary
    attempted: int = 0  # Last_Attempted_Primary
    vouches: bool = True  # what was green in the last committed primary is yellow or green here, as [COReL 5.4] has it
    context: int = 0  # everything that was green before this primary was established is green here
    context_applied: int = 0  # and what order proposals made green after it, up to this one
    base: int = 0  # who is green up to here has all that was green at this level: see `level`
    set_back: bool = False  # this log has less than it promised, as was found out: it does not count
    ready: bool = True  # caught up: it may take part; false for a server that was no founder, until it has
    fence: int = 0  # how often an operator forced a primary, as far as it is known
    forced: Configuration | None = None  # the servers that the last one made the only ones
    applied: int = 0  # the last order proposal that was applied in this epoch
    proposal: Proposal | None = None  # Last_Order_Proposal
    snapshot: Snapshot | None = None  # the newest
    arriving: Arriving | None = None  # one that is not whole yet
    _checkpoint: list[r.Record] | None = None  # a checkpoint while it is read

    def __post_init__(self) -> None:
        if not self.queue.configuration.servers:
            servers = self.history.last.servers
            self.queue.configuration = founded(servers, Majority(servers))

    @classmethod
    def founded(cls, servers: Iterable[str], rule: Rule) -> Ledger:
        """Of a server with an empty disk."""
        ledger = cls(History(Primary(0, tuple(sorted(servers)))))
        ledger.queue.configuration = founded(servers, rule)
        return ledger

    @property
    def known_context(self) -> int:
        """The primary in whose context its green messages are known."""
        return max(self.committed, self.context)

    @property
    def last_number(self) -> int:
        """The highest of all primaries that it knows of, established or not."""
        known = [each.number for each in (self.history.last, *self.history.pending)]
        return max(self.attempted, self.known_context, *known)

    @property
    def level(self) -> Level:
        """The last primary, and the last order proposal applied after it, of which it has what was green before."""
        return max((self.committed, self.applied), (self.context, self.context_applied))

    def _learn(self, context: int, applied: int) -> None:
        """Green messages are here that a server at this level has."""
        self.context, self.context_applied = max((self.context, self.context_applied), (context, applied))

    @property
    def checkpoint_parts(self) -> list[r.Record]:
        """Of a checkpoint that is being read."""
        return self._checkpoint or []

    def apply(self, record: r.Record) -> None:
        """One step."""
        if isinstance(record, r.Checkpoint | r.Kept | r.KeptPiece | r.CheckpointEnded):
            self._take_checkpoint(record)
            return
        self._checkpoint = None  # a checkpoint that ends in something else was torn by a crash
        queue = self.queue
        match record:
            case r.Received(messages, yellow):
                queue.append(messages, yellow=yellow)
            case r.Greened(place):
                queue.mark_green(place)
                self._drop_passed()
            case r.Inserted(messages):
                queue.insert(messages)
            case r.Arranged():
                self._arrange(record)
            case r.Attempted(number):
                self.attempted = number
            case r.Committed(primary, proposal):
                if proposal is not None and queue.green < proposal.end:
                    self._reorder(proposal)
                self.committed = primary.number
                self.history = self.history.committed(primary)
                queue.mark_all_yellow()
                self.base, self.vouches, self.applied = queue.end, True, 0
            case r.Established(primary):
                self.history = self.history.established(primary)
                queue.mark_green(queue.yellow)
                self._drop_passed()
            case r.Forgotten(place):
                queue.forget(place)
            case r.Lived(life, identity):
                self.life, self.identity = life, identity or self.identity
                if self.arriving is not None and not self.arriving.begun.installs:
                    self.arriving = None  # it was offered here, and a crash tore the write: nobody has the rest
            case _:
                self._apply_rarely(record)

    def _apply_rarely(self, record: r.Record) -> None:
        match record:
            case r.SnapshotBegun():
                self.arriving = Arriving(record)
                self._on_piece(b"")
            case r.SnapshotPiece(data):
                self._on_piece(data)
            case r.Transferred(messages, context, applied):
                self.queue.add_green(messages)
                self.ready = self.vouches = False
                self._learn(context, applied)
                self._drop_passed()
            case r.CaughtUp(context, history, applied):
                self.history, self.ready = history, True
                self._learn(context, applied)
            case r.Forced(fence, configuration, number):
                self.fence, self.forced, self.queue.configuration = fence, configuration, configuration
                self.history = History(Primary(number, configuration.servers), (), True)
                self.attempted = max(self.attempted, number)
                self.arriving = None  # perhaps a state of the other side
                self.set_back = False  # what was promised there is given up
            case r.Founded(identities):
                self.queue.configuration = replace(self.queue.configuration, identities=identities)
            case r.SetBack():
                self.set_back = True
            case r.Proposed(proposal):
                self.proposal = proposal
            case r.Applied(proposal):
                if self.queue.green < proposal.end:
                    self._reorder(proposal)
                    self.queue.mark_green(proposal.end)
                    self._drop_passed()
                self.applied, self.proposal = proposal.number, proposal
                self.base = max(self.base, proposal.end)

    def _arrange(self, record: r.Arranged) -> None:
        """Steps 3 and 6 as one."""
        queue = self.queue
        own = {message.name: message for message in queue.between(queue.green, queue.end)}
        order = [own[name] for name in record.order]
        queue.arrange(order, green=record.green, yellow=record.yellow)
        if (record.committed, record.applied) > (self.committed, self.applied):
            self.base = record.yellow
        if record.committed >= self.committed:
            self.committed, self.vouches, self.applied = record.committed, True, record.applied
        self._learn(record.context, record.context_applied)
        self.history = record.history
        self._drop_passed()

    def _reorder(self, proposal: Proposal) -> None:
        """The proposed messages in the proposed order behind what is green, yellow; all others red."""
        queue = self.queue
        own = {message.name: message for message in queue.between(queue.green, queue.end)}
        order = [own[name] for name in proposal.names[queue.green - proposal.after :]]
        queue.arrange(order, green=queue.green, yellow=proposal.end)

    def _on_piece(self, data: bytes) -> None:
        assert self.arriving is not None, "a piece follows its head"
        arriving, begun = self.arriving, self.arriving.begun
        arriving.pieces.append(data)
        arriving.size += len(data)
        if arriving.size < begun.head.size:
            return
        self.arriving = None
        self.snapshot = Snapshot(begun.head, b"".join(arriving.pieces))
        if begun.installs:
            head, queue = begun.head, self.queue
            queue.leap(head.place, head.records, dict(head.counters), head.configuration, head.changed_at)
            queue.lamport = max(queue.lamport, head.lamport)
            self.ready = self.vouches = False
            self._learn(begun.context, begun.applied)

    def _drop_passed(self) -> None:
        """Half a state is not needed any more when all that it stands for came by messages."""
        if self.arriving is not None and self.arriving.begun.head.place <= self.queue.green:
            self.arriving = None

    def _take_checkpoint(self, record: r.Record) -> None:
        if isinstance(record, r.Checkpoint):
            self._checkpoint = [record]
            return
        assert self._checkpoint is not None, "a checkpoint is written in one piece"
        if not isinstance(record, r.CheckpointEnded):
            self._checkpoint.append(record)
            return
        parts, self._checkpoint = self._checkpoint, None
        become(self, parts)
        self.arriving = None

    def restore(self, log: StoredLog) -> None:
        """Read the log. A checkpoint at its end that is not whole is as if it were not there."""
        if log.damaged:
            numbers = ", ".join(map(str, log.damaged))
            raise LocalProtocolError(f"the log is damaged at {numbers}: it must be repaired from another server")
        for data in log.records:
            self.apply(r.decode_record(data))
        self._checkpoint = None
        self.queue.taken.clear()
