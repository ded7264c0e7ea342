"""Where deliveries take place: each one in the views that its receiver is in.

Implements: [Spread 2.1], [Spread 2.9] and [Spread 2.19], [Spread 2.18]. Deviations: D-other-side.
"""

from __future__ import annotations

from isotone.core.names import is_private_group
from isotone.core.services import Service
from isotone.spec.check.records import Bundle, Piece, Process, Sender, Stay, View
from isotone.spec.check.rules import Rules
from isotone.spec.check.store import Store
from isotone.spec.check.tally import Tally
from isotone.spec.check.terms import NO_STAMP, StampKey, ViewId, comparable
from isotone.spec.verdicts import EventId


class Places:
    """Puts pieces into stays and judges what the view of a delivery alone can break."""

    def __init__(self, rules: Rules, tally: Tally, store: Store) -> None:
        self._rules = rules
        self._daemons = rules.daemons
        self._tally = tally
        self._store = store

    def place(self, fresh: list[Process], piece: Piece, index: int, stamp: StampKey, event: EventId) -> None:
        """These processes deliver the piece; note it in their views."""
        bundle = piece.bundle
        service = bundle.service
        exercised, daemons = self._tally.exercised, self._daemons
        low, pair = "2.13.3" not in exercised, "2.18" not in exercised
        inside = 0
        for group in bundle.groups:
            last_view: View | None = None
            last_same: View | None = None
            for process in fresh:
                stay = process.stays.get(group)
                if stay is None:
                    continue
                inside += 1
                if service is Service.UNRELIABLE:
                    continue
                view = stay.view
                if view is not last_view:
                    last_view = view
                    self._judge_view(piece, view, event)
                if stay.signal is None or daemons:
                    if view is not last_same:
                        last_same = view
                        self._judge_same_view(piece, view, event)
                    if pair and _placed(piece).setdefault(group, process) is not process:
                        exercised.add("2.18")
                self._put(stay, piece, service, stamp, index)
                if low and stamp < stay.low:
                    stay.low = stamp
        exercised.add("2.1")
        for process in fresh if inside < len(fresh) or len(bundle.groups) > 1 else ():
            self.judge_inside(process, piece, event)
        if not piece.open:
            self._store.release(bundle)

    def _put(self, stay: Stay, piece: Piece, service: Service, stamp: StampKey, index: int) -> None:
        view = stay.view
        pending = view.pending
        count = pending.get(piece)
        if count is None:
            count = 0
            piece.open.append(view)
        if service < Service.AGREED:
            stay.weak[piece] = None
        elif stay.signal is None:
            stay.before[piece] = None
            if stamp > stay.high:
                stay.high, stay.high_at = stamp, index
        else:
            stay.after[piece] = None
            pending[piece] = count
            if stamp > stay.after_high:
                stay.after_high, stay.after_at = stamp, index
            return
        pending[piece] = count = count + 1
        if count == view.size:
            self._settle(view, piece)

    def _settle(self, view: View, piece: Piece) -> None:
        """All members have it in this view, agreed ones before the signal: nothing is left to compare."""
        bundle = piece.bundle
        del view.pending[piece]
        piece.open.remove(view)
        weak = bundle.service < Service.AGREED
        for stay in view.stays.values():
            del (stay.weak if weak else stay.before)[piece]
        stamp = bundle.stamp or NO_STAMP
        known = view.settled_senders.get(bundle.sender)
        if known is None or stamp < known:
            view.settled_senders[bundle.sender] = stamp
        if bundle.service is Service.SAFE and view.size > 1:
            self._tally.exercised.add("2.14.2")
        if bundle.sender.process is not None:
            own = view.stays.get(bundle.sender.process)
            if own is not None and (len(bundle.pieces) == 1 or _all_have(view, bundle, piece)):
                own.sends.pop(bundle, None)
        if not piece.open:
            self._store.release(bundle)

    # --- judgements about one delivery and its view ---------------------------------------------------------------

    def judge_inside(self, process: Process, piece: Piece, event: EventId) -> None:
        """A delivery happens in a view of one of the message's groups, or is private."""
        if not process.stays.keys().isdisjoint(piece.bundle.groups):
            return
        if process.private in piece.bundle.groups and not process.ended:
            return
        groups = [group for group in piece.bundle.groups if not is_private_group(group)]
        if process.blind and not process.sure.issuperset(groups):
            return
        self._tally.accuse("2.1", (event,), f"{process.text} delivered {piece} while in no view of its groups.")

    def _judge_view(self, piece: Piece, view: View, event: EventId) -> None:
        bundle, group = piece.bundle, view.group
        if bundle.service >= self._rules.sane_from:
            sent_in = bundle.sent_in.get(group)
            if sent_in is not None:
                self._judge_sane(piece, view, sent_in, event)
        sender = bundle.sender
        latest = sender.latest.get(group)
        if bundle.sent is None:
            return
        place = view.comparable
        if latest is None or place > latest[0] or (place == latest[0] and event < latest[1]):
            sender.latest[group] = (place, event, bundle.sent, view.id)
            if group in sender.returned:
                self.judge_return(sender, group)

    def _judge_same_view(self, piece: Piece, view: View, event: EventId) -> None:
        group = view.group
        if piece.views is None:
            piece.views = {}
        views = piece.views.setdefault(group, {})
        known = views.get(view.id)
        if known is None or event < known:
            views[view.id] = event
        if len(views) > 1:
            for other, witness in views.items():
                if other != view.id:
                    self._tally.accuse("2.18", (witness, event), _two_views(piece, group, other, view.id))

    def _judge_sane(self, piece: Piece, view: View, sent_in: ViewId, event: EventId) -> None:
        self._tally.exercised.add(self._rules.sane)
        bundle: Bundle = piece.bundle
        if view.id < sent_in and bundle.sent is not None:
            self._tally.accuse(
                self._rules.sane,
                (bundle.sent, event),
                f"{piece} was sent in view {sent_in} and delivered in the earlier view {view.id}.",
            )

    def judge_return(self, sender: Sender, group: str) -> None:
        """The sender's name came back in a view of the group: its old messages belong before it."""
        if group not in sender.latest:
            return
        place, event, sent, view = sender.latest[group]
        back, back_event = sender.returned[group]
        self._tally.exercised.add(self._rules.sane_return)
        if place >= comparable(back):
            self._tally.accuse(
                self._rules.sane_return,
                (event, back_event, sent),
                (
                    f"{sender.text} had ended, and its name came back in view {back}; "
                    f"a message of the old session was delivered in view {view}."
                ),
            )


def _all_have(view: View, bundle: Bundle, settled: Piece) -> bool:
    """Whether all in the view have the other pieces too."""
    return all(each is settled or view.stays.keys() <= each.by.keys() for each in bundle.pieces)


def _placed(piece: Piece) -> dict[str, Process]:
    if piece.placed is None:
        piece.placed = {}
    return piece.placed


def _two_views(piece: Piece, group: str, one: ViewId, other: ViewId) -> str:
    first, second = sorted((one, other))
    place = f" of group {group}" if group else ""
    return f"{piece} was delivered in view {first} and in view {second}{place}."
