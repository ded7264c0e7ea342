"""One run: a plan played in a world, its record checked, the verdicts.

First the phase of faults, in which every safety property must hold; then everything is healed, and the system must be
live and quiet within its bound. An exception counts under RUN-ASSERT, a system that is not live under RUN-LIVE; what
was recorded up to there is judged all the same.

Implements: [DESIGN 4], the two phases of a simulated run.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import msgspec

from isotone.sim.faults import apply_fault
from isotone.sim.plan import Plan, Step
from isotone.sim.system import RUN_ASSERT, RUN_LIVE, BuiltSystem, System, limits_of
from isotone.sim.world import World
from isotone.spec.bounds import BoundReport
from isotone.spec.check import check
from isotone.spec.verdicts import EventId, Report, State
from isotone.trace.events import DaemonSent, Ended, Row, Sent, Stabilised, ViewDelivered

LOOK_US = 5_000
"""How often a system is asked whether it has settled, in virtual time."""
STATES = tuple(state.value for state in State)
HOLDS, VIOLATED, NOT_JUDGED = State.HOLDS.value, State.VIOLATED.value, State.NOT_JUDGED.value


class Violation(msgspec.Struct, frozen=True):
    """One broken property of one run."""

    property: str
    explanation: str
    witness: tuple[EventId, ...] = ()


class RunResult(msgspec.Struct, frozen=True):
    """What is known of a run when it is over; all but ``cpu_seconds`` follows from the plan alone."""

    seed: int
    verdicts: dict[str, str]
    violations: tuple[Violation, ...]
    sends: int
    messages: int
    faults: int
    view_changes: int
    events: int
    rows: int
    cpu_seconds: float
    bounds: dict[str, float]
    choices: dict[str, int]

    def violates(self, label: str) -> bool:
        """Whether this property is among the broken ones."""
        return any(violation.property == label for violation in self.violations)


@dataclass
class _Course:
    """How far the run came."""

    rows: list[Row] = field(default_factory=list)
    built: BuiltSystem | None = None
    broken: str = ""  # the exception that ended it
    missing: list[str] = field(default_factory=list)  # what kept it from being live
    judged_live: bool = False
    bounds: dict[str, float] = field(default_factory=dict)
    events: int = 0


def run_plan(system: System, plan: Plan, *, sink: Callable[[Row], object] | None = None) -> RunResult:
    """Play the plan and judge it; ``sink`` gets every row of the trace too."""
    began = time.process_time()
    course = _Course()
    with collector_resting():
        _play(system, plan, course, sink)
        verdicts, violations = _judge(system, plan, course)
    sent = [row.entry for row in course.rows if isinstance(row.entry, Sent | DaemonSent)]
    return RunResult(
        seed=plan.seed,
        verdicts=verdicts,
        violations=tuple(violations),
        sends=len(sent),
        messages=sum(len(entry.lengths) for entry in sent),
        faults=plan.faults_injected,
        view_changes=_daemon_views(course.rows),
        events=course.events,
        rows=len(course.rows),
        cpu_seconds=time.process_time() - began,
        bounds=course.bounds,
        choices=dict(course.built.choices()) if course.built else {},
    )


def play_plan(system: System, plan: Plan, sink: Callable[[Row], object]) -> int:
    """Play the plan without judging it; the number of events handled. What goes wrong is raised."""
    world = World(seed=plan.seed, sink=sink)
    with collector_resting():
        _drive(world, system, plan, _Course())
    return world.handled


def _play(system: System, plan: Plan, course: _Course, sink: Callable[[Row], object] | None) -> None:
    def record(row: Row) -> None:
        course.rows.append(row)
        if sink:
            sink(row)

    world = World(seed=plan.seed, sink=record)
    try:
        _drive(world, system, plan, course)
    except Exception as error:
        course.broken = _told(error)
    course.events = world.handled


def _drive(world: World, system: System, plan: Plan, course: _Course) -> None:
    with limits_of(system, plan):
        _drive_within(world, system, plan, course)


def _drive_within(world: World, system: System, plan: Plan, course: _Course) -> None:
    built = course.built = system.build(world, plan)
    for fault in plan.faults:
        world.at(fault.at, partial(apply_fault, fault, built))
    _Script(world, plan.steps, built.play).go_on()
    world.run_until(plan.faults_end_us)
    world.record("", Stabilised(built.stabilise()))
    world.run_until(max([plan.faults_end_us, *(step.at for step in plan.steps)]))
    bound = system.live_within_us(plan)
    calm = world.now
    quiet = _run_until_settled(world, built, bound)
    for report in (BoundReport("live", world.now - calm, bound), *world.reports):
        course.bounds[report.name] = report.ratio
    course.missing = built.live() if quiet else [f"still busy {bound} us after the last step", *built.live()]
    assert not world.refused, f"refused as malformed, though nobody here sends such: {dict(world.refused)}"
    course.judged_live = True
    world.record("", Ended(quiet and built.owes_progress()))


def _run_until_settled(world: World, built: BuiltSystem, bound_us: int) -> bool:
    """Until nothing is left to happen; a system that keeps itself alive for ever says itself when that is so."""
    if built.settled() is None:
        return world.run_until_quiet(bound_us)
    end = world.now + bound_us
    while not built.settled():
        if world.now >= end:
            return False
        world.run_until(min(end, world.now + LOOK_US))
    return True


class _Script:
    """Plays the steps in the order of time. One appointment at a time, so that the agenda stays short."""

    def __init__(self, world: World, steps: Sequence[Step], play: Callable[[Step], None]) -> None:
        self._world = world
        self._steps = sorted(steps, key=lambda step: step.at)
        self._play = play
        self._next = 0

    def go_on(self) -> None:
        """Play what is due now, and make the next appointment."""
        steps, now = self._steps, self._world.now
        while self._next < len(steps) and steps[self._next].at <= now:
            self._play(steps[self._next])
            self._next += 1
        if self._next < len(steps):
            self._world.at(steps[self._next].at, self.go_on)


@contextmanager
def collector_resting() -> Iterator[None]:
    """Keep the cyclic collector from walking over a record that only grows; a run makes few cycles."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _judge(system: System, plan: Plan, course: _Course) -> tuple[dict[str, str], list[Violation]]:
    """Verdicts of the properties that apply, and the violations in the same order."""
    verdicts = dict.fromkeys(system.properties(plan.stack), NOT_JUDGED)
    violations: list[Violation] = []
    try:
        states, found = verdicts_and_violations(check(course.rows))
        verdicts |= {label: state for label, state in states.items() if label in verdicts}
        violations += [violation for violation in found if violation.property in verdicts]
    except Exception as error:
        course.broken = course.broken or _told(error)
    verdicts[RUN_ASSERT] = VIOLATED if course.broken else HOLDS
    if course.broken:
        violations.append(Violation(RUN_ASSERT, course.broken))
    if course.judged_live:
        verdicts[RUN_LIVE] = VIOLATED if course.missing else HOLDS
    if course.missing:
        violations.append(Violation(RUN_LIVE, "; ".join(course.missing)))
    return verdicts, violations


def verdicts_and_violations(report: Report) -> tuple[dict[str, str], list[Violation]]:
    """What the checkers said, as texts."""
    states = {label: verdict.state.value for label, verdict in report.verdicts.items()}
    violations = [
        Violation(label, verdict.violation.explanation, verdict.violation.witness)
        for label, verdict in report.verdicts.items()
        if verdict.violation is not None
    ]
    return states, violations


def _daemon_views(rows: Iterable[Row]) -> int:
    """How many daemon views the clients' views came from; joins and leaves are no view changes in this count."""
    return len({row.entry.view.daemon_view for row in rows if isinstance(row.entry, ViewDelivered)})


def _told(error: Exception) -> str:
    """An exception in one line: what, and where it was raised."""
    innermost = error
    while innermost.__cause__ is not None and isinstance(innermost.__cause__, Exception):
        innermost = innermost.__cause__
    frames = traceback.extract_tb(innermost.__traceback__)
    place = f" ({frames[-1].name}, {frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
