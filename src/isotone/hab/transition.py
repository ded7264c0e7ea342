"""How a centre becomes the primary: declarations, the transition, and the return of a centre that was lost.

Implements: [HAB Figure 6], [HAB Figure 5 (e), (f)]. Deviations: Dh2, Dh7, Dh9, Dh10.
"""

from __future__ import annotations

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.hab.centre import (
    Answer,
    Centre,
    Effect,
    Installed,
    Recorded,
    Role,
    RoleChanged,
    Snapshot,
    founded,
)
from isotone.hab.configuration import Configuration, first_epoch
from isotone.hab.log import Diverged, Log
from isotone.hab.messages import (
    Alive,
    Declaration,
    Join,
    OkState,
    OkStored,
    SendState,
    UpdateState,
    Welcome,
)
from isotone.hab.primary import remove_lost
from isotone.hab.settings import HabSettings


def on_declare(centre: Centre, told: Declaration) -> list[Effect]:
    """Record that a group is lost, unless a lost one says so, or it would leave no majority."""
    group = centre.configuration.named(told.centre)
    if group is None or group.admitted_at != told.admitted_at or centre.role is Role.OUT:
        return []
    if told.centre == centre.name:
        if not _is_fenced_by(centre, told):
            return []
        effects: list[Effect] = [Recorded(told, group, effective=True)]
        return [*effects, *centre.become_out("it was declared lost")]
    before = centre.declarations.get(told.centre)
    if before is None and not _is_credible(centre, told):
        return []
    known = before or told
    declaration = Declaration(
        told.centre,
        told.admitted_at,
        known.begun_by,
        tuple(sorted({*known.recorders, *told.recorders, centre.name})),
        known.override or told.override,
        known.epoch,
        tuple(sorted({*known.operators, *told.operators})),
        known.confessed or told.confessed,
        known.witnessed or told.witnessed,
        known.counted or told.counted,
    )
    if centre.has_majority(declaration):
        declaration = msgspec.structs.replace(declaration, counted=True)
    if declaration == before:
        return []
    centre.declarations[told.centre] = declaration
    effective = centre.is_effective(declaration)
    return [Recorded(declaration, group, effective), *remove_lost(centre)]


def count(centre: Centre) -> list[Effect]:
    """Declarations that became effective since the configuration has changed."""
    effects: list[Effect] = []
    for told in tuple(centre.declarations.values()):
        group = centre.configuration.named(told.centre)
        if group is not None and not told.counted and centre.has_majority(told):
            told = centre.declarations[told.centre] = msgspec.structs.replace(told, counted=True)
            effects += [Recorded(told, group, effective=True), *remove_lost(centre)]
    return effects


def _is_fenced_by(centre: Centre, told: Declaration) -> bool:
    """Whether this centre must go: a majority or a witness said so, or an override that it need not refuse."""
    if told.counted or told.confessed or told.witnessed or centre.has_majority(told):
        return True
    return told.override and not _is_overtaken(centre, told) and not _is_answered(centre, told)


def _is_overtaken(centre: Centre, told: Declaration) -> bool:
    """An override of people who did not know that this centre has taken over meanwhile."""
    return centre.leader == centre.name and centre.epoch > told.epoch


def _is_answered(centre: Centre, told: Declaration) -> bool:
    """Overrides against each other: of two centres the one that comes first in the succession goes on."""
    author, mine = centre.configuration.named(told.begun_by), centre.configuration.named(centre.name)
    if author is None or mine is None or not centre.is_centre_lost(author.name):
        return False
    return centre.declarations[author.name].override and mine.number < author.number


def _is_credible(centre: Centre, told: Declaration) -> bool:
    """Whether to record what is new here: not from one that is lost, and not if those that are left could not go on."""
    if told.counted:
        return True
    lost = sum(centre.is_lost(group.number) for group in centre.configuration.groups)
    left = len(centre.configuration.groups) - lost - 1
    is_useless = bool(lost) and left < centre.configuration.majority
    return not centre.is_doubtful(told) and (not is_useless or centre.is_effective(told))


def is_news(centre: Centre, declaration: Declaration) -> bool:
    """Whether `on_declare` would record something."""
    group = centre.configuration.named(declaration.centre)
    if centre.role is Role.OUT or group is None or group.admitted_at != declaration.admitted_at:
        return False
    if declaration.centre == centre.name:
        return _is_fenced_by(centre, declaration)
    known = centre.declarations.get(declaration.centre)
    if known is None:
        return _is_credible(centre, declaration)
    says_more = (
        declaration.override > known.override
        or declaration.witnessed > known.witnessed
        or declaration.counted > known.counted
    )
    return says_more or not {*declaration.recorders} <= {*known.recorders}


def on_join(centre: Centre, join: Join) -> list[Effect]:
    """A centre without a state: the group that it was is lost, by its own word."""
    group = centre.configuration.named(join.centre)
    if group is None or join.centre == centre.name or join.token in centre.tokens.get(join.centre, ()):
        return []
    own = Declaration(group.name, group.admitted_at, centre.name, (centre.name,), epoch=centre.epoch, confessed=True)
    return on_declare(centre, own)


def take_over_if_due(centre: Centre) -> list[Effect]:
    """Figure 5 (f): the leader is lost, and this group is the next. Or the leader was removed, and does not know it."""
    if centre.role is not Role.BACKUP:
        return []
    if centre.configuration.named(centre.leader) is None:
        return take_over(centre, "who wants to lead takes no part any more")
    if not centre.is_centre_lost(centre.leader) or centre.successor() != centre.number:
        return []
    return take_over(centre, "the primary is lost, and this centre is the next")


def take_over(centre: Centre, why: str) -> list[Effect]:
    """Begin a transition. Any backup may: the promises of the others decide what comes of it."""
    centre.epoch = centre.candidate_epoch()
    centre.leader = centre.name
    centre.role = Role.TRANSITION
    return [RoleChanged(why)]


def is_unaware(centre: Centre, alive: Alive) -> bool:
    """Whether the other centre shall lead by a hand-over that it has not stored, and whoever could tell it is lost.

    Or it shall take over, knows that the leader is lost, and does not: a hand-over changed the succession, and one of
    the two has not stored it.
    """
    if centre.role is not Role.BACKUP or alive.epoch > centre.epoch:
        return False
    if alive.centre == centre.leader:
        return alive.epoch < centre.epoch and any(map(centre.is_centre_lost, centre.declarations))
    following = centre.configuration.numbered(centre.successor())
    if following is None or alive.centre != following.name or not centre.is_centre_lost(centre.leader):
        return False
    return any(each.centre == centre.leader and centre.is_effective(each) for each in alive.declarations)


def on_update_state(centre: Centre, message: UpdateState) -> list[Effect]:
    """Figure 6 (a): take what the best informed centre has, and be the primary. The index goes on behind it."""
    if centre.role is not Role.TRANSITION or message.epoch != centre.epoch:
        return []
    try:
        new = centre.log.adopt(message.first, message.before, message.entries)
    except Diverged as error:
        return centre.become_out(f"its order differs from that of the others: {error}")
    assert new is not None, "what is confirmed is stored here"
    effects: list[Effect] = []
    for entry in new:
        effects += centre.note(entry, fresh=False)
    if centre.is_out:
        return effects  # the others have removed it, and it did not know
    return [*effects, *centre.lead("it knows what the others have")]


def is_past_beginning(alive: Alive) -> bool:
    """Whether all centres have begun: they confirmed something together, or one has taken over."""
    return alive.confirmed > 0 or alive.epoch > first_epoch(1)


def on_found(centre: Centre, settings: HabSettings) -> list[Effect]:
    """A centre without a state is one of the first."""
    begun = founded(centre.name, settings)
    for name in centre.__struct_fields__:
        setattr(centre, name, getattr(begun, name))
    return [RoleChanged("the data centres begin")]


def on_send_state_outside(centre: Centre, message: SendState) -> list[Effect]:
    """It was admitted, and has no state yet: it promises the epoch, and has nothing to tell."""
    if message.epoch < centre.epoch:
        return []
    centre.epoch = message.epoch
    return [Answer(message.answer_to, OkState(message.epoch, 0, 0, message.after + 1, 0, ()))]


# --- return ----------------------------------------------------------------------------------------------------------


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a centre that comes back needs."""

    epoch: int
    leader: str
    log: Log
    confirmed: int
    configuration: Configuration
    changed_at: int
    origins: dict[str, tuple[int, int]]
    tokens: dict[str, tuple[str, ...]]
    snapshot: Snapshot | None


def encode_state(centre: Centre) -> bytes:
    """The state of the primary, for one that it admitted."""
    state = State(
        centre.epoch,
        centre.leader,
        centre.log,
        centre.confirmed,
        centre.configuration,
        centre.changed_at,
        centre.origins,
        centre.tokens,
        centre.snapshot,
    )
    return msgspec.msgpack.encode(state)


def decode_state(data: bytes) -> State:
    """The inverse of `encode_state`."""
    try:
        return msgspec.msgpack.decode(data, type=State)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"a malformed state: {error}") from error


def on_welcome(centre: Centre, welcome: Welcome) -> list[Effect]:
    """A centre that is out and wants to come back takes the state of the primary; its own is forgotten."""
    state = decode_state(welcome.state)
    mine = state.configuration.named(centre.name)
    if mine is None or state.epoch < centre.epoch:
        return []
    if centre.role is not Role.OUT or centre.joining not in state.tokens.get(centre.name, ("",))[-1:]:
        if centre.number == mine.number and centre.epoch == state.epoch and centre.role is Role.BACKUP:
            return [Answer(welcome.answer_to, OkStored(centre.epoch, centre.number, centre.matched))]
        return []
    centre.number, centre.role, centre.joining = mine.number, Role.BACKUP, ""
    centre.tokens = state.tokens
    centre.epoch = centre.accepted = state.epoch
    centre.leader = state.leader
    centre.log = state.log
    centre.matched = state.log.end
    centre.confirmed = state.confirmed
    centre.configuration, centre.changed_at = state.configuration, state.changed_at
    centre.declarations, centre.origins = {}, state.origins
    centre.snapshot = state.snapshot
    centre.yielding = centre.settled = False
    centre.life = mine.admitted_at
    centre.delivered = state.snapshot.index if state.snapshot is not None else 0
    effects: list[Effect] = [RoleChanged("it came back as a backup"), Installed(state.snapshot)]
    effects += centre.deliver_through(state.log.end)
    return [*effects, Answer(welcome.answer_to, OkStored(centre.epoch, centre.number, centre.matched))]
