"""A detector whose verdicts are events of a model."""

from __future__ import annotations

import msgspec

from isotone.core.contract import Action, Event, TimerFired
from isotone.detector.detector import Detector, PeerReport
from isotone.detector.evidence import Evidence, Reason
from isotone.detector.signals import (
    AnswerProbe,
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
from isotone.detector.timeouts import Timeout
from isotone.evs.membership.watch import DETECTOR_TIMER

ROUND_TRIP_US = 1_000


class Nearby(msgspec.Struct, frozen=True):
    """What the membership asks the detector about a peer."""

    smoothed_us: int = ROUND_TRIP_US


class Told(Detector):
    """A detector that suspects whom the model tells it to suspect; trust is earned as with the real one."""

    def __init__(self) -> None:
        super().__init__(timer=DETECTOR_TIMER)
        self.suspects: dict[str, bool] = {}
        self.accused = self.asked = ""  # what the next timer is about

    def handle(self, event: Event) -> list[Action]:
        match event:
            case PeerAdded(peer=peer):
                self.suspects[peer] = False
                return [self._ask(peer)]
            case PeerRemoved(peer=peer):
                self.suspects.pop(peer, None)
            case ProbeReceived(peer=peer, nonce=nonce):
                return [AnswerProbe(peer, nonce), *self._trust(peer, ask=True)]
            case ProbeAnswered(peer=peer):
                return self._trust(peer, ask=False)
            case Heard(peer=peer):
                return self._trust(peer, ask=True)
            case TimerFired():
                return self._as_told(event.at)
            case EvidenceReported():
                pass  # the real one waits for its confirmation
        return []

    def report(self, name: str, at: int) -> PeerReport:
        return Nearby()  # type: ignore[return-value]

    def _ask(self, peer: str) -> SendProbe:
        self._nonce += 1
        return SendProbe(peer, self._nonce, fast=False)

    def _trust(self, peer: str, *, ask: bool) -> list[Action]:
        if not self.suspects.get(peer):
            return []
        self.suspects[peer] = False
        return [Trust(peer, 0), *([self._ask(peer)] if ask else [])]

    def _as_told(self, at: int) -> list[Action]:
        accused, asked = self.accused, self.asked
        self.accused = self.asked = ""
        if asked:
            return [self._ask(asked)]
        self.suspects[accused] = True
        return [Suspect(accused, (Evidence(Reason.SILENCE, 0),), Timeout(0, ()))]
