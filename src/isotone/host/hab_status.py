"""How a process of several data centres sees them: what `isotone site status` and `suspects` print.

Implements: [HAB 2.2], what people decide upon.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from isotone.hab.centre import Centre
from isotone.hab.process import Hab

MILLISECOND_US = 1_000


class CentreSeen(msgspec.Struct, frozen=True):
    """One data centre."""

    name: str
    number: int  # in the order of succession; 0: it takes no part
    life: int
    lost: str  # "" | declared | lost
    recorders: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    override: bool = False
    silent_ms: int | None = None
    suspect: bool = False
    delivered: int | None = None  # entries, as it told last


class PetitionSeen(msgspec.Struct, frozen=True):
    """Operators want a centre declared lost, and are not enough yet."""

    centre: str
    operators: tuple[str, ...]
    overriding: tuple[str, ...]  # those who want it also without a majority


class CentreStatus(msgspec.Struct, frozen=True):
    """From one process."""

    process: str
    centre: str
    role: str
    number: int
    epoch: int
    leader: str
    coordinator: str
    mode: str
    end: int
    confirmed: int
    delivered: int
    position: int
    wide: str
    centres: tuple[CentreSeen, ...]
    petitions: tuple[PetitionSeen, ...]
    suspected: tuple[str, ...]  # processes of its own centre
    majority: int
    joining: bool
    unsafe_after_ms: int  # after so long a silence it declares a centre lost by itself; 0: it never does
    crossed: dict[str, int]  # messages that this process sent to other centres since it started, by their kind


def status_of(hab: Hab, wide: str, at: int, crossed: Mapping[str, int]) -> CentreStatus:
    """As the process stands now."""
    centre = hab.centre
    return CentreStatus(
        hab.process,
        centre.name,
        centre.role.value,
        centre.number,
        centre.epoch,
        centre.leader,
        centre.coordinator(hab.settings),
        hab.settings.mode.value,
        centre.log.end,
        centre.confirmed,
        centre.delivered,
        centre.log.position_at(centre.delivered),
        wide,
        tuple(_seen(hab, centre, name, at) for name in hab.settings.centres),
        tuple(
            PetitionSeen(each.centre, each.everybody, each.overriding)
            for each in centre.petitions.values()
            if each.everybody
        ),
        hab.suspected,
        centre.configuration.majority,
        bool(centre.joining),
        hab.settings.declare_unsafely_after_us // MILLISECOND_US,
        dict(sorted(crossed.items())),
    )


def _seen(hab: Hab, centre: Centre, name: str, at: int) -> CentreSeen:
    group, declared = centre.configuration.named(name), centre.declarations.get(name)
    sighting = next((each for each in hab.watch.sightings(at) if each.centre == name != centre.name), None)
    lost = "" if declared is None else ("lost" if centre.is_effective(declared) else "declared")
    return CentreSeen(
        name,
        group.number if group is not None else 0,
        group.admitted_at if group is not None else 0,
        lost,
        declared.recorders if declared else (),
        declared.operators if declared else (),
        declared.override if declared else False,
        sighting.silent_us // MILLISECOND_US if sighting else None,
        sighting.suspect if sighting else False,
        sighting.delivered if sighting else None,
    )
