"""All formulas by their labels, and the verdict over a run. One page: a property is one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from isotone.trace.events import Row
from tests.spec.naive import messages, orders, views
from tests.spec.naive.history import History
from tests.spec.naive.reading import client_history, daemon_history

Formula = Callable[[History], Iterator[bool]]

SHARED: dict[str, Formula] = {
    "EVS-D2.7": messages.order_function,
    "EVS-2.1": messages.initial_view_event,
    "EVS-2.2": views.self_inclusion,
    "EVS-2.3": views.local_monotonicity,
    "EVS-2.4.1": views.first_transitional_set,
    "EVS-2.4.2": views.transitional_subset,
    "EVS-2.4.3": views.transitional_exact,
    "EVS-2.4.4": views.transitional_agreed,
    "EVS-2.5": messages.no_duplication,
    "EVS-2.6": messages.delivery_integrity,
    "EVS-2.7": orders.virtual_synchrony,
    "EVS-2.8.1": views.one_signal,
    "EVS-2.8.2": views.signals_together,
    "EVS-2.11.2": orders.fifo_order,
    "EVS-2.12.2": orders.causal_order,
    "EVS-2.13.2": orders.agreed_order,
    "EVS-2.13.3": orders.no_holes_before_signal,
    "EVS-2.13.4": orders.no_holes_after_signal,
    "EVS-2.14.2": orders.safe_before_signal,
    "EVS-2.14.3": orders.safe_after_signal,
    "EVS-2.15": messages.self_delivery,
    "EVS-2.16": views.membership_precision,
    "EVS-2.17": messages.termination_of_delivery,
    "EVS-2.18": messages.same_view,
    "EVS-2.20": views.membership_agreement,
}
CLIENTS: dict[str, Formula] = {
    **SHARED,
    "EVS-2.9.1": messages.sane_view,
    "EVS-2.9.2": messages.sane_view_after_recovery,
}
DAEMONS: dict[str, Formula] = {
    **{f"{label}@S": formula for label, formula in SHARED.items()},
    "EVS-2.19.1": messages.sane_view,
    "EVS-2.19.2": messages.sane_view_after_recovery,
}


def judge(rows: list[Row]) -> dict[str, str]:
    """Every label of EVS-C and EVS-S with *holds*, *violated* or *not_exercised*."""
    clients, daemons = client_history(rows), daemon_history(rows)
    return {
        **{label: verdict(formula(clients)) for label, formula in CLIENTS.items()},
        **{label: verdict(formula(daemons)) for label, formula in DAEMONS.items()},
    }


def violated(rows: list[Row]) -> list[str]:
    """The labels of EVS-C and EVS-S that do not hold."""
    return [label for label, state in judge(rows).items() if state == "violated"]


def verdict(cases: Iterator[bool]) -> str:
    """Of all cases in which a premise is true."""
    is_exercised = False
    for is_kept in cases:
        if not is_kept:
            return "violated"
        is_exercised = True
    return "holds" if is_exercised else "not_exercised"
