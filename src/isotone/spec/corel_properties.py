"""The promises of COReL as data, as `isotone.spec.properties` has those of extended virtual synchrony.

Implements: [COReL 5.4], [COReL 6]. Deviations: D-life (FIFO is owed per life of a server), D-told (after a restart a
server may tell green messages again, the same at the same places).
"""

from __future__ import annotations

from isotone.spec.properties import NONE, Boundary, Form, Property


def _p(id: str, name: str, statement: str, source: str, form: Form = Form.SAFETY) -> Property:
    return Property(f"COR-{id}", name, statement, f"[COReL {source}]", form, (Boundary.COREL,), NONE)


COREL_PROPERTIES: tuple[Property, ...] = (
    _p(
        "FIFO",
        "FIFO",
        "Whoever has a message has every message that its sender sent before it in that life, and before it.",
        "5.4 FIFO",
    ),
    _p(
        "CAUSAL",
        "Causal",
        "Whoever has a message has every message that its sender had when it sent it, and before it.",
        "5.4 Causal",
    ),
    _p(
        "SENT",
        "Sent",
        "What a server has was sent before, once, by the server and in the life that its name says, one number after "
        "the other.",
        "3.2",
    ),
    _p(
        "RECORD",
        "One's own record",
        "What a server tells is about itself: it takes part in what it does with others, each of whom it names once, "
        "and each green message has one content.",
        "3.1",
    ),
    _p(
        "GREEN",
        "No changes in green",
        "Green messages are only ever added at the end of the green ones, at every server and through its restarts; a "
        "recovery or a state takes none back, and adds none that nobody ordered.",
        "5.4 No Changes in Green",
    ),
    _p(
        "AGREED",
        "Agreed green",
        "No two servers ever have different green messages at one place, nor with different contents.",
        "5.4 Agreed Green",
    ),
    _p(
        "YELLOW",
        "Yellow",
        "Whoever knows of a primary component has what was marked green in it, yellow or green, at the same place; "
        "what is green is yellow, and what is yellow is in the queue. Marks are made in primary components alone, in "
        "one order in each.",
        "5.4 Yellow",
    ),
    _p("ONE", "One primary", "Primary components that were committed to under one number are the same.", "Claim 4"),
    _p("EPOCHS", "Epochs rise", "Neither the last committed primary of a server nor its fence ever falls.", "Claim 6"),
    _p(
        "ATTEMPTS",
        "Attempts rise",
        "A server attempts each number once, above all that it attempted before or knows of, and finds the last one "
        "again when it comes back.",
        "5.6.1",
    ),
    _p(
        "PHASES",
        "Phases",
        "Who commits was preceded by attempts of all since it started, who establishes by commits of all, who adopts "
        "by one commit, each once; what is green in a primary component is so in the last that the server knows of, "
        "and established by whoever is in it.",
        "Claims 5 and 8",
    ),
    _p(
        "QUORUM",
        "Quorums meet",
        "A primary component that was committed to is a quorum by the rule that its servers tell, and shares a server "
        "with the one before it.",
        "4.4",
    ),
    _p(
        "SAME",
        "Same queue",
        "Those who attempt a primary component together have the same green and yellow lines, the same queue and the "
        "same last committed primary then.",
        "Claim 10",
    ),
    _p(
        "SYNCED",
        "Synced by all",
        "What is green by Order Rule 1 was on the disk of every server of that primary before it ended there.",
        "5.2 Order Rule 1",
    ),
    _p(
        "KEPT",
        "Kept",
        "What a server has stays in its queue, or becomes green there: a recovery drops nothing.",
        "5.1",
    ),
    _p(
        "DURABLE",
        "Durable",
        "Unless its disk was lost, or it begins from a copy, a server comes back with its log and all of it, in a new "
        "life; what it told green is not red, and what was yellow is so still.",
        "5.1",
    ),
    _p(
        "WHITE",
        "White",
        "What a server calls white is green at every server of its green prefix, and stays white.",
        "3.3 white",
    ),
    _p(
        "CONFIGURATION",
        "One configuration",
        "Every server has the same servers and the same rule from the same place on under one number, comes back with "
        "them, and gets them with a state; one is added or removed at a time, and each is told in its turn.",
        "3.1 All_Servers, made to change",
    ),
    _p(
        "STATE",
        "One state",
        "The states that servers keep for one position are equal, and whoever catches up by one installs one of those; "
        "the position counts the records up to the place, which is green there, and rises with it.",
        "3.3, snapshots",
    ),
    _p(
        "PROPOSAL",
        "Accepted by all",
        "What is green by an order proposal was accepted by every server of the green prefix; each votes on it once, "
        "and stands by it.",
        "7.1.3",
    ),
    _p(
        "LIVE",
        "All ordered",
        "Servers that are together in quiet, and may order by their rule, have all that one of them has green at all: "
        "some of the servers alone, in one primary component, and all of them at the end.",
        "3.5, 7.2.2",
        Form.LIVENESS,
    ),
)


def corel_labels() -> tuple[str, ...]:
    """Of all."""
    return tuple(each.id for each in COREL_PROPERTIES)
