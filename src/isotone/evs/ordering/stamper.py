"""Stamping: what waits at a daemon gets its place in the site's sequence when the token comes.

Implements: [Spread 4.1, 5.1], assignment of seq and lts; the global flow control that the thesis promises only.
Deviations: D-window a daemon stops stamping while more than its share of the site's window is not yet stable, because
link windows alone do not bound the memory behind a slow but live site (DESIGN 3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from isotone.core.services import Service
from isotone.evs.links.contract import Frame, frame_of
from isotone.evs.links.ring.token import Origination
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.units import BEFORE_ALL, Position, Unit, UnitKind, encode_unit

UNIT_FRAME = 1
UNIT_OVERHEAD_BYTES = 64


class Draft(msgspec.Struct, frozen=True, gc=False):
    """What a session wants stamped; drafts of one session are stamped in their order."""

    session: str
    kind: UnitKind
    service: Service
    body: bytes | memoryview


class SessionPast(msgspec.Struct):
    """What a session has sent in this daemon view."""

    previous: int = 0  # site sequence of its last reliable unit
    weak: int = 0  # of its last RELIABLE, FIFO or CAUSAL one
    agreed: Position = BEFORE_ALL  # of its last AGREED or SAFE one


@dataclass
class Stamper:
    """The origin of a ring: one per daemon and daemon view."""

    site: int
    daemon: int
    delivery: Delivery
    window_bytes: int  # this daemon's share of what the site may have unstable
    lamport: int = 0  # at least the time of every unit received, sent or promised here
    unstable_bytes: int = 0  # stamped here and not yet known to be received by all
    _drafts: deque[Draft] = field(default_factory=deque)
    _born: list[Unit] = field(default_factory=list)  # stamped since the last `take_born`
    _unstable: deque[tuple[int, int]] = field(default_factory=deque)  # time and cost of what was stamped here
    _sessions: dict[str, SessionPast] = field(default_factory=dict)
    _line_wanted: bool = False

    def submit(self, drafts: Iterable[Draft]) -> None:
        """These wait for the token."""
        self._drafts.extend(drafts)

    def forget(self, session: str) -> None:
        """The session ended; what it still has waiting is stamped all the same."""
        self._sessions.pop(session, None)

    def seen(self, units: Sequence[Unit]) -> None:
        """Units arrived: everything stamped from now on is later than they."""
        self.lamport = max([self.lamport, *(unit.lamport for unit in units)])

    def want_line(self) -> None:
        """The site's line shall be spread at the next visit, though nothing is to be stamped."""
        self._line_wanted = True

    def stable_through(self, line: int) -> None:
        """Everything with a time of at most this is stable; the window opens."""
        while self._unstable and self._unstable[0][0] <= line:
            self.unstable_bytes -= self._unstable.popleft()[1]

    def take_born(self) -> list[Unit]:
        """What was stamped since the last call, for this daemon's own delivery."""
        born, self._born = self._born, []
        return born

    @property
    def waiting_bytes(self) -> int:
        """Of all drafts that wait."""
        return sum(len(draft.body) for draft in self._drafts)

    # --- the ring's side -------------------------------------------------------------------------------------------

    def is_waiting(self) -> bool:
        """Whether the token is wanted."""
        return self._line_wanted or (bool(self._drafts) and self.unstable_bytes < self.window_bytes)

    def agreed_line(self) -> int:
        """Every unit with a time of at most this was received here."""
        return self.delivery.lines.agreed

    def originate(self, *, site_sequence: int, site_lamport: int, bytes_max: int) -> Origination:
        """Stamp what waits, within the visit's bytes and the daemon's window."""
        self._line_wanted = False
        lamport = self.lamport = max(self.lamport, site_lamport)
        frames: list[Frame] = []
        while self._drafts and bytes_max > 0 and self.unstable_bytes < self.window_bytes:
            draft = self._drafts.popleft()
            lamport += 1
            reliable = draft.service is not Service.UNRELIABLE
            site_sequence += reliable
            unit = self._stamp(draft, site_sequence if reliable else 0, lamport)
            self._born.append(unit)
            header, body = encode_unit(unit)
            frames.append(frame_of(UNIT_FRAME, header, body))
            cost = len(draft.body) + UNIT_OVERHEAD_BYTES
            bytes_max -= cost
            if reliable:
                self.unstable_bytes += cost
                self._unstable.append((lamport, cost))
        self.lamport = lamport
        return Origination(frames, site_sequence, lamport)

    def _stamp(self, draft: Draft, sequence: int, lamport: int) -> Unit:
        if draft.service is Service.UNRELIABLE:
            return Unit(draft.kind, draft.service, self.site, self.daemon, 0, lamport, 0, draft.body)
        past = self._sessions.setdefault(draft.session, SessionPast())
        previous, past.previous = past.previous, sequence
        if draft.service.is_agreed:
            past.agreed = (lamport, self.daemon)
            return Unit(draft.kind, draft.service, self.site, self.daemon, sequence, lamport, previous, draft.body)
        weak = list(self.delivery.weak_past)
        weak[self.site] = max(weak[self.site], past.weak)
        past.weak = sequence
        agreed = max(self.delivery.agreed_past, past.agreed)
        return Unit(
            draft.kind,
            draft.service,
            self.site,
            self.daemon,
            sequence,
            lamport,
            previous,
            draft.body,
            tuple(weak),
            agreed,
        )
