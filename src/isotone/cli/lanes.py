"""Views over time as text: a lane per node, a column per slice of time, a letter per view.

A capital letter is a view, its small letter the same view after the transitional signal, ``x`` the moment of a crash,
``.`` a node that is down, ``-`` a node whose client is in no view yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase

from rich.text import Text

from isotone.trace.events import Crashed, Delivered, Entry, Recovered, Row, SignalDelivered, ViewDelivered

COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red", "bright_cyan", "bright_yellow", "bright_green", "white")
NO_VIEW, DOWN, CRASH = "-", ".", "x"


@dataclass
class Lane:
    """What one node was in, from each moment on."""

    node: str
    changes: list[tuple[int, str]] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    def at(self, begin: int, end: int) -> str:
        """The sign for a slice of time: a crash if there was one, else what came last."""
        sign = NO_VIEW
        for moment, change in self.changes:
            if moment >= end:
                break
            if change == CRASH:
                sign = CRASH if moment >= begin else DOWN
            else:
                sign = change
        return sign


@dataclass
class Picture:
    """The lanes of all nodes, for one group, and what the letters mean."""

    group: str
    lanes: dict[str, Lane] = field(default_factory=dict)
    views: dict[str, ViewDelivered] = field(default_factory=dict)  # by letter
    messages: dict[tuple[str, int], str] = field(default_factory=dict)
    _letters: dict[str, str] = field(default_factory=dict)

    def take(self, row: Row) -> None:
        """Add a row of the trace."""
        if not row.node:
            return
        lane = self.lanes.setdefault(row.node, Lane(row.node))
        sign = self._sign(row.entry, lane)
        if sign:
            lane.changes.append((row.at, sign))

    def _sign(self, entry: Entry, lane: Lane) -> str:
        match entry:
            case ViewDelivered(group=self.group):
                letter = self._letter(entry)
                lane.heard.append(f" [{letter}]")
                return letter
            case SignalDelivered(group=self.group, view=view):
                return self._letters[str(view)].lower()
            case Delivered(groups=groups) if self.group in groups:
                lane.heard.append(self._message(entry))
            case Crashed():
                lane.heard.append(" crash")
                return CRASH
            case Recovered():
                return NO_VIEW
        return ""

    def _letter(self, entry: ViewDelivered) -> str:
        view = str(entry.view)
        if view not in self._letters:
            self._letters[view] = ascii_uppercase[len(self._letters) % len(ascii_uppercase)]
            self.views[self._letters[view]] = entry
        return self._letters[view]

    def _message(self, entry: Delivered) -> str:
        """Messages are numbered in the order in which the trace first delivers them."""
        number = self.messages.setdefault((entry.sender, entry.first_sequence), str(len(self.messages) + 1))
        return f" {number}"


def picture_of(rows: Iterable[Row], group: str) -> Picture:
    """The picture of one group's views in a trace."""
    picture = Picture(group)
    for row in rows:
        picture.take(row)
    return picture


def draw(picture: Picture, marks: Sequence[tuple[int, str]], *, end: int, columns: int) -> list[Text]:
    """The lanes under a line of marks, each column ``end/columns`` long."""
    width = max(len(name) for name in picture.lanes) + 1
    lines = [Text(" " * width + line, style="bold") for line in _mark_lines(marks, end, columns)]
    for lane in picture.lanes.values():
        line = Text(lane.node.ljust(width))
        for column in range(columns):
            sign = lane.at(column * end // columns, (column + 1) * end // columns)
            line.append(sign, style=colour(sign))
        lines.append(line)
    return lines


def colour(sign: str) -> str:
    """One colour per view, dimmed after the signal."""
    if sign == CRASH:
        return "bold red"
    if not sign.isalpha():
        return "dim"
    plain = COLOURS[ascii_uppercase.index(sign.upper()) % len(COLOURS)]
    return f"dim {plain}" if sign.islower() else f"bold {plain}"


def legend(picture: Picture) -> list[Text]:
    """Which letter is which view, with its members' daemons."""
    members = {letter: " ".join(each.split("#")[2] for each in view.members) for letter, view in picture.views.items()}
    width = max(map(len, members.values()), default=0)
    return [
        Text.assemble((letter, colour(letter)), f"  {members[letter]:<{width}}  {view.cause:<10}  {view.view}")
        for letter, view in picture.views.items()
    ]


def _mark_lines(marks: Sequence[tuple[int, str]], end: int, columns: int) -> list[str]:
    """Names over their moments, on as many lines as they need not to overlap, then a line of pointers."""
    lines: list[str] = []
    for moment, name in marks:
        column = min(moment * columns // end, columns - 1)
        for number, line in enumerate(lines):
            if len(line) < column:
                lines[number] = line.ljust(column) + name
                break
        else:
            lines.append(" " * column + name)
    pointers = [" "] * columns
    for moment, _ in marks:
        pointers[min(moment * columns // end, columns - 1)] = "v"
    return [*lines, "".join(pointers)]
