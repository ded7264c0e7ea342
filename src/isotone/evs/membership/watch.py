"""Who is reached: the detector over everybody who is known, and what follows from it.

A daemon is *reached* when it answered a probe since it was last suspected, so that packets pass both ways; is not
suspected, refused or gone; and is under no penalty. Everybody else who is known is in this daemon's *cut*.

Implements: [Spread 6.1.5], probing. Deviations: D-watch all known daemons are watched all the time, instead of a probe
every 90 seconds, because a merge is owed within a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from isotone.core.contract import Action, Event, SetTimer, TimerFired, TimerKey
from isotone.detector.detector import Detector
from isotone.detector.evidence import Reason
from isotone.detector.signals import (
    AnswerProbe,
    DoubtSelf,
    EvidenceReported,
    Heard,
    PeerAdded,
    PeerRemoved,
    ProbeAnswered,
    ProbeReceived,
    SendProbe,
    Suspect,
    Trust,
)
from isotone.evs.membership.peers import Peer, Peers
from isotone.evs.membership.penalties import Penalties

DETECTOR_TIMER: TimerKey = ("detector", "membership")
PENALTY_TIMER: TimerKey = ("membership", "penalty")
HEARD_EVERY_US = 20_000


class Mouth(Protocol):
    """Who speaks to other daemons."""

    def probe(self, peer: Peer, nonce: int) -> None:
        """Ask a daemon for an answer."""
        ...

    def answer(self, peer: Peer, nonce: int) -> None:
        """Answer one."""
        ...


@dataclass
class Watch:
    """The detector and its consequences; ``mouth`` sends what it asks for."""

    peers: Peers
    detector: Detector
    penalties: Penalties
    mouth: Mouth
    out: list[Action]
    changed: bool = False  # somebody is reached who was not, or the reverse; the owner takes it back
    doubts: int = 0
    doubted: bool = False  # in this event; the owner takes it back
    _reached: dict[str, bool] = field(default_factory=dict)
    _nonces: dict[str, int] = field(default_factory=dict)  # answers up to this nonce prove nothing
    _nonce: int = 0  # the last that was sent
    _fed_at: dict[str, int] = field(default_factory=dict)
    _refused: dict[str, None] = field(default_factory=dict)  # suspected, and their ports refuse packets
    _penalty_at: int | None = None

    # --- whom ------------------------------------------------------------------------------------------------------

    def add(self, peer: Peer, at: int) -> None:
        """Watch this daemon from now on, or its new incarnation from the beginning."""
        self._tell(PeerRemoved(at, peer.name))
        self._nonces[peer.name] = self._nonce
        self._refused.pop(peer.name, None)
        peer.two_way, peer.suspected, peer.unanswered = False, "", False
        self._tell(PeerAdded(at, peer.name))
        self._judge(peer, at)

    def remove(self, name: str, at: int) -> None:
        """Watch it no longer."""
        self._tell(PeerRemoved(at, name))
        self.penalties.forget(name)
        self._nonces.pop(name, None)
        self._fed_at.pop(name, None)
        self._refused.pop(name, None)
        self.changed |= self._reached.pop(name, False)

    def reaches(self, name: str) -> bool:
        """Whether packets pass both ways."""
        return self._reached.get(name, False)

    @property
    def reached(self) -> list[str]:
        """Everybody who is reached, sorted."""
        return sorted(name for name, reached in self._reached.items() if reached)

    @property
    def cut(self) -> tuple[str, ...]:
        """Everybody who is known and not reached, sorted."""
        return tuple(sorted(name for name in self.peers.by_name if not self.reaches(name)))

    def is_absent(self, name: str) -> bool:
        """Whether it said good-bye, or is suspected and its own host says that nobody listens at its port."""
        peer = self.peers.by_name.get(name)
        return name in self._refused or (peer is not None and peer.gone)

    # --- signs of life ---------------------------------------------------------------------------------------------

    def heard(self, peer: Peer, at: int) -> None:
        """Any packet of it; one in a while is enough."""
        if at - self._fed_at.get(peer.name, -HEARD_EVERY_US) >= HEARD_EVERY_US or peer.suspected:
            self._fed_at[peer.name] = at
            peer.heard_at = at
            self._tell(Heard(at, peer.name))

    def probed(self, peer: Peer, nonce: int, at: int) -> None:
        """It wants an answer."""
        self._tell(ProbeReceived(at, peer.name, nonce))

    def answered(self, peer: Peer, nonce: int, at: int) -> None:
        """It answered: both directions work, if the question was asked since it was last suspected."""
        if self._nonces.get(peer.name, self._nonce) < nonce <= self._nonce:
            peer.two_way, peer.unanswered = True, False
            self.penalties.answered(peer.name, at)
        self._tell(ProbeAnswered(at, peer.name, nonce))
        self._judge(peer, at)

    def accuse(self, peer: Peer, reason: Reason, at: int, *, reporter: str = "", detail: str = "") -> None:
        """Something speaks against it."""
        self._tell(EvidenceReported(at, peer.name, reason, reporter, detail))

    def penalise(self, name: str, at: int) -> None:
        """An attempt failed for want of it, though it is not suspected."""
        self.penalties.failed(name, at)
        if (peer := self.peers.by_name.get(name)) is not None:
            self._judge(peer, at)

    # --- time ------------------------------------------------------------------------------------------------------

    def on_timer(self, event: TimerFired) -> None:
        """The detector's, or the end of a penalty."""
        if event.key == DETECTOR_TIMER:
            self._tell(event)
        else:
            self._penalty_at = None
            for peer in self.peers.by_name.values():
                self._judge(peer, event.at)

    def judge(self, peer: Peer, at: int) -> None:
        """It was refused, is gone, or neither any more."""
        self._judge(peer, at)

    def _judge(self, peer: Peer, at: int) -> None:
        answers = peer.two_way and not peer.suspected
        if answers:
            self.penalties.reached(peer.name, at)
        held = self.penalties.holds(peer.name, at)
        now = answers and not (peer.gone or peer.refused or held) and peer.incarnation is not None
        if now != self._reached.get(peer.name, False):
            self._reached[peer.name] = now
            self.changed = True
        end = self.penalties.next_end(at) if held else None
        if end is not None and (self._penalty_at is None or end < self._penalty_at):
            self._penalty_at = end
            self.out.append(SetTimer(PENALTY_TIMER, end - at))

    # --- what the detector says ------------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        for action in self.detector.handle(event):
            match action:
                case SendProbe(peer=name, nonce=nonce):
                    self._nonce = nonce
                    if (peer := self.peers.by_name.get(name)) is not None:
                        self.mouth.probe(peer, nonce)
                case AnswerProbe(peer=name, nonce=nonce):
                    if (peer := self.peers.by_name.get(name)) is not None:
                        self.mouth.answer(peer, nonce)
                case Suspect(peer=name):
                    self._on_suspect(action, event.at)
                case Trust(peer=name):
                    self._refused.pop(name, None)
                    if (peer := self.peers.by_name.get(name)) is not None:
                        peer.suspected = ""
                        self._judge(peer, event.at)
                case DoubtSelf():
                    self.doubts += 1
                    self.doubted = True
                case _:
                    self.out.append(action)

    def _on_suspect(self, suspect: Suspect, at: int) -> None:
        peer = self.peers.by_name.get(suspect.peer)
        if peer is None:
            return
        peer.suspected, peer.suspected_at, peer.two_way, peer.unanswered = suspect.explain(), at, False, True
        if any(each.reason is Reason.REFUSED_PORT for each in suspect.evidence):
            self._refused[peer.name] = None
        self._nonces[peer.name] = self._nonce
        self.penalties.lost(peer.name, at)
        self._judge(peer, at)
        self.changed = True
