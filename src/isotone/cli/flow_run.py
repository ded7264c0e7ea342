"""``isotone flow run``: a program on nodes of this machine, and what they hear."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
from rich.table import Table

from isotone.cli.flow import program_text
from isotone.cli.flow_rollout import LOOK_S, LocalNodes, confirmed, token_interval_ms
from isotone.cli.output import json_option, live_display, print_json, results
from isotone.core.errors import InputError
from isotone.flows.compiler import Rules, compile_text
from isotone.flows.values import Value
from isotone.host import flow_values

JOIN_WITHIN_S = 120.0
SHOWN_MAX = 5
"""So many different outputs are told, those of most nodes first."""


class Course(NamedTuple):
    """What runs."""

    rules: Rules
    inputs: Sequence[Mapping[str, object]]
    nodes: int
    fan_out: int
    token_ms: int
    seconds: float


Heard = Sequence[tuple[int, Mapping[str, Value]]]
"""How many nodes heard these outputs."""


@click.command("run")
@click.argument("program", metavar="PROGRAM")
@click.option("--nodes", type=click.IntRange(1, 4096), default=16, show_default=True, help="How many nodes.")
@click.option("--fan-out", type=click.IntRange(2), default=8, show_default=True, help="Members of a ring, at most.")
@click.option(
    "--token-ms", type=click.IntRange(1), help="Time between tokens.  [default: 50, or half of the number of nodes]"
)
@click.option("--seconds", type=float, default=5.0, show_default=True, help="How long, once all nodes have joined.")
@click.option("--give", multiple=True, metavar="JSON", help="Inputs of a node; given again, of the next one, in turn.")
@json_option
def run_command(
    *,
    program: str,
    nodes: int,
    fan_out: int,
    token_ms: int | None,
    seconds: float,
    give: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run PROGRAM, of the library or a file, on nodes of this machine, and show what they hear.

    Inputs are what --give says, or as they begin: 0, false, nothing. Without --give nodes of `phases` enter each phase
    at once.

    \b
    Examples:
      isotone flow run phases --nodes 16 --seconds 10
      isotone flow run multicast --nodes 2 --give '{"R": [1, 2, 4]}' --give '{"R": [1, [3, 4]]}'
    """
    rules = compile_text(program_text(program))
    inputs = [_inputs(rules, each) for each in give]
    run = partial(run_course, Course(rules, inputs, nodes, fan_out, token_interval_ms(nodes, token_ms), seconds))
    if as_json:
        heard = asyncio.run(run(lambda heard, passed: None))
        outputs = [
            {"nodes": count, "outputs": {name: flow_values.told(value) for name, value in values.items()}}
            for count, values in heard
        ]
        print_json({"nodes": nodes, "seconds": seconds, "heard": outputs})
        return
    if not results().is_terminal:
        results().print(heard_table(rules, asyncio.run(run(lambda heard, passed: None)), seconds))
        return
    with live_display() as live:
        heard = asyncio.run(run(lambda heard, passed: live.update(heard_table(rules, heard, passed), refresh=True)))
        live.update(heard_table(rules, heard, seconds), refresh=True)


def _inputs(rules: Rules, text: str) -> dict[str, object]:
    """What one --give says; what is wrong with it is told before anything starts."""
    types = {each.name: each.type for each in rules.inputs}
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise InputError(f'--give takes an object, such as {{"{next(iter(types))}": 1}}, not {text}')
        for name, value in found.items():
            if name not in types:
                raise InputError(f"{rules.program} has no input {name}; it has {', '.join(types)}")
            try:
                flow_values.given(value, types[name])
            except ValueError as error:
                raise InputError(f"{name} {error}") from None
    except json.JSONDecodeError as error:
        raise InputError(f"--give takes JSON: {error}: {text}") from None
    return found


def heard_table(rules: Rules, heard: Heard, passed: float) -> Table:
    """One line for each different set of outputs."""
    table = Table(box=None, title=f"{rules.program}, {passed:.1f} s")
    table.add_column("nodes", justify="right")
    names = list(dict.fromkeys(name for _, values in heard for name in values)) or list(rules.outputs)
    for name in names:
        table.add_column(name)
    for count, values in heard[:SHOWN_MAX]:
        words = (flow_values.in_words(values[name]) if name in values else "–" for name in names)
        table.add_row(str(count), *words)
    if len(heard) > SHOWN_MAX:
        table.add_row(str(sum(count for count, _ in heard[SHOWN_MAX:])), "something else")
    return table


async def run_course(course: Course, show: Callable[[Heard, float], None]) -> Heard:
    """Start the nodes, give them their inputs, and look from time to time."""
    local, rules = LocalNodes(), course.rules
    with tempfile.TemporaryDirectory(prefix="isotone-flow-") as directory:
        try:
            state = Path(directory)
            await local.start(
                rules.text, course.nodes, course.fan_out, course.token_ms, state=state, within_s=JOIN_WITHIN_S
            )
            for number, node in enumerate(local.nodes):
                if course.inputs:
                    node.give(course.inputs[number % len(course.inputs)])
                elif rules.program == "phases":
                    node.follow_versions(1_000_000_000, confirmed)
            began = time.monotonic()
            while (passed := time.monotonic() - began) < course.seconds:
                show(_heard(local), passed)
                await asyncio.sleep(min(LOOK_S, course.seconds - passed))
            return _heard(local)
        finally:
            local.close()


def _heard(local: LocalNodes) -> Heard:
    """By how many nodes heard the same, most first."""
    found = Counter(tuple(sorted({**node.heard, **node.dealt}.items())) for node in local.nodes)
    return [(count, dict(values)) for values, count in found.most_common()]
