"""``isotone flow run``: inputs as they are given, outputs in words and as JSON; what is wrong is told at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from isotone.cli.flow_run import Course, Heard, heard_table, run_course
from isotone.flows.compiler import compile_text
from isotone.flows.library import PROGRAMS
from isotone.flows.operators import Type
from isotone.flows.values import LIMITLESS, Decisions, Pairs, RangeSet, Value, interval, range_set
from isotone.host import flow_values
from tests.cli.running import isotone, told

WITHIN_S = 60.0


class ReachedError(Exception):
    """What was waited for is there."""


def run_until(program: str, reached: Callable[[Heard], bool], *inputs: dict[str, object]) -> Heard:
    """Three nodes in two layers, until what they heard is so."""
    last: Heard = []

    def look(heard: Heard, passed: float) -> None:
        nonlocal last
        last = heard
        if reached(heard):
            raise ReachedError

    course = Course(compile_text(PROGRAMS[program]), inputs, nodes=3, fan_out=2, token_ms=10, seconds=WITHIN_S)
    with pytest.raises(ReachedError):
        asyncio.run(run_course(course, look))
    return last


def test_phases_go_on_by_themselves() -> None:
    heard = run_until("phases", lambda heard: all(int(values.get("N", 0)) >= 5 for _, values in heard))  # type: ignore[call-overload]
    assert sum(count for count, _ in heard) == 3


def test_what_all_received_is_delivered_and_the_rest_dealt_out() -> None:
    """As the guide draws it."""
    dealt = set[str]()

    def reached(heard: Heard) -> bool:
        for _, values in heard:
            dealt.update(flow_values.in_words(values["F"]).split("; ") if "F" in values else ())
        return dealt >= {"n3: 2", "n2: 3"} and all(values.get("D") == range_set([1, 4]) for _, values in heard)

    given = ({"R": [[1, 4]]}, {"R": [1, 2, 4]}, {"R": [1, [3, 4]]})
    heard = run_until("multicast", reached, *given)
    table = heard_table(compile_text(PROGRAMS["multicast"]), heard, 1.0)
    assert [column.header for column in table.columns] == ["nodes", "D", "F"]
    assert set(table.columns[1].cells) == {"1, 4"}


def test_the_command_tells_what_was_heard() -> None:
    options = ("flow", "run", "health", "--nodes", "1", "--seconds", "0.1", "--token-ms", "10")
    assert told(*options)["heard"][0]["nodes"] == 1
    assert isotone(*options).output.split()[:4] == ["health,", "0.1", "s", "nodes"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("L=1", "--give takes JSON"),
        ("[1]", 'such as {"L": 1}, not [1]'),
        ('{"M": 1}', "phases has no input M; it has L"),
        ('{"L": [1]}', "L is int, not [1]"),
    ],
)
def test_inputs_that_are_wrong_are_told_at_once(given: str, told: str) -> None:
    result = isotone("flow", "run", "phases", "--give", given)
    assert result.exit_code == 2 and told in result.output


@pytest.mark.parametrize(
    ("value", "told", "words"),
    [
        (7, 7, "7"),
        (True, True, "yes"),
        (range_set([1, 2, 5]), [(1, 2), (5, 5)], "1..2, 5"),
        (RangeSet(), [], "nothing"),
        (RangeSet((1, 2), 9), {"ranges": [(1, 2)], "known_up_to": 9}, "1..2 (known up to 9)"),
        (Pairs((("b", range_set([3])),)), {"b": [(3, 3)]}, "b: 3"),
        (
            Decisions(interval(1, 2), range_set([3]), 0),
            {"committed": [(1, 2)], "aborted": [(3, 3)], "forgotten": 0},
            "committed 1..2; aborted 3",
        ),
    ],
)
def test_values_in_json_and_in_words(value: Value, told: object, words: str) -> None:
    assert (flow_values.told(value), flow_values.in_words(value)) == (told, words)


def test_sets_are_given_as_numbers_and_ranges() -> None:
    assert flow_values.given([4, [1, 2], 3, [9, 9]], Type.SET) == RangeSet((1, 4, 9, 9))
    assert flow_values.given({"b": [3], "a": []}, Type.PAIRS) == Pairs((("b", range_set([3])),))
    for wrong in (["s", -1], [[2, 1]], [1.5], [-1], [LIMITLESS + 1], "x"):
        with pytest.raises(ValueError, match=r"is a list|range|order"):
            flow_values.given(wrong, Type.SET)
