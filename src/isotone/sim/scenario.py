"""Scenario files: a script, a line of dashes, and below it the full trace that the script must yield.

The script has one command per line; ``#`` begins a comment, quotes keep a text together. Time passes only in ``run``,
``quiet``, ``when`` and ``finish``. The trace repeats each command behind ``>`` where it took effect. A file is compared
exactly; `rewritten` makes the file that would have passed, and people review the difference.

A script plays on the oracle, or, behind ``stack full``, on our own daemons; only there ``when NODE in STATE COMMAND``
lets time pass until a daemon is in a state of the membership or of the groups, and does the command then,
``entered NODE REASON`` fails when the daemon never entered a state for that reason, so that a script whose timing has
changed does not lose its point, and ``tcp SITE SITE`` links two sites by tcp.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from isotone.core.errors import InputError, IsotoneError
from isotone.core.names import check_daemon_name
from isotone.sim.cluster import Cluster
from isotone.sim.deeds import DEEDS
from isotone.sim.plan import NODES_MAX, parse_seed
from isotone.sim.trace_lines import line_of
from isotone.trace.events import Row

DASHES = "----"
ORACLE, FULL = "oracle", "full"


class ScenarioError(InputError):
    """A scenario file that cannot be played: where, and what is wrong."""

    def __init__(self, name: str, line: int, problem: str) -> None:
        super().__init__(f"{name}:{line}: {problem}")
        self.line = line


class Command(msgspec.Struct, frozen=True):
    """One line of a script."""

    line: int
    verb: str
    words: tuple[str, ...]
    text: str


@dataclass
class Scenario:
    """A scenario file, read."""

    name: str
    script: str
    commands: list[Command]
    expected: str
    nodes: tuple[str, ...] = ("a", "b", "c")
    sites: dict[str, str] = field(default_factory=dict)
    seed: str = "1"
    stack: str = ORACLE
    streams: list[frozenset[str]] = field(default_factory=list)  # sites that are linked by tcp


Build = Callable[[Scenario], Cluster]


def parse(text: str, name: str = "scenario") -> Scenario:
    """Read a scenario file."""
    script, expected = _split(text)
    commands = [command for number, line in enumerate(script.splitlines(), 1) if (command := _read(line, number, name))]
    scenario = Scenario(name, script, [], expected)
    for command in commands:
        setting = _SETTINGS.get(command.verb)
        if setting is None:
            _check(scenario, command)
            scenario.commands.append(command)
            continue
        if scenario.commands:
            raise ScenarioError(name, command.line, f"{command.verb!r} stands before all that happens")
        if not command.words:
            raise ScenarioError(name, command.line, f"usage: {_SETTING_USAGE[command.verb]}")
        try:
            setting(scenario, command.words)
        except (IsotoneError, ValueError) as error:
            raise ScenarioError(name, command.line, f"{command.text}: {error}") from error
    for command in commands:  # the nodes may be named below their sites
        for node in command.words[1:] if command.verb == "site" else ():
            if node not in scenario.nodes:
                raise ScenarioError(name, command.line, f"there is no node {node!r}")
    return scenario


def play(scenario: Scenario, build: Build | None = None) -> str:
    """Run the script; returns the trace."""
    cluster = (build or build_cluster)(scenario)
    lines = [_shown(each) for each in cluster.story]
    shown = len(cluster.story)
    for command in scenario.commands:
        lines.append(f"> {command.text}")
        try:
            lines.extend(DEEDS[command.verb].run(cluster, command.words))
        except (AssertionError, IsotoneError, ValueError) as error:
            raise ScenarioError(scenario.name, command.line, f"{command.text}: {error}") from error
        lines.extend(map(_shown, cluster.story[shown:]))
        shown = len(cluster.story)
    return "".join(f"{line}\n" for line in lines)


def _shown(each: Row | str) -> str:
    return each if isinstance(each, str) else line_of(each)


def build_cluster(scenario: Scenario) -> Cluster:
    """The cluster that the settings of the script describe."""
    if scenario.stack == FULL:
        from isotone.sim.full_cluster import FullCluster

        return FullCluster(*scenario.nodes, seed=scenario.seed, sites=scenario.sites, streams=scenario.streams)
    return Cluster(*scenario.nodes, seed=scenario.seed, sites=scenario.sites)


def rewritten(scenario: Scenario, trace: str) -> str:
    """The file with this trace below the script."""
    return f"{scenario.script.rstrip()}\n{DASHES}\n{trace}"


def difference(scenario: Scenario, trace: str) -> str:
    """How the trace differs from the expected one; empty when it does not."""
    before, after = scenario.expected.splitlines(), trace.splitlines()
    first = scenario.script.count("\n") + 2  # the line of the file on which the expected trace begins
    name = f"{scenario.name}:{first}"
    return "\n".join(difflib.unified_diff(before, after, f"{name} expected", "happened", lineterm=""))


# --- reading -------------------------------------------------------------------------------------------------------


def _split(text: str) -> tuple[str, str]:
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.strip() == DASHES:
            return "".join(lines[:number]), "".join(lines[number + 1 :])
    return text, ""


def _read(line: str, number: int, name: str) -> Command | None:
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise ScenarioError(name, number, str(error).lower()) from error
    if not words:
        return None
    return Command(number, words[0], tuple(words[1:]), line.strip())


def _check(scenario: Scenario, command: Command) -> None:
    deed = DEEDS.get(command.verb)
    if deed is None:
        known = ", ".join(sorted([*DEEDS, *_SETTINGS]))
        raise ScenarioError(scenario.name, command.line, f"unknown command {command.verb!r}; there are {known}")
    if not deed.least <= len(command.words) <= deed.most:
        raise ScenarioError(scenario.name, command.line, f"usage: {deed.usage}")
    for word in command.words[: deed.nodes]:
        if word not in scenario.nodes:
            raise ScenarioError(scenario.name, command.line, f"there is no node {word!r}")
    if command.verb in ("when", "entered") and scenario.stack != FULL:
        raise ScenarioError(scenario.name, command.line, "only daemons have states: write 'stack full' above")
    if command.verb == "when":
        _check(scenario, Command(command.line, command.words[3], command.words[4:], command.text))


def _set_seed(scenario: Scenario, words: Sequence[str]) -> None:
    if len(words) != 1:
        raise ValueError("one seed is needed")
    scenario.seed = str(parse_seed(words[0]))


def _set_nodes(scenario: Scenario, words: Sequence[str]) -> None:
    if len(set(words)) != len(words) or len(words) > NODES_MAX:
        raise ValueError(f"there are 1 to {NODES_MAX} nodes with different names")
    scenario.nodes = tuple(check_daemon_name(word) for word in words)


def _set_site(scenario: Scenario, words: Sequence[str]) -> None:
    scenario.sites.update(dict.fromkeys(words[1:], check_daemon_name(words[0])))


def _set_stack(scenario: Scenario, words: Sequence[str]) -> None:
    if list(words) not in ([ORACLE], [FULL]):
        raise ValueError(f"there are the stacks {ORACLE} and {FULL}")
    scenario.stack = words[0]


def _set_tcp(scenario: Scenario, words: Sequence[str]) -> None:
    if len(set(words)) != 2:
        raise ValueError("two sites are linked")
    scenario.streams.append(frozenset(words))


_SETTINGS: dict[str, Callable[[Scenario, Sequence[str]], None]] = {
    "seed": _set_seed,
    "nodes": _set_nodes,
    "site": _set_site,
    "stack": _set_stack,
    "tcp": _set_tcp,
}
_SETTING_USAGE = {
    "seed": "seed NUMBER",
    "nodes": "nodes NAME…",
    "site": "site SITE NODE…",
    "stack": f"stack {ORACLE}|{FULL}",
    "tcp": "tcp SITE SITE",
}
