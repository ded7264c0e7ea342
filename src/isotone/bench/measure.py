"""Figures, how they are taken, and how they are written down with the machine that they belong to."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from statistics import quantiles

import msgspec
from rich.console import Console
from rich.table import Table

from isotone import __version__

PACKAGES = ("msgspec", "pyarrow", "uvloop")
"""Whose versions matter for speed."""


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measured number: what, how much, in which unit, over what; quartiles where it is a median, and the goal."""

    name: str
    value: float
    unit: str
    over: str
    quartiles: tuple[float, float] | None = None
    goal: str = ""


class Machine(msgspec.Struct, frozen=True):
    """Where figures were taken."""

    processor: str
    cores: int
    system: str
    python: str
    isotone: str
    commit: str
    software: dict[str, str] = {}
    """Packages that matter for speed, with their versions."""


def cpu_seconds(call: Callable[[], object]) -> float:
    """The CPU time of this process that one call takes."""
    began = time.process_time()
    call()
    return time.process_time() - began


def microseconds_each(call: Callable[[], object], *, at_least_seconds: float) -> tuple[float, int]:
    """CPU microseconds per call, and over how many calls: doubled until they take long enough to be measured."""
    count = 1
    while True:
        taken = cpu_seconds(partial(_repeat, call, count))
        if taken >= at_least_seconds:
            return taken / count * 1e6, count
        count *= 2


def _repeat(call: Callable[[], object], count: int) -> None:
    for _ in range(count):
        call()


def median_figure(name: str, samples: Sequence[float], unit: str, over: str, goal: str = "") -> Figure:
    """The median of repetitions, with their quartiles if there are several."""
    if len(samples) == 1:
        return Figure(name, samples[0], unit, over, goal=goal)
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return Figure(name, middle, unit, over, (low, high), goal)


def this_machine() -> Machine:
    """The machine and the program that run now."""
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        isotone=__version__,
        commit=_commit(),
        software={name: _version(name) for name in PACKAGES},
    )


def print_figures(figures: list[Figure], command: str, machine: Machine, console: Console) -> None:
    """The command that measured them, the machine, and a line for each."""
    console.print(command, markup=False)
    console.print(f"isotone {machine.isotone}, commit {machine.commit}, {machine.python}", markup=False)
    console.print(f"{machine.processor}, {machine.cores} cores, {machine.system}\n", markup=False)
    console.print(figure_table(figures))


def figure_table(figures: list[Figure]) -> Table:
    """All figures, a line each; quartiles and goals where there are any."""
    with_quartiles = any(figure.quartiles for figure in figures)
    with_goals = any(figure.goal for figure in figures)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("figure")
    table.add_column("value", justify="right")
    if with_quartiles:
        table.add_column("quartiles")
    table.add_column("unit")
    if with_goals:
        table.add_column("goal")
    table.add_column("over")
    for figure in figures:
        low_high = [" … ".join(map(shown, figure.quartiles or ()))] if with_quartiles else []
        goal = [figure.goal] if with_goals else []
        table.add_row(figure.name, shown(figure.value), *low_high, figure.unit, *goal, figure.over)
    return table


def shown(value: float) -> str:
    """Three significant digits are more than a measurement deserves."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    here = Path(__file__).resolve().parent
    try:
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
