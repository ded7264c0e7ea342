"""What the gateway says to its shell beside the contract's own actions."""

from __future__ import annotations

from isotone.core.contract import Action, Address


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
