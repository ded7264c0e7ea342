"""Why a test under faults failed, for people: which faults were injected, what the daemons did, who waits for what.

It becomes a note of the error with which the test failed, so that every test framework prints it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from isotone.testing.waiting import described
from isotone.trace.events import Row
from isotone.trace.story import letter, natural_order, signs, story_of

COLUMNS = 72
LINES_MAX = 40
SECOND = 1_000_000

Deed = tuple[int, str]
"""When, in virtual microseconds, and what was done to the cluster."""


def failure_story(
    rows: Sequence[Row], deeds: Iterable[Deed], now_us: int, tasks: Iterable[asyncio.Task[object]]
) -> str:
    """Faults and views in order, a picture, and where each task waits."""
    story = story_of(rows)
    faults = [(at, 0, f"fault: {what}") for at, what in deeds]
    happened = [(at, 1, what) for at, what in story.sentences()]
    told = [(at, what) for at, _, what in sorted([*faults, *happened])]
    lines = [f"isotone: what happened until {now_us / SECOND:.3f} virtual seconds:"]
    if len(told) > LINES_MAX:
        lines.append(f"  ({len(told) - LINES_MAX} earlier lines are left out)")
    lines += [f"  {at / SECOND:8.3f} s  {what}" for at, what in told[-LINES_MAX:]]
    width = max(map(len, story.nodes), default=0) + 1
    lines += ["", f"views of {story.subject}, a letter each; x ends, > starts:"]
    lines += [
        f"  {node.ljust(width)}{''.join(signs(story, node, COLUMNS))}"
        for node in sorted(story.nodes, key=natural_order)
    ]
    lines += [f"  {letter(number)}  {' '.join(view.members)}" for number, view in enumerate(story.views[:LINES_MAX])]
    left = list(tasks)
    if left:
        lines += ["", "tasks that were not done:", described(left)]
    return "\n".join(lines)
