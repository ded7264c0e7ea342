"""The thread that writes a store: all that waits when it looks is one group commit, answered in order.

`submit` and the answers belong to the loop's thread. Writes that stand behind a failure are not done: the failure is
answered to every one that was handed in before it became known, as the contract says. The thread outlives every
failure, also a bug: then the store is given up, and that is the answer from then on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import NamedTuple

from isotone.core.errors import MachineError
from isotone.daemon.committing import CommitThread
from isotone.host.store import Store
from isotone.host.writes import StoreWrite, checked_size

COMMIT_BYTES_MAX = 8 * 1024 * 1024
"""A group commit takes no more once it has so much."""
WAITING_BYTES_MAX = 256 * 1024 * 1024
"""What waits for the disk; more is an error, since the caller should have stopped long before. Of one `Persist` no more
than a group commit counts: a state that is written again is as large as it is."""

Answer = Callable[[str], object]
"""Called with the reason of a failure, or nothing."""
Deliver = Callable[[Callable[[], None]], object]
"""Has something called in the loop's thread."""


class Waiting(NamedTuple):
    """One `Persist`."""

    writes: Sequence[StoreWrite]
    size: int
    epoch: int
    answer: Answer


class Disk:
    """One store and its thread."""

    def __init__(self, store: Store, deliver: Deliver) -> None:
        self.commits = 0
        self.waiting_bytes = 0
        self._counted = 0  # of them, for the bound
        self._store = store
        self._deliver = deliver
        self._since: deque[float] = deque()  # when each of those that wait was handed in
        self._epoch = 0  # counts failures that were answered
        self._failed_reason = ""
        self._failed_epoch = -1  # the thread's: what was submitted in this epoch stands behind a failure
        self._thread: CommitThread[Waiting] = CommitThread(
            "isotone-store",
            self._commit,
            size_of=lambda waiting: waiting.size,
            bytes_max=COMMIT_BYTES_MAX,
            idle=self._idle,
        )

    @property
    def syncs(self) -> int:
        """How often the disk was asked to sync."""
        return self._store.files.syncs

    @property
    def failed(self) -> str:
        """Why nothing is written any more."""
        return self._store.failed

    def submit(self, writes: Sequence[StoreWrite], answer: Answer) -> None:
        """Make these durable, after all before them."""
        size = checked_size(writes)
        counted = min(size, COMMIT_BYTES_MAX)
        if self._counted + counted > WAITING_BYTES_MAX and self._counted:
            raise MachineError(f"the disk is too slow: {self.waiting_bytes} bytes wait for it already")
        self.waiting_bytes += size
        self._counted += counted
        self._since.append(monotonic())
        self._thread.put(Waiting(writes, size, self._epoch, answer))

    def waited_s(self) -> float:
        """How long the oldest write has waited without any answer of the disk; 0 if none does."""
        return monotonic() - max(self._since[0], self._store.files.answered_s) if self._since else 0.0

    def close(self) -> None:
        """Finish what was asked for, and end; the store stays open."""
        self._thread.close()

    # --- the thread's side -----------------------------------------------------------------------------------------

    def _commit(self, batch: list[Waiting]) -> None:
        behind = [each for each in batch if each.epoch == self._failed_epoch]
        rest = [each for each in batch if each.epoch != self._failed_epoch]
        reason = ""
        if rest:
            try:
                self._store.commit([write for each in rest for write in each.writes])
                self.commits += 1
            except MachineError as error:
                reason = str(error)
            except Exception as error:  # a bug, or no memory: who waits must hear of it all the same
                reason = self._store.give_up(error)
        if reason:
            self._failed_reason, self._failed_epoch = reason, rest[0].epoch
        for share, outcome in ((behind, self._failed_reason), (rest, reason)):
            if share:
                self._deliver(partial(self._answer, share, outcome))

    def _idle(self) -> None:
        try:
            self._store.tell_synced()
        except Exception as error:
            self._store.give_up(error)

    # --- the loop's side -------------------------------------------------------------------------------------------

    def _answer(self, batch: list[Waiting], reason: str) -> None:
        for each in batch:
            self.waiting_bytes -= each.size
            self._counted -= min(each.size, COMMIT_BYTES_MAX)
            self._since.popleft()
        if reason and batch and batch[0].epoch == self._epoch:
            self._epoch += 1
        for each in batch:
            each.answer(reason)
