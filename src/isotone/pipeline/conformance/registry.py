"""Which property is judged by which check, and which are not judged here yet, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from isotone.pipeline.conformance import (
    causal,
    holes,
    liveness,
    network,
    orders,
    places,
    safe,
    single,
    stamps,
    synchrony,
    views,
)
from isotone.pipeline.conformance.normal import Normal

Check = Callable[[Normal], DataFrame | None]

CHECKS: Mapping[str, Check] = {
    "D2.7": stamps.order_function,
    "2.1": single.initial_view,
    "2.2": views.self_inclusion,
    "2.3": views.local_monotonicity,
    "2.4.1": views.first_transitional_set,
    "2.4.2": views.transitional_subset,
    "2.4.3": views.transitional_exact,
    "2.4.4": views.transitional_agreed,
    "2.5": single.no_duplication,
    "2.6": single.delivery_integrity,
    "2.7": synchrony.virtual_synchrony,
    "2.8.1": views.one_signal,
    "2.8.2": synchrony.signals_together,
    "2.9.1": places.sane_view_delivery,
    "2.9.2": places.sane_after_return,
    "2.11.2": orders.fifo_order,
    "2.12.2": causal.causal_order,
    "2.13.2": orders.agreed_order,
    "2.13.3": holes.no_holes_before,
    "2.13.4": holes.no_holes_after,
    "2.14.2": safe.safe_before,
    "2.14.3": safe.safe_after,
    "2.15": liveness.self_delivery,
    "2.16": liveness.membership_precision,
    "2.17": liveness.termination,
    "2.18": places.same_view_delivery,
    "2.19.1": places.sane_view_delivery,
    "2.19.2": places.sane_after_return,
    "2.20": views.membership_agreement,
    "2.21": network.server_set,
    "2.22": network.reliable_multicast,
    "2.23": network.network_end,
}
"""By the id of the property without its ``EVS-``; none: its premise was true nowhere."""

MISSING: Mapping[str, str] = {}
"""Properties of group communication that only the plain checkers judge, and why."""
