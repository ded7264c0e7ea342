"""Between a node and its client: what the client gives, and what it is told.

Implements: [Flows 3.1] (values between the working component and the data flow component). Deviations: none.
"""

from __future__ import annotations

from collections.abc import Mapping

from isotone.core.contract import Action, Event
from isotone.flows.ring import Version
from isotone.flows.values import Pairs, Value


class InputGiven(Event, frozen=True, gc=False):
    """The client says what its inputs hold now; those that are not named stay."""

    values: Mapping[str, Value]


class FlowOutput(Action, frozen=True, gc=False):
    """To the client: global flows as of this decision."""

    version: Version
    values: Mapping[str, Value]


class ShareOutput(Action, frozen=True, gc=False):
    """To the client: its share of what this decision distributes."""

    version: Version
    values: Mapping[str, Pairs]


class PacketTaken(Action, frozen=True, gc=False):
    """To the client: another node forwarded this packet."""

    number: int
    payload: bytes
