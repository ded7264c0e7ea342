"""What the detector is told and what it asks for.

A *peer* is named by the text form of whatever id the layer above uses; a new incarnation is a new peer. Everything
that names a peer as the source (`Heard`, `ProbeReceived`, `ProbeAnswered`) must have been authenticated before; that
is what lets a sign of life outweigh all evidence.
"""

from __future__ import annotations

from isotone.core.contract import Action, Event
from isotone.detector.evidence import Evidence, Reason
from isotone.detector.timeouts import Timeout

Peer = str


class PeerAdded(Event, frozen=True, gc=False):
    """Watch this peer from now on; it is trusted at first."""

    peer: Peer


class PeerRemoved(Event, frozen=True, gc=False):
    """Watch this peer no longer; nothing more is said about it."""

    peer: Peer


class Heard(Event, frozen=True, gc=False):
    """A sign of life: any authenticated packet. Links that measure a round trip on the way hand it in.

    One for each peer and wake-up is enough, whatever number of packets came.
    """

    peer: Peer
    round_trip_us: int | None = None


class ProbeReceived(Event, frozen=True, gc=False):
    """The peer asks for an answer."""

    peer: Peer
    nonce: int


class ProbeAnswered(Event, frozen=True, gc=False):
    """The peer answered our probe."""

    peer: Peer
    nonce: int


class EvidenceReported(Event, frozen=True, gc=False):
    """Something speaks against a peer: a refused port, a failed link, or a report by another daemon."""

    peer: Peer
    reason: Reason
    reporter: str = ""
    detail: str = ""


class SendProbe(Action, frozen=True, gc=False):
    """Ask the peer for an answer with the same nonce. ``fast`` probes decide a suspicion: let them overtake data."""

    peer: Peer
    nonce: int
    fast: bool


class AnswerProbe(Action, frozen=True, gc=False):
    """Answer a peer's probe at once."""

    peer: Peer
    nonce: int


class Suspect(Action, frozen=True, gc=False):
    """The peer is taken for failed or unreachable: the evidence, the detector's own conclusion last, and the wait."""

    peer: Peer
    evidence: tuple[Evidence, ...]
    waited: Timeout

    def explain(self) -> str:
        """One line for people."""
        return f"{self.peer}: {'; '.join(e.explain() for e in self.evidence)}. Waited {self.waited.explain()}"


class Trust(Action, frozen=True, gc=False):
    """A suspected peer is to be trusted again; ``suspected_us`` is for how long it was not."""

    peer: Peer
    suspected_us: int


class DoubtSelf(Action, frozen=True, gc=False):
    """We slept, or could not probe in time: record the reason. Nobody is suspected before a round of probes is over."""

    slept_us: int
    reason: str
