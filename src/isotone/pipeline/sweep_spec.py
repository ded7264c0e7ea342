"""What a sweep is to run: every combination of what its file varies, each at every seed.

Implements: [DESIGN 5], sweep. Deviations: none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import msgspec

from isotone.core.errors import InputError
from isotone.sim.plan import SCALES, Scale, Size
from isotone.sim.registry import system_named
from isotone.sim.swarm import parse_seeds
from isotone.sim.system import Setting, check_setting, chosen_families, numbers_between
from isotone.sim.transport_system import TRANSPORT

SIMULATIONS_MAX = 1_000_000
SHAPE_MAX = 10_000_000
LIMIT_S = 900
Numbers = int | str
Shape = tuple[str, ...]
"""What differs from the size of a simulation, each as ``axis=value``."""
SHAPE: Mapping[str, tuple[str, int]] = {
    "sites": ("sites", 0),
    "clients": ("clients_per_node", 0),
    "groups": ("groups", 0),
    "sends": ("sends_min", 1),
    "fault_count": ("faults_min", 1),
    "fault_seconds": ("faults_end_us", 1_000_000),
}
"""The axes of topology and of parameters: what of a size each changes, and its unit there; 0: a range of numbers."""
_PLACES = ("sites", "clients", "groups")


class SweepSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file, as it is written; each list is one axis."""

    seeds: Numbers | tuple[Numbers, ...]
    system: tuple[str, ...] = ("evs",)
    stack: tuple[str, ...] = ("oracle",)
    size: tuple[Size, ...] = (Size.STANDARD,)
    faults: tuple[str, ...] = ("all",)
    nodes: tuple[Numbers, ...] = ()
    sites: tuple[Numbers, ...] = ()
    clients: tuple[Numbers, ...] = ()
    groups: tuple[Numbers, ...] = ()
    sends: tuple[int, ...] = ()
    fault_count: tuple[int, ...] = ()
    fault_seconds: tuple[int, ...] = ()
    limit_s: Annotated[int, msgspec.Meta(ge=1)] = LIMIT_S
    """No axis: so much time of a processor a simulation may take."""

    def settings(self) -> list[tuple[Setting, Shape]]:
        """Every combination but that of the seeds, each once."""
        nodes = tuple(map(str, self.nodes)) or (None,)
        named: list[Any] = [dict.fromkeys(axis) for axis in (self.system, self.stack, self.size, self.faults, nodes)]
        settings = [Setting(*each) for each in product(*named)]
        axes = [dict.fromkeys(f"{name}={value}" for value in getattr(self, name)) or ("",) for name in SHAPE]
        shapes = [tuple(filter(None, each)) for each in product(*axes)]
        for setting in settings:
            system = system_named(setting.system)
            check_setting(system, setting)
            chosen_families(system, setting)
        found = list(product(settings, shapes))
        for setting, shape in found:
            scale_of(setting, shape)
        return found

    def all_seeds(self) -> list[int]:
        """Each once, in order."""
        told = self.seeds if isinstance(self.seeds, tuple) else (self.seeds,)
        return sorted({seed for each in told for seed in parse_seeds(str(each))})


class Simulation(msgspec.Struct, frozen=True):
    """One simulation of a sweep."""

    setting: Setting
    seed: int
    shape: Shape = ()
    limit_s: int = LIMIT_S

    @property
    def key(self) -> str:
        """What tells it apart in all sweeps: the options of its command, and what no option says."""
        return " ".join((f"{self.seed}{self.setting.arguments()}", *self.shape))


def scale_of(setting: Setting, shape: Shape) -> Scale:
    """What the size means in this shape; an `InputError` for what makes no sense."""
    changes: dict[str, Any] = {}
    for name, _, text in (each.partition("=") for each in shape):
        if name in _PLACES and (setting.system != "evs" or setting.stack == TRANSPORT):
            raise InputError(f"{setting.system} on {setting.stack} draws its own {name}")
        field, factor = SHAPE[name]
        between = numbers_between(name, text, SHAPE_MAX)
        changes[field] = between if factor == 0 else factor * between[0]
    return msgspec.structs.replace(SCALES[setting.size], **changes)


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
        for setting, shape in settings:
            yield Simulation(setting, seed, shape, spec.limit_s)
