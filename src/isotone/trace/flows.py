"""What distributed data flows do, as entries of the trace. Values stand as JSON in the plain form of the flow's values.

Who took part in an aggregation, and with which version, is recorded for checking only: no node ever knows it.

Implements: [Flows 2.1] (messages with versions and values). Deviations: none.
"""

from __future__ import annotations

from isotone.trace.events import Entry


class FlowStarted(Entry, frozen=True, gc=False, tag="flowstart"):
    """A node began to run a program: its rules, as JSON."""

    member: str
    ring: str
    rules: str


class FlowInput(Entry, frozen=True, gc=False, tag="flowinput"):
    """A client's values, all of them, from this version on."""

    member: str
    version: int
    values: str


class RingEntered(Entry, frozen=True, gc=False, tag="ringview"):
    """A member entered a view of its ring; ``regular``: it stays a regular member."""

    ring: str
    member: str
    number: int
    servers: tuple[str, ...]
    regular: bool


class Contributed(Entry, frozen=True, gc=False, tag="contribute"):
    """A member added values to a token: as a regular member, as a candidate that was admitted, or unguarded ones only.

    ``origin``: the version of what it adds: of the input at a node, or of the ring below.
    """

    ring: str
    member: str
    number: int
    round: int
    standing: str
    origin: str
    values: str


class Aggregated(Entry, frozen=True, gc=False, tag="aggregate"):
    """A round is complete at the leader; ``floor`` of a recovery, empty if it has none."""

    ring: str
    member: str
    number: int
    round: int
    values: str
    recovers: bool = False
    floor: str = ""
    top: bool = False


class Decided(Entry, frozen=True, gc=False, tag="decide"):
    """The register holds a decision: all global flows, and the aggregates behind them. Told again after a restart."""

    ring: str
    number: int
    round: int
    after: str
    aggregates: str
    flows: str


class Flowed(Entry, frozen=True, gc=False, tag="flow"):
    """Global flows reached a node, with the version of the decision."""

    member: str
    number: int
    round: int
    values: str


class Dealt(Entry, frozen=True, gc=False, tag="deal"):
    """A node was given its share of what a decision distributes."""

    member: str
    number: int
    round: int
    values: str
