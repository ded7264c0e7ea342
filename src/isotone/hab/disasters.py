"""What a process sees of other centres: who was heard when. It shows suspicions; it declares nothing by itself, unless
it was told to do so in spite of the risk.

Implements: [HAB 2.2], the disaster detector. Deviations: Dh9 people declare disasters, see docs/protocols/hab.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from isotone.hab.centre import Centre, Role
from isotone.hab.messages import Alive
from isotone.hab.settings import HabSettings


class Sighting(msgspec.Struct, frozen=True):
    """What is known of another centre, for operators."""

    centre: str
    silent_us: int
    suspect: bool
    epoch: int
    delivered: int


@dataclass
class Watch:
    """The other centres, from one process."""

    settings: HabSettings
    _heard: dict[str, int] = field(default_factory=dict)  # when a centre was heard last
    _told: dict[str, Alive] = field(default_factory=dict)
    _turn: dict[str, int] = field(default_factory=dict)
    measurements = frozenset({"_heard"})

    def begin(self, at: int) -> None:
        """Silence counts from here."""
        self._heard = dict.fromkeys(self.settings.centres, at)

    def heard(self, centre: str, at: int) -> None:
        """Any authenticated word of a process there."""
        self._heard[centre] = at

    def told(self, alive: Alive, at: int) -> None:
        """Its keep-alive."""
        self._heard[alive.centre] = at
        self._told[alive.centre] = alive

    def says_so(self, centre: Centre) -> bool:
        """Whether others have said, since this process started, that its centre takes part as it thinks itself.

        A centre that comes back with its disks does not know yet that it was declared lost.
        """
        if centre.role is Role.PRIMARY:
            names = [each.name for each in centre.configuration.groups if each.name in self._told]
            return 1 + sum(self._told[name].epoch == centre.epoch for name in names) >= centre.configuration.majority
        mine, leader = centre.configuration.named(centre.name), self._told.get(centre.leader)
        if mine is None or leader is None or centre.role is not Role.BACKUP:
            return False
        return leader.leads and leader.epoch == centre.epoch and (mine.name, mine.admitted_at) in leader.members

    def contact(self, centre: str) -> str:
        """The process there that gets the next keep-alive: each in turn, so that all hear."""
        processes = self.settings.centres[centre]
        turn = self._turn[centre] = (self._turn.get(centre, -1) + 1) % len(processes)
        return processes[turn]

    def is_silent(self, centre: str, at: int, for_us: int) -> bool:
        """Whether nothing was heard for so long."""
        return at - self._heard.get(centre, at) > for_us

    def sightings(self, at: int) -> list[Sighting]:
        """Of all other centres that were to be heard."""
        found: list[Sighting] = []
        for centre, heard in self._heard.items():
            alive = self._told.get(centre)
            silent = at - heard
            found.append(
                Sighting(
                    centre,
                    silent,
                    silent > self.settings.silent_us,
                    alive.epoch if alive else 0,
                    alive.delivered if alive else 0,
                )
            )
        return found

    def automatic(self, at: int, centres: list[str]) -> list[str]:
        """The centres that are to be declared lost for their silence: none, unless somebody accepts the risk."""
        limit = self.settings.declare_unsafely_after_us
        return [name for name in centres if limit and self.is_silent(name, at, limit)]
