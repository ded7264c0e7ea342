"""Faults as values: what happens to nodes, links and clients, and when; drawn from a seed, applied to a world.

A *family* is what ``--faults`` names: each draws the fault and its repair (crash and restart, partition and heal …).
Faults come in bursts, because two of them within one view change is where protocols break. Applying a fault that no
longer makes sense (a crash of a node that is down) does nothing, so that any part of a schedule is a schedule: the
shrinker relies on it.

Implements: [DESIGN 4], the simulator's faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from isotone.core.choice import Choice

MILLISECOND = 1_000
SETTLED_US = 1_200 * MILLISECOND


class Fault(msgspec.Struct, frozen=True, tag_field="kind"):
    """Base of all faults; ``at`` is virtual time in microseconds."""

    at: int


class Partition(Fault, frozen=True, tag="partition"):
    """Only nodes of one side reach each other; replaces any partition before it. Nodes not named form one more side."""

    sides: tuple[tuple[str, ...], ...]


class Cut(Fault, frozen=True, tag="cut"):
    """Nothing gets from one node to another (and back, unless ``one_way``); others still reach both."""

    source: str
    target: str
    one_way: bool


class Heal(Fault, frozen=True, tag="heal"):
    """End every partition and every cut."""


class Crash(Fault, frozen=True, tag="crash"):
    """The process dies, with its clients."""

    node: str


class Restart(Fault, frozen=True, tag="restart"):
    """The process starts again as a new incarnation, where it was or at another address."""

    node: str
    elsewhere: bool = False


class Pause(Fault, frozen=True, tag="pause"):
    """The process stands still and does not know it."""

    node: str


class Resume(Fault, frozen=True, tag="resume"):
    """The paused process goes on."""

    node: str


class KillClient(Fault, frozen=True, tag="kill"):
    """One client's session breaks off."""

    node: str
    client: str


class SlowDisk(Fault, frozen=True, tag="slow-disk"):
    """Every sync of the node's disk takes this long."""

    node: str
    sync_us: int


class MendDisk(Fault, frozen=True, tag="mend-disk"):
    """The node's disk is as fast as before."""

    node: str


AnyFault = Partition | Cut | Heal | Crash | Restart | Pause | Resume | KillClient | SlowDisk | MendDisk
REPAIRS = (Heal, Restart, Resume, MendDisk)


class FaultTarget(Protocol):
    """What faults are applied to: a world with a system in it."""

    def partition(self, sides: Sequence[Sequence[str]]) -> None: ...

    def cut(self, source: str, target: str, *, one_way: bool) -> None: ...

    def heal(self) -> None: ...

    def crash(self, node: str) -> None: ...

    def restart(self, node: str, *, elsewhere: bool = False) -> None: ...

    def pause(self, node: str) -> None: ...

    def resume(self, node: str) -> None: ...

    def kill_client(self, node: str, client: str) -> None: ...

    def slow_disk(self, node: str, sync_us: int | None) -> None: ...


def apply_fault(fault: Fault, target: FaultTarget) -> None:
    """Let it happen now."""
    match fault:
        case Partition(sides=sides):
            target.partition(sides)
        case Cut(source=source, target=other, one_way=one_way):
            target.cut(source, other, one_way=one_way)
        case Heal():
            target.heal()
        case Crash(node=node):
            target.crash(node)
        case Restart(node=node, elsewhere=elsewhere):
            target.restart(node, elsewhere=elsewhere)
        case Pause(node=node):
            target.pause(node)
        case Resume(node=node):
            target.resume(node)
        case KillClient(node=node, client=client):
            target.kill_client(node, client)
        case SlowDisk(node=node, sync_us=sync_us):
            target.slow_disk(node, sync_us)
        case MendDisk(node=node):
            target.slow_disk(node, None)
        case _:
            raise AssertionError(f"no such fault: {fault!r}")


# --- drawing -------------------------------------------------------------------------------------------------------


@dataclass
class Schedule:
    """A fault schedule while it is drawn: who is down or paused until when (None: until the end of the faults)."""

    choice: Choice
    nodes: tuple[str, ...]
    clients: Mapping[str, tuple[str, ...]]
    end: int
    faults: list[Fault] = field(default_factory=list)
    down_until: dict[str, int] = field(default_factory=dict)

    def up_at(self, at: int) -> list[str]:
        """The nodes that neither are down nor stand still then."""
        return [node for node in self.nodes if self.down_until.get(node, -1) < at]

    def later(self, at: int, low_ms: int, high_ms: int) -> int:
        """Some time after ``at``, inside the phase of faults."""
        return min(at + self.choice.between(low_ms * MILLISECOND, high_ms * MILLISECOND), self.end)


def _draw_partition(schedule: Schedule, at: int) -> bool:
    if len(schedule.nodes) < 2:
        return False
    schedule.faults.append(Partition(at=at, sides=_sides(schedule)))
    if schedule.choice.chance(0.7):
        schedule.faults.append(Heal(at=schedule.later(at, 20, 1_500)))
    return True


def _sides(schedule: Schedule) -> tuple[tuple[str, ...], ...]:
    choice, nodes = schedule.choice, list(schedule.nodes)
    choice.shuffle(nodes)
    count = choice.between(2, min(len(nodes), choice.pick((2, 2, 3, 4))))
    sides: list[list[str]] = [[node] for node in nodes[:count]]
    for node in nodes[count:]:
        choice.pick(sides).append(node)
    return tuple(sorted(tuple(sorted(side)) for side in sides))


def _draw_cut(schedule: Schedule, at: int) -> bool:
    if len(schedule.nodes) < 2:
        return False
    source, target = schedule.choice.sample(schedule.nodes, 2)
    if schedule.choice.chance(0.5):
        source, target = target, source
    one_way = schedule.choice.chance(0.5)
    schedule.faults.append(Cut(at=at, source=source, target=target, one_way=one_way))
    if schedule.choice.chance(0.7):
        schedule.faults.append(Heal(at=schedule.later(at, 20, 1_000)))
    return True


def _draw_crash(schedule: Schedule, at: int, *, elsewhere: bool = False) -> bool:
    up = schedule.up_at(at)
    if len(up) < 2:
        return False
    node = schedule.choice.pick(up)
    back = schedule.later(at, 5, 1_200) if schedule.choice.chance(0.85) else schedule.end
    schedule.down_until[node] = back
    schedule.faults += [Crash(at=at, node=node), Restart(at=back, node=node, elsewhere=elsewhere)]
    return True


def _draw_move(schedule: Schedule, at: int) -> bool:
    return _draw_crash(schedule, at, elsewhere=True)


def _draw_pause(schedule: Schedule, at: int) -> bool:
    up = schedule.up_at(at)
    if len(up) < 2:
        return False
    node = schedule.choice.pick(up)
    back = schedule.later(at, 5, 800)
    schedule.down_until[node] = back
    schedule.faults += [Pause(at=at, node=node), Resume(at=back, node=node)]
    return True


def _draw_kill(schedule: Schedule, at: int) -> bool:
    up = [node for node in schedule.up_at(at) if schedule.clients.get(node)]
    if not up:
        return False
    node = schedule.choice.pick(up)
    schedule.faults.append(KillClient(at=at, node=node, client=schedule.choice.pick(schedule.clients[node])))
    return True


def _draw_disk(schedule: Schedule, at: int) -> bool:
    node = schedule.choice.pick(schedule.nodes)
    sync_us = schedule.choice.pick((20, 200, 900)) * MILLISECOND
    schedule.faults += [
        SlowDisk(at=at, node=node, sync_us=sync_us),
        MendDisk(at=schedule.later(at, 50, 1_500), node=node),
    ]
    return True


def _draw_cascade(schedule: Schedule, at: int) -> bool:
    """Two sides that have come apart meet again, and about when they merge the next faults come close together."""
    if len(schedule.nodes) < 2:
        return False
    met = schedule.later(at, 200, 1_000)
    schedule.faults += [Partition(at=at, sides=_sides(schedule)), Heal(at=met)]
    again = schedule.later(met, 50, 800)
    for _ in range(schedule.choice.between(1, 3)):
        draw = schedule.choice.pick((_draw_partition, _draw_crash, _draw_cut))
        draw(schedule, again)
        again = schedule.later(again, 0, 300)
    return True


def _draw_blink(schedule: Schedule, at: int) -> bool:
    """One way is lost for tenths of a second, and whoever cannot be heard crashes before anybody minds.

    Not soon after others were down: views shall have formed, and groups be known, when it happens.
    """
    up = schedule.up_at(at - SETTLED_US)
    if len(up) < 3:
        return False
    source, target = schedule.choice.sample(up, 2)
    if schedule.choice.chance(0.5):
        source, target = target, source
    gone = schedule.later(at, 100, 400)
    back = schedule.later(gone, 200, 600)
    schedule.down_until[source] = back
    schedule.faults += [Cut(at=at, source=source, target=target, one_way=True), Crash(at=gone, node=source)]
    schedule.faults += [Heal(at=schedule.later(gone, 0, 300)), Restart(at=back, node=source)]
    return True


FAMILIES: Mapping[str, Callable[[Schedule, int], bool]] = {
    "partition": _draw_partition,
    "cut": _draw_cut,
    "crash": _draw_crash,
    "pause": _draw_pause,
    "kill": _draw_kill,
    "move": _draw_move,
    "disk": _draw_disk,
    "cascade": _draw_cascade,
    "blink": _draw_blink,
}
"""By the names that ``--faults`` takes. Each draws one fault with its repair, or says that it cannot."""

WEIGHTS: Mapping[str, float] = {
    "partition": 4.0,
    "cut": 2.0,
    "crash": 3.0,
    "pause": 1.5,
    "kill": 1.5,
    "move": 1.0,
    "disk": 0.7,
    "cascade": 1.0,
    "blink": 1.0,
}
BEHIND = ("blink",)
BEHIND_SHARE = 0.4
BUSY_SHARE = 0.3
"""Families that are drawn behind the others, from a stream of their own, on this share of the seeds: the others then
have this share of the time, and all is healed before these begin."""


CHANGING = ("partition", "cut", "crash", "move", "cascade")
DOWN_US = 300_000
CHANGES_MIN = 5
"""At least so many faults change who reaches whom, where there are twice as many: so that there are views to change."""


def draw_faults(
    choice: Choice,
    *,
    families: Sequence[str],
    clients: Mapping[str, tuple[str, ...]],
    count: int,
    end: int,
) -> tuple[Fault, ...]:
    """At least ``count`` faults before ``end``, with their repairs, in the order of time."""
    behind = tuple(name for name in families if name in BEHIND and set(families) - set(BEHIND))
    families = tuple(name for name in families if name not in behind)
    behind = tuple(name for name in behind if choice.derive(f"{name}/share").chance(BEHIND_SHARE))
    schedule = Schedule(choice, tuple(clients), clients, int(end * BUSY_SHARE) if behind else end)
    weighted = [(name, WEIGHTS[name]) for name in families]
    changing = tuple(name for name in families if name in CHANGING)
    changes_owed = changes_wanted = CHANGES_MIN if changing and count >= 2 * CHANGES_MIN else 0
    for place, at in enumerate(_moments(choice, count, schedule.end) if weighted else ()):
        first = choice.weighted(weighted)
        if count - place <= changes_owed and first not in changing:
            first = changing[0]
        for name in (first, *families):  # one that cannot happen now gives way to one that can
            if FAMILIES[name](schedule, at):
                changes_owed -= name in changing
                break
    for name in behind:
        _draw_behind(schedule, name, end)
    faults = sorted(schedule.faults, key=lambda fault: fault.at)
    if changes_wanted and _felt(faults, len(clients)) < CHANGES_MIN:
        faults = _with_early_restarts(faults)
    return tuple(faults)


def _draw_behind(schedule: Schedule, name: str, end: int) -> None:
    """From now on only this family, each fault when views had time to settle after the one before."""
    schedule.choice = schedule.choice.derive(name)
    schedule.faults.append(Heal(at=schedule.end))
    at, schedule.end = max([schedule.end, *schedule.down_until.values()]), end
    while (at := at + SETTLED_US + schedule.choice.between(1, 100 * MILLISECOND)) < end:
        FAMILIES[name](schedule, at)
        at = max([at, *schedule.down_until.values()])


def _felt(faults: Sequence[Fault], nodes: int) -> int:
    """How many faults that change views happen while there are two nodes to part."""
    up, felt = nodes, 0
    for fault in faults:
        felt += isinstance(fault, Partition | Cut | Crash) and up > 1
        up += isinstance(fault, Restart) - isinstance(fault, Crash)
    return felt


def _with_early_restarts(faults: Sequence[Fault]) -> list[Fault]:
    """The same faults, but whoever crashes is soon back."""
    crashed = {fault.node: fault.at for fault in faults if isinstance(fault, Crash)}
    back = [
        msgspec.structs.replace(fault, at=min(fault.at, crashed[fault.node] + DOWN_US))
        if isinstance(fault, Restart)
        else fault
        for fault in faults
    ]
    return sorted(back, key=lambda fault: fault.at)


def injected(faults: Sequence[Fault]) -> int:
    """How many of them do harm: repairs are not counted."""
    return sum(not isinstance(fault, REPAIRS) for fault in faults)


def _moments(choice: Choice, count: int, end: int) -> list[int]:
    """Increasing times; about a third of them follow the one before within a few milliseconds."""
    gaps = [choice.real() * (0.005 if choice.chance(0.35) else 1.0) + 1e-4 for _ in range(count + 1)]
    scale = 0.92 * end / sum(gaps)
    moments, passed = [], 0.03 * end
    for gap in gaps[:count]:
        passed += gap * scale
        moments.append(int(passed))
    return moments
