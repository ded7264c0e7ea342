"""Helping a server that catches up: green messages from a place on, or a snapshot where they are forgotten.

Each request says what its sender has, so that a transfer goes on with any server, after any crash; what is remembered
about who asks is only which state must stay (`isotone.corel.lending`). A request looks at what is sent and no more: a
long order costs no more in many requests than in one.

Implements: docs/protocols/corel-growth.md, state transfer. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from isotone.core.contract import Action
from isotone.core.ids import ClientId
from isotone.corel.checkpoint import in_chunks
from isotone.corel.ledger import Ledger
from isotone.corel.lending import Lending
from isotone.corel.session import Session
from isotone.corel.snapshot import PIECE_BYTES_MAX, Snapshot
from isotone.corel.wire import Fetch, Fetched, FetchedHead, FetchedPiece, FetchRefused

PARCEL_BYTES_MAX = 32 * 1024
PARCELS_MAX = 32


@dataclass
class Teacher:
    """Answers requests; of the ledger it only reads."""

    ledger: Ledger
    session: Session
    lending: Lending

    def on_fetch(self, sender: ClientId, fetch: Fetch) -> list[Action]:
        """Send what is asked for, at most so many parcels."""
        ledger, queue = self.ledger, self.ledger.queue
        if not ledger.ready:
            return self._refuse(sender, "it is catching up itself")
        if fetch.fence > ledger.fence:
            return self._refuse(sender, "it does not know of a primary that an operator forced")
        if fetch.after and fetch.fence < ledger.fence:
            return self._refuse(sender, "an operator forced a primary since the first of it was learned")
        if fetch.after >= queue.forgotten:
            return self._send_messages(sender, fetch)
        snapshot = self.lending.snapshot_for(fetch.position, fetch.digest)
        if snapshot is None or snapshot.head.place < queue.forgotten:
            return self._refuse(sender, f"it forgot the messages before {queue.forgotten + 1} and has no snapshot")
        self.lending.lend(sender.name, snapshot)
        return self._send_snapshot(sender, fetch, snapshot)

    def _refuse(self, sender: ClientId, reason: str) -> list[Action]:
        return [self.session.answer(sender, FetchRefused(reason))]

    def _send_messages(self, sender: ClientId, fetch: Fetch) -> list[Action]:
        ledger, queue = self.ledger, self.ledger.queue
        after = min(fetch.after, queue.green)
        parcels = []
        for messages in in_chunks(queue.walk(after, queue.green), PARCEL_BYTES_MAX):
            parcels.append(messages)
            if len(parcels) >= min(fetch.parcels, PARCELS_MAX):
                break
        actions: list[Action] = []
        for number, messages in enumerate(parcels or [()], 1):
            last = number >= len(parcels)
            context, applied = ledger.level
            lines = (queue.green, context, self._base(), ledger.history, ledger.fence, ledger.forced)
            actions.append(self.session.answer(sender, Fetched(after, messages, *lines, last, applied)))
            after += len(messages)
        return actions

    def _base(self) -> int:
        """Who has everything green up to here has all that was green at its level."""
        ledger = self.ledger
        return ledger.base if (ledger.committed, ledger.applied) == ledger.level else ledger.queue.green

    def _send_snapshot(self, sender: ClientId, fetch: Fetch, snapshot: Snapshot) -> list[Action]:
        ledger, head, state = self.ledger, snapshot.head, snapshot.state
        same = (fetch.position, fetch.digest, fetch.fence) == (head.position, head.digest, ledger.fence)
        start = fetch.offset if same and fetch.offset < len(state) else 0
        actions: list[Action] = []
        if start == 0:
            actions.append(self.session.answer(sender, FetchedHead(head, *ledger.level, ledger.fence, ledger.forced)))
        stop = min(len(state), start + min(fetch.parcels, PARCELS_MAX) * PIECE_BYTES_MAX)
        for offset in range(start, stop, PIECE_BYTES_MAX):
            data = state[offset : offset + PIECE_BYTES_MAX]
            last = offset + len(data) >= stop
            actions.append(self.session.answer(sender, FetchedPiece(head.position, offset, data, last, head.digest)))
        return actions
