"""Stamping: what waits at a daemon gets its place in the site's sequence when the token comes.

Implements: [Spread 4.1, 5.1], assignment of seq and lts; the global flow control that the thesis promises only.
Deviations: D-window a daemon stops stamping while more than its share of the site's window is not yet stable, because
link windows alone do not bound the memory behind a slow but live site (DESIGN 3). D-hold what crosses a link is not
stamped while units of its site wait for room on that link, because whatever is stamped holds up everything of a later
time until it has arrived everywhere: bulk waits before it is stamped, not behind. What crosses other links only, or
none, goes on. Sessions take turns; fragments of large messages are stamped when nothing else waits. D-tick units stand
at multiples of `TICK` and fragments in between, so that bulk does not drive the clock of its site ahead of the others',
which would all have to catch up before anything of that time is delivered. D-forget only so many private names are
remembered. Whoever sends under a name that was forgotten, or is new, stands behind an AGREED or SAFE unit stamped here
after all that was forgotten: who delivered that one has delivered these. D-cut what is below AGREED names the last
cut (join, leave, kill) up to which everything was received here: see `isotone.evs.ordering.delivery`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import msgspec

from isotone.core.services import Service
from isotone.evs.links.contract import Frame, frame_of
from isotone.evs.links.fragments import OPEN_MAX
from isotone.evs.links.ring.token import Origination
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.units import BEFORE_ALL, Position, Unit, UnitKind, encode_unit

if TYPE_CHECKING:
    from isotone.evs.ordering.large import LargeMessage

UNIT_FRAME = 1
BULK_FRAME = 4  # a unit too, but a fragment of a large message: links let others overtake it
UNIT_OVERHEAD_BYTES = 64
UNLIMITED = 1 << 62
NAMES_MAX = 65_536  # whose past is remembered in a daemon view: D-forget
LINKS = (1 << 64) - 1  # the bits of links that content may cross
PLACE = 1 << 64  # the bit of what crosses every link even if its content does not: the unit's place in the order
BULK = -1  # all links, in the turns of fragments
TICK = 1024  # the Lamport clock goes on by so much for a unit, and by 1 for a fragment of a large message: D-tick


class Draft(msgspec.Struct, frozen=True, gc=False):
    """What a session wants stamped; drafts of one session are stamped in their order."""

    session: str
    kind: UnitKind
    service: Service
    body: bytes | memoryview
    large: LargeMessage | None = None  # the whole of which this is a fragment


def frame_kind(unit: Unit) -> int:
    """The kind of frame in which a unit travels."""
    return BULK_FRAME if unit.kind is UnitKind.FRAGMENT else UNIT_FRAME


class SessionPast(msgspec.Struct):
    """What was sent under one private name in this daemon view, or under all that were forgotten."""

    previous: int = 0  # site sequence of the last reliable unit, or of an AGREED or SAFE one behind it: D-forget
    weak: int = 0  # of its last RELIABLE, FIFO or CAUSAL one
    agreed: Position = BEFORE_ALL  # of its last AGREED or SAFE one


def crosses_all(draft: Draft) -> int:
    """The links that a draft crosses as far as a stamper knows by itself: all."""
    del draft
    return LINKS | PLACE


@dataclass
class Stamper:
    """The origin of a ring: one per daemon and daemon view."""

    site: int
    daemon: int
    delivery: Delivery
    window_bytes: int  # this daemon's share of what the site may have unstable
    kept_bytes_max: int = UNLIMITED  # above this the line that is reported does not rise: see `agreed_line`
    names_max: int = NAMES_MAX
    lamport: int = 0  # at least the time of every unit received, sent or promised here
    unstable_bytes: int = 0  # stamped here and not yet known to be received by all
    waiting_bytes: int = 0  # of all drafts that wait
    promise: tuple[int, int] = (
        0,
        0,
    )  # at the last visit: units of the site up to this time have such sequences at most
    crossed: Callable[[Draft], int] = crosses_all  # bits of the links that it crosses: `LINKS`, `PLACE`
    full: int = 0  # bits of the links that have no room now: D-hold
    room: int = UNLIMITED  # bytes that the other links take now
    bulk_room: int = UNLIMITED  # the same for fragments, which need all links
    _waiting: dict[str, deque[Draft]] = field(default_factory=dict)  # by session, never empty, in order
    _turns: dict[int, dict[str, int]] = field(default_factory=dict)  # by links crossed: sessions with their turn
    _bulk: dict[str, None] = field(default_factory=dict)  # sessions whose next is a fragment; the first has its turn
    _unbegun: dict[str, None] = field(default_factory=dict)  # as ``_bulk``, while OPEN_MAX are in there
    _last_turn: int = 0
    _originated: list[Draft] = field(default_factory=list)  # of ``_born``
    _reported: int = 0
    _born: list[Unit] = field(default_factory=list)  # stamped since the last `take_born`
    _unstable: deque[tuple[int, int]] = field(default_factory=deque)  # time and cost of what was stamped here
    _pasts: dict[str, SessionPast] = field(default_factory=dict)  # by private name, the longest unused first
    _forgotten: SessionPast = field(default_factory=SessionPast)
    _last_agreed: int = 0  # site sequence of the last AGREED or SAFE unit stamped here
    _line_wanted: bool = False
    _cut: Position = BEFORE_ALL  # the last cut up to which everything was received here
    _cuts: list[Position] = field(default_factory=list)  # a heap: those behind it, not stable, so windows bound them

    def submit(self, drafts: Iterable[Draft]) -> None:
        """These wait for the token."""
        for draft in drafts:
            self.waiting_bytes += len(draft.body)
            waiting = self._waiting.get(draft.session)
            if waiting is None:
                self._waiting[draft.session] = deque([draft])
                self._enqueue(draft.session, draft)
            else:
                waiting.append(draft)

    def _enqueue(self, session: str, first: Draft) -> None:
        """A session has its turn when all others had theirs; its drafts stay in order."""
        if first.kind is not UnitKind.FRAGMENT:
            self._last_turn += 1
            self._turns.setdefault(self.crossed(first), {})[session] = self._last_turn
        else:
            (self._bulk if len(self._bulk) < OPEN_MAX else self._unbegun)[session] = None

    def has_waiting(self, session: str) -> bool:
        """Whether drafts of this session wait."""
        return session in self._waiting

    def is_held(self, session: str) -> bool:
        """Whether the next draft of this session waits for room on a link."""
        if session in self._bulk or session in self._unbegun:
            return self.bulk_room <= 0
        return any(session in turns and self._holds(crossed) for crossed, turns in self._turns.items())

    def seen(self, units: Sequence[Unit]) -> None:
        """Units arrived: everything stamped from now on is later than they."""
        self.lamport = max([self.lamport, *(unit.lamport for unit in units)])
        for unit in units:
            if unit.is_cut and unit.daemon != self.daemon:
                self._note_cut(unit.position)

    def want_line(self) -> None:
        """The site's line shall be spread at the next visit, though nothing is to be stamped."""
        self._line_wanted = True

    def stable_through(self, line: int) -> None:
        """Everything with a time of at most this is stable; the window opens."""
        while self._unstable and self._unstable[0][0] <= line:
            self.unstable_bytes -= self._unstable.popleft()[1]

    @property
    def has_born(self) -> bool:
        """Whether anything was stamped since the last `take_born`."""
        return bool(self._born)

    def take_born(self) -> list[Unit]:
        """What was stamped since the last call, for this daemon's own delivery."""
        born, self._born, self._originated = self._born, [], []
        return born

    def take_unstamped(self) -> list[Draft]:
        """The view ended: what it has not seen, in the order of each session, for the next.

        A large message whose beginning was stamped starts anew. What was stamped and not taken has never left.
        """
        waiting: dict[str, list[Draft]] = {}
        for draft in self._originated:
            waiting.setdefault(draft.session, []).append(draft)
        for session, drafts in self._waiting.items():
            waiting.setdefault(session, []).extend(drafts)
        for turns in (self._waiting, self._turns, self._bulk, self._unbegun):
            turns.clear()
        self.take_born()
        self.waiting_bytes = 0
        return [draft for drafts in waiting.values() for draft in _anew(drafts)]

    # --- the ring's side -------------------------------------------------------------------------------------------

    def is_waiting(self) -> bool:
        """Whether the token is wanted."""
        return self._line_wanted or self._next_turn() is not None

    def _next_turn(self) -> tuple[str, int] | None:
        """The session whose next draft may be stamped, and the links that it crosses, `BULK` for a fragment.

        Of those that cross no full link it is the one whose turn is longest ago.
        """
        if self.unstable_bytes >= self.window_bytes:
            return None
        found, first = None, UNLIMITED
        for crossed, turns in self._turns.items():
            if self._holds(crossed):
                continue
            session = next(iter(turns))
            if turns[session] < first:
                found, first = (session, crossed), turns[session]
        if found is None and self._bulk and self.bulk_room > 0:
            return next(iter(self._bulk)), BULK
        return found

    def _holds(self, crossed: int) -> bool:
        return bool(crossed & self.full) or (self.room <= 0 and crossed & LINKS != 0)

    def agreed_line(self) -> int:
        """Every unit with a time of at most this was received here, what is stamped at this visit included.

        It stands still while more is kept here than the windows of all sites hold: senders then wait until this daemon
        has heard what is stable, and forgets it. That bounds what is kept to twice the windows.
        """
        if self.delivery.kept_bytes <= self.kept_bytes_max:
            self._reported = self._line_with_born() if self._born else self.delivery.lines.agreed
        return self._reported

    def _line_with_born(self) -> int:
        """As the line will be when this daemon's own delivery has what was just stamped."""
        sites = self.delivery.lines.sites
        own = sites[self.site]
        first = next((unit.sequence for unit in self._born if unit.sequence), 0)
        if first != own.contiguous + 1:
            return self.delivery.lines.agreed  # all were UNRELIABLE, or units of others did not come yet
        return min([self.promise[1], *(line.line for line in sites if line is not own)])

    def originate(self, *, site_sequence: int, site_lamport: int, bytes_max: int) -> Origination:
        """Stamp what waits, within the visit's bytes and the daemon's window."""
        urgent, self._line_wanted = self._line_wanted, False
        lamport = self.lamport = max(self.lamport, site_lamport)
        frames: list[Frame] = []
        while bytes_max > 0 and (turn := self._next_turn()) is not None:
            session, crossed = turn
            draft = self._next_draft(session, crossed)
            lamport = lamport + 1 if draft.kind is UnitKind.FRAGMENT else (lamport // TICK + 1) * TICK
            reliable = draft.service is not Service.UNRELIABLE
            site_sequence += reliable
            unit = self._stamp(draft, site_sequence if reliable else 0, lamport)
            self._born.append(unit)
            self._originated.append(draft)
            urgent = urgent or draft.service is Service.SAFE or draft.kind is UnitKind.MEMBERSHIP
            header, body = encode_unit(unit)
            frames.append(frame_of(frame_kind(unit), header, body))
            cost = len(draft.body) + UNIT_OVERHEAD_BYTES
            bytes_max -= cost
            if crossed & LINKS:
                self.room -= cost
                self.bulk_room -= cost
            if reliable:
                self.unstable_bytes += cost
                self._unstable.append((lamport, cost))
        self.lamport = lamport
        self.promise = (site_sequence, lamport)
        return Origination(frames, site_sequence, lamport, urgent)

    def _next_draft(self, session: str, crossed: int) -> Draft:
        """Take the next draft of this session, whose turn is over with it."""
        waiting = self._waiting[session]
        draft = waiting.popleft()
        self.waiting_bytes -= len(draft.body)
        if crossed == BULK:
            del self._bulk[session]
        else:
            del self._turns[crossed][session]
            if not self._turns[crossed]:
                del self._turns[crossed]
        if waiting and draft.large is not None and waiting[0].large is draft.large:
            self._bulk[session] = None  # the same message goes on
            return draft
        if self._unbegun and crossed == BULK:
            begun = next(iter(self._unbegun))
            del self._unbegun[begun]
            self._bulk[begun] = None
        if waiting:
            self._enqueue(session, waiting[0])
        else:
            del self._waiting[session]
        return draft

    def _stamp(self, draft: Draft, sequence: int, lamport: int) -> Unit:
        past = self._past_of(draft.session)
        head = (draft.kind, draft.service, self.site, self.daemon, sequence, lamport)
        previous = past.previous if sequence else 0
        past.previous = sequence or past.previous
        if draft.service.is_agreed:
            past.agreed = (lamport, self.daemon)
            self._last_agreed = sequence
            unit = Unit(*head, previous, draft.body)
            if unit.is_cut:
                self._note_cut(unit.position)
            return unit
        weak = list(self.delivery.weak_past)
        weak[self.site] = max(weak[self.site], past.weak)
        past.weak = sequence or past.weak
        agreed = max(self.delivery.agreed_past, past.agreed)
        return Unit(*head, previous, draft.body, tuple(weak), agreed, self._last_cut())

    def _note_cut(self, cut: Position) -> None:
        self._last_cut()
        heappush(self._cuts, cut)

    def _last_cut(self) -> Position:
        """Behind which all stands that is stamped now: this daemon has everything up to there, or knew of who had."""
        line = max(self._reported, self.delivery.lines.agreed) if self._cuts else 0
        while self._cuts and self._cuts[0][0] <= line:
            self._cut = max(self._cut, heappop(self._cuts))
        return max(self._cut, self.delivery.cut_past)

    def _past_of(self, session: str) -> SessionPast:
        past = self._pasts.pop(session, None)
        if past is None:
            forgotten = self._forgotten
            past = SessionPast(forgotten.previous, forgotten.weak, forgotten.agreed)
            while len(self._pasts) >= self.names_max and self._forgets_one():
                pass
        self._pasts[session] = past
        return past

    def _forgets_one(self) -> bool:
        """Forget the name that was used longest ago, if an AGREED or SAFE unit stands behind all that it sent."""
        name, past = next(iter(self._pasts.items()))
        if past.previous > self._last_agreed:
            return False
        del self._pasts[name]
        forgotten = self._forgotten
        forgotten.previous = self._last_agreed
        forgotten.weak = max(forgotten.weak, past.weak)
        forgotten.agreed = max(forgotten.agreed, past.agreed)
        return True


def _anew(drafts: list[Draft]) -> list[Draft]:
    """Only the first message of a session can have been begun."""
    large = drafts[0].large
    return drafts if large is None else [*large.drafts(), *(draft for draft in drafts if draft.large is not large)]
