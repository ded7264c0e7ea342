"""Times and names in words."""

from __future__ import annotations

from collections.abc import Iterable

from isotone.evs.explain.inside import peer_report
from isotone.evs.membership.node import Node


def span(us: int) -> str:
    """A length of time for people."""
    us = max(0, us)
    return f"{us / 1_000_000:.3g} s" if us >= 1_000_000 else f"{us / 1_000:.3g} ms"


def listed(names: Iterable[str]) -> str:
    """Names for people."""
    return ", ".join(names) or "nobody"


def silence_of(node: Node, name: str, at: int) -> tuple[str, int | None]:
    """How long a daemon is silent and what follows from it; when it is suspected at the latest."""
    report = peer_report(node, name, at)
    if report is None:
        return f"{name} is not watched", None
    if report.suspected:
        return f"{name} is suspected: {', '.join(each.explain() for each in report.suspected)}", None
    text = f"{name} was heard {span(report.silent_us)} ago"
    if report.unanswered_us > report.limits.answer_within_us:
        text += f" and has left probes unanswered for {span(report.unanswered_us)}"
    if report.suspected_in_us is None:
        return text, None
    return f"{text}, is suspected in {span(report.suspected_in_us)} if nothing comes", at + report.suspected_in_us


def most_silent(node: Node, names: Iterable[str], at: int) -> tuple[str, int | None]:
    """The same for the one of these that was not heard for longest; nothing without others."""
    reports = [(name, peer_report(node, name, at)) for name in names if name != node.me.name]
    watched = [(name, report) for name, report in reports if report is not None]
    if not watched:
        return "", None
    return silence_of(node, max(watched, key=lambda each: each[1].silent_us)[0], at)
