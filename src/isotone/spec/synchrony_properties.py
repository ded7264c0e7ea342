"""The promises of view-synchronous groups as data, as `isotone.spec.properties` has those beneath them.

A *member* is a client's session in a group that it joined as view-synchronous. It *moves from v to w* when w is the
next view that it installs there; two members move *together* when each is in the transitional set of the other's w.

Implements: [Spread 2.2.3.2] Sending View Delivery, [Spread 3.4]. Deviations: see `isotone.evs.sessions.synchrony`.
"""

from __future__ import annotations

from isotone.spec.properties import NONE, Boundary, Form, Property


def _p(id: str, name: str, statement: str, source: str, form: Form = Form.SAFETY) -> Property:
    return Property(f"SYN-{id}", name, statement, f"[Spread {source}]", form, (Boundary.SYNCHRONY,), NONE)


SYNCHRONY_PROPERTIES: tuple[Property, ...] = (
    _p(
        "VIEWS",
        "Views",
        "A view has the same members wherever it is installed, the installing member among them, and ids rise at each.",
        "2.2.3.2",
    ),
    _p(
        "SENDING",
        "Sending view delivery",
        "A message that a member sent is delivered in the view in which it was sent, and nowhere else.",
        "2.2.3.2, 3.4",
    ),
    _p(
        "SETS",
        "Transitional sets",
        "Members that are in each other's transitional sets come from the same view and have the same set.",
        "2.4",
    ),
    _p(
        "SAME",
        "View synchrony",
        "Members that move together from one view to the next were given the same messages of members in the first.",
        "2.7, 3.4",
    ),
    _p(
        "SELF",
        "Self delivery",
        "What a member sent in a view it is given itself before it installs the next.",
        "2.6",
    ),
    _p(
        "ORDER",
        "Order of a sender",
        "A member is given the messages of another in the order of sending, each once, and in one view without a gap.",
        "2.11",
    ),
)


def synchrony_labels() -> tuple[str, ...]:
    """Of all."""
    return tuple(each.id for each in SYNCHRONY_PROPERTIES)
