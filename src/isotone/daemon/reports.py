"""What a node tells about itself, and what can be changed while it runs: for administration, logs and metrics."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from isotone.core.contract import Address
from isotone.core.errors import InputError
from isotone.core.ids import DaemonId
from isotone.daemon.admin.operated import TraceStatus
from isotone.daemon.admin.questions import Answer, answer
from isotone.daemon.composition import Hooks
from isotone.daemon.faults import FaultRule, Faults
from isotone.daemon.node_settings import NodeSettings
from isotone.evs.explain import Status, status
from isotone.evs.membership.events import PeersChanged
from isotone.evs.stack import Stack
from isotone.trace.writer import Level

if TYPE_CHECKING:
    from isotone.daemon.shell import Shell

log = logging.getLogger("isotone.daemon")


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon at a glance, the shell around its stack too."""

    name: str
    incarnation: int
    address: str
    addresses: tuple[str, ...]
    uptime_us: int
    ready: bool
    why_not_ready: str
    trace: TraceStatus
    faults: list[FaultRule]
    offload: dict[str, bool]
    counters: dict[str, dict[str, int]]
    stack: Status


class Reports:
    """The half of `Node` that looks and adjusts."""

    settings: NodeSettings
    hooks: Hooks
    shell: Shell
    me: DaemonId
    address: Address
    addresses: tuple[Address, ...]
    started_at: int

    def now(self) -> int:
        """The daemon's own time."""
        raise NotImplementedError

    @property
    def why_not_ready(self) -> str:
        """What is missing, if anything is."""
        raise NotImplementedError

    @property
    def stack(self) -> Stack:
        """The automaton, to be read and never to be changed."""
        return self.shell.stack

    @property
    def name(self) -> str:
        """Its stable name."""
        return self.settings.name

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.settings.stack.membership.cluster

    @property
    def guard(self) -> Any:
        """The guard, where there is one."""
        return None if self.shell.guard_lane is None else self.shell.guard_lane.automaton

    @property
    def gateway(self) -> Any:
        """The gateway for Spread's clients, where there is one."""
        return None if self.shell.spread_lane is None else self.shell.spread_lane.automaton

    def status(self) -> NodeStatus:
        """How it stands."""
        datagrams = self.shell.datagrams
        return NodeStatus(
            name=self.name,
            incarnation=self.me.incarnation,
            address=self.address,
            addresses=self.addresses,
            uptime_us=self.now() - self.started_at,
            ready=not self.why_not_ready,
            why_not_ready=self.why_not_ready,
            trace=self.trace_status(),
            faults=[] if self.faults is None else self.faults.rules(),
            offload={"send": datagrams.sends_trains, "receive": datagrams.receives_trains},
            counters={part: dict(counts) for part, counts in self.counts().items()},
            stack=status(self.stack, self.now()),
        )

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Counters by part, each by name; they only grow."""
        shell = self.shell
        node = {
            **msgspec.structs.asdict(shell.datagrams.counters),
            **msgspec.structs.asdict(shell.streams.counters),
            "events": shell.engine.handled,
            "refused": sum(shell.engine.refused.values()),
            "streams_silent": shell.router.turned_away,
            "streams_without_tls": shell.router.wrong_door,
            "disk_writes": shell.disk.writes,
            "disk_syncs": shell.disk.syncs,
            "disk_failures": shell.disk.failures,
            "timer_late_us_max": shell.timers.late_us_max,
            "wake_gap_us_max": shell.gaps.longest_us,
            "wake_gap_us_recent": shell.gaps.recent_us,
        }
        if self.faults is not None:
            node |= {"fault_dropped": self.faults.dropped, "fault_delayed": self.faults.delayed}
        found: dict[str, Mapping[str, int]] = {"node": node, "refused": dict(shell.engine.refused)}
        for part, automaton in (("guard", self.guard), ("spread", self.gateway)):
            if automaton is not None:
                found[part] = _numbers(automaton.counters)
        if self.hooks.refused is not None:
            found["access"] = {f"refused.{reason}": count for reason, count in self.hooks.refused().items()}
        return found

    counters = counts

    def directories(self) -> Mapping[str, str]:
        """Where it writes."""
        places: dict[str, Path | None] = {
            "state": self.settings.state_directory,
            "trace": self.settings.trace.directory,
            "journal": self.settings.journal,
        }
        return {what: str(path) for what, path in places.items() if path is not None}

    def explain(self, question: str, **about: str) -> Answer:
        """Answer ``view``, ``exclusion`` (of a ``daemon``) or ``message``; raises `InputError`."""
        return answer(self.stack, {"question": question, **about}, self.now())

    # --- the record ------------------------------------------------------------------------------------------------

    @property
    def trace_level(self) -> str:
        """What is recorded."""
        return self.shell.recording.level.value

    def trace_status(self) -> TraceStatus:
        """How the record stands."""
        return self.shell.recording.status()

    def set_trace_level(self, level: str) -> None:
        """Change what is recorded: off, buffered or full; raises `InputError`."""
        try:
            wanted = Level(level)
        except ValueError:
            raise InputError(f"{level!r} is not a level: off, buffered or full") from None
        problem = self.shell.recording.set_level(wanted)
        if problem:
            raise InputError(problem)
        log.info("daemon %s: the trace is %s", self.me, level)

    # --- faults ----------------------------------------------------------------------------------------------------

    @property
    def faults(self) -> Faults | None:
        """Faults on purpose; none where the settings do not enable them."""
        return self.shell.faults

    def fault_rules(self) -> list[dict[str, object]] | None:
        """Those that stand; None where the settings do not enable them."""
        return None if self.faults is None else [msgspec.structs.asdict(rule) for rule in self.faults.rules()]

    def set_fault_rules(self, rules: list[dict[str, object]]) -> None:
        """Replace them; raises `InputError`."""
        if self.faults is None:
            raise InputError("faults are not enabled: [faults] enabled = true, and reload")
        try:
            self.faults.replace(msgspec.convert(rules, list[FaultRule]))
        except msgspec.ValidationError as error:
            raise InputError(f"not a fault: {error}") from None

    # --- settings --------------------------------------------------------------------------------------------------

    def apply(self, settings: NodeSettings) -> list[str]:
        """Take what can change at run time, and say what changed and what needs a restart: that stays as it runs."""
        before, said = self.settings, []
        old = {each.name: each for each in before.stack.membership.known}
        new = {each.name: each for each in settings.stack.membership.known}
        added = tuple(each for name, each in new.items() if old.get(name) != each)
        removed = tuple(name for name in old if name not in new)
        if added or removed or settings.stack.membership.seeds != before.stack.membership.seeds:
            seeds = settings.stack.membership.seeds
            self.shell.engine.take(self.shell.stack_lane, PeersChanged(self.now(), added, removed, seeds))
            said.append(
                f"daemons: {', '.join(each.name for each in added) or 'none'} known or moved, "
                f"{', '.join(removed) or 'none'} removed"
            )
        if settings.trace.level is not before.trace.level:
            self.set_trace_level(settings.trace.level.value)
            said.append(f"trace: {settings.trace.level.value}")
        if settings.faults is not before.faults:
            self.shell.enable_faults(settings.faults)
            said.append(f"faults: {'enabled' if settings.faults else 'not enabled any more, and healed'}")
        self.settings = running = _taken_over(before, settings)
        self.shell.recording.settings = running.trace
        return said + [f"{field} changed: that needs a restart" for field in _fixed_differences(running, settings)]


def _taken_over(before: NodeSettings, after: NodeSettings) -> NodeSettings:
    """What runs once the rest of the change was left for a restart."""
    replace, wanted, trace = msgspec.structs.replace, after.stack.membership, after.trace
    membership = replace(before.stack.membership, known=wanted.known, seeds=wanted.seeds)
    return replace(
        before,
        stack=replace(before.stack, membership=membership),
        trace=replace(before.trace, level=trace.level, bytes_max=trace.bytes_max, age_max_s=trace.age_max_s),
        faults=after.faults,
    )


def _fixed_differences(running: NodeSettings, wanted: NodeSettings) -> list[str]:
    changed = []
    for field in NodeSettings.__struct_fields__:
        old, new = getattr(running, field), getattr(wanted, field)
        if old == new:
            continue
        if field == "trace":
            changed += [f"trace.{key}" for key in old.__struct_fields__ if getattr(old, key) != getattr(new, key)]
        else:
            changed.append("timeouts or limits of the stack" if field == "stack" else field)
    return changed


def _numbers(counters: object) -> dict[str, int]:
    """The numbers of a part's counters; those by reason are added with the reason behind a dot."""
    fields = getattr(counters, "__struct_fields__", None) or vars(counters)
    found: dict[str, int] = {}
    for name in fields:
        value = getattr(counters, name)
        if isinstance(value, int):
            found[name] = value
        elif isinstance(value, Mapping):
            found |= {f"{name}.{getattr(reason, 'value', reason)}": count for reason, count in value.items()}
    return found
