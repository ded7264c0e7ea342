"""The checker of one boundary: the same for clients in groups and for daemons in their one group ``""``.

It takes the events of processes in an order that keeps each node's own and puts sends before deliveries, and hands them
to the parts: `Store` (messages), `Stamps`, `Places` and `Orders` (each delivery), `Book` (views) and, when a view is
over, `Closing`. All work is per row and receiver; a bundle is looked into only where deliveries disagree about it.

Implements: [Spread 2.5] here; the rest in the parts. Deviations: none.
"""

from __future__ import annotations

from isotone.core.services import Service
from isotone.spec.check.agreement import Agreement
from isotone.spec.check.book import Book
from isotone.spec.check.closing import Closing
from isotone.spec.check.holes import Holes
from isotone.spec.check.liveness import judge_precision, judge_self_delivery, judge_termination
from isotone.spec.check.orders import Orders
from isotone.spec.check.pairs import judge_pairs
from isotone.spec.check.people import People
from isotone.spec.check.places import Places
from isotone.spec.check.records import Bundle, Home, Piece, Process, Sender
from isotone.spec.check.rules import Rules
from isotone.spec.check.safe import Safe
from isotone.spec.check.stamps import Stamps
from isotone.spec.check.store import Store, all_sent
from isotone.spec.check.tally import Tally
from isotone.spec.check.terms import NOWHERE, Before, Content, Messages, Seen, StampKey, ViewId
from isotone.spec.verdicts import EventId

_BY_DELIVERING = ("2.5", "2.6")
"""What every delivery exercises."""


class Engine:
    """One boundary of one run."""

    def __init__(self, rules: Rules, *, linger: int) -> None:
        self.rules = rules
        self.tally = Tally(rules.boundary)
        self.people = People(daemons=rules.daemons)
        self.store = Store(self.tally, linger)
        self.stamps = Stamps(self.tally, self.store)
        self.orders = Orders(self.tally, self.store)
        self.places = Places(rules, self.tally, self.store)
        agreement = Agreement(self.tally)
        self.safe = Safe(rules, self.tally, self.people, agreement, self.store)
        self.closing = Closing(self.tally, self.store, Holes(self.tally), self.safe)
        self.book = Book(self.people, agreement, self.closing.close)
        self._stamp_keys: dict[str, tuple[str, int]] = {}
        self.active = False  # anything at all happened at this boundary

    # --- lives -----------------------------------------------------------------------------------------------------

    def home(self, node: str, incarnation: int) -> Home:
        """Where a row belongs. An incarnation that did not crash before the next one is still there: Assumption 2.1."""
        home = self.people.homes.get(node)
        if home is not None:
            if home.incarnation == incarnation:
                return home
            if not home.ended:
                self.people.left_over.append(home)
        return self.people.home(node, incarnation)

    def end_home(self, home: Home, index: int) -> None:
        """An incarnation is over, and all its processes."""
        if home.ended:
            return
        home.ended = True
        for process in list(home.processes.values()):
            self.end(process, index)
        for sender in self.people.by_home.get((home.node, home.incarnation), ()):
            sender.ended = True
        self.book.end_unheard()

    def end(self, process: Process, index: int) -> None:
        """A process ends; what only it needed is dropped."""
        if process.ended:
            return
        self.safe.end(process)
        self.book.end(process, index)
        for held in (process.marks, process.floor, process.floor_at, process.weak, process.pending, process.past):
            held.clear()
        process.own.clear()
        process.joining.clear()

    def lose(self, home: Home, index: int, *, truncated: bool) -> None:
        """Rows of this home are missing here: from now on only what is seen again is known."""
        home.lossy = True
        home.truncated |= truncated
        for process in list(home.processes.values()):
            if process.sender is not None:
                process.sender.lossy = True
            if not process.ended:
                self.safe.lost(process, index)
                self.book.end(process, index, lost=True)

    def ready(self, node: str, text: str, last: int) -> bool:
        """Whether a delivery at this node can be taken: its send was, or can no more be waited for."""
        sender = self.people.senders.get(text)
        if sender is None:
            home_key = self.people.home_of(text)
            return home_key[0] == node or self.people.over(text) or self.people.is_truncated(home_key)
        if sender.high >= last and (not sender.holes or sender.lossy):
            return True
        if sender.ended or sender.home_key[0] == node or self.people.is_truncated(sender.home_key):
            return True
        return sender.high >= last and not any(low <= last for low, _ in sender.holes)

    # --- messages --------------------------------------------------------------------------------------------------

    def send(self, home: Home, index: int, text: str, first: int, content: Content) -> None:
        """A process sends a bundle; behind its end it does not, whatever is recorded."""
        self.active = True
        process = self.people.meet(home, text)
        if process.sender is None or process.ended or home.ended:
            return
        bundle = self.store.send(process.sender, first, content, home.event(index))
        if bundle is None:
            return
        self.store.link(process, bundle)
        self._place_send(process, bundle)

    def _place_send(self, process: Process, bundle: Bundle) -> None:
        """In which views it is sent, and who owes it there."""
        if bundle.service is Service.UNRELIABLE:
            return
        groups = [group for group in bundle.groups if group in process.stays]
        if groups:
            bundle.sent_in = self._sent_in(process, groups)
        for group in groups:
            stay = process.stays[group]
            stay.sends[bundle] = None
            stay.sent = stay.membership.sent = True
        if groups:
            process.own[bundle] = groups

    def come_to_send(self, home: Home, index: int, text: str, first: int) -> None:
        """The place of a send that was taken before it: only now is known what its sender knew."""
        process = self.people.meet(home, text)
        bundle = process.sender.held.get(first) if process.sender is not None else None
        if bundle is None or bundle.sent != home.event(index):
            return
        self.stamps.sent_at(process, bundle)
        self._place_send(process, bundle)

    def _sent_in(self, process: Process, groups: list[str]) -> dict[str, ViewId]:
        """In which views it sends; those count that it is known not to have asked to leave."""
        if not self.rules.daemons:
            groups = [group for group in groups if group not in process.leaving and not process.blind]
        return {group: process.stays[group].view.id for group in groups} if groups else NOWHERE

    def deliver(
        self, home: Home, index: int, receivers: tuple[str, ...], sent: Messages, stamped: tuple[int, str]
    ) -> None:
        """These processes deliver a bundle, or a part of one."""
        text, first, content = sent
        lamport, stamper = stamped
        self.active = True
        sender = self.people.senders.get(text) or self.people.sender(text)
        event = (home.node, home.incarnation, index)
        stamp = (lamport, self._stamp_keys.get(stamper) or self._stamp_key(stamper))
        for piece in self.store.pieces(sender, first, content, event, receivers[0] if receivers else ""):
            self._deliver_piece(home, receivers, piece, stamp, event)
        if self.store.late:
            self._deliver_late(home, receivers, sender, event)
        self.tally.exercised.update(_BY_DELIVERING)

    def _deliver_piece(
        self, home: Home, receivers: tuple[str, ...], piece: Piece, stamp: StampKey, event: EventId
    ) -> None:
        index = event[2]
        by, bundle, known = piece.by, piece.bundle, home.processes
        if not by:
            self.store.landed(bundle)
        fresh = []
        for text in receivers:
            process = known.get(text) or self.people.meet(home, text)
            if process in by:
                self._accuse_duplicate(process, piece, event)
                self.places.judge_inside(process, piece, event)
            else:
                by[process] = index
                fresh.append(process)
        self.places.place(fresh, piece, index, stamp, event)
        if bundle.service is Service.UNRELIABLE:
            self.orders.deliver_unreliable(fresh, piece)
            return
        self.stamps.delivered(bundle, stamp, event, fresh)
        self.orders.deliver(fresh, piece, index, stamp)
        own = bundle.sender.process
        if (
            own is not None
            and own in by
            and bundle in own.own
            and (len(bundle.pieces) == 1 or all(own in part.by for part in bundle.pieces))
        ):
            del own.own[bundle]

    def _deliver_late(self, home: Home, receivers: tuple[str, ...], sender: Sender, event: EventId) -> None:
        """A part of the row is of messages that nobody holds any more; who had them is known."""
        for low, high in self.store.late:
            for text in receivers:
                process = self.people.meet(home, text)
                mark = process.marks.get(sender)
                index = mark.row_of_forgotten(low, high) if mark is not None else None
                if index is not None:
                    told = f"{text} delivered message {low} of {sender.text} twice."
                    self.tally.accuse("2.5", (process.event(index), event), told)
        self.store.late.clear()

    def _accuse_duplicate(self, process: Process, piece: Piece, event: EventId) -> None:
        first = process.event(piece.by[process])
        self.tally.accuse("2.5", (first, event), f"{process.text} delivered {piece} twice.")

    def _stamp_key(self, stamper: str) -> tuple[str, int]:
        name, _, incarnation = stamper.rpartition("#")
        key = self._stamp_keys[stamper] = (name, int(incarnation) if incarnation.isdigit() else 0)
        return key

    # --- views -----------------------------------------------------------------------------------------------------

    def install(self, home: Home, index: int, receivers: tuple[str, ...], seen: Seen) -> None:
        """These processes install a view."""
        group, id = seen.group, seen.id
        self.active = True
        for text in receivers:
            process = self.people.meet(home, text)
            if not self.rules.daemons:
                self.safe.came(process, group, id, index)
            stay = self.book.install(process, seen, index)
            if stay.previous is Before.FIRST and process.sender is not None:
                self._came_back(process, group, id, home.event(index))
            if len(process.marks) > process.purge_at:
                _purge(process)

    def _came_back(self, process: Process, group: str, id: ViewId, event: EventId) -> None:
        senders = self.people.by_name[process.name]
        if len(senders) == 1:
            return
        for sender in senders:
            if sender is not process.sender and sender.ended and group not in sender.returned:
                sender.returned[group] = (id, event)
                self.places.judge_return(sender, group)
        self.people.by_name[process.name] = [
            each for each in senders if not each.gone or each.latest.keys() - each.returned.keys()
        ]

    def signal(self, home: Home, index: int, receivers: tuple[str, ...], group: str, id: ViewId) -> None:
        """These processes get the transitional signal."""
        self.active = True
        for text in receivers:
            self.book.signal(self.people.meet(home, text), group, id, index)

    def leave(self, home: Home, index: int, text: str, group: str) -> None:
        """A process's leave takes effect."""
        process = self.people.meet(home, text)
        self.safe.left(process, group, index)
        self._owe_no_more(process, group)
        count = process.leaving.pop(group, 0)
        if count > 1:
            process.leaving[group] = count - 1
        self.book.leave_group(process, group, index)

    def ask_leave(self, process: Process, group: str) -> None:
        """A process asks to leave; what it asks later is about the time after the leave."""
        asked = process.joining.pop(group, None)
        if group in process.stays or asked is not None:
            process.leaving[group] = process.leaving.get(group, 0) + 1
        self._owe_no_more(process, group)

    def _owe_no_more(self, process: Process, group: str) -> None:
        """Whoever leaves a group is no more owed its own sends to it."""
        stay = process.stays.get(group)
        if stay is not None:
            stay.sent = stay.membership.sent = False
        for bundle, groups in list(process.own.items()):
            if group in groups:
                groups.remove(group)
                if not groups:
                    del process.own[bundle]

    # --- the end ---------------------------------------------------------------------------------------------------

    def named_homes(self) -> set[tuple[str, int]]:
        """Node and incarnation of all who are named as members or as senders."""
        found = {self.people.home_of(text) for text in self.book.named}
        return found | {sender.home_key for sender in self.people.senders.values()}

    def finish(self, *, settled: bool, lossy: bool, is_whole: bool, components: tuple[tuple[str, ...], ...]) -> None:
        """The trace is over; ``settled``: its end was stable and quiet; ``is_whole``: no record lacks anything."""
        for view in list(self.book.open.values()):
            self.closing.close(view, final=True, settled=settled)
        self.safe.finish(settled=settled)
        self._accuse_unsent(lossy=lossy)
        held = [bundle for sender in self.people.senders.values() for bundle in sender.held.values()]
        held += self.store.early
        judge_pairs(self.tally, held, self.store.troubled)
        for sender in self.people.senders.values():
            if sender.disordered:
                self.stamps.judge_sends(sender)
        if settled and is_whole and self.active:
            judge_self_delivery(self.people, self.tally)
            judge_termination(self.people, self.tally)
            judge_precision(self.people, self.tally, components, daemons=self.rules.daemons)

    def _accuse_unsent(self, *, lossy: bool) -> None:
        for bundle in (*self.store.unsent, *self.store.early):
            sender = bundle.sender
            if sender.lossy or (sender.process is None and lossy) or sender.home_key in self.people.missing:
                continue
            for piece in bundle.pieces if not all_sent(sender, bundle.first, bundle.last) else ():
                for process, index in piece.by.items():
                    self.tally.accuse(
                        "2.6",
                        (process.event(index),),
                        f"{process.text} delivered {piece}, which was never sent.",
                    )

    def retained(self) -> int:
        """Bundles, open views, stays and debts in memory; not what is constant per client and per view id."""
        stays = sum(len(view.stays) for view in self.book.open.values())
        owed = sum(len(trail.owed) for trail in self.safe.owing)
        return self.store.held + len(self.book.open) + stays + owed


def _purge(process: Process) -> None:
    """Forget what it had from senders of whom nothing more can come."""
    for held in (process.marks, process.floor, process.floor_at, process.weak, process.pending, process.past):
        for sender in [sender for sender in held if sender.gone]:
            del held[sender]
    process.purge_at = 2 * len(process.marks) + 64
