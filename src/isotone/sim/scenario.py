"""Scenario files: a script, a line of dashes, and below it the full trace that the script must yield.

The script has one command per line; ``#`` begins a comment, quotes keep a text together. Time passes only in ``run``,
``quiet`` and ``finish``. The trace repeats each command behind ``>`` where it took effect. A file is compared exactly;
`rewritten` makes the file that would have passed, and people review the difference.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from isotone.core.errors import InputError, IsotoneError
from isotone.core.names import check_daemon_name
from isotone.core.services import Service
from isotone.sim.cluster import Cluster
from isotone.sim.links import LinkSettings
from isotone.sim.plan import NODES_MAX, parse_seed
from isotone.sim.trace_lines import line_of

DASHES = "----"
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(us|ms|s)")
_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


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
    lines = [line_of(row) for row in cluster.rows]
    shown = len(cluster.rows)
    for command in scenario.commands:
        lines.append(f"> {command.text}")
        try:
            lines.extend(_DEEDS[command.verb].run(cluster, command.words))
        except (AssertionError, IsotoneError, ValueError) as error:
            raise ScenarioError(scenario.name, command.line, f"{command.text}: {error}") from error
        lines.extend(map(line_of, cluster.rows[shown:]))
        shown = len(cluster.rows)
    return "".join(f"{line}\n" for line in lines)


def build_cluster(scenario: Scenario) -> Cluster:
    """The cluster that the settings of the script describe, above the oracle."""
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
    deed = _DEEDS.get(command.verb)
    if deed is None:
        known = ", ".join(sorted([*_DEEDS, *_SETTINGS]))
        raise ScenarioError(scenario.name, command.line, f"unknown command {command.verb!r}; there are {known}")
    if not deed.least <= len(command.words) <= deed.most:
        raise ScenarioError(scenario.name, command.line, f"usage: {deed.usage}")
    for word in command.words[: deed.nodes]:
        if word not in scenario.nodes:
            raise ScenarioError(scenario.name, command.line, f"there is no node {word!r}")


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


_SETTINGS: dict[str, Callable[[Scenario, Sequence[str]], None]] = {
    "seed": _set_seed,
    "nodes": _set_nodes,
    "site": _set_site,
}
_SETTING_USAGE = {"seed": "seed NUMBER", "nodes": "nodes NAME…", "site": "site SITE NODE…"}


# --- doing ---------------------------------------------------------------------------------------------------------

Run = Callable[[Cluster, Sequence[str]], Sequence[str]]


class _Deed(msgspec.Struct, frozen=True):
    """What a command does. The first ``nodes`` words are names of nodes."""

    usage: str
    run: Run
    least: int = 0
    most: int = 0
    nodes: int = 0


def milliseconds(text: str) -> float:
    """A duration such as 20ms, 1.5s or 300us."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"not a duration: {text!r} (write 20ms, 1.5s or 300us)")
    return float(found[1]) * _MILLISECONDS[found[2]]


def _quietly(call: Callable[[Cluster, Sequence[str]], object]) -> Run:
    def run(cluster: Cluster, words: Sequence[str]) -> Sequence[str]:
        call(cluster, words)
        return ()

    return run


def _quiet(cluster: Cluster, words: Sequence[str]) -> Sequence[str]:
    limit = milliseconds(words[0]) if words else None
    quiet = cluster.run_until_quiet() if limit is None else cluster.run_until_quiet(limit)
    return () if quiet else ("! not quiet",)


def _finish(cluster: Cluster, words: Sequence[str]) -> Sequence[str]:
    return () if cluster.finish() else ("! not quiet",)


def _partition(cluster: Cluster, words: Sequence[str]) -> None:
    sides: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            sides.append([])
        else:
            sides[-1].append(word)
    cluster.partition(*sides)


def _cut(cluster: Cluster, words: Sequence[str]) -> None:
    cluster.cut(words[0], words[1], one_way=_one_way(words[2:]))


def _mend(cluster: Cluster, words: Sequence[str]) -> None:
    cluster.mend(words[0], words[1], one_way=_one_way(words[2:]))


def _one_way(words: Sequence[str]) -> bool:
    if list(words) not in ([], ["one-way"]):
        raise ValueError("after the two nodes only 'one-way' may stand")
    return bool(words)


def _link(cluster: Cluster, words: Sequence[str]) -> None:
    given = dict(word.partition("=")[::2] for word in words[2:])
    unknown = sorted(set(given) - set(LinkSettings.__struct_fields__))
    if unknown:
        raise ValueError(f"a link has no {unknown[0]!r}")
    cluster.link(words[0], words[1], msgspec.convert(given, LinkSettings, strict=False))


def _send(cluster: Cluster, words: Sequence[str]) -> None:
    node, client, service, groups, *bodies = words
    names = [each.name.lower() for each in Service]
    if service not in names:
        raise ValueError(f"there is no service {service!r}; there are {', '.join(names)}")
    cluster.send(node, client, groups.split(","), *bodies, service=Service[service.upper()])


_MANY = 1_000
_DEEDS: dict[str, _Deed] = {
    "run": _Deed("run DURATION", _quietly(lambda cluster, words: cluster.run_for(milliseconds(words[0]))), 1, 1),
    "quiet": _Deed("quiet [LIMIT]", _quiet, 0, 1),
    "finish": _Deed("finish", _finish),
    "partition": _Deed("partition NODE… | NODE…", _quietly(_partition), 1, _MANY),
    "heal": _Deed("heal", _quietly(lambda cluster, words: cluster.heal())),
    "cut": _Deed("cut FROM TO [one-way]", _quietly(_cut), 2, 3, 2),
    "mend": _Deed("mend FROM TO [one-way]", _quietly(_mend), 2, 3, 2),
    "link": _Deed("link FROM TO NAME=VALUE…", _quietly(_link), 2, _MANY, 2),
    "crash": _Deed("crash NODE", _quietly(lambda cluster, words: cluster.crash(words[0])), 1, 1, 1),
    "restart": _Deed("restart NODE", _quietly(lambda cluster, words: cluster.restart(words[0])), 1, 1, 1),
    "stop": _Deed("stop NODE", _quietly(lambda cluster, words: cluster.stop(words[0])), 1, 1, 1),
    "pause": _Deed("pause NODE", _quietly(lambda cluster, words: cluster.pause(words[0])), 1, 1, 1),
    "resume": _Deed("resume NODE", _quietly(lambda cluster, words: cluster.resume(words[0])), 1, 1, 1),
    "connect": _Deed("connect NODE CLIENT", _quietly(lambda cluster, words: cluster.connect(*words)), 2, 2, 1),
    "disconnect": _Deed("disconnect NODE CLIENT", _quietly(lambda cluster, words: cluster.disconnect(*words)), 2, 2, 1),
    "join": _Deed("join NODE CLIENT GROUP", _quietly(lambda cluster, words: cluster.join(*words)), 3, 3, 1),
    "leave": _Deed("leave NODE CLIENT GROUP", _quietly(lambda cluster, words: cluster.leave(*words)), 3, 3, 1),
    "send": _Deed("send NODE CLIENT SERVICE GROUP[,GROUP…] TEXT…", _quietly(_send), 5, _MANY, 1),
}
