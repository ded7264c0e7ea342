"""Operators' wishes that a data centre be declared lost, until there are enough of them.

A wish is recorded in the local order of the centre where it was said, and travels with the keep-alives, so two wishes
meet wherever they were said. A centre has at most one petition for each other centre. Petitions have *rounds*: in a
round wishes are only added, and a withdrawal begins the next round, without wishes. Of two petitions the later round
counts; in the same round the wishes of both count. So it does not matter how often and in which order they are heard.

Implements: [HAB 1], disasters are declared by people. Deviations: Dh9, see docs/protocols/hab.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from isotone.core.codec import ControlMessage
from isotone.hab.centre import Centre, Effect, Role
from isotone.hab.messages import (
    Alive,
    Declaration,
    Petition,
    PetitionDue,
    Petitioned,
    PetitionExpired,
)
from isotone.hab.settings import HabSettings
from isotone.hab.transition import on_declare


def on_petitioned(centre: Centre, settings: HabSettings, told: Petitioned) -> list[Effect]:
    """An operator says here that he wants it, or takes back what everybody said."""
    known = _known(centre, told.centre, told.admitted_at)
    if known is None:
        return []
    if told.withdrawn:
        return _end_round(centre, known)
    wishes = {"overriding" if told.override else "operators": (told.operator,)}
    return _record(centre, settings, _joined(known, msgspec.structs.replace(known, **wishes)))


def on_heard(centre: Centre, settings: HabSettings, told: Petition) -> list[Effect]:
    """Another centre told what operators want there."""
    known = _known(centre, told.centre, told.admitted_at)
    return [] if known is None else _record(centre, settings, _joined(known, told))


def on_due(centre: Centre, due: PetitionDue) -> list[Effect]:
    """Its wishes stood as long as is asked, and time stands for the operators that are missing."""
    known = _known(centre, due.centre, due.admitted_at)
    if known is None or known.round != due.round:
        return []
    operators = known.overriding if due.override else known.everybody
    return _declare(centre, known, operators, override=due.override) if operators else []


def on_expired(centre: Centre, expired: PetitionExpired) -> list[Effect]:
    """It stood too long: what is wanted today must be said today."""
    known = _known(centre, expired.petition.centre, expired.petition.admitted_at)
    return _end_round(centre, known) if known is not None and known == expired.petition else []


def news(centre: Centre, alive: Alive) -> list[Petition]:
    """What the wishes that another centre tells would change here; one that is declared lost is not listened to."""
    if centre.role is Role.OUT or alive.centre in centre.declarations:
        return []
    found: list[Petition] = []
    for told in alive.petitions:
        known = _known(centre, told.centre, told.admitted_at)
        if known is not None and _unfulfilled(centre, _joined(known, told)) != known:
            found.append(told)
    return found


def forget(centre: Centre) -> None:
    """Drop what has come true, or concerns a centre that takes no part any more in this life."""
    for petition in tuple(centre.petitions.values()):
        known = _known(centre, petition.centre, petition.admitted_at)
        if known is None or not known.round + len(known.everybody):
            del centre.petitions[petition.centre]
        else:
            centre.petitions[petition.centre] = known


def _known(centre: Centre, name: str, admitted_at: int) -> Petition | None:
    """The petition against this centre in this life; None if nobody may petition for it here."""
    group = centre.configuration.named(name)
    if centre.role is Role.OUT or group is None or group.admitted_at != admitted_at or name == centre.name:
        return None
    if centre.is_waived(name):
        return None
    found = centre.petitions.get(name)
    if found is None or found.admitted_at != admitted_at:
        return Petition(name, admitted_at)
    return _unfulfilled(centre, found)


def _unfulfilled(centre: Centre, petition: Petition) -> Petition:
    """Without what a declaration says already; wishes to override go on until they are fulfilled: they waive it too."""
    declared = petition.centre in centre.declarations
    return msgspec.structs.replace(petition, operators=()) if declared else petition


def _joined(one: Petition, other: Petition) -> Petition:
    if one.round != other.round:
        return max(one, other, key=lambda each: each.round)
    return msgspec.structs.replace(
        one,
        operators=tuple(sorted({*one.operators, *other.operators})),
        overriding=tuple(sorted({*one.overriding, *other.overriding})),
    )


def _record(centre: Centre, settings: HabSettings, petition: Petition) -> list[Effect]:
    """Declare the centre lost if the operators are enough. Who accepts an override wants it without one, too."""
    centre.petitions[petition.centre] = petition
    if len(petition.overriding) >= settings.confirmations:
        return _declare(centre, petition, petition.overriding, override=True)
    if len(petition.everybody) >= settings.confirmations and petition.centre not in centre.declarations:
        return _declare(centre, petition, petition.everybody, override=False)
    return []


def _end_round(centre: Centre, known: Petition) -> list[Effect]:
    if known.everybody:
        centre.petitions[known.centre] = Petition(known.centre, known.admitted_at, known.round + 1)
    return []


def _declare(centre: Centre, wanted: Petition, operators: tuple[str, ...], *, override: bool) -> list[Effect]:
    told = Declaration(
        wanted.centre, wanted.admitted_at, centre.name, (centre.name,), override, centre.epoch, operators
    )
    return on_declare(centre, told)


# --- time ------------------------------------------------------------------------------------------------------------


@dataclass
class PetitionClock:
    """How long petitions stand, as this process saw it: its clock alone counts, from when it heard of them."""

    settings: HabSettings
    _rounds: dict[PetitionDue, int] = field(default_factory=dict)  # since when it has wishes, of either kind
    _unchanged: dict[Petition, int] = field(default_factory=dict)
    measurements = frozenset({"_rounds", "_unchanged"})

    def look(self, centre: Centre, at: int) -> list[ControlMessage]:
        """What is due now; asked again until it is delivered."""
        standing = [each for each in centre.petitions.values() if each.everybody]
        self._unchanged = {each: self._unchanged.get(each, at) for each in standing}
        rounds = [
            PetitionDue(each.centre, each.admitted_at, each.round, override)
            for each in standing
            for override in ((False, True) if each.overriding else (False,))
        ]
        self._rounds = {each: self._rounds.get(each, at) for each in rounds}
        enough, long = self.settings.confirm_after_us, self.settings.wish_us
        due = [
            each
            for each, since in self._rounds.items()
            if enough and at - since >= enough and (each.override or each.centre not in centre.declarations)
        ]
        expired = [PetitionExpired(each) for each, since in self._unchanged.items() if at - since >= long]
        return [*due, *expired]
