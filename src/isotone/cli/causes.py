"""Why something may be stuck, read off the status of all daemons: one sentence for each cause, the likeliest first.

A daemon explains what it waits for; what holds the others up stands in their own status. So commands that explain ask
every daemon they know and name what they find: injected faults, daemons that do not answer or are suspected, a cluster
in parts, clients that do not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from isotone.cli.status_tables import size, span

Told = Sequence[tuple[str, dict[str, Any] | None, str]]
"""Address, status or none, and why none, of each daemon that was asked."""


class Cause(msgspec.Struct, frozen=True):
    """What is wrong, at which daemon, and what to do."""

    kind: str
    daemon: str
    text: str


def causes_of(told: Told) -> list[Cause]:
    """Everything in the status of these daemons that keeps messages or views waiting."""
    statuses = [status for _, status, _ in told if status is not None]
    found = [_unanswered(address, why) for address, status, why in told if status is None]
    found += _faults(statuses)
    cut = {(status["name"], rule["daemon"]) for status in statuses for rule in status["faults"] or () if rule["cut"]}
    found += [_suspicion(status, peer) for status, peer in _suspicions(statuses, cut)]
    found += _parts(statuses)
    found += [_reader(status, client) for status in statuses for client in status["clients"] if client["blocks"]]
    return found


def _unanswered(address: str, why: str) -> Cause:
    return Cause("no answer", address, why)


def _faults(statuses: Sequence[dict[str, Any]]) -> list[Cause]:
    """Injected faults, one for each pair of daemons that are cut off from each other both ways."""
    rules = [(status, rule) for status in statuses for rule in status["faults"] or ()]
    cut = {(status["name"], rule["daemon"]) for status, rule in rules if rule["cut"]}
    return [
        _fault(status, rule)
        for status, rule in rules
        if not (rule["cut"] and status["name"] > rule["daemon"] and (rule["daemon"], status["name"]) in cut)
    ]


def _fault(status: dict[str, Any], rule: dict[str, Any]) -> Cause:
    parts = ["all packets are lost"] if rule["cut"] else []
    parts += [f"{rule['drop']:.0%} of packets are lost"] if rule["drop"] else []
    parts += [f"packets are {span(rule['delay_us'])} late"] if rule["delay_us"] else []
    what = " and ".join(parts) or "nothing is lost"
    text = f"injected fault at {status['name']}: between it and {rule['daemon']} {what}; `isotone faults heal` ends it"
    return Cause("injected fault", status["name"], text)


def _suspicions(
    statuses: Sequence[dict[str, Any]], cut: set[tuple[str, str]]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Who suspects whom, where no injected cut explains it."""
    return [
        (status, peer)
        for status in statuses
        for peer in status["stack"]["peers"]
        if peer["suspected"] and not {(status["name"], peer["name"]), (peer["name"], status["name"])} & cut
    ]


def _suspicion(status: dict[str, Any], peer: dict[str, Any]) -> Cause:
    heard = f"heard {span(peer['silent_us'])} ago" if peer["silent_us"] else "never heard"
    return Cause(
        "suspected", status["name"], f"{status['name']} suspects {peer['name']}: {peer['suspected']} ({heard})"
    )


def _parts(statuses: Sequence[dict[str, Any]]) -> list[Cause]:
    views: dict[str, tuple[str, ...]] = {}
    for status in statuses:
        view = status["stack"]["view"]
        views[view["daemon_view"]] = tuple(name.partition("#")[0] for name in view["members"])
    if len(views) < 2:
        return []
    parts = " | ".join(" ".join(members) for members in sorted(views.values()))
    return [Cause("partition", "", f"the daemons are in {len(views)} parts: {parts}")]


def _reader(status: dict[str, Any], client: dict[str, Any]) -> Cause:
    groups = ", ".join(client["blocked_groups"]) or "no group"
    text = (
        f"client {client['name']} at {status['name']} does not read: {size(client['held_bytes'])} wait for it, "
        f"{size(client['held_bytes_max'])} are allowed; senders to its groups ({groups}) have waited "
        f"for {span(client['blocks_us'] or 1)}"
    )
    return Cause("slow reader", status["name"], text)
