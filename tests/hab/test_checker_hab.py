"""The checkers of hierarchical atomic broadcast: each promise and assumption has rows that break it, and it alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from isotone.spec.check.hab import HabChecker
from isotone.spec.hab_properties import HAB_PROPERTIES
from isotone.spec.verdicts import State
from isotone.trace.events import Entry, Row
from isotone.trace.hab import HaBroadcast, HaDeclared, HaDelivered, HaDisaster, HaInstalled, HaRole, HaSuspected

Script = Sequence[tuple[str, Entry]]


def role(
    process: str, role: str, *, epoch: int = 1, number: int = 0, life: int = 0, why: str = ""
) -> tuple[str, Entry]:
    centre = process[0]
    return process, HaRole(process, centre, number or "abc".index(centre) + 1, epoch, life, role, why)


def sent(process: str, counter: int, digest: int = 7) -> tuple[str, Entry]:
    return process, HaBroadcast(process, process[0], f"{process}.1:{counter}", digest)


def got(
    process: str,
    position: int,
    *messages: str,
    role: str = "backup",
    digest: int = 7,
    life: int = 0,
    confirmed: int = 0,
    ahead_max: int = 0,
) -> tuple[str, Entry]:
    number = "abc".index(process[0]) + 1
    digests = (digest,) * len(messages)
    return process, HaDelivered(
        process, process[0], number, 1, life, role, position, messages, digests, confirmed, ahead_max
    )


def declared(process: str, lost: str, *, effective: bool = True, override: bool = False) -> tuple[str, Entry]:
    number = "abc".index(lost) + 1
    return process, HaDeclared(process, process[0], lost, number, ("b", "c"), effective, override)


STARTED = (role("a1", "primary"), role("b1", "backup"), role("c1", "backup"))
SENT = (sent("a1", 1), sent("a1", 2))
GOOD = (
    *STARTED,
    *SENT,
    got("b1", 1, "a1.1:1", "a1.1:2"),
    got("c1", 1, "a1.1:1", "a1.1:2"),
    got("a1", 1, "a1.1:1", "a1.1:2", role="primary"),
)
LOST, GONE = ("", HaDisaster("a")), ("", HaDisaster("c"))


def judged(script: Script, alive: tuple[str, ...] = ("a1", "b1", "c1")) -> set[str]:
    """The properties that the checker finds violated."""
    checker = HabChecker()
    indexes: dict[str, int] = {}
    for at, (node, entry) in enumerate(script):
        indexes[node] = indexes.get(node, -1) + 1
        checker.feed(Row(node, 1 if node else 0, indexes[node], at, entry))
    verdicts = checker.finish(lossy=False, liveness=None, components=(alive,))
    return {id for id, verdict in verdicts.items() if verdict.state is State.VIOLATED}


BROKEN: dict[str, tuple[Script, tuple[str, ...]]] = {
    "HAB-VALIDITY": ((*GOOD, sent("b1", 1)), ("a1", "b1", "c1")),
    "HAB-AGREEMENT": ((*GOOD[:-2], got("c1", 1, "a1.1:1"), GOOD[-1]), ("a1", "b1", "c1")),
    "HAB-INTEGRITY": ((*STARTED[:2], sent("a1", 1), got("b1", 1, "a1.1:1", digest=8)), ("b1",)),
    "HAB-ORDER": ((*STARTED, *SENT, got("b1", 1, "a1.1:1", "a1.1:2"), got("c1", 1, "a1.1:2", "a1.1:1")), ("b1", "c1")),
    "HAB-WAITING": (
        (*STARTED, *SENT, got("a1", 1, "a1.1:1", role="primary"), LOST, declared("b1", "a"), got("b1", 1, "a1.1:2")),
        ("b1",),
    ),
    "HAB-CONFIRMED": (
        (*STARTED, *SENT, got("c1", 1, "a1.1:1", confirmed=1), GONE, declared("b1", "c"), got("b1", 1, "a1.1:2")),
        ("b1",),
    ),
    "HAB-LOCAL": (
        (
            *(*STARTED, *SENT, role("c2", "backup")),
            *(got("c1", 1, "a1.1:1"), got("c2", 1, "a1.1:2"), GONE, declared("b1", "c")),
        ),
        ("b1",),
    ),
    "HAB-AHEAD": (
        (
            *(*STARTED, *SENT, sent("a1", 3)),
            *(got("a1", 1, "a1.1:1", role="primary", confirmed=1),),
            got("a1", 2, "a1.1:2", "a1.1:3", role="ahead", confirmed=1, ahead_max=1),
        ),
        ("a1",),
    ),
    "HAB-PRIMARY": ((*GOOD, role("b1", "primary")), ("a1", "b1", "c1")),
    "HAB-EPOCHS": ((*GOOD, role("b1", "backup", epoch=5), role("b1", "backup", epoch=4)), ("a1", "b1", "c1")),
    "HAB-FENCED": (
        (*STARTED[1:], sent("b1", 1), role("c1", "out"), got("c1", 1, "b1.1:1"), got("b1", 1, "b1.1:1")),
        ("b1",),
    ),
    "HAB-NUMBERS": (
        (*STARTED[1:], role("c1", "out"), ("c1", HaInstalled("c1", "c", 3, 1, 0, 0))),
        ("b1",),
    ),
    "HAB-ASSUME-ACCURACY": ((*GOOD, declared("b1", "a"), LOST, declared("c1", "a")), ("b1", "c1")),
    "HAB-ASSUME-COMPLETE": ((*GOOD, LOST, declared("b1", "a")), ("b1", "c1")),
    "HAB-ASSUME-SUSPICION": (
        (
            *GOOD,
            *(role("b2", "backup"), got("b2", 1, "a1.1:1", "a1.1:2"), role("b3", "backup")),
            *(("b1", HaSuspected("b1", "b", ("b3",))), ("b2", HaSuspected("b2", "b", ()))),
        ),
        ("a1", "b1", "b2", "c1"),
    ),
    "HAB-ASSUME-DETECTOR": (
        (
            *GOOD,
            role("b2", "backup"),
            got("b2", 1, "a1.1:1", "a1.1:2"),
            ("b1", HaSuspected("b1", "b", ("b2",))),
            ("b2", HaSuspected("b2", "b", ("b1",))),
        ),
        ("a1", "b1", "b2", "c1"),
    ),
}


def test_a_good_run_breaks_nothing() -> None:
    assert judged(GOOD) == set()


def test_there_is_a_broken_run_for_every_property() -> None:
    assert set(BROKEN) == {each.id for each in HAB_PROPERTIES}


@pytest.mark.parametrize("id", BROKEN)
def test_what_is_broken_is_found_and_nothing_else(id: str) -> None:
    assert judged(*BROKEN[id]) == {id}


def test_a_centre_that_recorded_its_own_loss_is_behind_the_fence_whatever_it_takes_its_role_for() -> None:
    recorded = (*STARTED, *SENT, LOST, declared("b1", "a"), declared("a1", "a"), role("a1", "primary"))
    assert judged(recorded, ("b1",)) == set()
    assert judged((*recorded, got("a1", 1, "a1.1:1")), ("b1",)) == {"HAB-FENCED"}


def test_an_epoch_that_falls_is_seen_in_what_is_delivered() -> None:
    promised = (*STARTED, *SENT, got("b1", 1, "a1.1:1"), role("b1", "backup", epoch=2))
    assert judged(promised, ("b1",)) == set()
    assert judged((*promised, got("b1", 2, "a1.1:2")), ("b1",)) == {"HAB-EPOCHS"}


def test_a_centre_that_leaves_though_nobody_declared_it_lost_is_not_excused() -> None:
    left = (*STARTED, *SENT, got("c1", 1, "a1.1:1"), role("c1", "out"), got("b1", 1, "a1.1:2"))
    own_word = ("b1", HaDeclared("b1", "b", "c", 3, ("b",), True, False, confessed=True))
    by_order = ("a1", HaDeclared("a1", "a", "c", 3, (), True, False))
    for more in ((), (own_word,), (own_word, by_order)):
        assert judged((*left, *more), ("b1",)) >= {"HAB-ORDER"}
    assert "HAB-ORDER" not in judged((*left, declared("b1", "c")), ("b1",))


def test_a_disaster_is_known_everywhere_when_each_centre_recorded_it_or_began_later() -> None:
    both = (*GOOD, LOST, declared("b1", "a"), declared("c1", "a"))
    assert judged(both, ("b1", "c1")) == set()
    young = (*GOOD, LOST, declared("b1", "a"), ("c1", HaInstalled("c1", "c", 4, 1, 2, 0)))
    assert judged(young, ("b1", "c1")) == set()


def test_at_once_may_be_ahead_by_as_much_as_the_settings_say() -> None:
    ahead = got("a1", 1, "a1.1:1", "a1.1:2", role="ahead", ahead_max=2)
    assert judged((*STARTED, *SENT, ahead), ("a1",)) == set()


def test_a_message_delivered_twice_is_found() -> None:
    assert "HAB-INTEGRITY" in judged((*GOOD, got("b1", 3, "a1.1:1")))


def test_a_message_that_nobody_broadcast_is_found() -> None:
    assert "HAB-INTEGRITY" in judged((*GOOD[:3], got("b1", 1, "a1.1:9")), ("b1",))


A_ALONE, B_ALONE, C_ALONE = (
    declared(process, lost, override=True) for process, lost in (("a1", "b"), ("b1", "a"), ("c1", "a"))
)
WRONG = "HAB-ASSUME-ACCURACY"


def led(position: int, message: str) -> tuple[str, Entry]:
    """The primary a delivers what it knows to be confirmed."""
    return got("a1", position, message, role="primary", confirmed=position)


def test_an_override_excuses_what_a_centre_had_since_it_went_on_alone() -> None:
    both = (*STARTED[:2], *SENT, led(1, "a1.1:1"), got("b1", 1, "a1.1:1"), A_ALONE, B_ALONE)
    assert judged((*both, led(2, "a1.1:2")), ("b1",)) == {WRONG}


def test_an_override_excuses_nothing_of_before() -> None:
    lacking = (*STARTED, *SENT, led(1, "a1.1:1"), A_ALONE, C_ALONE, got("c1", 1, "a1.1:2"))
    assert judged(lacking, ("c1",)) == {WRONG, "HAB-WAITING", "HAB-CONFIRMED"}


def test_an_override_excuses_nothing_of_a_centre_that_did_not_go_on_alone() -> None:
    lacking = (*STARTED[:2], *SENT, B_ALONE, led(1, "a1.1:1"), got("b1", 1, "a1.1:2"))
    assert judged(lacking, ("b1",)) == {WRONG, "HAB-WAITING", "HAB-CONFIRMED"}


def test_a_hole_is_found() -> None:
    assert "HAB-ORDER" in judged((*STARTED, *SENT, got("b1", 2, "a1.1:2")), ("b1",))


def test_lost_rows_leave_nothing_judged() -> None:
    checker = HabChecker()
    checker.feed(Row("b1", 1, 0, 0, role("b1", "backup")[1]))
    verdicts = checker.finish(lossy=True, liveness=None, components=(("b1",),))
    assert {verdict.state for verdict in verdicts.values()} == {State.NOT_JUDGED}


def test_who_takes_part_at_the_end_is_not_excused_though_somebody_declared_it_lost() -> None:
    """An override that counts for nothing: what this centre delivers is in the one order."""
    differ = (got("b1", 1, "a1.1:1"), got("c1", 1, "a1.1:2"))
    script = (*STARTED, *SENT, *differ, declared("c1", "b", override=True))
    assert "HAB-ORDER" in judged(script, ("b1", "c1"))
    assert "HAB-ORDER" not in judged((*script, role("b1", "out")), ("b1", "c1"))
