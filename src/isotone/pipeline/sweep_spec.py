"""What a sweep is to run: every combination of what its file varies, each at every seed.

Implements: [DESIGN 5], sweep. Deviations: none.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import msgspec

from isotone.core.errors import InputError
from isotone.sim.plan import SCALES, Scale, Size
from isotone.sim.registry import system_named
from isotone.sim.swarm import parse_seeds
from isotone.sim.system import Setting, check_setting, chosen_families, nodes_between, numbers_between
from isotone.sim.transport_system import TRANSPORT

SIMULATIONS_MAX = 1_000_000
SHAPE_MAX = 10_000_000
LIMIT_S = 900
LIMIT_S_MAX = 1_000_000
Numbers = int | str
_Some = msgspec.Meta(min_length=1)
_Names = Annotated[tuple[str, ...], _Some]
_Ranges = Annotated[tuple[Numbers, ...], _Some]
_Counts = Annotated[tuple[Annotated[int, msgspec.Meta(ge=1, le=SHAPE_MAX)], ...], _Some]
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
    """The file, as it is written; each list is one axis. An axis that is not there is left to the size."""

    seeds: Numbers | _Ranges
    system: _Names = ("evs",)
    stack: _Names = ("oracle",)
    size: Annotated[tuple[Size, ...], _Some] = (Size.STANDARD,)
    faults: _Names = ("all",)
    nodes: _Ranges = ()
    sites: _Ranges = ()
    clients: _Ranges = ()
    groups: _Ranges = ()
    sends: _Counts = ()
    fault_count: _Counts = ()
    fault_seconds: _Counts = ()
    limit_s: Annotated[int, msgspec.Meta(ge=1, le=LIMIT_S_MAX)] = LIMIT_S
    """No axis: so much time of a processor a simulation may take."""

    def check(self) -> None:
        """Raise an `InputError` that names the key for what makes no sense, before anything is combined."""
        for name in dict.fromkeys(self.system):
            with _naming("system"):
                system = system_named(name)
            for stack in dict.fromkeys(self.stack):
                with _naming("stack"):
                    check_setting(system, Setting(name, stack))
                for faults in self.faults:
                    with _naming("faults"):
                        chosen_families(system, Setting(name, stack, faults=faults))
                for axis in SHAPE:
                    for value in getattr(self, axis):
                        with _naming(axis):
                            scale_of(Setting(name, stack), (f"{axis}={value}",))
        for nodes in self.nodes:
            with _naming("nodes"):
                nodes_between(Setting(nodes=str(nodes)))
        count = len(self.all_seeds()) * math.prod(map(len, (*self._named(), *self._shapes())))
        if count > SIMULATIONS_MAX:
            raise InputError(f"at most {SIMULATIONS_MAX} simulations at once, not {count}")

    def settings(self) -> list[tuple[Setting, Shape]]:
        """Every combination but that of the seeds, each once."""
        settings = [Setting(*each) for each in product(*self._named())]
        shapes = [tuple(filter(None, each)) for each in product(*self._shapes())]
        return list(product(settings, shapes))

    def _named(self) -> list[tuple[Any, ...]]:
        """The axes that are options of a command, each value once."""
        nodes = tuple(map(str, self.nodes)) or (None,)
        return [tuple(dict.fromkeys(axis)) for axis in (self.system, self.stack, self.size, self.faults, nodes)]

    def _shapes(self) -> list[tuple[str, ...]]:
        """The others."""
        axes = [[f"{name}={value}" for value in getattr(self, name)] or [""] for name in SHAPE]
        return [tuple(dict.fromkeys(axis)) for axis in axes]

    def all_seeds(self) -> list[int]:
        """Each once, in order."""
        found: set[int] = set()
        with _naming("seeds"):
            for each in self.seeds if isinstance(self.seeds, tuple) else (self.seeds,):
                found.update(parse_seeds(str(each)))
                if len(found) > SIMULATIONS_MAX:
                    raise InputError(f"at most {SIMULATIONS_MAX} at once")
        return sorted(found)


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


@contextmanager
def _naming(key: str) -> Iterator[None]:
    """An `InputError` from here begins with the key."""
    try:
        yield
    except (InputError, ValueError) as error:  # the latter: a number of thousands of digits
        told = str(error)
        raise InputError(told if told.startswith(f"{key}: ") else f"{key}: {told}") from None


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
        spec = msgspec.convert(tomllib.loads(path.read_text("utf-8")), SweepSpec)
        spec.check()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {_key_first(str(error))}") from None
    except (InputError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error}") from None
    return spec


def _key_first(told: str) -> str:
    """What msgspec says ends with the place: ``… - at `$.nodes[...]```."""
    found = re.fullmatch(r"(.*) - at `\$\.(\w+).*`", told)
    return f"{found[2]}: {found[1]}" if found else told


def simulations(spec: SweepSpec) -> Iterator[Simulation]:
    """All of them, seed by seed, so that a sweep that is broken off has tried every combination."""
    spec.check()
    settings = spec.settings()
    for seed in spec.all_seeds():
        for setting, shape in settings:
            yield Simulation(setting, seed, shape, spec.limit_s)
