"""The checkers of the ISIS toolkit: a sound run is accepted, and each broken input is caught by its property."""

from __future__ import annotations

from functools import cache

import pytest

from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.system import Setting, draw_plan
from isotone.spec.check import check
from isotone.spec.toolkit_properties import toolkit_labels
from isotone.spec.verdicts import State
from isotone.trace.events import Ended, Entry, Row, Stabilised
from isotone.trace.toolkit import (
    ActionAnswered,
    ActionAsked,
    ActionDone,
    CopyStarted,
    CopyStopped,
    LockFreed,
    LockTaken,
    MemberReady,
    PostMade,
    PostSeen,
    ProcessBegan,
    StateCounted,
)

A, B, OLD = "a.2/tools", "b.1/tools", "a.1/tools"
READY = (MemberReady(A, "g", 5, "5", "founded"), MemberReady(B, "g", 6, "5", "transferred"))
BEGAN = (ProcessBegan(A), ProcessBegan(B), *READY)
CALL = f"{B}#1@g"


def rows(*entries: Entry) -> list[Row]:
    """Each at the node of its process, and a calm end."""
    counts: dict[str, int] = {}
    made = []
    for at, entry in enumerate(entries):
        node = str(getattr(entry, "process", ""))[:1]
        made.append(Row(node, 1 if node else 0, counts.get(node, 0), at, entry))
        counts[node] = counts.get(node, 0) + 1
    return made


def verdicts(*entries: Entry) -> dict[str, State]:
    found = check(rows(*entries, Stabilised((("a", "b"),)), Ended(True))).verdicts
    return {id: verdict.state for id, verdict in found.items() if id.startswith("TOOLS-")}


def taken(process: str, owner: str, place: int, *, writes: bool) -> LockTaken:
    return LockTaken(process, "g", "x", owner, writes, place)


def made(post: str) -> PostMade:
    return PostMade(A, "g", "n", "causal", post)


def seen(process: str, post: str) -> PostSeen:
    return PostSeen(process, "g", "n", "causal", post, 0)


BROKEN: dict[str, tuple[Entry, ...]] = {
    "TOOLS-EQUAL": (StateCounted(A, "g", 6, "", 1), StateCounted(B, "g", 6, "", 2)),
    "TOOLS-ERA": (MemberReady(B, "g", 9, "9", "founded"),),
    "TOOLS-ONCE": (
        ActionAsked(B, "g", CALL),
        ActionDone(A, "g", CALL, 7),
        ActionDone(B, "g", CALL, 7),
        ActionAnswered(B, "g", CALL, 8),
    ),
    "TOOLS-ANSWERED": (ActionAsked(B, "g", CALL),),
    "TOOLS-EXCLUDE": (taken(A, "one", 3, writes=True), taken(B, "two", 3, writes=True)),
    "TOOLS-BOARD": (PostSeen(A, "g", "n", "total", "p", 1), PostSeen(B, "g", "n", "total", "q", 1)),
    "TOOLS-CAUSAL": (made("p"), seen(A, "p"), made("q"), seen(A, "q"), seen(B, "q"), seen(B, "p")),
    "TOOLS-POSTED": (made("p"), seen(B, "p")),
    "TOOLS-COPIES": (CopyStarted(A, "w"), CopyStarted(A, "w")),
}
SOUND: dict[str, tuple[Entry, ...]] = {
    "TOOLS-EQUAL": (
        StateCounted(A, "g", 6, "", 1),
        StateCounted(B, "g", 6, "", 1),
        StateCounted(B, "g", 6, "mark 1", 2),
    ),
    "TOOLS-ERA": (ProcessBegan(OLD), MemberReady(OLD, "g", 2, "2", "founded"), *BEGAN),
    "TOOLS-ONCE": (
        ActionAsked(B, "g", CALL),
        ActionDone(A, "g", CALL, 7),
        ActionDone(B, "g", CALL, 7),
        ActionAnswered(B, "g", CALL, 7),
    ),
    "TOOLS-ANSWERED": (ActionAsked(B, "g", CALL), ActionDone(B, "g", CALL, 7), ActionAnswered(B, "g", CALL, 7)),
    "TOOLS-EXCLUDE": (
        taken(A, "one", 3, writes=True),
        LockFreed(A, "g", "x", "one", True, 3),
        taken(B, "two", 4, writes=True),
    ),
    "TOOLS-BOARD": (PostSeen(A, "g", "n", "total", "p", 1), PostSeen(B, "g", "n", "total", "p", 1)),
    "TOOLS-CAUSAL": (made("p"), seen(A, "p"), made("q"), seen(A, "q"), seen(B, "p"), seen(B, "q")),
    "TOOLS-POSTED": (made("p"), seen(A, "p")),
    "TOOLS-COPIES": (CopyStarted(A, "w"), CopyStopped(A, "w"), CopyStarted(A, "w")),
}


@pytest.mark.parametrize("label", toolkit_labels())
def test_what_is_broken_is_caught(label: str) -> None:
    found = verdicts(*BEGAN, *BROKEN[label])
    assert [id for id, state in found.items() if state is State.VIOLATED] == [label]


@pytest.mark.parametrize("label", toolkit_labels())
def test_what_is_sound_is_accepted(label: str) -> None:
    found = verdicts(*BEGAN, *SOUND[label])
    assert found[label] is State.HOLDS and State.VIOLATED not in found.values()


@pytest.mark.parametrize(
    ("label", "entries"),
    [
        ("TOOLS-ONCE", (ActionDone(A, "g", CALL, 7), ActionDone(A, "g", CALL, 7))),
        ("TOOLS-ONCE", (ActionDone(A, "g", CALL, 7), ActionDone(B, "g", CALL, 8))),
        ("TOOLS-ONCE", (ActionAnswered(B, "g", CALL, 7),)),
        (
            "TOOLS-EXCLUDE",
            (
                taken(A, "one", 3, writes=False),
                taken(B, "two", 3, writes=True),
                LockFreed(A, "g", "x", "one", False, 4),
            ),
        ),
        ("TOOLS-COPIES", (CopyStopped(A, "w"),)),
    ],
)
def test_other_ways_to_break_it(label: str, entries: tuple[Entry, ...]) -> None:
    assert verdicts(*BEGAN, *entries)[label] is State.VIOLATED


def test_a_result_that_only_a_failed_member_had_never_happened() -> None:
    done = (ProcessBegan(OLD), MemberReady(OLD, "g", 5, "5", "transferred"), ActionDone(OLD, "g", CALL, 7))
    assert verdicts(*done, *BEGAN, ActionDone(B, "g", CALL, 8))["TOOLS-ONCE"] is not State.VIOLATED


def test_a_group_that_lost_its_state_may_do_an_action_anew() -> None:
    before = (ProcessBegan(OLD), MemberReady(OLD, "g", 2, "2", "founded"), ActionAsked(B, "g", CALL))
    answered = (ActionDone(OLD, "g", CALL, 7), ActionAnswered(B, "g", CALL, 7))
    assert verdicts(*before, *answered, *BEGAN, ActionDone(A, "g", CALL, 8))["TOOLS-ONCE"] is State.HOLDS


@cache
def sound() -> tuple[Row, ...]:
    found: list[Row] = []
    system = system_named("toolkit")
    play_plan(system, draw_plan(system, Setting(system="toolkit", stack="isis", size=Size.SMALL), 1), found.append)
    return tuple(found)


def test_a_real_run_holds() -> None:
    states = {id: verdict.state for id, verdict in check(list(sound())).verdicts.items() if id.startswith("TOOLS-")}
    assert set(states) == set(toolkit_labels()) and State.VIOLATED not in states.values()
