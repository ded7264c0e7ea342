"""In a task: one run, from the rows that its records and bundles told to one row per property.

Only what is small comes here: the facts of records, the sums of bundles, the loose bundles if they are few.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from isotone.pipeline.conformance.survey.facts import Facts, Stay, decode
from isotone.pipeline.conformance.survey.found import Found
from isotone.pipeline.conformance.survey.run import Held, Home, Loose, Note, is_settled
from isotone.pipeline.conformance.survey.weigh import weigh
from isotone.trace.parquet import require_pyarrow

RUN = "run"
"""The id of the row that tells about the run itself."""
HEIGHTS = "heights"
"""The id of the row that tells which stamps an exact look needs besides the loose bundles."""
JUDGED = (
    "run string, boundary int, id string, is_exercised boolean, is_doubtful boolean, "
    "is_full boolean, heights array<struct<lamport: bigint, name: string, incarnation: bigint>>, "
    "is_lossy boolean, quiet boolean, components array<array<string>>"
)
EVERYTHING = "*"
"""The id that stands for all properties of a run that needs an exact look."""


def judge_run(table: Any) -> Any:
    """The rows of one run: facts, notes and loose rows; what was found about it."""
    compute = import_module("pyarrow.compute")  # by itself pyarrow does not load it
    run = table.column("run")[0].as_py()
    facts = [decode(data) for data in table.filter(compute.is_valid(table.column("facts"))).column("facts").to_pylist()]
    notes = [_note(row) for row in _some(table, "is_wrong", _NOTE)]
    rows = table.filter(compute.is_valid(table.column("is_send")))
    is_crowded = compute.any(table.column("is_crowded")).as_py()
    loose = None if is_crowded else _loose(facts, rows.to_pylist())
    return _told(run, facts, weigh(facts, notes, loose))


_NOTE = ("boundary", "sender", "is_wrong", "lamport", "is_shared", "is_placed", "is_safe", "is_altered", "unsent")


def _some(table: Any, column: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    compute = import_module("pyarrow.compute")
    rows: list[dict[str, Any]] = table.filter(compute.is_valid(table.column(column))).select(list(names)).to_pylist()
    return rows


def _note(row: dict[str, Any]) -> Note:
    flags = {name: bool(row[name]) for name in ("is_wrong", "is_shared", "is_placed", "is_safe", "is_altered")}
    return Note(row["boundary"], row["sender"], lamport=row["lamport"], unsent=row["unsent"], **flags)


def _loose(records: list[Facts], rows: list[dict[str, Any]]) -> dict[int, list[Loose]]:
    """The rows by bundle and group."""
    known = {(facts.node, facts.incarnation): facts for facts in records}
    stays: dict[tuple[Home, int], dict[tuple[str, str, int], list[Stay]]] = {}
    found: dict[tuple[int, str, int, str], Loose] = {}
    for row in rows:
        home = (row["node"], row["incarnation"])
        key = (row["boundary"], row["sender"], row["first"], row["group"])
        before = found.get(key) or Loose(*key[1:], row["service"], (-1, "", 0), [], None)
        if row["is_send"]:
            found[key] = before._replace(sent=(home, row["index"], row["view"], row["is_counting"]))
            continue
        stamp = (row["lamport"], row["stamper"], row["stamper_incarnation"])
        found[key] = before._replace(stamp=stamp, service=row["service"])
        place = (home, row["boundary"])
        if place not in stays:
            stays[place] = _by_view(known[home].sides[row["boundary"]].stays)
        before.held.extend(_held(known[home], row, stays[place]))
    loose: dict[int, list[Loose]] = {}
    for key, each in sorted(found.items()):
        loose.setdefault(key[0], []).append(each)
    return loose


def _by_view(stays: tuple[Stay, ...]) -> dict[tuple[str, str, int], list[Stay]]:
    found: dict[tuple[str, str, int], list[Stay]] = {}
    for stay in stays:
        found.setdefault((stay.process, stay.group, stay.hash), []).append(stay)
    return found


def _held(facts: Facts, row: dict[str, Any], stays: dict[tuple[str, str, int], list[Stay]]) -> list[Held]:
    if row["cohort"] < 0:
        return []
    cohort = facts.sides[row["boundary"]].cohorts[row["cohort"]]
    home, index = (facts.node, facts.incarnation), row["index"]
    held = []
    for process in cohort.clients:
        found = stays[(process, cohort.group, cohort.hash)]
        stay = next(each for each in found if each.at < index and (not each.left or index < each.left_at))
        held.append(Held(process, home, index, cohort.is_late, stay))
    return held


def _told(run: str, records: list[Facts], found: Found) -> Any:
    arrow = require_pyarrow()
    _, quiet, components, is_lossy = is_settled(records)
    rows: list[dict[str, Any]] = [
        {"boundary": -1, "id": RUN, "is_lossy": is_lossy, "quiet": quiet, "components": components}
    ]
    if found.is_odd():
        rows.append({"boundary": -1, "id": EVERYTHING, "is_doubtful": True, "is_full": True})
    for boundary in sorted({boundary for boundary, _ in found.heights if not found.is_odd()}):
        stamps = [stamp for side, stamp in found.heights if side == boundary]
        told = [dict(zip(("lamport", "name", "incarnation"), stamp, strict=True)) for stamp in stamps]
        rows.append({"boundary": boundary, "id": HEIGHTS, "heights": told})
    for boundary, id in {} if found.is_odd() else {**found.exercised, **found.doubts}:
        place = (boundary, id)
        rows.append(
            {"boundary": boundary, "id": id, "is_exercised": place in found.exercised,
             "is_doubtful": place in found.doubts, "is_full": place in found.full}
        )  # fmt: skip
    stamp = arrow.struct([("lamport", arrow.int64()), ("name", arrow.string()), ("incarnation", arrow.int64())])
    texts = arrow.list_(arrow.list_(arrow.string()))
    form = arrow.schema([
        ("run", arrow.string()), ("boundary", arrow.int32()), ("id", arrow.string()), ("is_exercised", arrow.bool_()),
        ("is_doubtful", arrow.bool_()), ("is_full", arrow.bool_()), ("heights", arrow.list_(stamp)),
        ("is_lossy", arrow.bool_()), ("quiet", arrow.bool_()), ("components", texts),
    ])  # fmt: skip
    return arrow.Table.from_pylist([{"run": run, **row} for row in rows], schema=form)
