"""Catching up: a server without all that others have fetches it, parcel by parcel, and only then takes part.

It asks for a few parcels, writes them, waits as its pace demands, and asks for what follows. What it has green
it never asks for again; if the server that it asks says nothing for a while, it asks another. It is in no hurry to
leave one that helped: another may have another state, of which half of this one is no part, or have forgotten what
comes next.

A server that is late only, and votes, fetches *ahead*: the same messages, kept red, so that no promise is touched. It
asks those alone who still have them, and takes no state.

Implements: docs/protocols/corel-growth.md, state transfer. Deviations: D-late.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.contract import Action, CancelTimer, Record, SetTimer
from isotone.core.errors import RemoteProtocolError
from isotone.corel import records as r
from isotone.corel import telling
from isotone.corel.events import DeliverRed, InstallSnapshot
from isotone.corel.journal import Journal
from isotone.corel.ledger import Arriving
from isotone.corel.quorum import merged
from isotone.corel.rounds import LAG_MAX
from isotone.corel.session import Session
from isotone.corel.settings import ReplicaSettings
from isotone.corel.snapshot import digest_of
from isotone.corel.wire import Fetch, Fetched, FetchedHead, FetchedPiece, FetchRefused
from isotone.trace import corel as trace

PULL = "pull"  # nobody answered
PACE = "pace"  # it is time to ask for more
PULL_US = 400_000
IDLE_US = 50_000
PARCELS_ASKED = 8
SILENCES_MAX = 5  # so often a server that helped is asked again before another one is


@dataclass
class Learner:
    """Of one server; active while it stands in a view and does not take part."""

    settings: ReplicaSettings
    journal: Journal
    session: Session
    active: bool = False
    refusals: dict[str, str] = field(default_factory=dict)  # by server, why it cannot help
    received: int = 0  # bytes since the last request
    _ahead: tuple[str, ...] = ()  # it need not catch up to take part: it fetches from these what they would wait for
    _reached: int = 0  # it has everything up to this place of the order, green or not
    _goal: int = 0  # where the green line of others stood when this was last asked …
    _gap: int = 0  # … and how many messages of that were not here then
    _asked: str = ""  # the server that was asked last, or is now in turn
    _heard: bool = False  # something was taken since the timer was set
    _has_helped: bool = False  # this server
    _silences: int = 0  # how often the timer ran out since it did

    def begin(self, *, ahead: tuple[str, ...] = ()) -> list[Action]:
        """Ask somebody; or one of these, for messages to keep red, since this server votes and vouches as before."""
        self.active, self._ahead = True, ahead
        self._goal = self._gap = 0
        return self._ask()

    def end(self) -> list[Action]:
        """It takes part, or the view is over."""
        if not self.active:
            return []
        self.active, self._ahead = False, ()
        return [CancelTimer(PULL), CancelTimer(PACE)]

    def teachers(self) -> list[str]:
        """Who may help: those who take part in the view. Others may know no more than this server does."""
        return [server for server in self._ahead or self.session.servers if server != self.settings.server]

    @property
    def teacher(self) -> str:
        """Whom it asks next; there must be one."""
        teachers = self.teachers()
        return next((each for each in teachers if each >= self._asked), teachers[0])

    def _turn(self) -> None:
        """Another one comes next."""
        if teachers := self.teachers():
            self._asked = next((each for each in teachers if each > self.teacher), teachers[0])
        self._has_helped, self._silences = False, 0

    def on_timer(self, key: str) -> list[Action]:
        """Ask for more; or, if the one that was asked says nothing, ask the next one."""
        if not self.active:
            return []
        if key == PULL:
            if self._heard or self.journal.under_way:  # the rest is on its way, or our own disk is slow
                self._heard = False
                return [SetTimer(PULL, PULL_US)]
            self._silences += 1
            if not self._has_helped or self._silences > SILENCES_MAX:
                self._turn()
        return self._ask()

    def _hear(self, size: int) -> None:
        """So many bytes were taken."""
        self.received += size
        self._heard, self._has_helped, self._silences = True, True, 0

    def _ask(self) -> list[Action]:
        teachers, ledger = self.teachers(), self.journal.ledger
        self.received, self._heard = 0, False
        if not teachers:
            return [SetTimer(PULL, PULL_US)]
        self._asked = self.teacher
        position, offset, digest = 0, 0, b""
        if ledger.arriving is not None:
            head = ledger.arriving.begun.head
            position, offset, digest = head.position, ledger.arriving.size, head.digest
        self._reached = max(self._reached, ledger.queue.green)
        server, after = self.settings.server, self._reached if self._ahead else ledger.queue.green
        fetch = Fetch(server, after, position, offset, PARCELS_ASKED, ledger.fence, digest)
        return [self.session.send_to(self.teacher, fetch), SetTimer(PULL, PULL_US)]

    # --- answers ---------------------------------------------------------------------------------------------------

    def on_message(self, sender: str, message: object) -> tuple[list[Action], bool]:
        """What to do; and whether it has caught up now."""
        if not self.active:
            return [], False
        match message:
            case Fetched() | FetchedHead() if not self._is_fenced_alike(message):
                return [], False
            case Fetched():
                return self._on_ahead(message) if self._ahead else self._on_fetched(message)
            case FetchedHead() | FetchedPiece() | FetchRefused() if self._ahead:
                return [], sender in self._ahead  # it forgot them since: a round says whether anybody has them
            case FetchedHead():
                return self._on_head(message), False
            case FetchedPiece():
                return self._on_piece(message), False
            case FetchRefused(reason=reason):
                self.refusals[sender] = reason
                self._turn()
                return [SetTimer(PACE, IDLE_US)], False
        raise RemoteProtocolError(f"{sender} sent {type(message).__name__} to one that catches up")

    def _is_fenced_alike(self, message: Fetched | FetchedHead) -> bool:
        """Whether it is from this side of the last fence; who has nothing green yet comes over to the sender's."""
        ledger = self.journal.ledger
        if message.fence > ledger.fence and message.forced is not None and not ledger.queue.green:
            told = Record(trace.Fenced(self.settings.server, message.fence, message.forced.servers))
            self.journal.write(r.Forced(message.fence, message.forced), told)
            self._reached = 0
        return message.fence == ledger.fence

    def _on_head(self, fetched: FetchedHead) -> list[Action]:
        head, ledger = fetched.head, self.journal.ledger
        if head.place <= ledger.queue.green:
            return []  # it comes late: another server helped meanwhile
        known = ledger.arriving.begun.head if ledger.arriving is not None and ledger.arriving.size else None
        if known is not None and (known.position, known.digest) == (head.position, head.digest):
            return []  # it comes again: what is here already stays
        self.journal.write(r.SnapshotBegun(head, True, fetched.context, fetched.applied))
        return self._written() if head.size == 0 else self.journal.flush()

    def _on_fetched(self, fetched: Fetched) -> tuple[list[Action], bool]:
        ledger, server = self.journal.ledger, self.settings.server
        queue = ledger.queue
        actions: list[Action] = []
        self.refusals.clear()
        if fetched.messages and fetched.after == queue.green:
            before, records_before = queue.green, queue.green_records
            self._hear(sum(message.size for message in fetched.messages))
            level = (fetched.context, fetched.applied)
            self.journal.write(r.Transferred(fetched.messages, *level))
            told = telling.greened(server, ledger, before, records_before, level=level)
            actions = [*self.journal.flush(), telling.arranged(server, ledger), *told]
        if not fetched.last:
            return actions, False
        near = fetched.green - queue.green <= LAG_MAX
        known = (fetched.context, fetched.applied) >= ledger.level
        if near and known and queue.green >= fetched.base:
            history = merged([ledger.history, fetched.history])
            self.journal.write(r.CaughtUp(fetched.context, history, fetched.applied))
            return [*actions, *self.journal.flush()], True
        if not self.received:
            self._turn()  # this one knows no more; another one may
        return [CancelTimer(PULL), *actions, SetTimer(PACE, self._pause_us())], False

    def _on_ahead(self, fetched: Fetched) -> tuple[list[Action], bool]:
        """Green messages of others, behind all that is here, red: no line moves, and no promise is touched [D-red]."""
        queue = self.journal.ledger.queue
        actions: list[Action] = []
        self.refusals.clear()
        if fetched.messages and fetched.after == self._reached:
            self._hear(sum(message.size for message in fetched.messages))
            new = tuple(message for message in fetched.messages if not queue.has(message.name))
            if new:
                told = Record(trace.Reddened(self.settings.server, telling.names(new)))
                self.journal.write(r.Received(new, yellow=False), told, DeliverRed(new))
                actions = self.journal.flush()
            self._reached += len(fetched.messages)
        if not fetched.last:
            return actions, False
        if self._is_near(fetched.green):
            return actions, True
        if not self.received:
            self._turn()
        return [CancelTimer(PULL), *actions, SetTimer(PACE, self._pause_us())], False

    def _is_near(self, green: int) -> bool:
        """Whether little is left; or so much comes meanwhile that waiting does not make it much less."""
        gap = green - self._reached
        if gap <= LAG_MAX:
            return True
        if self._reached < self._goal:
            return False
        is_lost, self._goal, self._gap = self._goal > 0 and 2 * gap > self._gap, green, gap
        return is_lost

    def _on_piece(self, piece: FetchedPiece) -> list[Action]:
        arriving = self.journal.ledger.arriving
        head = arriving.begun.head if arriving else None
        actions: list[Action] = []
        awaited = (head.position, head.digest, arriving.size) if head and arriving else None
        if arriving is not None and awaited == (piece.position, piece.digest, piece.offset):
            self._hear(len(piece.data))
            actions = self._take(arriving, piece.data)
        if piece.last:
            return [CancelTimer(PULL), *actions, SetTimer(PACE, self._pause_us())]
        return actions

    def _take(self, arriving: Arriving, data: bytes) -> list[Action]:
        """The next piece; if it is the last, and all of them are not what the head names, all is asked for again."""
        head = arriving.begun.head
        if arriving.size + len(data) >= head.size and digest_of(b"".join([*arriving.pieces, data])) != head.digest:
            self._turn()
            self.journal.write(arriving.begun)
            return self.journal.flush()
        self.journal.write(r.SnapshotPiece(data))
        return self._written() if self.journal.is_whole else self.journal.flush()

    def _written(self) -> list[Action]:
        """The snapshot is whole: the application's state is this now."""
        ledger, server = self.journal.ledger, self.settings.server
        snapshot = ledger.snapshot
        assert snapshot is not None
        head, digest = snapshot.head, telling.state_digest(snapshot.state, snapshot.head.meaning)
        entry = trace.StateInstalled(server, head.place, head.position, digest, ledger.queue.configuration.servers)
        told = [Record(entry), telling.arranged(server, ledger)]
        return [*self.journal.flush(), *told, InstallSnapshot(head.position, snapshot.state)]

    def _pause_us(self) -> int:
        """What the pace demands after what came."""
        return max(IDLE_US if not self.received else 0, self.received * 1_000_000 // self.settings.transfer_bytes_per_s)
