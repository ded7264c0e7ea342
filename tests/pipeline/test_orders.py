"""Two agreed messages in two orders: the first witness, and how many rows it takes to find it.

``ISOTONE_TRACES=500 pytest -s tests/pipeline/test_orders.py`` makes more of the random runs.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from isotone.core.choice import Choice
from isotone.core.services import Service
from isotone.pipeline.bronze import read_bronze
from isotone.pipeline.conformance import orders
from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.silver import silver
from isotone.spec.check import State, check
from isotone.spec.properties import Boundary
from isotone.trace import events as trace
from isotone.trace.events import Entry, Row
from tests.pipeline.files import write_together
from tests.spec.corruptions import renumbered

WANTED = int(os.environ.get("ISOTONE_TRACES", "20"))
DRAWN = 80 if WANTED <= 20 else 10 * WANTED
MANY, ALL_WRONG = 1000, 100
NODES = ("d1", "d2", "d3")
CLIENTS = {node: (f"#a#{node}#1#1", f"#b#{node}#1#2") for node in NODES}
SERVICES = (Service.AGREED, Service.AGREED, Service.SAFE, Service.RELIABLE)
Outcome = tuple[str, tuple[tuple[str, int, int], ...]]


class Message(NamedTuple):
    """One message of a sender of its own."""

    number: int
    service: Service
    lamport: int


def _entry(receivers: tuple[str, ...], message: Message, lamport: int) -> Entry:
    sender = f"#s#d9#1#{message.number}"
    return trace.Delivered(receivers, sender, 1, message.service, ("g",), (1,), (7,), lamport, "d9#1")


def _run(messages: list[Message], delivered: list[tuple[str, Entry]]) -> list[Row]:
    sent = [
        ("d9", trace.Sent(f"#s#d9#1#{each.number}", 1, each.service, ("g",), (1,), (7,)))
        for each in sorted(messages)
    ]  # fmt: skip
    return renumbered([Row(node, 1, 0, at, entry) for at, (node, entry) in enumerate([*sent, *delivered])])


def _one_stamp(count: int, at_d2: slice) -> list[Row]:
    """All have one stamp, and a stretch of them comes the other way round at one node."""
    messages = [Message(number, Service.AGREED, 5) for number in range(1, count + 1)]
    turned = list(messages)
    turned[at_d2] = reversed(turned[at_d2])
    told = {"d1": messages, "d2": turned, "d3": messages}
    return _run(messages, [(node, _entry(CLIENTS[node], each, 5)) for node in NODES for each in told[node]])


def _drawn(number: int) -> list[Row]:
    """Some share stamps or have several, some change places, some are missing; clients of a node mostly agree."""
    choice = Choice(f"orders/{number}")
    count, alike = choice.between(3, 9), choice.pick((1, 2, 3, 9))
    messages = [Message(each, choice.pick(SERVICES), 10 + each // alike) for each in range(1, count + 1)]
    delivered: list[tuple[str, Entry]] = []
    for node in NODES:
        odd = choice.between(1, count) if choice.chance(0.2) else 0
        lamports = {each.number: each.lamport + (3 if each.number == odd else 0) for each in messages}
        own = _shuffled(messages, choice)
        apart = {each for each in own if choice.chance(0.5)} if choice.chance(0.4) else set()
        told = [(CLIENTS[node][:1] if each in apart else CLIENTS[node], each) for each in own]
        for each in sorted(apart):
            told.insert(choice.below(len(told) + 1), (CLIENTS[node][1:], each))
        delivered += [(node, _entry(receivers, each, lamports[each.number])) for receivers, each in told]
    return _run(messages, delivered)


def _shuffled(messages: list[Message], choice: Choice) -> list[Message]:
    found = [each for each in messages if choice.chance(0.9)]
    for _ in range(choice.below(3) if len(found) > 1 else 0):
        one, other = choice.below(len(found)), choice.below(len(found))
        found[one], found[other] = found[other], found[one]
    return found


@cache
def _runs() -> dict[str, list[Row]]:
    found = {
        "in one order": _one_stamp(MANY, slice(0, 0)),
        "two": _one_stamp(MANY, slice(MANY - 2, MANY)),
        "all": _one_stamp(ALL_WRONG, slice(0, ALL_WRONG)),
    }
    return found | {f"drawn/{number}": _drawn(number) for number in range(DRAWN)}


class Judged(NamedTuple):
    """What Spark said, and how many rows of each run were compared between two processes."""

    outcomes: dict[str, Outcome]
    compared: Counter[str]


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    place = tmp_path_factory.mktemp("orders")
    write_together(place, _runs())
    normal = Normal(silver(read_bronze(spark, [place]).rows.localCheckpoint(eager=True)))
    compared: Counter[str] = Counter()
    meet = orders.meetings

    def counted(lines: DataFrame, moved: DataFrame) -> DataFrame:
        found = meet(lines, moved)
        compared.update({row["run"]: row["count"] for row in found.groupBy("run").count().collect()})
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(orders, "meetings", counted)
        rows = {row["run"]: row for row in orders.agreed_order(normal).where("boundary = 0").collect()}
    outcomes: dict[str, Outcome] = {}
    for run in _runs():
        told = rows[run]["witness"] if run in rows else None
        state = State.VIOLATED if told else State.HOLDS if run in rows else State.NOT_EXERCISED
        outcomes[run] = (state.value, tuple((each["node"], each["incarnation"], each["index"]) for each in told or ()))
    return Judged(outcomes, compared)


@cache
def _expected() -> dict[str, Outcome]:
    found = {}
    for run, rows in _runs().items():
        verdict = check(rows, (Boundary.CLIENTS,)).verdicts["EVS-2.13.2"]
        found[run] = (verdict.state.value, verdict.violation.witness if verdict.violation else ())
    return found


def test_both_engines_agree(judged: Judged) -> None:
    print(f"{len(_runs())} runs, verdicts: {Counter(state for state, _ in judged.outcomes.values())}")
    both = {run: (told, judged.outcomes[run]) for run, told in _expected().items()}
    assert {run: each for run, each in both.items() if each[0] != each[1]} == {}
    witnesses = Counter(len(witness) for _, witness in judged.outcomes.values())
    assert {2, 3, 4} <= set(witnesses)


def test_only_what_is_against_the_order_is_compared(judged: Judged) -> None:
    assert judged.compared["in one order"] == 0
    assert judged.compared["two"] == 2 * 2
    assert judged.compared["all"] == 2 * ALL_WRONG
    assert [judged.outcomes[run][0] for run in ("in one order", "two", "all")] == ["holds", "violated", "violated"]
