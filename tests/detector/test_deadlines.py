"""The deadlines of the detector against a dumb second version, which knows no state but the whole history.

The dumb version counts *awake time*: real time less all that we slept through. The detector instead moves every clock
of every peer forward when it slept; both must say the same at every moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from isotone.core.contract import Action, Event
from isotone.detector.detector import Detector
from isotone.detector.evidence import Reason
from isotone.detector.settings import DetectorSettings
from isotone.detector.signals import (
    DoubtSelf,
    EvidenceReported,
    Heard,
    PeerAdded,
    ProbeAnswered,
    ProbeReceived,
    SendProbe,
    Suspect,
    Trust,
)
from tests.detector.network import Answer, Network, answer_after, never

PEERS = ("b", "c")
LIFE = (PeerAdded, Heard, ProbeReceived, ProbeAnswered)


@dataclass
class History:
    """Everything that happened, in order, each with the awake time at which it did."""

    slept_us: int = 0
    entries: list[tuple[int, Event | Action]] = field(default_factory=list)

    def add(self, at: int, entry: Event | Action) -> None:
        if isinstance(entry, DoubtSelf):
            self.slept_us += entry.slept_us
        self.entries.append((at - self.slept_us, entry))

    def deadline(self, peer: str, detector: Detector, now: int) -> int:
        """How long from now until the peer is suspected, from the history alone (and the timeouts of the moment)."""
        limits = detector.report(peer, now).limits
        last = max(i for i, (_, e) in enumerate(self.entries) if isinstance(e, LIFE) and e.peer == peer)
        since = self.entries[last + 1 :]
        deadlines = [self.entries[last][0] + limits.silence.us]
        accused = [at for at, e in since if isinstance(e, EvidenceReported) and e.peer == peer]
        deadlines += [at + limits.confirm.us for at in accused[:1]]
        deadlines += [at + limits.one_way.us for at in self._unanswered(peer)[:1]]
        doubted = self._doubted(peer, since)
        earliest = max([min(deadlines), *([] if doubted is None else [doubted + limits.grace.us])])
        return max(0, earliest - (now - self.slept_us))

    def unanswered_us(self, peer: str, now: int) -> int:
        """How long the oldest probe that matters has been without an answer."""
        return max((now - self.slept_us - at for at in self._unanswered(peer)), default=0)

    def _unanswered(self, peer: str) -> list[int]:
        """When the probes were sent that no round trip, pause or new trust has made irrelevant."""
        sent: dict[int, int] = {}
        for at, entry in self.entries:
            match entry:
                case SendProbe(name, nonce) if name == peer:
                    sent[nonce] = at
                case ProbeAnswered(_, name, nonce) if name == peer and nonce in sent:
                    sent = {other: when for other, when in sent.items() if other > nonce}
                case Heard(_, name, round_trip_us) if name == peer and round_trip_us is not None:
                    sent = {}
                case Trust(name) if name == peer:
                    sent = {}
                case DoubtSelf(slept_us) if slept_us:
                    sent = {}
        return list(sent.values())

    def _doubted(self, peer: str, since: list[tuple[int, Event | Action]]) -> int | None:
        """From when on the peer is owed a round of probes."""
        start = None
        for at, entry in since:
            if isinstance(entry, DoubtSelf) and entry.slept_us:
                start = at if start is None else start
            elif isinstance(entry, DoubtSelf) and entry.reason.startswith(f"{peer} "):
                start = at
        return start


@dataclass
class CheckedNetwork(Network):
    """Compares the detector with the dumb version after every event."""

    history: History = field(default_factory=History)
    suspected: set[str] = field(default_factory=set)

    def hand_in(self, event: Event) -> list[Action]:
        actions = super().hand_in(event)
        split = 0
        for place, action in enumerate(actions[:2]):  # an answer to a probe goes out before anything else
            if isinstance(action, DoubtSelf) and action.slept_us:
                split = place + 1 + len(PEERS)  # the doubt and its probes come before what the event itself leads to
        for entry in [*actions[:split], event, *actions[split:]]:
            self.history.add(self.now, entry)
        self._compare(actions)
        return actions

    def _compare(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Suspect):
                assert action.peer not in self.suspected
                self.suspected.add(action.peer)
                assert self.history.deadline(action.peer, self.detector, self.now) == 0
            elif isinstance(action, Trust):
                self.suspected.remove(action.peer)
        assert sorted(self.suspected) == sorted(self.detector.suspected)
        known = {entry.peer for _, entry in self.history.entries if isinstance(entry, PeerAdded)}
        for peer in sorted(known - self.suspected):
            report = self.detector.report(peer, self.now)
            assert report.suspected_in_us == self.history.deadline(peer, self.detector, self.now)
            assert report.unanswered_us == self.history.unanswered_us(peer, self.now)


ANSWERS = ("none", "500", "30000", "300000")


def answers(what: str) -> Answer:
    """Peers that answer after so many microseconds, or not at all."""
    return never if what == "none" else answer_after(int(what))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("heard"), st.sampled_from(PEERS), st.integers(0, 400_000)),
        st.tuples(st.just("measured"), st.sampled_from(PEERS), st.integers(0, 400_000)),
        st.tuples(st.just("probed"), st.sampled_from(PEERS), st.integers(0, 400_000)),
        st.tuples(st.just("accused"), st.sampled_from(PEERS), st.integers(0, 200_000)),
        st.tuples(st.just("slept"), st.just(""), st.integers(1, 5_000_000)),
        st.tuples(st.just("answers"), st.sampled_from(ANSWERS), st.integers(0, 3_000_000)),
        st.tuples(st.just("late"), st.sampled_from(["0", "20000", "70000"]), st.integers(0, 500_000)),
    ),
    max_size=25,
)


# The second one has waits for confirmation that outlast a round of probes, so that each deadline decides sometimes.
SETTINGS = (DetectorSettings(), DetectorSettings(confirm_floor_us=1_500_000, silence_floor_us=2_000_000))


@settings(max_examples=100)
@example([("late", "70000", 0), ("probed", "b", 110_501)], SETTINGS[0], "500")
@given(STEPS, st.sampled_from(SETTINGS), st.sampled_from(ANSWERS))
def test_deadlines_equal_those_of_the_dumb_version(
    steps: list[tuple[str, str, int]], chosen: DetectorSettings, at_first: str
) -> None:
    # Each accusation has a reporter of its own, so that the dumb version need not know about credit: test_evidence.
    network = CheckedNetwork(Detector(chosen), answer=answers(at_first))
    for peer in PEERS:
        network.feed(PeerAdded(0, peer))
    for number, (kind, what, us) in enumerate(steps):
        if kind == "slept":
            network.sleep(network.now + us)
            continue
        network.run_until(network.now + us)
        match kind:
            case "heard":
                network.feed(Heard(network.now, what))
            case "measured":
                network.feed(Heard(network.now, what, 2_000))
            case "probed":
                network.feed(ProbeReceived(network.now, what, number))
            case "accused":
                network.feed(EvidenceReported(network.now, what, Reason.REPORT, f"reporter{number}"))
            case "answers":
                network.answer = answers(what)
            case "late":
                network.lateness = lambda late_us=int(what): late_us
    network.run_until(network.now + 2_000_000)
