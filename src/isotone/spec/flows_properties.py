"""The promises of distributed data flows as data, as `isotone.spec.properties` has those of extended virtual synchrony.

Implements: [Flows 2.2], [Flows 2.3], [Flows 2.4], [Flows 3.2]. Deviations: D-floor (a recovery is guarded by its floor,
since there is no preceding aggregation that anybody took part in).
"""

from __future__ import annotations

from isotone.spec.properties import NONE, Boundary, Form, Property


def _p(id: str, name: str, statement: str, source: str, form: Form = Form.SAFETY) -> Property:
    return Property(f"FLO-{id}", name, statement, f"[Flows {source}]", form, (Boundary.FLOWS,), NONE)


FLOW_PROPERTIES: tuple[Property, ...] = (
    _p(
        "AGGREGATION",
        "Aggregation",
        "The result of a round is its operator over the values of those who took part in it, and nothing else.",
        "(1)",
    ),
    _p(
        "TRANSFORMATION",
        "Transformation",
        "What a node adds follows by the client rules from its inputs and what it heard, what is decided by the root "
        "rules from the aggregates.",
        "(2), (3)",
    ),
    _p("DISSEMINATION", "Dissemination", "What reaches a node was decided before, under the same version.", "(4)"),
    _p(
        "DISTRIBUTION",
        "Distribution",
        "Shares of one decision belong to it, and no two nodes are given the same pair.",
        "(5), (6)",
    ),
    _p(
        "STRONG",
        "Strongly monotonic",
        "Of two results of guarded flows of one ring, unless it recovered between them, and of two decisions, the one "
        "with the higher version is not lower.",
        "(8)",
    ),
    _p("WEAK", "Weakly monotonic", "Ordered inputs of a node, and what guarded flows tell a node, never fall.", "(8)"),
    _p("CONSISTENT", "Consistent", "Messages of a flow with the same version have the same value.", "(9)"),
    _p("IN-ORDER", "In order", "A member adds newer values in newer rounds.", "(10)"),
    _p(
        "GUARDED",
        "Guarded",
        "Who took part in a round and not in the one before was not below the result of the one before, nor below the "
        "floor of a recovery.",
        "(13)",
    ),
    _p(
        "REGULAR",
        "Regular members",
        "Who adds values as a regular member took part in the preceding complete round of its ring.",
        "3.2",
    ),
    _p(
        "HISTORY",
        "One history",
        "Every decision follows the one before it: none is decided twice, and none beside another.",
        "3.1",
    ),
    _p(
        "END",
        "Reaches all",
        "What was decided, and reached even a node that failed, reaches every node that stays.",
        "(7)",
        Form.LIVENESS,
    ),
)


def flow_labels() -> tuple[str, ...]:
    """Of all."""
    return tuple(each.id for each in FLOW_PROPERTIES)
