"""The checkers of ISIS: a sound run is accepted, and each broken input is caught by its property."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec
import pytest

from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.system import Setting, draw_plan
from isotone.spec.check import check
from isotone.spec.check.isis.checker import ENTRIES
from isotone.spec.verdicts import State
from isotone.trace.events import Ended, Entry, Row, Stabilised
from isotone.trace.isis import (
    BroadcastBegun,
    BroadcastDelivered,
    BroadcastRejected,
    GroupLeft,
    GroupViewInstalled,
    SiteStarted,
    SiteViewInstalled,
    StoreCounted,
)

Breaking = Callable[[list[Row]], list[Row]]


@cache
def sound() -> tuple[Row, ...]:
    rows: list[Row] = []
    system = system_named("isis")
    play_plan(system, draw_plan(system, Setting(system="isis", stack="oracle", size=Size.SMALL), 1), rows.append)
    return tuple(rows)


def verdicts(rows: list[Row]) -> dict[str, State]:
    """Of the rows about ISIS and about the run: those of the daemons below say nothing about it, and are most."""
    told = [row for row in rows if isinstance(row.entry, (*ENTRIES, Stabilised, Ended))]
    return {id: verdict.state for id, verdict in check(told).verdicts.items() if id.startswith("ISIS-")}


@cache
def operational() -> set[str]:
    views = [row.entry for row in sound() if isinstance(row.entry, SiteViewInstalled)]
    return set(max(views, key=lambda view: view.number).servers)


@cache
def survivors(kind: str) -> dict[str, list[int]]:
    """Where messages of a kind were handed to processes of sites that are there at the end, by process."""
    found: dict[str, list[int]] = {}
    for place, row in enumerate(sound()):
        entry = row.entry
        if isinstance(entry, BroadcastDelivered) and entry.primitive == kind:
            if entry.process.partition("/")[0] in operational():
                found.setdefault(entry.process, []).append(place)
    return found


def with_entry(rows: list[Row], place: int, entry: Entry) -> list[Row]:
    rows[place] = msgspec.structs.replace(rows[place], entry=entry)
    return rows


def swapped(rows: list[Row], one: int, two: int) -> list[Row]:
    first, second = rows[one].entry, rows[two].entry
    return with_entry(with_entry(rows, one, second), two, first)


def first_of(kind: type[Entry]) -> int:
    return next(place for place, row in enumerate(sound()) if isinstance(row.entry, kind))


def break_sites(rows: list[Row]) -> list[Row]:
    place = first_of(SiteViewInstalled)
    entry = rows[place].entry
    assert isinstance(entry, SiteViewInstalled)
    return with_entry(rows, place, msgspec.structs.replace(entry, servers=(*entry.servers, "x.1")))


def break_quorum(rows: list[Row]) -> list[Row]:
    place = first_of(SiteViewInstalled)
    entry = rows[place].entry
    assert isinstance(entry, SiteViewInstalled)
    return with_entry(rows, place, msgspec.structs.replace(entry, servers=(entry.site,)))


def break_once(rows: list[Row]) -> list[Row]:
    places = next(iter(survivors("abcast").values()))
    return with_entry(rows, places[1], rows[places[0]].entry)


def break_views(rows: list[Row]) -> list[Row]:
    place = first_of(GroupViewInstalled)
    entry = rows[place].entry
    assert isinstance(entry, GroupViewInstalled)
    other = next(
        each
        for each, row in enumerate(rows)
        if isinstance(row.entry, GroupViewInstalled)
        and (row.entry.process, row.entry.pgroup) == (entry.process, entry.pgroup)
        and each != place
    )
    return swapped(rows, place, other)


def break_rejected(rows: list[Row]) -> list[Row]:
    place = next(iter(survivors("abcast").values()))[0]
    entry = rows[place].entry
    assert isinstance(entry, BroadcastDelivered)
    counted = max(each for each, row in enumerate(rows) if isinstance(row.entry, StoreCounted))
    return with_entry(rows, counted, BroadcastRejected(sorted(operational())[0], entry.message))


def break_bounded(rows: list[Row]) -> list[Row]:
    counted = max(each for each, row in enumerate(rows) if isinstance(row.entry, StoreCounted))
    entry = rows[counted].entry
    assert isinstance(entry, StoreCounted)
    return with_entry(rows, counted, msgspec.structs.replace(entry, ids=3))


def break_atomic(rows: list[Row]) -> list[Row]:
    """Someone's copy becomes another message, so that the first never came to him."""
    for places in survivors("cbcast").values():
        for place in places:
            entry = rows[place].entry
            assert isinstance(entry, BroadcastDelivered)
            others = [each for ps in survivors("cbcast").values() for each in ps if each != place]
            if any(rows[each].entry.message == entry.message for each in others):  # type: ignore[attr-defined]
                return with_entry(rows, place, msgspec.structs.replace(entry, message="x.1:1"))
    raise AssertionError("no message went to two survivors")


def reordered(kind: str, label: str) -> Breaking:
    """At one process the messages of a kind in the opposite order."""

    def breaking(rows: list[Row]) -> list[Row]:
        for places in survivors(kind).values():
            broken = list(rows)
            entries = [rows[place].entry for place in places]
            for place, entry in zip(places, reversed(entries), strict=True):
                broken = with_entry(broken, place, entry)
            if verdicts(broken)[label] is State.VIOLATED:
                return broken
        return rows

    return breaking


def break_group_order(rows: list[Row]) -> list[Row]:
    """At one process a view and a message that stand beside each other change places."""
    for place, row in enumerate(sound()):
        entry = row.entry
        if not isinstance(entry, GroupViewInstalled) or entry.process.partition("/")[0] not in operational():
            continue
        others = survivors("cbcast").get(entry.process, [])
        for each in sorted(others, key=lambda other: abs(other - place))[:4]:
            broken = swapped(list(rows), place, each)
            if verdicts(broken)["ISIS-GBCAST"] is State.VIOLATED:
                return broken
    return rows


def break_dead(rows: list[Row]) -> list[Row]:
    for place in next(iter(survivors("cbcast").values())):
        entry = rows[place].entry
        assert isinstance(entry, BroadcastDelivered)
        for each, row in enumerate(rows[:place]):
            view = row.entry
            if isinstance(view, GroupViewInstalled) and view.process == entry.process:
                return with_entry(rows, each, msgspec.structs.replace(view, failed=(entry.origin,)))
    raise AssertionError("nothing behind a view")


BROKEN: dict[str, Breaking] = {
    "ISIS-SITES": break_sites,
    "ISIS-QUORUM": break_quorum,
    "ISIS-ONCE": break_once,
    "ISIS-ATOMIC": break_atomic,
    "ISIS-ABCAST": reordered("abcast", "ISIS-ABCAST"),
    "ISIS-CAUSAL": reordered("cbcast", "ISIS-CAUSAL"),
    "ISIS-GBCAST": break_group_order,
    "ISIS-VIEWS": break_views,
    "ISIS-DEAD": break_dead,
    "ISIS-REJECTED": break_rejected,
    "ISIS-BOUNDED": break_bounded,
}


def test_a_sound_run_is_accepted() -> None:
    found = verdicts(list(sound()))
    assert set(found) == set(BROKEN) and State.VIOLATED not in found.values()
    assert any(isinstance(row.entry, BroadcastBegun) for row in sound())


@pytest.mark.parametrize("label", BROKEN)
def test_a_broken_run_is_caught(label: str) -> None:
    assert verdicts(BROKEN[label](list(sound())))[label] is State.VIOLATED


def told(node: str, *entries: Entry) -> list[Row]:
    return [Row(node, 1, place, place, entry) for place, entry in enumerate(entries)]


def leaves_while_a_fails(*, behind: bool) -> list[Row]:
    """c sends m to a and b, and something else that it hears itself; m comes to a alone, a fails, and b leaves."""
    names, whole, rest = ("a", "b", "c"), ("a.1", "b.1", "c.1"), ("b.1", "c.1")
    group = ("a.1/p", "b.1/p")
    m = BroadcastBegun("c.1/p", "c.1:1", "cbcast", "g", "x", 1, group, 7, outside=True)
    other = BroadcastBegun("c.1/p", "c.1:2", "cbcast", "h", "y", 1, ("c.1/p",), 8)
    left = [SiteViewInstalled("b.1", 2, rest), GroupLeft("b.1/p", "g")]
    return [
        *told(
            "a",
            SiteStarted("a.1", names),
            SiteViewInstalled("a.1", 1, whole),
            GroupViewInstalled("a.1/p", "g", 1, group, "", ()),
            BroadcastDelivered("a.1/p", "c.1:1", "c.1/p", "cbcast", "g", 7, 1),
        ),
        *told(
            "b",
            SiteStarted("b.1", names),
            SiteViewInstalled("b.1", 1, whole),
            GroupViewInstalled("b.1/p", "g", 1, group, "", ()),
            *(left if behind else reversed(left)),
        ),
        *told(
            "c",
            SiteStarted("c.1", names),
            SiteViewInstalled("c.1", 1, whole),
            GroupViewInstalled("c.1/p", "h", 1, ("c.1/p",), "", ()),
            m,
            other,
            BroadcastDelivered("c.1/p", "c.1:2", "c.1/p", "cbcast", "h", 8, 1),
            SiteViewInstalled("c.1", 2, rest),
        ),
        *told("", Stabilised((names,)), Ended(True)),
    ]


def test_a_process_that_left_behind_a_failure_need_not_have_what_came_to_the_failed_alone() -> None:
    """Nobody who is left has it before that process left; but one that left while the other was there owes it."""
    assert verdicts(leaves_while_a_fails(behind=True))["ISIS-ATOMIC"] is State.HOLDS
    assert verdicts(leaves_while_a_fails(behind=False))["ISIS-ATOMIC"] is State.VIOLATED


def test_a_cbcast_behind_a_causal_abcast_whose_sender_had_heard_it_is_caught() -> None:
    """c is handed them the other way round; without the causal option that is nobody's concern."""
    for causal in (True, False):
        names, whole = ("a", "b", "c"), ("a.1", "b.1", "c.1")
        group = tuple(f"{site}/p" for site in whole)
        first = BroadcastBegun("a.1/p", "a.1:1", "cbcast", "g", "x", 1, group, 7)
        second = BroadcastBegun("b.1/p", "b.1:1", "abcast", "g", "", 0, group, 8, causal=causal)
        rows: list[Row] = []
        for name, site in zip(names, whole, strict=True):
            mine = [
                BroadcastDelivered(f"{site}/p", "a.1:1", "a.1/p", "cbcast", "g", 7, 1),
                BroadcastDelivered(f"{site}/p", "b.1:1", "b.1/p", "abcast", "g", 8, 1),
            ]
            sent: dict[str, list[Entry]] = {"a": [first, *mine], "b": [mine[0], second, mine[1]], "c": mine[::-1]}
            view = GroupViewInstalled(f"{site}/p", "g", 1, group, "", ())
            rows += told(name, SiteStarted(site, names), SiteViewInstalled(site, 1, whole), view, *sent[name])
        rows += told("", Stabilised((names,)), Ended(True))
        assert (verdicts(rows)["ISIS-CAUSAL"] is State.VIOLATED) == causal
