"""What nodes and roots of flows compute, by Spark: client rules over recorded inputs, root rules over aggregates.

Together with `isotone.pipeline.flows`, which has the rings between, this is the second back end of a program: the rules
that a run records become expressions of columns. Sets are (`top`, `inside`): above `top` nothing is known.

Implements: [Flows 2.2, (2) to (4)], [Flows 3.2], [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import functions as F

from isotone.trace import flows as trace
from isotone.trace.events import Row

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EVERYTHING = 2**62
LONGS = "array<bigint>"
TYPES = {
    "int": "bigint",
    "bool": "boolean",
    "set": f"struct<top: bigint, inside: {LONGS}>",
    "pairs": "array<string>",
    "decisions": f"struct<forgotten: bigint, committed: {LONGS}, aborted: {LONGS}>",
}
NOTHING = "0.0"
"""The version before the first decision."""
Typed = tuple[str, "Column"]
"""The type of a flow, and its value in each row."""


# --- values --------------------------------------------------------------------------------------------------------


def _value(plain: Any) -> Any:
    """A recorded value as a column holds it."""
    match plain:
        case ["s", limit, *bounds]:
            return (EVERYTHING if limit == -1 else limit, _numbers(bounds))
        case ["p", *entries]:
            return [f"{entry[0]}:{number}" for entry in entries for number in _numbers(entry[1:])]
        case ["d", forgotten, committed, aborted]:
            return (forgotten, _numbers(committed), _numbers(aborted))
    return plain


def _numbers(bounds: list[int]) -> list[int]:
    return [each for first, last in zip(bounds[::2], bounds[1::2]) for each in range(first, last + 1)]


def _named(text: str, types: Mapping[str, str]) -> list[Any]:
    told = msgspec.json.decode(text)
    return [_value(told[name]) for name in types]


def _fields(types: Mapping[str, str], before: str = "flow ") -> list[str]:
    return [f"`{before}{name}` {TYPES[type]}" for name, type in types.items()]


def _flow(name: str) -> Column:
    return F.col(f"`flow {name}`")


def _same(type: str, one: Column, other: Column) -> Column:
    """Whether two values are equal, whatever the order of what is in them."""
    match type:
        case "pairs":
            return _same_elements(one, other)
        case "set":
            return one["top"].eqNullSafe(other["top"]) & _same_elements(one["inside"], other["inside"])
        case "decisions":
            parts = [_same_elements(one[part], other[part]) for part in ("committed", "aborted")]
            return reduce(and_, parts, one["forgotten"].eqNullSafe(other["forgotten"]))
    return one.eqNullSafe(other)


def _same_elements(one: Column, other: Column) -> Column:
    return F.array_sort(one).eqNullSafe(F.array_sort(other))


def _initial(type: str) -> Column:
    """What a flow holds before there is a decision."""
    none = F.array().cast(LONGS)
    match type:
        case "set":
            return F.struct(F.lit(EVERYTHING).alias("top"), none.alias("inside"))
        case "pairs":
            return F.array().cast(TYPES[type])
        case "decisions":
            return F.struct(F.lit(0).cast("bigint").alias("forgotten"), none.alias("committed"), none.alias("aborted"))
    return F.lit(0).cast(TYPES[type])


# --- expressions ---------------------------------------------------------------------------------------------------


def computed(expression: Any, flows: Mapping[str, Typed], node: Column, last: Column | None = None) -> Typed:
    """An expression of the rules as a column; ``last``: what a rule that remembers said before."""
    if isinstance(expression, int):
        return "int", F.lit(expression)
    if isinstance(expression, str):
        return flows[expression]
    function, *arguments = expression
    given = [computed(each, flows, node) for each in arguments]
    columns = [column for _, column in given]
    match function, [type for type, _ in given], columns:
        case "+", _, [one, other]:
            return "int", one + other
        case "-", ["int", _], [one, other]:
            return "int", one - other
        case "-" | "\\", ["pairs", _], [one, other]:
            return "pairs", F.array_except(one, other)
        case "-" | "\\", _, [one, other]:
            return "set", F.struct(
                one["top"].alias("top"), F.array_except(one["inside"], other["inside"]).alias("inside")
            )
        case "\\/", ["pairs", _], [one, other]:
            return "pairs", F.array_union(one, other)
        case "\\/", _, [one, other]:
            return "set", _cut(F.array_union(one["inside"], other["inside"]), F.least(one["top"], other["top"]))
        case "/\\", _, [one, other]:
            return "set", _cut(F.array_intersect(one["inside"], other["inside"]), F.least(one["top"], other["top"]))
        case "self *", _, [numbers]:
            return "pairs", F.transform(numbers["inside"], lambda each: F.concat(node, F.lit(":"), each.cast("string")))
        case "not", _, [one]:
            return "bool", ~one
        case "reached", _, [one, other]:
            return "bool", one >= other
        case "decided", _, [one]:
            return "set", _cut(_decided(one), F.lit(EVERYTHING))
        case "decide", _, [commit, abort, window] if last is not None:
            return "decisions", _extended(last, commit["inside"], abort["inside"], window)
    raise AssertionError(f"not a function: {function}")


def _cut(inside: Column, top: Column) -> Column:
    return F.struct(top.alias("top"), F.filter(inside, lambda each: each <= top).alias("inside"))


def _decided(outcomes: Column) -> Column:
    forgotten = outcomes["forgotten"]
    old = F.when(forgotten > 0, F.sequence(F.lit(1).cast("bigint"), forgotten)).otherwise(F.array().cast(LONGS))
    return F.array_union(F.array_union(outcomes["committed"], outcomes["aborted"]), old)


def _let(value: Column, body: Callable[[Column], Column]) -> Column:
    """The body with this value, which is computed once: in an expression Spark computes what it is at each place."""
    return F.transform(F.array(value), body)[0]


def _extended(last: Column, commit: Column, abort: Column, window: Column) -> Column:
    """What is not decided yet is: the first word counts. Of the beginning that has no hole, ``window`` are kept."""

    def decided(known: Column, committed: Column, aborted: Column) -> Column:
        every = F.array_sort(F.array_union(known, F.array_union(committed, aborted)))
        end = F.aggregate(every, F.lit(0).cast("bigint"), _next)
        return _let(F.greatest(last["forgotten"], end - window), lambda forgotten: kept(forgotten, committed, aborted))

    def kept(forgotten: Column, committed: Column, aborted: Column) -> Column:
        both = [F.array_union(last["committed"], committed), F.array_union(last["aborted"], aborted)]
        new = [F.filter(each, lambda number: number > forgotten) for each in both]
        return F.struct(forgotten.alias("forgotten"), new[0].alias("committed"), new[1].alias("aborted"))

    def with_known(known: Column) -> Column:
        return _let(F.array_except(commit, known), lambda committed: with_committed(known, committed))

    def with_committed(known: Column, committed: Column) -> Column:
        left = F.array_except(F.array_except(abort, known), committed)
        return _let(left, lambda aborted: decided(known, committed, aborted))

    return _let(_decided(last), with_known)


def _next(end: Column, number: Column) -> Column:
    return F.when(number == end + 1, number).otherwise(end)


# --- nodes ---------------------------------------------------------------------------------------------------------


def wrong_contributions(spark: SparkSession, rows: Iterable[Row], rules: dict[str, Any]) -> DataFrame:
    """What nodes added to their rings, and the client rules do not say from their inputs and what they heard."""
    rows = list(rows)
    added = _added(spark, rows, rules)
    found = added.join(_given(spark, rows, rules), ["life", "input"], "left").join(
        _heard(spark, rows, rules), ["life", "heard"], "left"
    )
    flows: dict[str, Typed] = {name: (type, _flow(name)) for name, type in _inputs(rules).items()}
    for name, type in _down(rules).items():
        flows[name] = (type, F.when(F.col("heard") == NOTHING, _initial(type)).otherwise(_flow(name)))
    flows |= {name: flows[source] for name, source in rules["sources"].items()}
    for name, expression in rules["client"]:
        flows[name] = computed(expression, flows, F.col("node"))
    right = [
        _same(rule[4], F.col(f"added{place}"), computed(rule[2], flows, F.col("node"))[1])
        for place, rule in enumerate(rules["regular"])
    ]
    return found.where(~reduce(and_, right)).select("node", "life", "ring", "version", "input", "heard")


def _inputs(rules: dict[str, Any]) -> dict[str, str]:
    return {name: type for name, type, _ in rules["inputs"]}


def _global(rules: dict[str, Any]) -> dict[str, str]:
    return {rule[0]: rule[4] for rule in rules["regular"]} | {rule[0]: rule[2] for rule in rules["root"]}


def _down(rules: dict[str, Any]) -> dict[str, str]:
    types = _global(rules)
    return {name: types[name] for name in rules["down"]}


def _added(spark: SparkSession, rows: list[Row], rules: dict[str, Any]) -> DataFrame:
    found: list[tuple[Any, ...]] = []
    for row in rows:
        entry = row.entry
        if isinstance(entry, trace.Contributed) and entry.origin.startswith("input "):
            _, input, heard = entry.origin.split(" ")
            values = [_value(each) for each in msgspec.json.decode(entry.values)]
            life, version = entry.member.partition("/")[0], f"{entry.number}.{entry.round}"
            found.append((row.node, life, entry.ring, version, int(input), heard, *values))
    head = "node string, life string, ring string, version string, input bigint, heard string"
    places = _fields({str(place): rule[4] for place, rule in enumerate(rules["regular"])}, "added")
    return spark.createDataFrame(found, ", ".join([head, *places]))


def _given(spark: SparkSession, rows: list[Row], rules: dict[str, Any]) -> DataFrame:
    types = _inputs(rules)
    found = [
        (row.entry.member, row.entry.version, *_named(row.entry.values, types))
        for row in rows
        if isinstance(row.entry, trace.FlowInput)
    ]
    return spark.createDataFrame(found, ", ".join(["life string, input bigint", *_fields(types)]))


def _heard(spark: SparkSession, rows: list[Row], rules: dict[str, Any]) -> DataFrame:
    types = _down(rules)
    found = [
        (row.entry.member, f"{row.entry.number}.{row.entry.round}", *_named(row.entry.values, types))
        for row in rows
        if isinstance(row.entry, trace.Flowed)
    ]
    return spark.createDataFrame(found, ", ".join(["life string, heard string", *_fields(types)]))


# --- the root ------------------------------------------------------------------------------------------------------


def decisions_of(spark: SparkSession, rows: Iterable[Row], rules: dict[str, Any]) -> DataFrame:
    """Every decision once: its version, that of the one before, and all global flows."""
    types = _global(rules)
    found = {
        (row.entry.number, row.entry.round): (row.entry.after, *_named(row.entry.flows, types))
        for row in rows
        if isinstance(row.entry, trace.Decided)
    }
    made = [(f"{number}.{round}", *rest) for (number, round), rest in found.items()]
    return spark.createDataFrame(made, ", ".join(["version string, after string", *_fields(types)]))


def wrong_decisions(decisions: DataFrame, rules: dict[str, Any]) -> DataFrame:
    """Decisions that the root rules do not make from their aggregates and from the decision before."""
    types = _global(rules)
    before = decisions.select(F.col("version").alias("after"), *(_flow(name).alias(f"last {name}") for name in types))
    found = decisions.join(before, "after", "left")
    flows: dict[str, Typed] = {rule[0]: (rule[4], _flow(rule[0])) for rule in rules["regular"]}
    right: list[Column] = []
    for name, expression, type, _ in rules["root"]:
        last = F.when(F.col("after") == NOTHING, _initial(type)).otherwise(F.col(f"`last {name}`"))
        flows[name] = computed(expression, flows, F.lit(""), last)
        right.append(_same(type, _flow(name), flows[name][1]))
    return found.where(~reduce(and_, right, F.lit(True))).select("version", "after")


def wrong_outputs(spark: SparkSession, rows: Iterable[Row], decisions: DataFrame, rules: dict[str, Any]) -> DataFrame:
    """What nodes heard, and was not decided with that version."""
    types = _down(rules)
    made = decisions.select(F.col("version").alias("heard"), *(_flow(name).alias(f"made {name}") for name in types))
    found = _heard(spark, list(rows), rules).join(made, "heard", "left")
    right = [_same(type, _flow(name), F.col(f"`made {name}`")) for name, type in types.items()]
    return found.where(~reduce(and_, right)).select("life", "heard")
