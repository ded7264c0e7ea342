"""What a node writes into the trace about rounds of its rings.

Implements: [DESIGN 4] (the trace). Deviations: none.
"""

from __future__ import annotations

import msgspec

from isotone.core.contract import Action, Record
from isotone.flows.compiler import Values
from isotone.flows.component import Component
from isotone.flows.ring import Standing, Token
from isotone.flows.values import to_plain
from isotone.trace import flows as trace


def shown(values: object) -> str:
    """Values as JSON."""
    return msgspec.json.encode(values).decode()


def contribution(component: Component, token: Token, standing: Standing) -> list[Action]:
    """What this member added to a token, and as what."""
    values = component.ring.values
    if values is None:
        return []
    told = _shown_values(values)
    entry = trace.Contributed(
        component.name, component.me, token.number, token.round, standing.value, component.origin, told
    )
    return [Record(entry)]


def completion(component: Component, token: Token) -> Action:
    """The result of a round."""
    floor = "" if token.floor is None else shown([to_plain(each) for each in token.floor if each is not None])
    told = _shown_values(tuple(token.values))
    entry = trace.Aggregated(
        component.name, component.me, token.number, token.round, told, token.recovers, floor, component.is_top
    )
    return Record(entry)


def _shown_values(values: Values) -> str:
    return shown([None if each is None else to_plain(each) for each in values])
