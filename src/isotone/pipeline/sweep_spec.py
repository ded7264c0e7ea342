"""What a sweep is to run: every combination of what its file varies, each at every seed.

Implements: [DESIGN 5], sweep. Deviations: none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import msgspec

from isotone.core.errors import InputError
from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.swarm import parse_seeds
from isotone.sim.system import Setting, check_setting, chosen_families

SIMULATIONS_MAX = 1_000_000
Numbers = int | str


class SweepSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file, as it is written; each list is one axis."""

    seeds: Numbers | tuple[Numbers, ...]
    system: tuple[str, ...] = ("evs",)
    stack: tuple[str, ...] = ("oracle",)
    size: tuple[Size, ...] = (Size.STANDARD,)
    faults: tuple[str, ...] = ("all",)
    nodes: tuple[Numbers, ...] = ()

    def settings(self) -> list[Setting]:
        """Every combination but that of the seeds."""
        nodes = tuple(map(str, self.nodes)) or (None,)
        axes = product(self.system, self.stack, self.size, self.faults, nodes)
        found = [Setting(*each) for each in axes]
        for setting in found:
            system = system_named(setting.system)
            check_setting(system, setting)
            chosen_families(system, setting)
        return found

    def all_seeds(self) -> list[int]:
        """Each once, in order."""
        told = self.seeds if isinstance(self.seeds, tuple) else (self.seeds,)
        return sorted({seed for each in told for seed in parse_seeds(str(each))})


class Simulation(msgspec.Struct, frozen=True):
    """One simulation of a sweep."""

    setting: Setting
    seed: int

    @property
    def key(self) -> str:
        """What tells it apart in all sweeps: the options of its command."""
        return f"{self.seed}{self.setting.arguments()}"


def read_spec(path: Path) -> SweepSpec:
    """The file, or an `InputError` that says what is wrong with it."""
    try:
        told = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: {error}") from None
    try:
        return msgspec.convert(told, SweepSpec)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}") from None


def simulations(spec: SweepSpec) -> Iterator[Simulation]:
    """All of them, seed by seed, so that a sweep that is broken off has tried every combination."""
    settings, seeds = spec.settings(), spec.all_seeds()
    if len(settings) * len(seeds) > SIMULATIONS_MAX:
        raise InputError(f"at most {SIMULATIONS_MAX} simulations at once, not {len(settings) * len(seeds)}")
    for seed in seeds:
        for setting in settings:
            yield Simulation(setting, seed)
