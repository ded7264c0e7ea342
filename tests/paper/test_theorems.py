"""The statements in `theorems` can fail: each finds a history that was broken in its way."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest

from isotone.core.services import Service
from tests.paper import deliveries, theorems
from tests.paper.history import Delivery, History, Stay
from tests.paper.membership_run import Told, told
from tests.paper.theorems import Statement


@pytest.fixture(scope="module")
def run() -> Told:
    return told()


def _stay(history: History, wanted: Callable[[Stay], object]) -> Stay:
    return next(stay for stay in history.stays if wanted(stay))


def _forget(history: History, wanted: Callable[[Stay, Delivery], object]) -> None:
    """Take one delivery away, wherever it is noted."""
    for stay in history.stays:
        for each in stay.deliveries:
            if wanted(stay, each):
                stay.deliveries.remove(each)
                history.heard[stay.process].remove(each)
                return
    raise AssertionError("no such delivery")


def _swap(history: History) -> None:
    """Let the first process hear two agreed messages the wrong way round."""
    heard = next(iter(history.heard.values()))
    agreed = [place for place, each in enumerate(heard) if each.service.is_agreed]
    heard[agreed[0]], heard[agreed[1]] = heard[agreed[1]], heard[agreed[0]]


def _move(history: History) -> None:
    """Let one message be delivered one view earlier."""
    stay = _stay(history, lambda stay: stay.previous and stay.deliveries)
    assert stay.previous is not None
    stay.previous.deliveries.append(stay.deliveries.pop())


def _mix(history: History) -> None:
    """Let an agreed message that one delivered before the signal be delivered after it."""
    one, _ = next(pair for pair in history.together() if any(each.service.is_agreed for each in pair[0].deliveries))
    each = next(each for each in one.deliveries if each.service.is_agreed)
    each.after_signal = not each.after_signal


def _lose_safe(history: History, *, after: bool) -> None:
    safe = Service.SAFE
    sender = next(
        each.message
        for stay in history.stays
        for each in stay.deliveries
        if each.service is safe and each.after_signal is after and stay.next and len(stay.next.transitional) > 1
    )
    _forget(history, lambda stay, each: each.message == sender and not stay.ended)


def _lose_low(history: History, *, after: bool) -> None:
    """Take away, at one process, what stands below its last agreed message on that side of the signal."""
    for stay in history.stays:
        side = [each for each in stay.deliveries if each.service.is_agreed and each.after_signal is after]
        for low in stay.deliveries:
            others = [each for each in history.stays if each is not stay and each.view == stay.view]
            heard = any(low.message in each.messages() for each in others)
            along = not after or (stay.next is not None and low.message[0] in stay.next.transitional)
            if side and heard and along and low.ord < side[-1].ord and low is not side[-1]:
                stay.deliveries.remove(low)
                return
    raise AssertionError("no such delivery")


def _return_early(history: History) -> None:
    """Let somebody hear a message of d's former self in the view in which d came back."""
    back = _stay(history, lambda stay: stay.process == "d#2" and not stay.previous)
    old = next(each for each in history.heard["a#1"] if each.message[0] == "d#1")
    _stay(history, lambda stay: stay.process == "a#1" and theorems.is_below(back.view, stay.view)).deliveries.append(
        old
    )


def _set(wanted: Callable[[Stay], object], name: str, value: object) -> Callable[[History], object]:
    return lambda history: setattr(_stay(history, wanted), name, value)


def _lose(wanted: Callable[[Stay, Delivery], object]) -> Callable[[History], object]:
    return lambda history: _forget(history, wanted)


FAILURES: list[tuple[Statement, Callable[[History], object]]] = [
    (theorems.initial_view_event, lambda history: history.lost.append("somewhere else")),
    (theorems.initial_view_event, lambda history: history.stays[0].signals.append(history.stays[-1].view)),
    (theorems.self_inclusion, _set(lambda stay: stay.next, "members", ("x#1",))),
    (theorems.membership_agreement, _set(lambda stay: len(stay.members) > 1, "members", ())),
    (theorems.local_monotonicity, lambda history: setattr(history.stays[1], "view", history.stays[0].view)),
    (theorems.transitional_set_a, _set(lambda stay: not stay.previous, "transitional", ())),
    (theorems.transitional_set_b, _set(lambda stay: stay.previous, "transitional", ("x#1",))),
    (theorems.transitional_set_c, _set(lambda stay: len(stay.transitional) > 1, "transitional", ())),
    (theorems.transitional_set_d, _set(lambda stay: len(stay.transitional) > 1, "transitional", ())),
    (deliveries.no_duplication, lambda history: history.heard["a#1"].append(history.heard["a#1"][0])),
    (deliveries.delivery_integrity, lambda history: history.sends.popitem()),
    (deliveries.self_delivery, _lose(lambda stay, each: each.message[0] == stay.process and not stay.ended)),
    (deliveries.same_view_delivery, _move),
    (deliveries.virtual_synchrony, _lose(lambda stay, each: stay.next and len(stay.next.transitional) > 1)),
    (deliveries.sane_view_delivery_a, _move),
    (deliveries.sane_view_delivery_b, _return_early),
    (deliveries.fifo, _swap),
    (deliveries.causal, _swap),
    (deliveries.agreed_b, _swap),
    (deliveries.agreed_c, lambda history: _lose_low(history, after=False)),
    (deliveries.agreed_d, lambda history: _lose_low(history, after=True)),
    (deliveries.safe_b, lambda history: _lose_safe(history, after=False)),
    (deliveries.safe_c, lambda history: _lose_safe(history, after=True)),
    (theorems.signals_a, lambda history: history.stays[0].signals.append(history.stays[0].view)),
    (theorems.signals_b, _mix),
]


@pytest.mark.parametrize(("statement", "break_it"), FAILURES, ids=[each.__name__ for each, _ in FAILURES])
def test_a_broken_history_does_not_prove_it(
    run: Told, statement: Statement, break_it: Callable[[History], object]
) -> None:
    broken = deepcopy(run.daemons)
    break_it(broken)
    assert statement(broken).offences


def test_weak_messages_that_one_of_those_who_are_together_does_not_have_are_missed(run: Told) -> None:
    broken = deepcopy(run.clients["chat"])
    for here, there in broken.together():
        weak = here.messages(*theorems.RELIABLE[:3]) & there.messages(*theorems.RELIABLE[:3])
        there.deliveries[:] = [each for each in there.deliveries if each.message not in weak]
    assert deliveries.virtual_synchrony(broken).offences
