"""Which behaviour takes which command: the when-clauses of Figures 4 to 6 as one table of roles.

Implements: [HAB Figures 4 to 6], the a-deliver clauses. Deviations: Dh8, Dh10.
"""

from __future__ import annotations

from isotone.hab import backup, petitions, primary, transition
from isotone.hab.centre import Centre, Effect, Role, RoleChanged, Snapshot
from isotone.hab.messages import (
    ChangeEpoch,
    Command,
    Confirm,
    Declare,
    Excluded,
    Found,
    Handover,
    Join,
    KeepSnapshot,
    LeaderUnaware,
    Leased,
    PetitionDue,
    Petitioned,
    PetitionExpired,
    PetitionHeard,
    Rejoin,
    Send,
    SendState,
    Store,
    UpdateState,
    Welcome,
)
from isotone.hab.settings import HabSettings

TAKES_PART = (Role.PRIMARY, Role.BACKUP, Role.TRANSITION)


def apply(centre: Centre, settings: HabSettings, command: Command) -> list[Effect]:
    """The next command of the local order: change the state, say what follows. Then see who must lead."""
    effects = _take(centre, settings, command)
    if centre.declarations:
        effects += transition.count(centre)
    effects += transition.take_over_if_due(centre)
    if centre.petitions:
        petitions.forget(centre)
    return effects


def _take(centre: Centre, settings: HabSettings, command: Command) -> list[Effect]:
    role = centre.role
    match command:
        case Send() if role is Role.PRIMARY:
            return primary.on_send(centre, settings, command)
        case Confirm() if role is Role.PRIMARY:
            return primary.on_confirm(centre, settings, command)
        case Join() if role in TAKES_PART:
            gone = transition.on_join(centre, command)
            return [*gone, *primary.on_join(centre, command)] if role is Role.PRIMARY else gone
        case Handover() if role is Role.PRIMARY:
            return primary.on_handover(centre, command)
        case Store() if role in TAKES_PART:
            return backup.on_store(centre, settings, command)
        case SendState() if role in TAKES_PART:
            return backup.on_send_state(centre, command)
        case SendState() if command.life > centre.life:
            return transition.on_send_state_outside(centre, command)
        case UpdateState():
            return transition.on_update_state(centre, command)
        case Declare(declaration=declaration):
            return transition.on_declare(centre, declaration)
        case Petitioned():
            return petitions.on_petitioned(centre, settings, command)
        case PetitionHeard(petition=petition):
            return petitions.on_heard(centre, settings, petition)
        case PetitionDue():
            return petitions.on_due(centre, command)
        case PetitionExpired():
            return petitions.on_expired(centre, command)
        case LeaderUnaware(epoch=epoch) if role is Role.BACKUP and epoch == centre.epoch:
            return transition.take_over(centre, "the next one does not know that it is")
        case Welcome():
            return transition.on_welcome(centre, command)
        case ChangeEpoch(coordinator_epoch=number) if number == centre.coordinator_epoch:
            centre.coordinator_epoch += 1
            return [RoleChanged("another process is the coordinator")]
        case Found() if role is Role.OUT and not centre.epoch and not centre.joining:
            return transition.on_found(centre, settings)
        case KeepSnapshot():
            return _keep(centre, settings, command)
        case Rejoin(token=token) if role is Role.OUT and not centre.joining:
            centre.joining = token
            return [RoleChanged("it wants to come back")]
        case Excluded(epoch=epoch) if role in TAKES_PART and epoch >= centre.epoch and centre.leader != centre.name:
            return centre.become_out("the others go on without this centre")
        case Excluded(epoch=epoch) if role in TAKES_PART and epoch > centre.epoch:
            return centre.become_out("the others go on without this centre")
        case Leased():
            return []  # it concerns time, and each process has its own
    return []


def _keep(centre: Centre, settings: HabSettings, kept: KeepSnapshot) -> list[Effect]:
    """A snapshot of the application: the newest counts, if all that it covers is confirmed."""
    newest = centre.snapshot.index if centre.snapshot is not None else 0
    if newest < kept.index <= min(centre.delivered, centre.confirmed):
        centre.snapshot = Snapshot(kept.index, kept.position, kept.state)
        centre.forget(settings)
    return []
