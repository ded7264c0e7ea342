"""What an operation with a replicated lock and k updates takes, asynchronously and synchronously, by number of sites.

The operation of [ISIS 5.4]: take a replicated write lock, update an item k times, reply. Each update costs the
coordinator some work; the synchronous mode waits behind each one until it is at all sites. Our own daemons beneath,
each alone at its site, links of one latency. Then the frames that an operation costs under load, with and without
piggybacking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec

from isotone.core import boundary as b4
from isotone.core.contract import Action, Address, Automaton, Event, SetTimer, TimerFired
from isotone.evs.membership import KnownDaemon
from isotone.evs.stack import Stack
from isotone.isis.settings import IsisSettings
from isotone.isis.toolkit.actions import ActionWanted, general_kind
from isotone.isis.toolkit.callers import Answered
from isotone.isis.toolkit.data import ItemChanged
from isotone.isis.toolkit.evs_layer import EvsLayer
from isotone.isis.toolkit.kernel_layer import KernelLayer
from isotone.isis.toolkit.layer import Operational, Secured, SecureWanted
from isotone.isis.toolkit.locks import LockHeld
from isotone.isis.toolkit.member import MemberIsReady, ViewChanged
from isotone.isis.toolkit.process import CallWanted, OpenWanted, Toolkit, ToolUsed
from isotone.sim.full_cluster import PLAYED
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.process import SERVICE_LABEL, Boot
from isotone.sim.world import World

LABEL = "toolkit"
GROUP = "file"
LATENCY_US = 50_000
WORK_US = 100_000
LIGHT_WORK_US = 10_000
PAPER_SITES = 3
LOADED_WORK_US = 1_000
SETTLE_US = 3_000_000
LIMIT_US = 60_000_000
QUIET_US = 2_000_000
MODES = ("asynchronous", "synchronous")
PAPER = {"asynchronous": (0.3, 0.1), "synchronous": (0.85, 0.5)}
HEARD = (Operational, MemberIsReady, ViewChanged, ItemChanged, LockHeld, ActionWanted, Answered, Secured)


class Asked(Event, frozen=True):
    """A call with so many updates."""

    token: int
    updates: int


@dataclass
class FileNode:
    """A component of the file object, and a caller of it."""

    toolkit: Toolkit
    synchronous: bool
    work_us: int
    left: dict[str, int] = field(default_factory=dict)  # updates, by action
    answered: dict[int, int] = field(default_factory=dict)  # by token: when
    updated: int = 0  # when the last update was heard
    frames: int = 0

    def handle(self, event: Event) -> list[Action]:
        """Of the driver, of a timer, or for the toolkit."""
        match event:
            case Asked(at=at, token=token, updates=updates):
                return self._tell(CallWanted(at, token, GROUP, b"%d" % updates))
            case TimerFired(at=at, key=("work", str(id))):
                return self._update(at, id)
        return self._tell(event)

    def _tell(self, event: Event) -> list[Action]:
        actions = self.toolkit.handle(event)
        out = [action for action in actions if not isinstance(action, HEARD)]
        self.frames += sum(isinstance(action, b4.Ask) for action in out)
        for action in actions:
            out += self._hear(event.at, action)
        return out

    def _hear(self, at: int, action: Action) -> list[Action]:
        match action:
            case ActionWanted(id=id, body=body):
                self.left[id] = int(body)
                return self._tell(ToolUsed(at, GROUP, "locks", "ask", ("item", id, True)))
            case LockHeld(owner=id):
                return [SetTimer(("work", id), self.work_us)]
            case Secured():
                return self._go_on(at, next(iter(self.left)))
            case Answered(token=token):
                self.answered[token] = at
            case ItemChanged():
                self.updated = at
        return []

    def _update(self, at: int, id: str) -> list[Action]:
        out = self._tell(ToolUsed(at, GROUP, "data", "put", ("item", b"%d" % self.left[id])))
        self.left[id] -= 1
        if self.synchronous:
            return [*out, *self._tell(SecureWanted(at, 1))]
        return [*out, *self._go_on(at, id)]

    def _go_on(self, at: int, id: str) -> list[Action]:
        if self.left[id]:
            return [SetTimer(("work", id), self.work_us)]
        del self.left[id]
        freed = self._tell(ToolUsed(at, GROUP, "locks", "free", ("item", id)))
        return [*freed, *self._tell(ToolUsed(at, GROUP, "requests", "finish", (id, b"", b"")))]


class FileTrial:
    """So many sites that have settled."""

    def __init__(
        self,
        sites: int,
        *,
        synchronous: bool = False,
        work_us: int = WORK_US,
        defer_us: int = 0,
        view_synchronous: bool = False,
    ) -> None:
        self._token, self._kind = 100, EvsLayer if view_synchronous else KernelLayer
        self.names = tuple(f"s{place + 1}" for place in range(sites))
        link = LinkSettings(latency_us=LATENCY_US, jitter_us=0)
        self.world = World(seed="isis-5.4", network=NetworkSettings(lan=link, wan=link))
        settings = IsisSettings(site="", sites=self.names, suspect_us=3_000_000, defer_us=defer_us)
        for name in self.names:
            program = partial(self._program, settings=settings, synchronous=synchronous, work_us=work_us)
            self.world.add_process(name, program, site=name)
        self.world.run_for(SETTLE_US)
        for name in self.names:
            self.tell(name, OpenWanted(0, GROUP))
            self.world.run_for(SETTLE_US)
        assert all(self.node(name).toolkit.members[GROUP].is_ready for name in self.names)

    def _program(
        self, boot: Boot, settings: IsisSettings, *, synchronous: bool, work_us: int
    ) -> Mapping[str, Automaton]:
        name = boot.daemon.name
        boot.players[name] = LABEL
        known = tuple(KnownDaemon(each, each, Address(f"{each}.1")) for each in self.names)
        membership = msgspec.structs.replace(PLAYED.membership, known=known)
        stack = Stack(
            me=boot.daemon,
            identity=blake2b(name.encode(), digest_size=16).digest(),
            site=boot.site,
            address=boot.address,
            settings=msgspec.structs.replace(PLAYED, membership=membership),
        )
        layer = self._kind(boot.daemon, msgspec.structs.replace(settings, site=name))
        kind = general_kind(self.names)
        node = FileNode(Toolkit(layer, lambda group: kind), synchronous, work_us)
        return {SERVICE_LABEL: stack, LABEL: node}

    def node(self, name: str) -> FileNode:
        """One of them."""
        node = self.world.automaton(name, LABEL)
        assert isinstance(node, FileNode)
        return node

    def tell(self, name: str, event: Event) -> None:
        """Now."""
        self.world.tell(name, LABEL, event)

    def operation(self, updates: int) -> tuple[int, int]:
        """One, asked at the first site: until it is answered, and until its last update is everywhere."""
        first = self.names[0]
        node, began, start = self.node(first), self.world.now, self.world.clock(first)
        token = len(node.answered) + 1
        self.tell(first, Asked(0, token, updates))
        while token not in node.answered and self.world.now < began + LIMIT_US:
            self.world.run_for(LATENCY_US)
        self.world.run_for(QUIET_US)
        done = max(self.node(name).updated - self.world.clock(name) for name in self.names) + self.world.now
        return node.answered[token] - start, done - began

    def load(self, operations: int, apart_us: int) -> float:
        """Frames for each operation, if so many are asked in turn at all sites."""
        answered = sum(len(self.node(name).answered) for name in self.names)
        idle, _ = self._frames(lambda: self.world.run_for(QUIET_US))

        def ask() -> None:
            self._ask(operations, apart_us)
            while sum(len(self.node(name).answered) for name in self.names) < answered + operations:
                self.world.run_for(LATENCY_US)

        frames, took_us = self._frames(ask)
        return (frames - idle * took_us / QUIET_US) / operations

    def _frames(self, run: Callable[[], object]) -> tuple[int, int]:
        """How many are sent while something runs, and how long that takes."""
        before, began = sum(self.node(name).frames for name in self.names), self.world.now
        run()
        return sum(self.node(name).frames for name in self.names) - before, self.world.now - began

    def _ask(self, operations: int, apart_us: int) -> None:
        self._token += operations
        for place in range(operations):
            self.tell(self.names[place % len(self.names)], Asked(0, self._token + place, 4))
            self.world.run_for(apart_us)


def _row(mode: str, sites: int, updates: int, work_us: int, **measured: float) -> dict[str, Any]:
    """What was not measured is None."""
    row = {"mode": mode, "sites": sites, "updates": updates, "work_s": work_us / 1e6}
    columns = ("answer_s", "paper_answer_s", "end_s", "operations_per_s", "frames_per_operation")
    return row | {name: measured.get(name) for name in columns}


def answer_rows(trial: FileTrial, name: str, updates_max: int) -> list[dict[str, Any]]:
    """From one update for an operation on; beside the paper's figures, where that has them."""
    sites, node = len(trial.names), trial.node(trial.names[0])
    rows: list[dict[str, Any]] = []
    for updates in range(1, updates_max + 1):
        answer, end = trial.operation(updates)
        paper = {}
        if sites == PAPER_SITES and node.work_us == WORK_US:
            first, more = PAPER[MODES[node.synchronous]]
            paper = {"paper_answer_s": round(first + more * (updates - 1), 2)}
        rows.append(_row(name, sites, updates, node.work_us, answer_s=answer / 1e6, end_s=end / 1e6, **paper))
    return rows


def load_row(name: str, apart_us: int, frames: float) -> dict[str, Any]:
    """So many frames for an operation, when one is asked so often."""
    return _row(name, 3, 4, LOADED_WORK_US, operations_per_s=1e6 / apart_us, frames_per_operation=frames)


def isis_concurrency(updates_max: int = 4, sites_max: int = 4) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Answer and end of an operation by mode, sites and updates, on both layers; then frames by load.

    With light work beside: then all that an update costs its caller is what the protocols cost.
    """
    rows: list[dict[str, Any]] = []
    for mode in MODES:
        synchronous = mode == "synchronous"
        for sites in range(2, sites_max + 1):
            rows += answer_rows(FileTrial(sites, synchronous=synchronous), mode, updates_max)
        rows += answer_rows(FileTrial(3, synchronous=synchronous, work_us=LIGHT_WORK_US), mode, updates_max)
        group = FileTrial(3, synchronous=synchronous, view_synchronous=True)
        rows += answer_rows(group, f"{mode}, view-synchronous", updates_max)
    for defer_us in (0, 20_000):
        trial = FileTrial(3, work_us=LOADED_WORK_US, defer_us=defer_us)
        for apart_us in (1_000_000, 200_000, 20_000):
            name = "load, CBCASTs held back" if defer_us else "load"
            rows.append(load_row(name, apart_us, round(trial.load(15, apart_us), 1)))
    return {"latency_us": LATENCY_US, "updates_max": updates_max, "sites_max": sites_max}, rows
