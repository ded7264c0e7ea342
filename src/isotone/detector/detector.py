"""The failure detector: signs of life and evidence in, probes, suspicions and trust out.

One timer serves all peers: it is armed for the earliest thing that may become due, and is not moved back when a sign
of life makes that later, so that hearing a peer costs next to nothing. At a wake-up every peer is asked when it is to
be probed and when to be suspected.

Implements: the failure detection that [Spread 6.1] and [ISIS 4.2] presume and the local detectors of [HAB 2].
Deviations: Dd1 timeouts are measured, not constants; Dd2 evidence shortens a wait and never replaces it; Dd3 a daemon
that slept doubts itself first; Dd4 a peer that is heard but answers nothing is suspected too, because membership needs
links that work both ways. See ``docs/protocols/detector.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from isotone.core.contract import Action, CancelTimer, Event, SetTimer, TimerFired, TimerKey
from isotone.core.errors import LocalProtocolError
from isotone.detector.estimator import ProbeLoss, RoundTrips
from isotone.detector.evidence import OBSERVED, Evidence, EvidenceBook, Reason
from isotone.detector.peer import Verdict, WatchedPeer
from isotone.detector.self_doubt import WakeUps
from isotone.detector.settings import PROBES_REQUIRED, DetectorSettings, keep_alive_interval_us
from isotone.detector.signals import (
    AnswerProbe,
    DoubtSelf,
    EvidenceReported,
    Heard,
    Peer,
    PeerAdded,
    PeerRemoved,
    ProbeAnswered,
    ProbeReceived,
    SendProbe,
    Suspect,
    Trust,
)
from isotone.detector.timeouts import Limits


class PeerReport(msgspec.Struct, frozen=True, gc=False):
    """How things stand with one peer, for ``explain`` and for metrics."""

    peer: Peer
    silent_us: int
    unanswered_us: int
    suspected: tuple[Evidence, ...]
    evidence: tuple[Evidence, ...]
    suspected_in_us: int | None
    smoothed_us: int
    variation_us: int
    minimum_us: int
    lost_ppm: int
    limits: Limits


@dataclass(slots=True)
class Detector:
    """Watches peers. Events about a peer that is not watched are ignored: they race with its removal."""

    settings: DetectorSettings = field(default_factory=DetectorSettings)
    timer: TimerKey = "detector"
    _peers: dict[Peer, WatchedPeer] = field(default_factory=dict)
    _wake_ups: WakeUps = field(init=False)
    _keep_alive_us: int = 0
    _nonce: int = 0

    def __post_init__(self) -> None:
        self._wake_ups = WakeUps(self.settings)

    def handle(self, event: Event) -> list[Action]:
        """Take one event, say what to do."""
        slept = self._wake_ups.woke(event.at, by_timer=isinstance(event, TimerFired))
        actions = self._doubt_self(slept, event.at) if slept else []
        match event:
            case Heard(at, peer, round_trip_us):
                actions += self._on_heard(peer, at, round_trip_us)
                return actions + self._arm(at, peer) if actions else actions
            case ProbeReceived(at, peer, nonce):
                actions += self._on_heard(peer, at, None)
                return [AnswerProbe(peer, nonce), *actions, *(self._arm(at, peer) if actions else ())]
            case TimerFired(at):
                actions += self._on_wake_up(at)
                return actions + self._arm_anew(at)
            case ProbeAnswered(at, peer, nonce):
                actions += self._on_answer(peer, nonce, at)
            case EvidenceReported(at, peer):
                actions += self._on_evidence(event)
            case PeerAdded(at, peer):
                actions += self._on_added(peer, at)
            case PeerRemoved(at, peer):
                self._peers.pop(peer, None)
                self._repace()
            case _:
                raise LocalProtocolError(f"the detector takes no {type(event).__name__}")
        return actions + self._arm(at, peer)

    @property
    def suspected(self) -> tuple[Peer, ...]:
        """Everybody who is suspected now, in the order in which they were added."""
        return tuple(name for name, peer in self._peers.items() if peer.suspected_at is not None)

    @property
    def keep_alive_us(self) -> int:
        """Silence after which a peer is probed at present."""
        return self._keep_alive_us

    @property
    def lateness_us(self) -> int:
        """How late our own wake-ups are of late."""
        return self._wake_ups.lateness_us

    def report(self, name: Peer, at: int) -> PeerReport:
        """How things stand with one peer, as of the given time."""
        peer = self._peers[name]
        limits = self._limits(peer)
        suspected = peer.suspected_at is not None
        return PeerReport(
            peer=name,
            silent_us=at - peer.heard_at,
            unanswered_us=0 if peer.unanswered_at is None else at - peer.unanswered_at,
            suspected=peer.suspicion,
            evidence=peer.book.entries,
            suspected_in_us=None if suspected else max(0, peer.verdict(limits).at - at),
            smoothed_us=peer.trips.smoothed_us,
            variation_us=peer.trips.variation_us,
            minimum_us=peer.trips.minimum_us,
            lost_ppm=peer.loss.lost_ppm,
            limits=limits,
        )

    # --- peers and signs of life --------------------------------------------------------------------------------

    def _on_added(self, name: Peer, at: int) -> list[Action]:
        if name in self._peers:
            return []
        settings = self.settings
        self._peers[name] = WatchedPeer(
            settings=settings,
            heard_at=at,
            answered_at=at - settings.measure_us,
            probed_at=at - settings.silence_ceiling_us,
            trips=RoundTrips(settings),
            loss=ProbeLoss(settings),
            book=EvidenceBook(settings),
        )
        self._repace()
        return [self._probe(name, self._peers[name], at)]

    def _on_heard(self, name: Peer, at: int, round_trip_us: int | None) -> list[Action]:
        peer = self._peers.get(name)
        if peer is None:
            return []
        peer.heard(at)
        if round_trip_us is not None:
            peer.outstanding.clear()
            peer.round_trip(round_trip_us, at)
        return self._reconsider(name, peer, at)

    def _on_answer(self, name: Peer, nonce: int, at: int) -> list[Action]:
        peer = self._peers.get(name)
        if peer is None:
            return []
        peer.heard(at)
        peer.answered(nonce, at)
        return self._reconsider(name, peer, at)

    def _reconsider(self, name: Peer, peer: WatchedPeer, at: int) -> list[Action]:
        """Trust a suspected peer again; one that is suspected of not hearing us, only when it answers."""
        if peer.suspected_at is None:
            return []
        if peer.suspicion[-1].reason is Reason.ONE_WAY and peer.answered_at < peer.suspected_at:
            return []
        suspected_us = at - peer.suspected_at
        peer.trusted()
        measured_now = peer.answered_at == at
        return [Trust(name, suspected_us), *([] if measured_now else [self._probe(name, peer, at)])]

    # --- evidence -----------------------------------------------------------------------------------------------

    def _on_evidence(self, event: EvidenceReported) -> list[Action]:
        if event.reason in OBSERVED:
            raise LocalProtocolError(f"{event.reason.value!r} is for the detector to find out, not to be reported")
        if event.reason is Reason.REPORT and not event.reporter:
            raise LocalProtocolError("a report by others must name its reporter")
        peer = self._peers.get(event.peer)
        if peer is None or peer.suspected_at is not None:
            return []
        starts = peer.book.note(Evidence(event.reason, event.at, event.reporter, event.detail))
        return [self._probe(event.peer, peer, event.at)] if starts else []

    # --- time ---------------------------------------------------------------------------------------------------

    def _on_wake_up(self, at: int) -> list[Action]:
        actions: list[Action] = []
        early_us = self._keep_alive_us // 8
        for name, peer in self._peers.items():
            limits = self._limits(peer)
            verdict = peer.verdict(limits)
            if verdict.at <= at:
                actions += self._conclude(name, peer, verdict, at)
            elif peer.next_probe_at(limits, self._keep_alive_us) <= at + (early_us if peer.is_calm else 0):
                actions.append(self._probe(name, peer, at))
        return actions

    def _conclude(self, name: Peer, peer: WatchedPeer, verdict: Verdict, at: int) -> list[Action]:
        """Suspect the peer, or ourselves if we did not probe it as the wait presumes."""
        if verdict.reason is Reason.SILENCE and peer.probes < PROBES_REQUIRED:
            peer.doubted_at = at
            reason = f"{name} got only {peer.probes} probes in its silence"
            return [DoubtSelf(0, reason), self._probe(name, peer, at)]
        since = peer.unanswered_at if verdict.reason is Reason.ONE_WAY else peer.heard_at
        assert since is not None
        peer.suspicion = (*peer.book.entries, Evidence(verdict.reason, since))
        peer.suspected_at = at
        peer.doubted_at = None
        peer.book.forget()
        return [Suspect(name, peer.suspicion, verdict.waited)]

    def _doubt_self(self, slept_us: int, at: int) -> list[Action]:
        actions: list[Action] = [DoubtSelf(slept_us, "no wake-up when it was due")]
        for name, peer in self._peers.items():
            peer.slept(slept_us, at)
            actions.append(self._probe(name, peer, at))
        return actions

    def _limits(self, peer: WatchedPeer) -> Limits:
        return peer.limits(lateness_us=self._wake_ups.lateness_us, keep_alive_us=self._keep_alive_us)

    def _probe(self, name: Peer, peer: WatchedPeer, at: int) -> SendProbe:
        self._nonce += 1
        fast = not peer.is_calm and peer.suspected_at is None
        peer.probe_sent(self._nonce, at)
        return SendProbe(name, self._nonce, fast)

    def _repace(self) -> None:
        self._keep_alive_us = keep_alive_interval_us(self.settings, len(self._peers))

    def _arm(self, at: int, name: Peer) -> list[Action]:
        """After an event about one peer: move the timer only if that peer now needs it earlier."""
        armed = self._wake_ups.due_at
        if armed is None or not self._peers:
            return self._arm_anew(at)
        peer = self._peers.get(name)
        due = armed if peer is None else self._due_at(peer)
        return [] if armed <= due else self._arm_for(due, at)

    def _arm_anew(self, at: int) -> list[Action]:
        """Arm the timer for the earliest thing that is due with any peer."""
        if self._peers:
            return self._arm_for(min(map(self._due_at, self._peers.values())), at)
        armed, self._wake_ups.due_at = self._wake_ups.due_at, None
        return [] if armed is None else [CancelTimer(self.timer)]

    def _arm_for(self, due: int, at: int) -> list[Action]:
        self._wake_ups.due_at = max(due, at)
        return [SetTimer(self.timer, max(due - at, 0))]

    def _due_at(self, peer: WatchedPeer) -> int:
        limits = self._limits(peer)
        return min(peer.verdict(limits).at, peer.next_probe_at(limits, self._keep_alive_us))
