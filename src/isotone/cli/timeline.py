"""``isotone timeline``: what happened in a recorded run, as a picture in the terminal, as SVG or as a page."""

from __future__ import annotations

from pathlib import Path
from string import ascii_uppercase

import click
from rich.console import Console
from rich.text import Text

from isotone.cli.check import readable
from isotone.cli.context import read_context
from isotone.cli.lanes import colour
from isotone.cli.output import json_option, print_json, results
from isotone.cli.timeline_page import page, svg
from isotone.core.errors import InputError, MachineError
from isotone.trace.reader import read_runs
from isotone.trace.story import Story, column, letter, signs, story_of

NODES_MAX = 40
DENSITY = " .:-=+*#%@"
SECOND = 1_000_000


@click.command("timeline")
@click.argument("traces", nargs=-1, type=click.Path(path_type=Path, exists=True), metavar="[TRACES…]")
@click.option("--group", help="Show the views of this group (default: of the daemons, where they are recorded).")
@click.option("--run", "name", help="Which run, where TRACES hold several (default: the last).")
@click.option("--svg", "svg_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the picture there too.")
@click.option("--html", "page_file", type=click.Path(path_type=Path, dir_okay=False), help="Write a page there too.")
@json_option
def timeline_command(
    *,
    traces: tuple[Path, ...],
    group: str | None,
    name: str | None,
    svg_file: Path | None,
    page_file: Path | None,
    as_json: bool,
) -> int:
    """Draw a run over time: who was in which view, crashes, injected faults, how much was sent.

    A line for each node, a letter and a colour for each view: where the letters of two lines differ at one time, those
    nodes were apart. TRACES are files or directories, as for `isotone check`; without any, those of the cluster that
    `isotone up` runs from this directory.

    \b
    Examples:
      isotone timeline
      isotone timeline demo/trace --html timeline.html
      isotone timeline run17.jsonl --group chat --svg chat.svg
    """
    run, story = _story(traces, group, name)
    for path, text in ((svg_file, svg(story)), (page_file, page(story, run))):
        if path is not None:
            _write(path, text)
    if as_json:
        print_json({"run": run, "story": story, "sentences": story.sentences()})
        return 0
    show(results(), story)
    for path in (svg_file, page_file):
        if path is not None:
            results().print(f"written: {path}", markup=False)
    return 0


def _story(traces: tuple[Path, ...], group: str | None, name: str | None) -> tuple[str, Story]:
    context = None if traces else read_context()
    paths = [Path(context.trace)] if context is not None else list(traces)
    if not paths:
        raise InputError("no trace: name a file or a directory, or run `isotone up` in this directory")
    found: dict[str, Story] = {}
    for run, rows in readable(read_runs(paths)):
        if name is None or run == name:
            found[run] = story_of(readable(rows), group)
    if not found:
        told = f"no run {name!r}" if name is not None else "no trace"
        raise InputError(f"{told} in {', '.join(map(str, paths))}")
    run, story = list(found.items())[-1]
    if group is not None and not story.views:
        raise InputError(f"run {run} has no view of the group {group!r}")
    return run, story


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror}") from error


def show(console: Console, story: Story) -> None:
    """The lanes, what the letters mean, and what happened in words."""
    width = max(map(len, story.nodes[:NODES_MAX]), default=0) + 1
    columns = max(20, min(160, console.width) - width - 1)
    console.print(f"Views of {story.subject} over {story.length_us / SECOND:.3g} seconds:\n", markup=False)
    for node in story.nodes[:NODES_MAX]:
        console.print(Text.assemble(node.ljust(width), lane(story, node, columns)))
        if any(stay.node == node for stay in story.faults):
            console.print(Text(" " * width + faults_line(story, node, columns), style="red"))
        if story.sends.get(node):
            console.print(Text(" " * width + sends_line(story, node, columns), style="dim"))
    if len(story.nodes) > NODES_MAX:
        console.print(f"and {len(story.nodes) - NODES_MAX} more nodes")
    console.print(
        "\n> a start, | a stop, x a crash or a kill, . not running, ! faults injected\n"
        "below a line: how much its clients sent\n",
        style="dim",
    )
    for number, view in enumerate(story.views[: 2 * len(ascii_uppercase)]):
        cause = f"  by {view.cause}" if view.cause else ""
        console.print(Text.assemble((letter(number), colour(letter(number))), f"  {' '.join(view.members)}{cause}"))
    console.print()
    for moment, sentence in story.sentences():
        console.print(f"{moment / SECOND:8.3f} s  {sentence}", markup=False)


def lane(story: Story, node: str, columns: int) -> Text:
    """One node's line, in the colours of its views."""
    text = Text()
    for sign in signs(story, node, columns):
        text.append(sign, style="bold" if sign == ">" else colour(sign))
    return text


def faults_line(story: Story, node: str, columns: int) -> str:
    """Where faults are injected at a node."""
    signs = [" "] * columns
    for stay in story.faults:
        if stay.node == node:
            first, last = column(story, stay.begin, columns), column(story, stay.end, columns)
            signs[first : last + 1] = ["!"] * (last + 1 - first)
    return "".join(signs)


def sends_line(story: Story, node: str, columns: int) -> str:
    """How many messages a node's clients sent in each slice, from little to much."""
    counts = [0] * columns
    for moment, count in story.sends[node]:
        counts[column(story, moment, columns)] += count
    most = max(counts)
    return "".join(DENSITY[-(-count * (len(DENSITY) - 1) // most)] for count in counts)
