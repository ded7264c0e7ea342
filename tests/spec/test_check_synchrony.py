"""The checkers of view-synchronous groups: a sound run is accepted, and each broken input is caught by its property."""

from __future__ import annotations

import pytest

from isotone.core.ids import DaemonId, DaemonViewId, GroupViewId
from isotone.spec.check import check
from isotone.spec.synchrony_properties import synchrony_labels
from isotone.spec.verdicts import State
from isotone.trace.events import Entry, Row
from isotone.trace.synchrony import SynchronousDelivered, SynchronousLeft, SynchronousSent, SynchronousView

A, B = "#a#d1#1#1", "#b#d2#1#1"


def view_id(epoch: int) -> GroupViewId:
    return GroupViewId(DaemonViewId(epoch, DaemonId("d1", 1)))


def installed(client: str, epoch: int, members: tuple[str, ...], transitional: tuple[str, ...]) -> Entry:
    return SynchronousView(client, "g", view_id(epoch), members, transitional)


def sent(client: str, epoch: int, first: int, count: int = 1) -> Entry:
    return SynchronousSent(client, "g", view_id(epoch), first, count)


def given(client: str, epoch: int, sender: str, first: int, count: int = 1) -> Entry:
    return SynchronousDelivered(client, "g", view_id(epoch), sender, first, count)


def sound() -> dict[str, list[Entry]]:
    """Two members in two views; what each sent in the first is given to both in it."""
    first = [installed(A, 1, (A, B), (A,)), installed(B, 1, (A, B), (B,))]
    rows: dict[str, list[Entry]] = {}
    for node, client, come in (("d1", A, first[0]), ("d2", B, first[1])):
        rows[node] = [come, sent(client, 1, 1, 2), given(client, 1, A, 1, 2), given(client, 1, B, 1, 2)]
        rows[node] += [installed(client, 2, (A, B), (A, B)), sent(client, 2, 4), SynchronousLeft(client, "g")]
    return rows


def verdicts(entries: dict[str, list[Entry]]) -> dict[str, State]:
    rows = [Row(node, 1, index, index, entry) for node, mine in entries.items() for index, entry in enumerate(mine)]
    return {id: each.state for id, each in check(rows).verdicts.items() if id.startswith("SYN-")}


def broken(label: str) -> dict[str, list[Entry]]:
    rows = sound()
    match label:
        case "SYN-VIEWS":
            rows["d2"][4] = installed(B, 2, (B,), (B,))
        case "SYN-SENDING":  # in the view behind that in which it was sent
            rows["d2"] = [*rows["d2"][:3], rows["d2"][4], given(B, 2, B, 1, 2), *rows["d2"][5:]]
        case "SYN-SETS":
            rows["d2"][4] = installed(B, 2, (A, B), (B,))
        case "SYN-SAME":
            del rows["d2"][2]
        case "SYN-SELF":
            del rows["d2"][3]
            rows["d1"][3] = given(A, 1, B, 1, 2)
        case "SYN-ORDER":
            rows["d2"][2:3] = [given(B, 1, A, 2), given(B, 1, A, 1)]
    return rows


def test_a_sound_run_is_accepted_and_exercises_everything() -> None:
    assert verdicts(sound()) == dict.fromkeys(synchrony_labels(), State.HOLDS)


@pytest.mark.parametrize("label", synchrony_labels())
def test_a_broken_run_is_caught(label: str) -> None:
    assert verdicts(broken(label))[label] is State.VIOLATED


def test_a_message_that_nobody_sent_or_that_comes_twice() -> None:
    rows = sound()
    rows["d2"].insert(3, given(B, 1, A, 9))
    assert verdicts(rows)["SYN-SENDING"] is State.VIOLATED
    rows = sound()
    rows["d2"].insert(3, given(B, 1, A, 2))
    assert verdicts(rows)["SYN-ORDER"] is State.VIOLATED


def test_a_gap_is_no_order() -> None:
    rows = sound()
    rows["d2"][2] = given(B, 1, A, 2)
    assert verdicts(rows)["SYN-ORDER"] is State.VIOLATED
