"""Which weak messages cannot have overtaken a join.

A RELIABLE, FIFO or CAUSAL message is delivered as soon as its own order allows, so it may come to a daemon before the
join of one of its clients takes effect there; and its content does not come there at all if the sender's site, which
had not heard of the join, pruned it. Neither can be if its sender knew of something that the joiner sent as a member.
Nor, of a FIFO message, if the joiner as a member delivered an earlier one of the same sender, and the sender was in a
view that has the joiner: the first rules out that it came too early, the second that it was pruned.

Implements: [Spread 2.7] for the services below AGREED. Deviations: D-weak.
"""

from __future__ import annotations

from isotone.core.services import Service
from isotone.spec.check.records import Bundle, Piece, Sender, Stay


def is_behind_join(piece: Piece, stay: Stay) -> bool:
    """Whether this message came to the daemon of the process behind the join that began its membership."""
    bundle, process = piece.bundle, stay.process
    if bundle.sent is None or process.sender is None:
        return False
    if _known_of(bundle, process.sender) > stay.membership.sent_before:
        return True
    return bundle.service >= Service.FIFO and _sent_behind(bundle, stay) and _heard_before(piece, stay)


def _sent_behind(bundle: Bundle, stay: Stay) -> bool:
    """Whether its sender was in the view of the join, or in a later one, when it sent."""
    sent_in = bundle.sent_in.get(stay.view.group)
    return sent_in is not None and sent_in >= stay.membership.first_view


def _known_of(bundle: Bundle, sender: Sender) -> int:
    """The highest message of this sender in the causal past of a bundle, or in the bundle itself."""
    if bundle.sender is sender:
        return bundle.last
    walk: Bundle | None = bundle
    while walk is not None:
        found = walk.increment.get(sender)
        if found is not None:  # what was learned later is higher
            return found
        if walk.whole_past is not None:
            return walk.whole_past.get(sender, 0)
        walk = walk.before
    return 0


def _heard_before(piece: Piece, stay: Stay) -> bool:
    """Before it left the view: what comes later may be read before or after the view is judged."""
    process, since = stay.process, stay.membership.at
    walk: Bundle | None = piece.bundle
    while walk is not None:
        if walk.service is not Service.UNRELIABLE:
            for each in walk.pieces:
                if each.last < piece.first and since < each.by.get(process, -1) < stay.left_at:
                    return True
        walk = walk.before
    return False
