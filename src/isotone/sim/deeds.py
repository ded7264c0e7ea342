"""What the commands of a scenario do, one function each, in a table with their usage."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from isotone.core.services import Service
from isotone.sim.cluster import Cluster
from isotone.sim.links import LinkSettings

_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(us|ms|s)")
_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0}

Run = Callable[[Cluster, Sequence[str]], Sequence[str]]


class Deed(msgspec.Struct, frozen=True):
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


def _when(cluster: Cluster, words: Sequence[str]) -> Sequence[str]:
    node, word, state, verb, *rest = words
    if word != "in":
        raise ValueError("between node and state stands 'in'")
    if not cluster.run_until_state(node, state):
        raise ValueError(f"{node} is never in {state}: the script does not show what it should")
    return DEEDS[verb].run(cluster, rest)


def _entered(cluster: Cluster, words: Sequence[str]) -> None:
    node, *reasons = words
    for reason in reasons:
        if not cluster.has_entered(node, reason):
            raise ValueError(
                f"{node} never entered a state because of {reason}: the script does not show what it should"
            )


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
DEEDS: dict[str, Deed] = {
    "run": Deed("run DURATION", _quietly(lambda cluster, words: cluster.run_for(milliseconds(words[0]))), 1, 1),
    "quiet": Deed("quiet [LIMIT]", _quiet, 0, 1),
    "finish": Deed("finish", _finish),
    "when": Deed("when NODE in STATE COMMAND…", _when, 4, _MANY, 1),
    "entered": Deed("entered NODE REASON…", _quietly(_entered), 2, _MANY, 1),
    "partition": Deed("partition NODE… | NODE…", _quietly(_partition), 1, _MANY),
    "heal": Deed("heal", _quietly(lambda cluster, words: cluster.heal())),
    "cut": Deed("cut FROM TO [one-way]", _quietly(_cut), 2, 3, 2),
    "mend": Deed("mend FROM TO [one-way]", _quietly(_mend), 2, 3, 2),
    "link": Deed("link FROM TO NAME=VALUE…", _quietly(_link), 2, _MANY, 2),
    "crash": Deed("crash NODE", _quietly(lambda cluster, words: cluster.crash(words[0])), 1, 1, 1),
    "restart": Deed("restart NODE", _quietly(lambda cluster, words: cluster.restart(words[0])), 1, 1, 1),
    "stop": Deed("stop NODE", _quietly(lambda cluster, words: cluster.stop(words[0])), 1, 1, 1),
    "pause": Deed("pause NODE", _quietly(lambda cluster, words: cluster.pause(words[0])), 1, 1, 1),
    "resume": Deed("resume NODE", _quietly(lambda cluster, words: cluster.resume(words[0])), 1, 1, 1),
    "connect": Deed("connect NODE CLIENT", _quietly(lambda cluster, words: cluster.connect(*words)), 2, 2, 1),
    "disconnect": Deed("disconnect NODE CLIENT", _quietly(lambda cluster, words: cluster.disconnect(*words)), 2, 2, 1),
    "join": Deed("join NODE CLIENT GROUP", _quietly(lambda cluster, words: cluster.join(*words)), 3, 3, 1),
    "leave": Deed("leave NODE CLIENT GROUP", _quietly(lambda cluster, words: cluster.leave(*words)), 3, 3, 1),
    "send": Deed("send NODE CLIENT SERVICE GROUP[,GROUP…] TEXT…", _quietly(_send), 5, _MANY, 1),
}
