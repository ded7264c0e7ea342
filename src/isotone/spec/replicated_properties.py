"""What replicated objects promise to their clients, as data.

Implements: [COReL 2.4], one-copy equivalence; [COReL 8.1], [COReL 8.3]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.properties import NONE, Boundary, Form, Property


def _p(id: str, name: str, statement: str, source: str, form: Form = Form.SAFETY) -> Property:
    return Property(f"REP-{id}", name, statement, f"[COReL {source}]", form, (Boundary.REPLICATED,), NONE)


REPLICATED_PROPERTIES: tuple[Property, ...] = (
    _p(
        "LINEAR",
        "Linearizable",
        "The operations on each key of a dict, each counter and each member of a set are as if done one after another, "
        "each between its call and its answer; what is answered as not done is not done. What a transaction does to "
        "several keys happens to all of them at once.",
        "2.4 one-copy equivalence",
    ),
    _p(
        "FENCE",
        "Fences rise",
        "No two holders have the same fence; of two that exclude each other, the later one has the higher.",
        "8.1 lock acquisition",
    ),
    _p(
        "HELD",
        "Held by one",
        "No two programs take themselves for the holder of a lock, a leadership or an item of a queue at one time; "
        "readers may share, and a semaphore has no more holders than permits.",
        "8.1 lock acquisition",
    ),
    _p(
        "LEADER",
        "One leader",
        "Under one fence one program leads, and no other leads at the same time.",
        "8.1 lock acquisition",
    ),
    _p(
        "QUEUE",
        "No item lost or done twice",
        "An item whose put was answered is finished by its taker or left at the end, whoever died with it; "
        "a finished one is never handed out again.",
        "8.1",
    ),
    _p(
        "COMMIT",
        "One decision",
        "All who hear a decision hear the same; it is to commit only if all participants voted yes.",
        "8.3",
    ),
    _p(
        "OWNED",
        "Owned entries stay with their owner",
        "An entry that is owned is there as long as its owner's session certainly lives.",
        "8.1",
    ),
    _p(
        "WATCH",
        "A watch misses nothing",
        "A watch tells the changes behind its revision in their order, each once; two watches tell the same.",
        "8.1",
    ),
    _p(
        "RED",
        "Only what commutes is applied at red",
        "A provisional value is the one that is green at the server, with the red commands that commute and no others.",
        "2.4 commutative operations",
    ),
    _p(
        "STATE",
        "Equal states",
        "The states of all replicas at one place of the order are equal.",
        "8.1 deterministic state machines",
    ),
)


def replicated_labels() -> tuple[str, ...]:
    """Of all."""
    return tuple(each.id for each in REPLICATED_PROPERTIES)
