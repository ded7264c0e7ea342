"""The statements of [Spread 6.2] and [Spread 6.5], written from their text, over a `History`.

Each answers how often its premise was met and where its conclusion was not. The thesis proves most of them twice, for
daemons (6.1 to 6.14) and for clients (6.15 to 6.27); ``services`` says for which messages a statement is meant at a
boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from isotone.core.services import Service
from tests.paper.history import History, Message, Stay, ViewId, name_of

RELIABLE = (Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE)
FIFO = RELIABLE[1:]
CAUSAL = RELIABLE[2:]
AGREED = RELIABLE[3:]


@dataclass
class Finding:
    """How often a statement was put to the test, and what speaks against it."""

    instances: int = 0
    offences: list[str] = field(default_factory=list)

    def expect(self, true: bool, *offence: object) -> None:
        self.instances += 1
        if not true:
            self.offences.append(" ".join(map(str, offence)))

    @property
    def proves(self) -> bool:
        return self.instances > 0 and not self.offences


Statement = Callable[[History], Finding]


def initial_view_event(history: History) -> Finding:
    """Every send (of a daemon), delivery and signal occurs in some view."""
    finding = Finding(offences=list(history.lost))
    for stay in history.stays:
        finding.instances += len(stay.deliveries)
        for named in stay.signals:
            finding.expect(named == stay.view, stay.process, "is signalled for", named, "in", stay.view)
    return finding


def self_inclusion(history: History) -> Finding:
    """A process is a member of the views that it installs."""
    finding = Finding()
    for stay in history.stays:
        finding.expect(stay.process in stay.members, stay.process, "is not in", stay.view)
    return finding


def membership_agreement(history: History) -> Finding:
    """Same id, same members."""
    finding = Finding()
    for one, other in _pairs(history):
        if one.view == other.view:
            finding.expect(one.members == other.members, one.view, one.process, other.process)
    return finding


def local_monotonicity(history: History) -> Finding:
    """Ids grow, here also across restarts and sessions of one name."""
    finding = Finding()
    last: dict[str, Stay] = {}
    for stay in sorted(history.stays, key=lambda each: (name_of(each.process), each.process, each.place)):
        name = name_of(stay.process)
        if name in last:
            finding.expect(is_below(last[name].view, stay.view), name, last[name].view, stay.view)
        last[name] = stay
    return finding


def transitional_set_a(history: History) -> Finding:
    """The first view after a recovery or a join has the process alone."""
    finding = Finding()
    for stay in history.stays:
        if stay.previous is None:
            finding.expect(stay.transitional == (stay.process,), stay.process, stay.view, stay.transitional)
    return finding


def transitional_set_b(history: History) -> Finding:
    """Later ones lie within the members of the previous and of the new view."""
    finding = Finding()
    for stay in history.stays:
        if stay.previous is not None:
            both = set(stay.members) & set(stay.previous.members)
            finding.expect(both.issuperset(stay.transitional), stay.process, stay.view, stay.transitional)
    return finding


def transitional_set_c(history: History) -> Finding:
    """Who installs the same view is in the set if and only if the previous view was the same."""
    finding = Finding()
    for one, other in _pairs(history):
        if one.view == other.view:
            same = one.previous is not None and other.previous is not None and one.previous.view == other.previous.view
            finding.expect((other.process in one.transitional) == same, one.process, other.process, one.view)
            finding.expect((one.process in other.transitional) == same, other.process, one.process, one.view)
    return finding


def transitional_set_d(history: History) -> Finding:
    """Same view out of the same view: same set."""
    finding = Finding()
    for one, other in history.together():
        assert one.next is not None and other.next is not None
        equal = one.next.transitional == other.next.transitional
        finding.expect(equal, one.process, other.process, one.next.view)
    return finding


def signals_a(history: History) -> Finding:
    """At most one signal in a view."""
    finding = Finding()
    for stay in history.stays:
        if stay.signals:
            finding.expect(len(stay.signals) == 1, stay.process, stay.view)
    return finding


def signals_b(history: History) -> Finding:
    """Together in a view: all or none signalled, the same agreed messages before it and after it."""
    finding = Finding()
    for one, other in history.together():
        if one.signals or other.signals:
            finding.expect(len(one.signals) == len(other.signals), one.process, other.process, one.view)
            for after in (False, True):
                equal = _agreed(one, after=after) == _agreed(other, after=after)
                finding.expect(equal, one.process, other.process, one.view, "after" if after else "before")
    return finding


# --- how the statements look at a history --------------------------------------------------------------------------


def _pairs(history: History) -> Iterator[tuple[Stay, Stay]]:
    for place, one in enumerate(history.stays):
        for other in history.stays[:place]:
            if one.process != other.process:
                yield one, other


def is_below(one: ViewId, other: ViewId) -> bool:
    assert type(one) is type(other)
    return one < other  # type: ignore[operator]


def _agreed(stay: Stay, *, after: bool) -> list[Message]:
    return [each.message for each in stay.deliveries if each.service in AGREED and each.after_signal is after]
