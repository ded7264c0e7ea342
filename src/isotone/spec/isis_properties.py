"""The promises of ISIS as data, as `isotone.spec.properties` has those of extended virtual synchrony.

A process *survives* if its site was neither killed nor crashed up to the end. Terms are those of [ISIS 3].

Implements: [ISIS 3], [ISIS 4.2], [ISIS 4.4]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.properties import NONE, Boundary, Form, Property


def _p(id: str, name: str, statement: str, source: str, form: Form = Form.SAFETY) -> Property:
    return Property(f"ISIS-{id}", name, statement, f"[ISIS {source}]", form, (Boundary.ISIS,), NONE)


ISIS_PROPERTIES: tuple[Property, ...] = (
    _p(
        "SITES",
        "Site views",
        "Every site goes through the same sequence of site views, without a gap, as long as it is operational.",
        "4.2",
    ),
    _p("QUORUM", "Quorum", "Every site view has a majority of the configured sites.", "4.2, footnote 3"),
    _p(
        "ONCE",
        "Once",
        "A process is handed a message at most once, as it was sent, and only if it was addressed to it.",
        "4.4",
    ),
    _p(
        "ATOMIC",
        "Atomicity",
        "A message that a surviving process was handed, or that precedes what one was handed, reaches all its "
        "surviving destinations, but for those that left their group before it: with it came at most to processes "
        "that had failed by then.",
        "3, 3.5",
        Form.LIVENESS,
    ),
    _p(
        "ABCAST",
        "Atomic order",
        "Two ABCASTs of one label are handed over in the same order wherever both are: at a process that failed only "
        "if both have the extra phase, or others came to both before the failure.",
        "3.2",
    ),
    _p(
        "CAUSAL",
        "Causal order",
        "A CBCAST is handed over behind every CBCAST that precedes it, and a causal ABCAST behind all CBCASTs and "
        "causal ABCASTs that its sender had sent or been handed, wherever both are.",
        "3.3, 3.4",
    ),
    _p(
        "GBCAST",
        "Group order",
        "A GBCAST or view of a group has the same place among all messages at all members; at a process that failed as "
        "far as others came to both before the failure.",
        "3.1",
    ),
    _p("VIEWS", "Group views", "Views of a group that have one number are the same, and numbers rise.", "3.1, 3.6"),
    _p(
        "DEAD",
        "Silence of the dead",
        "Nothing of a process is handed over to a member behind the view that says that it failed.",
        "3.1",
    ),
    _p(
        "REJECTED",
        "Rejected by all",
        "A broadcast that a site rejected is handed to nobody who survives the same site view, and no surviving member "
        "sent it; one that is handed over in a view of its group is addressed to all members of that view.",
        "3.6",
    ),
    _p("BOUNDED", "Nothing kept", "When all is quiet a site keeps no id, message or list.", "4.4", Form.LIVENESS),
)


def isis_labels() -> tuple[str, ...]:
    """Of all."""
    return tuple(each.id for each in ISIS_PROPERTIES)
