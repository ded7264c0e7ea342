"""What a command does in a backup: store what the primary ordered, promise an epoch to the next primary.

Implements: [HAB Figure 5]. Deviations: Dh6, Dh9.
"""

from __future__ import annotations

from isotone.hab.centre import Answer, Centre, Effect, Role, RoleChanged
from isotone.hab.configuration import handed_over
from isotone.hab.log import Diverged
from isotone.hab.messages import OkState, OkStored, SendState, Store
from isotone.hab.settings import HabSettings


def on_store(centre: Centre, settings: HabSettings, store: Store) -> list[Effect]:
    """Figure 5 (b), and the primary's part of (d): take the entries, deliver, let the coordinator answer."""
    last = store.first - 1 + len(store.entries)
    if handed_over(store.epoch) == centre.accepted and last <= centre.matched:
        return [Answer(store.answer_to, OkStored(store.epoch, centre.number, last))]  # the one that handed over asks
    if not _follows(centre, store.epoch, store.leader):
        return []
    begins = store.epoch > centre.accepted
    if not begins and store.first > centre.matched + 1:
        return []  # an earlier one was overtaken: it comes again
    try:
        if begins and centre.log.end > store.start:
            raise Diverged(f"the order ends at {centre.log.end} here, and at {store.start} where epoch begins")
        new = centre.log.adopt(store.first, store.before, store.entries)
    except Diverged as error:
        return centre.become_out(f"its order differs from that of the others: {error}")
    if new is None:
        return []
    effects: list[Effect] = []
    if centre.yielding:
        centre.yield_role()
        effects.append(RoleChanged("the primary role is handed over"))
    if begins or centre.role is not Role.BACKUP:
        centre.role = Role.BACKUP
        effects.append(RoleChanged("it follows another primary"))
    centre.epoch = centre.accepted = store.epoch
    centre.leader = store.leader
    centre.matched = last if begins else max(centre.matched, last)
    for entry in new:
        effects += centre.note(entry, fresh=entry.epoch == store.epoch)
    if centre.is_out:
        return effects
    effects += centre.deliver_through(centre.log.end)
    centre.confirmed = max(centre.confirmed, min(store.confirmed, centre.matched))
    centre.forget(settings)
    return [*effects, Answer(store.answer_to, OkStored(store.epoch, centre.number, centre.matched))]


def on_send_state(centre: Centre, message: SendState) -> list[Effect]:
    """Figure 5 (c): promise, and tell what is stored here."""
    if not _follows(centre, message.epoch, message.leader):
        return []
    effects: list[Effect] = []
    if message.epoch > centre.epoch:
        if centre.yielding:
            centre.yield_role()
        centre.epoch, centre.leader, centre.role = message.epoch, message.leader, Role.BACKUP
        effects.append(RoleChanged("it promised the epoch of the next primary"))
    after = max(message.after, centre.log.base)
    after = min(after, centre.log.end)
    answer = OkState(
        centre.epoch,
        centre.number,
        centre.accepted,
        after + 1,
        centre.log.epoch_at(after),
        centre.log.behind(after),
    )
    return [*effects, Answer(message.answer_to, answer)]


def _follows(centre: Centre, epoch: int, leader: str) -> bool:
    """Whether it takes orders of this epoch: not of a lower one, and not from one that is lost."""
    if epoch < centre.epoch or (epoch == centre.epoch and centre.leader == centre.name):
        return False
    return not centre.is_centre_lost(leader)
