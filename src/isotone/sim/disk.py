"""A simulated disk: group commit, delay, failure, a full disk, and what a crash leaves behind.

One disk serves all automata of one process; each automaton sees only its own cells and logs, as if it had a directory
of its own. Writes wait in order; one sync covers all that wait when it begins, so many `Persist` commit together.

A crash resolves the writes that no finished sync covers as adversarially as the contract allows: of each log a prefix
of the waiting operations survives (a torn record counts as never written), and each cell independently holds its old
value or any of the values that were on their way. What a finished sync covered always survives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from isotone.core.choice import Choice
from isotone.core.contract import Append, CutHead, CutTail, Put, Storage, StoredLog, Write
from isotone.sim.ranges import check_ranges

FIRST_RECORD = 1
DISK_FULL = "disk full"


class DiskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a disk behaves. A sync takes ``sync_us`` plus up to ``jitter_us``, and rarely up to ``tail_us`` more."""

    sync_us: int = 500
    jitter_us: int = 500
    tail_probability: float = 0.01
    tail_us: int = 20_000
    failure: float = 0.0
    """The probability that a sync fails and all it covers with it."""
    hangs: bool = False
    """A sync that would end now does not: it ends when the disk no longer hangs."""
    capacity_bytes: int | None = None
    """A sync that would take more than this is refused, as by a full disk."""

    def __post_init__(self) -> None:
        check_ranges(self, probabilities=("tail_probability", "failure"), amounts=("sync_us", "jitter_us", "tail_us"))

    def delay_us(self, choice: Choice) -> int:
        """How long one sync takes."""
        delay = self.sync_us + choice.below(self.jitter_us + 1)
        if choice.chance(self.tail_probability):
            delay += choice.below(self.tail_us + 1)
        return delay


class _Log:
    """A log's durable records, numbered from ``first``."""

    __slots__ = ("damaged", "first", "records")

    def __init__(self) -> None:
        self.first = FIRST_RECORD
        self.records: list[bytes] = []
        self.damaged: set[int] = set()

    def append(self, record: bytes) -> None:
        self.records.append(record)

    def cut_head(self, before: int) -> None:
        gone = min(max(before - self.first, 0), len(self.records))
        del self.records[:gone]
        self.first += gone
        self.damaged = {number for number in self.damaged if number >= self.first}

    def cut_tail(self, start: int) -> None:
        del self.records[max(start - self.first, 0) :]
        end = self.first + len(self.records)
        self.damaged = {number for number in self.damaged if number < end}

    def stored(self) -> StoredLog:
        records = list(self.records)
        for number in self.damaged:
            records[number - self.first] = b""
        return StoredLog(self.first, tuple(records), tuple(sorted(self.damaged)))


class Submission(msgspec.Struct, frozen=True, gc=False):
    """The writes of one `Persist` of one automaton."""

    label: str
    ticket: int
    writes: Sequence[Write]


class Disk:
    """The durable state of one process name, through all its incarnations, and the writes on their way to it."""

    def __init__(self, settings: DiskSettings, choice: Choice) -> None:
        self.settings = settings
        self.syncs = 0
        self._choice = choice
        self._cells: dict[tuple[str, str], bytes] = {}
        self._logs: dict[tuple[str, str], _Log] = {}
        self._waiting: list[Submission] = []
        self._covered: list[Submission] = []  # by the sync that runs; all older than what waits
        self.syncing = False

    # --- life of a sync ------------------------------------------------------------------------------------------

    def submit(self, submission: Submission) -> None:
        """Take writes; nothing of them is durable before a sync that began later has ended."""
        self._waiting.append(submission)

    @property
    def is_due(self) -> bool:
        """Whether something waits and no sync runs."""
        return bool(self._waiting) and not self.syncing

    def begin_sync(self) -> int:
        """Cover all that waits; returns how long the sync takes."""
        assert self.is_due
        self.syncing = True
        self._covered, self._waiting = self._waiting, []
        return self.settings.delay_us(self._choice)

    def end_sync(self) -> tuple[list[Submission], str]:
        """Make durable what the sync covers, or say why it failed."""
        covered, self._covered = self._covered, []
        self.syncing = False
        self.syncs += 1
        reason = self._refusal(covered)
        if not reason:
            self._apply(_flat(covered))
        elif reason != DISK_FULL:  # nothing is known about the writes of a failed sync; on a full disk they had no room
            self._resolve(covered)
        return covered, reason

    def forget(self, label: str) -> None:
        """Drop the waiting writes of one automaton, since they stand behind a failure and never happen."""
        self._waiting = [submission for submission in self._waiting if submission.label != label]

    @property
    def is_settled(self) -> bool:
        """Whether nothing is on its way."""
        return not (self._waiting or self._covered)

    def crash(self) -> None:
        """Resolve what was not synced: prefixes of logs, old or new cells."""
        self._resolve(self._covered + self._waiting)
        self._reset()

    def _reset(self) -> None:
        self._covered, self._waiting, self.syncing = [], [], False

    # --- content -------------------------------------------------------------------------------------------------

    def storage(self, label: str) -> Storage:
        """What one automaton finds when it starts."""
        cells = {name: value for (owner, name), value in self._cells.items() if owner == label}
        logs = {name: log.stored() for (owner, name), log in self._logs.items() if owner == label}
        return Storage(cells, logs)

    def hold(self, label: str, writes: Iterable[Write]) -> None:
        """What an operator writes for one automaton while no process runs, or what it has from before the run."""
        self._apply((label, write) for write in writes)

    def lose(self, label: str) -> None:
        """All that one automaton had is gone, as with a disk that is replaced while it does not run."""
        self._cells = {key: value for key, value in self._cells.items() if key[0] != label}
        self._logs = {key: log for key, log in self._logs.items() if key[0] != label}

    def damage(self, label: str, log: str, number: int) -> None:
        """Make one durable record unreadable, as a medium does that rots."""
        found = self._logs[label, log]
        assert found.first <= number < found.first + len(found.records), f"log {log!r} has no record {number}"
        found.damaged.add(number)

    def used_bytes(self) -> int:
        """The size of all that is durable."""
        cells = sum(map(len, self._cells.values()))
        return cells + sum(len(record) for log in self._logs.values() for record in log.records)

    def _refusal(self, covered: Sequence[Submission]) -> str:
        capacity = self.settings.capacity_bytes
        if capacity is not None and self.used_bytes() + sum(_size(write) for _, write in _flat(covered)) > capacity:
            return DISK_FULL
        return "disk failed" if self._choice.chance(self.settings.failure) else ""

    def _apply(self, writes: Iterable[tuple[str, Write]]) -> None:
        for label, write in writes:
            if isinstance(write, Put):
                self._cells[label, write.cell] = bytes(write.value)
                continue
            log = self._logs.setdefault((label, write.log), _Log())
            match write:
                case Append(_, record):
                    log.append(bytes(record))
                case CutHead(_, before):
                    log.cut_head(before)
                case CutTail(_, start):
                    log.cut_tail(start)

    def _resolve(self, submissions: Sequence[Submission]) -> None:
        cells: dict[tuple[str, str], list[Write]] = {}
        logs: dict[tuple[str, str], list[Write]] = {}
        for label, write in _flat(submissions):
            if isinstance(write, Put):
                cells.setdefault((label, write.cell), []).append(write)
            else:
                logs.setdefault((label, write.log), []).append(write)
        for (label, _), versions in cells.items():
            survivor = self._choice.below(len(versions) + 1)
            self._apply([(label, version) for version in versions[:survivor]])
        for (label, _), operations in logs.items():
            survivors = self._choice.below(len(operations) + 1)
            self._apply([(label, operation) for operation in operations[:survivors]])


def _size(write: Write) -> int:
    match write:
        case Put(_, value):
            return len(value)
        case Append(_, record):
            return len(record)
    return 0


def _flat(submissions: Sequence[Submission]) -> Iterator[tuple[str, Write]]:
    for submission in submissions:
        for write in submission.writes:
            yield submission.label, write
