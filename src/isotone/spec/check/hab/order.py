"""The one order, as all processes tell it: integrity, total order, and what a primary delivers in waiting mode.

A life is *lost* if a declaration against it became effective, here or elsewhere, or the centre ended by a disaster. A
centre that finds itself out though nobody but itself says so is not lost: nothing excuses what it delivered. Lost
lives may have delivered what nobody else has; their order counts among themselves only for what a primary delivered in
waiting mode, which must stay.

Two promises hold for lost lives too: what a process knows to be confirmed is the same everywhere, and the processes of
one centre, in one life of it, deliver the same.

Implements: [HAB 2.3], [HAB 2.4], [HAB 3.1]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from isotone.spec.check.account import Account
from isotone.spec.check.hab.lives import Life, event_of
from isotone.spec.verdicts import EventId
from isotone.trace import hab as trace
from isotone.trace.events import Row


class DeliveredOrder:
    """Position by position: the message, as those say who are not lost."""

    def __init__(self, lives: Sequence[Life], rows: Sequence[Row], account: Account, at_rest: Set[str]) -> None:
        """``at_rest``: who lives at the end of a run that came to rest."""
        self.agreed: dict[int, str] = {}
        self._at_rest = at_rest
        self._lives = lives
        self._account = account
        self._broadcasts = {
            row.entry.message: (event_of(row), row.entry.digest)
            for row in rows
            if isinstance(row.entry, trace.HaBroadcast)
        }
        self._declared = {
            (row.entry.lost, row.entry.number)
            for row in rows
            if isinstance(row.entry, trace.HaDeclared) and row.entry.effective
        }
        self._accused = {
            row.entry.lost
            for row in rows
            if isinstance(row.entry, trace.HaDeclared) and row.entry.effective and row.entry.recorders
            if not row.entry.confessed
        }
        self._overridden = {
            (row.entry.lost, row.entry.number)
            for row in rows
            if isinstance(row.entry, trace.HaDeclared) and row.entry.effective and row.entry.override
        }
        self._struck = {row.entry.centre for row in rows if isinstance(row.entry, trace.HaDisaster)}
        self._first: dict[int, EventId] = {}
        self._places: dict[str, tuple[int, EventId]] = {}

    def is_lost(self, life: Life) -> bool:
        """Whether the centre was lost in this life. Who takes part at the end is not, though others declared it."""
        if life.process in self._at_rest and life.is_last and life.out is None:
            return False
        if life.centre in self._struck and not life.is_last:
            return True
        if life.out is not None:
            return life.centre in self._accused
        numbers = {row.entry.number for row in life.rows if isinstance(row.entry, trace.HaRole | trace.HaDelivered)}
        return any((life.centre, number) in self._declared for number in numbers)

    def shared(self, life: Life) -> tuple[int, int]:
        """How many of its deliveries, and up to which position what it knew to be confirmed, others must have.

        If it went on by an override and was then lost by an override, nobody need have what it had since then.
        """
        numbers = {row.entry.number for row in life.rows if isinstance(row.entry, trace.HaRole | trace.HaDelivered)}
        if life.alone is not None and any((life.centre, number) in self._overridden for number in numbers):
            return life.alone
        return len(life.delivered), life.confirmed

    def judge(self, *, owes: bool) -> None:
        """All of it; ``owes``: the run came to rest, so whatever is to stay is there."""
        for life in self._lives:
            self._judge_integrity(life)
            if not self.is_lost(life):
                self._judge_order(life)
        for life in self._lives:
            if self.is_lost(life):
                self._judge_lost(life, self._reached() if owes else None)
        self._judge_centres()
        self._judge_confirmed()

    def _reached(self) -> int:
        """The last position of those who are not lost."""
        return max((life.end for life in self._lives if not self.is_lost(life)), default=0)

    def _judge_integrity(self, life: Life) -> None:
        last, seen = life.base, dict[str, EventId]()
        for position, message, digest, event, _, _ in life.delivered:
            self._account.exercised.add("INTEGRITY")
            if message in seen:
                self._account.accuse("INTEGRITY", (seen[message], event), f"{life.process} delivers {message} twice.")
            seen[message] = event
            sent = self._broadcasts.get(message)
            if sent is None:
                self._account.accuse("INTEGRITY", (event,), f"{message} is delivered and was never broadcast.")
            elif sent[1] != digest:
                text = f"{message} has other contents than were broadcast."
                self._account.accuse("INTEGRITY", (sent[0], event), text)
            if position != last + 1:
                text = f"{life.process} delivers position {position} behind {last}."
                self._account.accuse("ORDER", (event,), text)
            last = position

    def _judge_order(self, life: Life) -> None:
        for position, message, _, event, _, _ in life.delivered:
            known = self.agreed.setdefault(position, message)
            first = self._first.setdefault(position, event)
            if first != event:
                self._account.exercised.add("ORDER")
            if known != message:
                text = f"position {position} has {known} and {message}."
                self._account.accuse("ORDER", (first, event), text)
            place, other = self._places.setdefault(message, (position, event))
            if place != position:
                text = f"{message} has the positions {place} and {position}."
                self._account.accuse("ORDER", (other, event), text)

    def _judge_lost(self, life: Life, reached: int | None) -> None:
        """What the primary of a lost centre delivered in waiting mode stays: those who go on have it there."""
        count, _ = self.shared(life)
        for position, message, _, event, role, _ in life.delivered[:count]:
            if role != "primary":
                continue
            known = self.agreed.get(position)
            if known is None:
                if reached and position > reached:
                    text = f"{life.process} delivered {message} as primary at {position}; the others end at {reached}."
                    self._account.accuse("WAITING", (event,), text)
                continue
            self._account.exercised.add("WAITING")
            if known != message:
                text = f"{life.process} delivered {message} as primary at {position}, where the others have {known}."
                self._account.accuse("WAITING", (event, self._first[position]), text)

    def _judge_centres(self) -> None:
        """The processes of one centre, in one life of it, lost or not."""
        first: dict[tuple[str, int, int], tuple[Life, str, EventId]] = {}
        for life in self._lives:
            for position, message, _, event, _, _ in life.delivered:
                other, known, at = first.setdefault((life.centre, life.life, position), (life, message, event))
                if other.process != life.process:
                    self._account.exercised.add("LOCAL")
                if known != message:
                    text = f"{other.process} delivers {known} at {position}, and {life.process} {message}."
                    self._account.accuse("LOCAL", (at, event), text)

    def _judge_confirmed(self) -> None:
        """What anybody knew to be confirmed, against all who know that too, and all who are not lost."""
        kept: dict[int, tuple[str, EventId, str]] = {}
        for life in self._lives:
            for position, message, event in self._confirmed(life):
                kept.setdefault(position, (message, event, life.process))
        for life in self._lives:
            judged = (
                self._confirmed(life)
                if self.is_lost(life)
                else ((each[0], each[1], each[3]) for each in life.delivered)
            )
            for position, message, event in judged:
                if position not in kept:
                    continue
                known, at, process = kept[position]
                if process != life.process:
                    self._account.exercised.add("CONFIRMED")
                if known != message:
                    text = (
                        f"{process} knew that {known} is confirmed at {position}, where {life.process} has {message}."
                    )
                    self._account.accuse("CONFIRMED", (at, event), text)

    def _confirmed(self, life: Life) -> Iterator[tuple[int, str, EventId]]:
        confirmed = self.shared(life)[1] if self.is_lost(life) else life.confirmed
        for position, message, _, event, _, _ in life.delivered:
            if position <= confirmed:
                yield position, message, event
