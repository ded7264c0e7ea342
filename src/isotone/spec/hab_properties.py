"""The promises of hierarchical atomic broadcast as data, and the assumptions that they rest on.

A centre is *operational* in a life (from its beginning, or its return, on) unless a declaration against it became
effective or it ended by a disaster. Assumptions have ids that begin with ``HAB-ASSUME``: a violated one says that the
surroundings were not as the paper takes them to be, and is no fault of the protocol.

Implements: [HAB 2.1], [HAB 2.2], [HAB 2.4], [HAB 3.1]. Deviations: Dh9 order and integrity hold for all processes, also
where an assumption is violated.
"""

from __future__ import annotations

from isotone.spec.properties import NONE, Boundary, Form, Property

ASSUMPTION = "HAB-ASSUME"


def _p(id: str, name: str, statement: str, source: str, form: Form = Form.SAFETY) -> Property:
    return Property(f"HAB-{id}", name, statement, f"[HAB {source}]", form, (Boundary.HAB,), NONE)


HAB_PROPERTIES: tuple[Property, ...] = (
    _p(
        "VALIDITY",
        "Validity",
        "What a process of an operational centre HA-broadcasts, and it does not crash, it HA-delivers in the end.",
        "2.4 Validity",
        Form.LIVENESS,
    ),
    _p(
        "AGREEMENT",
        "Agreement",
        "What one process of an operational centre HA-delivers, every process of every operational centre that does "
        "not crash HA-delivers in the end, or has by a snapshot.",
        "2.4 Agreement",
        Form.LIVENESS,
    ),
    _p(
        "INTEGRITY",
        "Integrity",
        "A process HA-delivers a message at most once in a life, and only if it was HA-broadcast, with the same "
        "contents.",
        "2.4 Integrity",
    ),
    _p(
        "ORDER",
        "Total order",
        "Processes of centres that are not lost never HA-deliver different messages at one position, nor one message "
        "at two; positions are dense.",
        "2.4 Total Order",
    ),
    _p(
        "WAITING",
        "Nothing that a backup lacks",
        "What a primary HA-delivers in waiting mode stays when it is lost: those who go on have it, at its position, "
        "in the end; but for what a centre had since it went on by an override, if it was lost by another one.",
        "3.1, footnote 3",
    ),
    _p(
        "CONFIRMED",
        "What is confirmed stays",
        "What a process knows to be confirmed, all who know so and all who are not lost have at its position, whoever "
        "is lost; but for what a centre had since it went on by an override, if it was lost by another one.",
        "3.1, made for people who err",
    ),
    _p(
        "LOCAL",
        "One centre, one order",
        "The processes of one centre, in one life of it, never HA-deliver different messages at one position, though "
        "it be lost.",
        "2.3 Total Order",
    ),
    _p(
        "AHEAD",
        "Little is at risk",
        "What a primary delivers at once, before the others have it, is at most as much as its settings say.",
        "3.1, the other choice; made bounded",
    ),
    _p("PRIMARY", "One primary", "All processes that are primary in one epoch are of one centre.", "3.1"),
    _p("EPOCHS", "Epochs rise", "The epoch of a process never falls within a life of its centre.", "3.1"),
    _p(
        "FENCED",
        "Fenced",
        "A process of a centre that recorded the declaration against itself, or takes no part any more, HA-delivers "
        "nothing more in that life.",
        "3.1, made for people who err",
    ),
    _p(
        "NUMBERS",
        "New numbers",
        "A centre that returns has a number above all that it had before.",
        "3.1, identification numbers; made to return",
    ),
    _p(
        "ASSUME-ACCURACY",
        "Accurate declarations (assumption)",
        "A centre is declared lost only after it has fewer than a majority of living processes.",
        "2.2 Strong Accuracy",
    ),
    _p(
        "ASSUME-COMPLETE",
        "Complete declarations (assumption)",
        "A disaster is declared at every centre that goes on, in the end.",
        "2.2 Strong Completeness",
        Form.LIVENESS,
    ),
    _p(
        "ASSUME-SUSPICION",
        "Strong completeness (assumption)",
        "In the end, a process that crashed and stays away is suspected by every living process of its centre.",
        "2.1 Strong Completeness",
        Form.LIVENESS,
    ),
    _p(
        "ASSUME-DETECTOR",
        "Eventual weak accuracy (assumption)",
        "In the end, some process of each centre is suspected by no process of its centre.",
        "2.1",
        Form.LIVENESS,
    ),
)


def hab_labels() -> tuple[str, ...]:
    """Of the promises."""
    return tuple(each.id for each in HAB_PROPERTIES if not each.id.startswith(ASSUMPTION))


def assumption_labels() -> tuple[str, ...]:
    """Of the assumptions."""
    return tuple(each.id for each in HAB_PROPERTIES if each.id.startswith(ASSUMPTION))
