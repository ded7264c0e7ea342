"""What a command does in the primary: order broadcasts, take confirmations, change who takes part.

Implements: [HAB Figure 4]. Deviations: Dh1, Dh3, Dh8, Dh9.
"""

from __future__ import annotations

from isotone.hab.centre import Answer, Centre, Effect, Role, RoleChanged
from isotone.hab.configuration import GROUPS_MAX, handed_over
from isotone.hab.messages import Confirm, Handover, Join, Kind, OkSent, Send
from isotone.hab.settings import HabSettings


def on_send(centre: Centre, settings: HabSettings, send: Send) -> list[Effect]:
    """Figure 4 (b): give each record that is not known an index, in the order of its sender; then answer."""
    if centre.yielding:
        return []
    for counter, record in enumerate(send.records, start=send.first):
        if _is_next(centre, send.origin, send.incarnation, counter) and centre.has_room(settings):
            _append(centre, Kind.RECORD, send.origin, incarnation=send.incarnation, counter=counter, record=record)
    incarnation, counter = centre.origins.get(send.origin, (0, 0))
    effects = centre.deliver_through(centre.ahead(settings))
    if send.answer_to and incarnation == send.incarnation:
        effects.append(Answer(send.answer_to, OkSent(centre.epoch, incarnation, counter)))
    return effects


def _is_next(centre: Centre, origin: str, incarnation: int, counter: int) -> bool:
    """Whether it is the next one of its sender: what was ordered, or comes from an earlier life, is passed over."""
    last_incarnation, last = centre.origins.get(origin, (0, 0))
    return counter == (last + 1 if incarnation == last_incarnation else 1) and incarnation >= last_incarnation


def _append(
    centre: Centre, kind: Kind, origin: str, *, incarnation: int = 0, counter: int = 0, record: bytes = b""
) -> list[Effect]:
    entry = centre.log.append(
        epoch=centre.epoch, kind=kind, origin=origin, incarnation=incarnation, counter=counter, record=record
    )
    centre.matched = entry.index
    return centre.note(entry, fresh=True)


def on_confirm(centre: Centre, settings: HabSettings, confirm: Confirm) -> list[Effect]:
    """Figure 4 (c): what all have stored is delivered here too; a change of the configuration may follow another."""
    if confirm.epoch != centre.epoch:
        return []
    centre.settled = True
    centre.confirmed = max(centre.confirmed, min(confirm.index, centre.log.end))
    effects = centre.deliver_through(centre.ahead(settings))
    if centre.yielding and centre.confirmed >= centre.changed_at:
        centre.yield_role()
        centre.epoch = centre.accepted = handed_over(centre.epoch)
        centre.leader = centre.configuration.groups[0].name
        effects.append(RoleChanged("the primary role is handed over"))
    effects += remove_lost(centre)
    centre.forget(settings)
    return effects


def may_change(centre: Centre) -> bool:
    """Whether the configuration may change: one change at a time, and none before the epoch has confirmed something."""
    return centre.settled and not centre.yielding and centre.changed_at <= centre.confirmed


def remove_lost(centre: Centre) -> list[Effect]:
    """Order that a group which is lost takes no part any more."""
    if centre.role is Role.PRIMARY and may_change(centre):
        for group in centre.configuration.groups:
            if group.number != centre.number and centre.is_lost(group.number):
                return _append(centre, Kind.REMOVE, group.name, counter=group.number)
    return []


def on_join(centre: Centre, join: Join) -> list[Effect]:
    """A centre without a state is admitted, once the group that it was is removed."""
    if not may_change(centre) or join.centre == centre.name or join.token in centre.tokens.get(join.centre, ()):
        return []
    if centre.configuration.named(join.centre) is not None:
        return []
    can_teach = centre.log.base == 0 or centre.snapshot is not None
    if len(centre.configuration.groups) >= GROUPS_MAX or not can_teach:
        return []
    return _append(centre, Kind.ADMIT, join.centre, record=join.token.encode())


def on_handover(centre: Centre, handover: Handover) -> list[Effect]:
    """Order that another centre is the primary behind all that was ordered so far."""
    target = centre.configuration.named(handover.centre)
    if target is None or target.number == centre.number or centre.is_lost(target.number) or not may_change(centre):
        return []
    return _append(centre, Kind.HANDOVER, target.name, counter=target.number)
