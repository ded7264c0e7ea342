"""What the gateway says to its shell beside the contract's own actions, and hears beside its events."""

from __future__ import annotations

from isotone.core.contract import Action, Address, Event


class PauseReading(Action, frozen=True, gc=False):
    """Read nothing more from this stream for now; what was read already may still come."""

    stream: int


class ResumeReading(Action, frozen=True, gc=False):
    """Read from this stream again."""

    stream: int


class Remark(Action, frozen=True, gc=False):
    """For the log: a client was turned away or its session ended. It is counted already."""

    peer: Address
    code: str
    reason: str


class GroupsHeld(Event, frozen=True, gc=False):
    """Sends to these groups wait until told otherwise: readers of another automaton are too slow."""

    groups: frozenset[str]
