"""The order function: one stamp per bundle, no stamp twice, stamps in causal order.

Implements: [Spread Definition 2.7]. Deviations: a bundle is the unit of ordering, so its deliveries share one stamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from isotone.spec.check.records import Bundle, Process, Sender
from isotone.spec.check.store import Store
from isotone.spec.check.tally import Tally
from isotone.spec.check.terms import StampKey
from isotone.spec.verdicts import EventId

ID = "D2.7"
_Owner = tuple[EventId, int, Bundle]
"""The first row of a bundle, its first sequence, the bundle."""


def told(stamp: StampKey) -> str:
    """A stamp as people write it."""
    return f"{stamp[0]}!{stamp[1][0]}#{stamp[1][1]}"


class Owners:
    """The bundles of one stamp, as far as they can be in the first witness: of each sender the first two that were
    sent, and the first of all, of two senders. Parts of one bundle whose send is not there share its stamp rightly.
    """

    __slots__ = ("_first", "_sent")

    def __init__(self) -> None:
        self._first: list[_Owner] = []
        self._sent: dict[Sender, list[_Owner]] = {}

    def add(self, bundle: Bundle, event: EventId) -> None:
        """A row delivers the bundle under the stamp."""
        owner = (event, bundle.first, bundle)
        self._first = _two(self._first, owner, lambda each: each.sender)
        if bundle.sent is not None:
            self._sent[bundle.sender] = _two(self._sent.get(bundle.sender, []), owner, lambda each: each)

    def first_beside(self, bundle: Bundle) -> tuple[Bundle, EventId] | None:
        """The first other bundle that must not have the same stamp, and its row."""
        found = [each for each in self._first if each[2].sender is not bundle.sender]
        if bundle.sent is not None:
            found += [each for each in self._sent[bundle.sender] if each[2] is not bundle]
        event, _, other = min(found, key=_place, default=(None, 0, None))
        return (other, event) if other is not None and event is not None else None


class Stamps:
    """Judges each delivery row of a reliable bundle; the sends of a suspicious sender at the end."""

    def __init__(self, tally: Tally, store: Store) -> None:
        self._tally = tally
        self._store = store
        self._first: tuple[Bundle, EventId] | None = None  # of all deliveries
        self._owners: dict[StampKey, Owners] = {}  # only of stamps with several

    def delivered(self, bundle: Bundle, stamp: StampKey, event: EventId, fresh: list[Process]) -> None:
        """A row delivers this bundle, or a part of it, under this stamp, to these for the first time."""
        if self._first is None:
            self._first = (bundle, event)
        elif (bundle, event) != self._first:
            self._tally.exercised.add(ID)
        if bundle.stamp is None:
            bundle.stamp, bundle.stamp_event = stamp, event
            self._own(bundle, stamp)
            self._look_around(bundle, stamp, event)
        elif bundle.stamps is not None or stamp != bundle.stamp:
            self._differing(bundle, stamp, event)
            if stamp != bundle.stamp:
                bundle.odd.update(dict.fromkeys(fresh, stamp))
        elif event < bundle.stamp_event:
            bundle.stamp_event = event
        if stamp <= bundle.floor_stamp:
            self._accuse_past(bundle, stamp, event)
        if bundle.shared:
            self._accuse_shared(bundle, stamp, event)

    def sent_at(self, process: Process, bundle: Bundle) -> None:
        """The send stands behind all that its process delivered so far, though the bundle was delivered before."""
        bundle.floor_stamp, bundle.floor_at = process.high_stamp, process.high_at
        for stamp, event in _stamps_of(bundle):
            if stamp <= bundle.floor_stamp:
                self._accuse_past(bundle, stamp, event)

    def _own(self, bundle: Bundle, stamp: StampKey) -> None:
        if stamp[0] <= self._store.forgotten.get(stamp[1], -1):
            self._tally.doubt(ID)  # it may have been that of a bundle that is forgotten
        owner = self._store.by_stamp.setdefault(stamp, bundle)
        if owner is bundle:
            return
        owners = self._owners.get(stamp)
        if owners is None:
            owners = self._owners[stamp] = Owners()
            owners.add(owner, dict(_stamps_of(owner))[stamp])
        for each in (owner, bundle):
            each.shared = True
            self._trouble(each)

    def _differing(self, bundle: Bundle, stamp: StampKey, event: EventId) -> None:
        """A second stamp of one bundle: the first row of each stamp is kept."""
        assert bundle.stamp is not None
        if bundle.stamps is None:
            bundle.stamps = {bundle.stamp: bundle.stamp_event}
            self._trouble(bundle)
            bundle.sender.disordered = True
        stamps = bundle.stamps
        if stamp not in stamps:
            self._own(bundle, stamp)
        if stamp not in stamps or event < stamps[stamp]:
            stamps[stamp] = event
        for other, witness in stamps.items():
            if other != stamp:
                first, second = sorted((other, stamp))
                explanation = f"{bundle} was delivered with the stamps {told(first)} and {told(second)}."
                self._tally.accuse(ID, (witness, event), explanation)

    def _trouble(self, bundle: Bundle) -> None:
        bundle.trouble = True
        self._store.troubled[bundle] = None

    def _accuse_shared(self, bundle: Bundle, stamp: StampKey, event: EventId) -> None:
        owners = self._owners.get(stamp)
        if owners is None:
            return
        owners.add(bundle, event)
        found = owners.first_beside(bundle)
        if found is not None:
            other, witness = found
            one, two = sorted((str(other), str(bundle)))
            self._tally.accuse(ID, (witness, event), f"{one} and {two} have one stamp, {told(stamp)}.")

    def _accuse_past(self, bundle: Bundle, stamp: StampKey, event: EventId) -> None:
        process = bundle.sender.process
        if process is not None and bundle.sent is not None:
            self._tally.accuse(
                ID,
                (process.event(bundle.floor_at), bundle.sent, event),
                f"{process.text} had delivered stamp {told(bundle.floor_stamp)} when it sent {bundle}, "
                f"which has the stamp {told(stamp)}.",
            )

    # --- the sends of one process ----------------------------------------------------------------------------------

    def _look_around(self, bundle: Bundle, stamp: StampKey, event: EventId) -> None:
        """Compare with the nearest sends whose stamps are known; if all neighbours agree, all pairs do."""
        sender = bundle.sender
        newest = sender.newest_stamped
        if bundle.sent is None:  # in no order; if it should have been sent, that is judged at the end of the run
            sender.disordered |= not sender.lossy
            return
        below: Bundle | None
        above: Bundle | None
        if newest is None or bundle.first > newest.first:
            sender.newest_stamped = bundle
            below, above = newest, None
        else:
            below, above = _nearest(bundle.before, back=True), _nearest(bundle.after, back=False)
            if bundle.first < sender.forgotten[0] or stamp <= sender.forgotten[1]:
                self._tally.doubt(ID)
        if (below is not None and below.stamp is not None and below.stamp >= stamp) or (
            above is not None and above.stamp is not None and above.stamp <= stamp
        ):
            sender.disordered = True
        if newest is not None and newest.stamp is not None:  # which may be forgotten before the end of the run
            if (newest.first < bundle.first) is not (newest.stamp < stamp):
                self._accuse_order((newest, newest.stamp_event), (bundle, event))

    def _accuse_order(self, one: tuple[Bundle, EventId], other: tuple[Bundle, EventId]) -> None:
        (early, _), (late, _) = sorted((one, other), key=lambda each: each[0].first)
        explanation = f"{early} was sent before {late}, but has no lower stamp."
        self._tally.accuse(ID, (one[1], other[1]), explanation)

    def judge_sends(self, sender: Sender) -> None:
        """Earlier sends must have lower stamps: the first pair that has not, if there is one."""
        known = [
            (bundle.first, stamp, event, bundle)
            for bundle in sorted(sender.held.values(), key=lambda each: each.first)
            if bundle.sent is not None
            for stamp, event in _stamps_of(bundle)
        ]
        wrong = _out_of_order([(first, stamp) for first, stamp, _, _ in known])
        if not wrong:
            return
        place = min(wrong, key=lambda each: known[each][2])
        first, stamp, event, bundle = known[place]
        for other_first, other_stamp, other_event, other in known:
            if other_first != first and (other_first < first) is not (other_stamp < stamp):
                self._accuse_order((bundle, event), (other, other_event))


def _stamps_of(bundle: Bundle) -> Iterator[tuple[StampKey, EventId]]:
    if bundle.stamps is not None:
        yield from bundle.stamps.items()
    elif bundle.stamp is not None:
        yield bundle.stamp, bundle.stamp_event


def _two(known: list[_Owner], owner: _Owner, key: Callable[[Bundle], object]) -> list[_Owner]:
    """The first two of different keys."""
    best: dict[object, _Owner] = {}
    for each in sorted([*known, owner], key=_place):
        best.setdefault(key(each[2]), each)
    return list(best.values())[:2]


def _place(owner: tuple[EventId, int, object]) -> tuple[EventId, int]:
    return owner[:2]


def _nearest(bundle: Bundle | None, *, back: bool) -> Bundle | None:
    """The next bundle in this direction, from here on, whose stamp is known."""
    while bundle is not None and bundle.stamp is None:
        bundle = bundle.before if back else bundle.after
    return bundle


def _out_of_order(known: list[tuple[int, StampKey]]) -> list[int]:
    """The places in a list sorted by first sequence whose stamp is not between those of all before and all after."""
    wrong = set()
    for forward in (True, False):
        extreme: StampKey | None = None
        waiting: list[StampKey] = []  # of the same bundle: not compared with each other
        last_first = -1
        for place in range(len(known)) if forward else range(len(known) - 1, -1, -1):
            first, stamp = known[place]
            if first != last_first:
                last_first = first
                extreme = (max if forward else min)([*waiting, *([extreme] if extreme else [])], default=None)
                waiting = []
            if extreme is not None and ((stamp <= extreme) if forward else (stamp >= extreme)):
                wrong.add(place)
            waiting.append(stamp)
    return sorted(wrong)
