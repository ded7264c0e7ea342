"""The promises of the ISIS toolkit as data, as `isotone.spec.isis_properties` has those of the kernels.

Implements: [ISIS 3.7], [ISIS 5]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.properties import NONE, Boundary, Form, Property


def _p(id: str, name: str, statement: str, source: str, form: Form = Form.SAFETY) -> Property:
    return Property(f"TOOLS-{id}", name, statement, f"[ISIS {source}]", form, (Boundary.ISIS,), NONE)


TOOLKIT_PROPERTIES: tuple[Property, ...] = (
    _p(
        "EQUAL",
        "Equal states",
        "The states of a group's members at one instant (behind a view, at a mark) are equal.",
        "3.7, 5.1",
    ),
    _p(
        "ERA",
        "State outlives members",
        "A group begins without the state that it had only when every member that had the state has failed or left.",
        "3.7",
    ),
    _p(
        "ONCE",
        "Done once",
        "A member takes an action over once; all members that survive, and a caller that survives, have the same "
        "result as long as the group has its state; a caller is answered once.",
        "5.2",
    ),
    _p(
        "ANSWERED",
        "Answered",
        "A caller that survives has an answer to each of its calls.",
        "5.2",
        Form.LIVENESS,
    ),
    _p(
        "EXCLUDE",
        "Locks exclude",
        "Two owners never write an item from the same place, and none writes it while another reads it.",
        "5.3",
    ),
    _p(
        "BOARD",
        "One sequence",
        "A board with one order has the same post at the same place at all members that survive.",
        "5",
    ),
    _p(
        "CAUSAL",
        "Causal boards",
        "A member that survives sees a post of a causal board behind all posts of causal boards of the group that its "
        "poster had seen or made before.",
        "5",
    ),
    _p(
        "POSTED",
        "Posted",
        "A process that survives and stays in the group sees each of its posts.",
        "5",
        Form.LIVENESS,
    ),
    _p("COPIES", "Copies", "A process begins a copy that it does not run, and ends one that it runs.", "5"),
)


def toolkit_labels() -> tuple[str, ...]:
    """Of all."""
    return tuple(each.id for each in TOOLKIT_PROPERTIES)
