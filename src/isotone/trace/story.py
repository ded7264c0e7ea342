"""What happened in a run, over time: which view each node was in, starts and crashes, faults, how much was sent.

Nodes' clocks have nothing in common, so they are brought together first: nodes that install one view do so at about the
same moment. Where the difference is small the clocks are taken to be one.

Implements: [DESIGN 4], the trace for people. Deviations: none.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from string import ascii_uppercase

from isotone.trace.events import (
    STOPPED,
    Crashed,
    DaemonViewDelivered,
    FaultsSet,
    Recovered,
    Row,
    SelfLeft,
    Sent,
    Truncated,
    ViewDelivered,
)
from isotone.trace.record import STILL_WRITTEN

SAME_CLOCK_US = 250_000
"""Clocks that differ by less are taken to be one."""
SENTENCES_MAX = 200
SIGNS = {"start": ">", "stop": "|", "crash": "x", "end of record": "x"}
"""Of the marks, in a picture of letters."""
Life = tuple[str, int]
"""A node and its incarnation."""


@dataclass(frozen=True)
class Stay:
    """A node in a view, from when to when, in microseconds since the run began."""

    node: str
    begin: int
    end: int
    view: int
    """Its number in `Story.views`."""


@dataclass(frozen=True)
class SeenView:
    """A view of the daemons, or of the group that is shown."""

    text: str
    members: tuple[str, ...]
    cause: str


@dataclass(frozen=True)
class Mark:
    """A moment of one node: ``start``, ``stop``, ``crash`` or ``end of record``."""

    node: str
    at: int
    kind: str


@dataclass
class Story:
    """All of one run."""

    subject: str
    """Of what the views are: ``the daemons``, or a group."""
    length_us: int = 0
    nodes: list[str] = field(default_factory=list)
    views: list[SeenView] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    faults: list[Stay] = field(default_factory=list)
    """When faults were injected at a node; the number is 1 if they still were when the record ended, else 0."""
    sends: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """For each node: when, and how many messages."""

    def sentences(self) -> list[tuple[int, str]]:
        """What happened, in words, in the order of time; the first `SENTENCES_MAX`."""
        told = sorted([*self._about_views(), *self._about_nodes()])
        return told[:SENTENCES_MAX]

    def _about_views(self) -> Iterator[tuple[int, str]]:
        for number, view in enumerate(self.views):
            stays = [stay for stay in self.stays if stay.view == number]
            if stays:
                reached = sorted({stay.node for stay in stays}, key=natural_order)
                cause = f" ({view.cause})" if view.cause else ""
                yield min(stay.begin for stay in stays), f"{', '.join(reached)}: view of {_listed(view.members)}{cause}"

    def _about_nodes(self) -> Iterator[tuple[int, str]]:
        words = {
            "start": "starts",
            "stop": "stops",
            "crash": "crashes",
            "end of record": "was killed, or lost its record",
        }
        for mark in self.marks:
            yield mark.at, f"{mark.node} {words[mark.kind]}"
        for stay in self.faults:
            yield stay.begin, f"faults are injected at {stay.node}"
            if not stay.view:
                yield stay.end, f"the injected faults at {stay.node} end"


def story_of(rows: Iterable[Row], group: str | None = None) -> Story:
    """The story of one run: by the daemons' views where they are recorded, else by one group's.

    ``group`` chooses a group; without it the one with most views is shown.
    """
    kept = [row for row in rows if row.node and isinstance(row.entry, _KEPT)]
    subject, views = _subject(kept, group)
    shift = _shifts(views)
    moments = {id(row): row.at + shift.get((row.node, row.incarnation), 0) for row in kept}
    begin = min(moments.values(), default=0)
    at = {key: moment - begin for key, moment in moments.items()}
    story = Story(subject, length_us=max(at.values(), default=0))
    shown = {row.node for row in views} or {row.node for row in kept}
    kept = [row for row in kept if row.node in shown]
    story.nodes = sorted(shown, key=natural_order)
    _fill(story, kept, {id(row) for row in views}, at)
    return story


_KEPT = (Crashed, Recovered, ViewDelivered, DaemonViewDelivered, SelfLeft, Sent, FaultsSet, Truncated)


def _subject(rows: list[Row], group: str | None) -> tuple[str, list[Row]]:
    daemons = [row for row in rows if isinstance(row.entry, DaemonViewDelivered)]
    if daemons and group is None:
        return "the daemons", daemons
    counts = Counter(row.entry.group for row in rows if isinstance(row.entry, ViewDelivered))
    chosen = group or max(sorted(counts), key=lambda name: counts[name], default="")
    views = [row for row in rows if isinstance(row.entry, ViewDelivered) and row.entry.group == chosen]
    return f"the group {chosen}" if chosen else "no group", views


def _shifts(views: list[Row]) -> dict[Life, int]:
    """What to add to each life's clock, found along the views that lives share, from the first life on."""
    shared: dict[str, dict[Life, int]] = {}
    for row in views:
        assert isinstance(row.entry, ViewDelivered | DaemonViewDelivered)
        shared.setdefault(str(row.entry.view), {}).setdefault((row.node, row.incarnation), row.at)
    differences: dict[tuple[Life, Life], list[int]] = {}
    for moments in shared.values():
        for one, here in moments.items():
            for other, there in moments.items():
                if one != other:
                    differences.setdefault((one, other), []).append(here - there)
    neighbours: dict[Life, list[tuple[Life, int]]] = {}
    for (one, other), found in differences.items():
        middle = sorted(found)[len(found) // 2]
        neighbours.setdefault(one, []).append((other, middle if abs(middle) > SAME_CLOCK_US else 0))
    shifts: dict[Life, int] = {}
    for life in neighbours:
        waiting = deque([(life, 0)] if life not in shifts else [])
        while waiting:
            reached, shift = waiting.popleft()
            if reached not in shifts:
                shifts[reached] = shift
                waiting.extend((other, shift + more) for other, more in neighbours[reached])
    return shifts


def _fill(story: Story, rows: list[Row], shown: set[int], at: dict[int, int]) -> None:
    numbers: dict[str, int] = {}
    open_views: dict[str, tuple[int, int]] = {}
    injected: dict[str, int] = {}

    def close(node: str, moment: int) -> None:
        began = open_views.pop(node, None)
        if began is not None and moment > began[0]:
            story.stays.append(Stay(node, began[0], moment, began[1]))

    for row in sorted(rows, key=lambda row: (at[id(row)], row.node, row.incarnation, row.index)):
        node, moment = row.node, at[id(row)]
        match row.entry:
            case ViewDelivered() | DaemonViewDelivered() as entry if id(row) in shown:
                close(node, moment)
                number = numbers.setdefault(str(entry.view), len(numbers))
                if number == len(story.views):
                    story.views.append(SeenView(str(entry.view), _names(entry.members), getattr(entry, "cause", "")))
                open_views[node] = (moment, number)
            case Sent(lengths=lengths):
                story.sends.setdefault(node, []).append((moment, len(lengths)))
            case Recovered():
                story.marks.append(Mark(node, moment, "start"))
            case Crashed(reason=reason):
                close(node, moment)
                story.marks.append(Mark(node, moment, "stop" if reason == STOPPED else "crash"))
            case Truncated(reason=reason):
                close(node, moment)
                if reason != STILL_WRITTEN:
                    story.marks.append(Mark(node, moment, "end of record"))
            case SelfLeft(group=group) if story.subject == f"the group {group}":
                close(node, moment)
            case FaultsSet(reason=reason) if reason:
                injected.setdefault(node, moment)
            case FaultsSet() if node in injected:
                story.faults.append(Stay(node, injected.pop(node), moment, 0))
    for node in list(open_views):
        close(node, story.length_us)
    story.faults += [Stay(node, begin, story.length_us, 1) for node, begin in injected.items()]


def _names(members: tuple[str, ...]) -> tuple[str, ...]:
    """Daemons without their incarnation; clients as ``name@daemon``."""
    names = []
    for member in members:
        parts = member.split("#")
        names.append(f"{parts[1]}@{parts[2]}" if member.startswith("#") and len(parts) > 2 else parts[0])
    return tuple(names)


def _listed(names: tuple[str, ...], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def letter(number: int) -> str:
    """Of a view; they begin again after Z."""
    return ascii_uppercase[number % len(ascii_uppercase)]


def column(story: Story, moment: int, columns: int) -> int:
    """The slice of time that a moment falls into, where the whole run takes so many columns."""
    return min(columns - 1, max(0, moment) * columns // max(1, story.length_us))


def signs(story: Story, node: str, columns: int) -> list[str]:
    """One node: in each slice of time the letter of the view that came last, ``>`` for a start, ``|`` for a stop,
    ``x`` for any other end."""
    found = ["."] * columns
    for stay in story.stays:
        if stay.node == node:
            first, last = column(story, stay.begin, columns), column(story, stay.end - 1, columns)
            found[first : last + 1] = [letter(stay.view)] * (last + 1 - first)
    for mark in story.marks:
        if mark.node == node:
            found[column(story, mark.at, columns)] = SIGNS[mark.kind]
    return found


def natural_order(name: str) -> tuple[str, int, str]:
    """Sorts d2 before d10."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0), name
