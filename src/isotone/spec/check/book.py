"""The book of views: installations, signals, leaves and ends, and when a view is over.

A view is closed when each of its members is known to have passed it: it installed the view and left it, or it installed
a later one, or it ended. Then everything about it can be judged, whatever order the rows came in, and freed.

Implements: [Spread 2.2], [Spread 2.3], [Spread 2.4.1], [Spread 2.4.2], [Spread 2.8.1].
Deviations: D-first-view; views are the same when id and members agree, as [Spread 2.2.5] proposes.
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.spec.check.agreement import Agreement
from isotone.spec.check.people import People
from isotone.spec.check.records import Membership, Process, Stay, View
from isotone.spec.check.terms import Before, Left, Seen, ViewId
from isotone.spec.verdicts import EventId


class Book:
    """All views that are open, and what must be known of all others."""

    def __init__(self, people: People, agreement: Agreement, close: Callable[[View], None]) -> None:
        self._tally = agreement.tally
        self._people = people
        self._agreement = agreement
        self._close = close
        self.open: dict[tuple[str, ViewId, tuple[str, ...]], View] = {}
        self._awaited: dict[str, dict[View, None]] = {}  # by member: the open views that wait for it
        self.named: set[str] = set()  # all members of all views
        self._highest: dict[tuple[str, str], tuple[ViewId, EventId]] = {}  # by name and group

    # --- installing ----------------------------------------------------------------------------------------------

    def install(self, process: Process, seen: Seen, index: int) -> Stay:
        """A process installs a view; the stay that begins."""
        group, id, members, transitional = seen
        event = process.event(index)
        regular = self._judge_id(process, group, id, members, event)
        old = process.stays.get(group)
        previous = self._previous(process, group, old)
        self._judge_transitional(process, seen, previous, event)
        view = self._view(group, id, members) if regular else View(group, id, members, detached=True)
        membership = old.membership if old is not None else Membership()
        stay = Stay(process, view, index, previous=previous, transitional=transitional, membership=membership)
        view.stays[process] = stay
        process.stays[group] = stay
        process.sure.add(group)
        if group not in process.leaving:
            process.joining.pop(group, None)
        if not regular:
            self.named.update(members)
            self._agreement.note_irregular(group, id, process.home)
        else:
            process.highest[group] = id
            if not process.home.lossy:
                process.surely[group] = id
        if old is not None:
            old.next, old.next_transitional = view, transitional
            self._leave(old, Left.MOVED, index)
        self._pass_earlier(process, group, id)
        return stay

    def _previous(self, process: Process, group: str, old: Stay | None) -> View | Before:
        if old is not None:
            return old.view
        return Before.UNKNOWN if process.blind and group not in process.sure else Before.FIRST

    def _judge_id(self, process: Process, group: str, id: ViewId, members: tuple[str, ...], event: EventId) -> bool:
        """Self inclusion, monotonicity, agreement; whether the installation can be compared with those of others."""
        self._tally.exercised.add("2.2")
        regular = not (process.ghost or process.ended)
        if process.text not in members:
            regular = False
            self._tally.accuse("2.2", (event,), f"{process.text} installed view {id} and is not in it.")
        key = (process.name, group)
        highest = self._highest.get(key)
        if highest is not None and not process.ghost:
            self._tally.exercised.add("2.3")
            if highest[0] >= id:
                regular = False
                self._tally.accuse(
                    "2.3", (highest[1], event), f"{process.text} installed view {id} after view {highest[0]}."
                )
        if not process.ghost and (highest is None or id > highest[0]):
            self._highest[key] = (id, event)
        self._agreement.judge(group, id, members, event)
        return regular

    def _judge_transitional(self, process: Process, seen: Seen, previous: View | Before, event: EventId) -> None:
        _, id, members, transitional = seen
        if previous is Before.FIRST:
            self._tally.exercised.add("2.4.1")
            if transitional != (process.text,):
                self._tally.accuse(
                    "2.4.1", (event,), f"The first view {id} of {process.text} brings others along with it."
                )
        elif isinstance(previous, View):
            self._tally.exercised.add("2.4.2")
            strangers = [each for each in transitional if each not in members or each not in previous.members]
            if strangers:
                self._tally.accuse(
                    "2.4.2",
                    (event,),
                    (
                        f"{process.text} moved from view {previous.id} to {id} together with {strangers[0]}, "
                        "which is not in both."
                    ),
                )

    def _view(self, group: str, id: ViewId, members: tuple[str, ...]) -> View:
        key = (group, id, members)
        view = self.open.get(key)
        if view is None:
            view = self.open[key] = View(group, id, members, detached=False)
            self.named.update(members)
            for text in members:
                if not self._passed(text, group, id):
                    view.awaiting[text] = None
                    self._awaited.setdefault(text, {})[view] = None
        return view

    def _passed(self, text: str, group: str, id: ViewId) -> bool:
        """Whether this member can no longer come to a view that it is not in now."""
        process = self._people.find(text)
        if process is None:
            return self._people.over(text)
        if process.ended:
            return True
        highest = process.highest.get(group)
        return highest is not None and bool(highest >= id)

    # --- signals, leaving, ending --------------------------------------------------------------------------------

    def signal(self, process: Process, group: str, id: ViewId, index: int) -> None:
        """A transitional signal."""
        event = process.event(index)
        self._tally.exercised.add("2.1")
        stay = process.stays.get(group)
        if stay is None:
            if not process.blind or group in process.sure:
                self._tally.accuse("2.1", (event,), f"{process.text} got a signal while in no view.")
            return
        if stay.view.id != id:
            self._tally.accuse("2.1", (event,), f"{process.text} got the signal of view {id} in view {stay.view.id}.")
        self._tally.exercised.add("2.8.1")
        if stay.signal is None:
            stay.signal = index
            return
        first = process.event(stay.signal)
        self._tally.accuse("2.8.1", (first, event), f"{process.text} got two signals in view {stay.view.id}.")

    def leave_group(self, process: Process, group: str, index: int) -> None:
        """A process leaves a group of its own accord."""
        stay = process.stays.pop(group, None)
        process.sure.add(group)
        if stay is not None:
            self._leave(stay, Left.LEFT, index)

    def end(self, process: Process, index: int, *, lost: bool = False) -> None:
        """A process ends, or its record is lost from here on."""
        stays, process.stays = process.stays, {}
        process.leaving.clear()
        process.ended = not lost
        for stay in stays.values():
            self._leave(stay, Left.LOST if lost else Left.ENDED, index)
        if lost:
            process.blind = True
            process.sure.clear()
        elif process.sender is not None:
            process.sender.ended = True
            self._pass_all(process.text)

    def end_unheard(self) -> None:
        """Members of open views that were never heard of, and whose node went on, will not come any more."""
        for text in [text for text in self._awaited if self._people.over(text)]:
            self._pass_all(text)

    def _leave(self, stay: Stay, how: Left, index: int) -> None:
        stay.left, stay.left_at = how, index
        stay.complete = not stay.process.home.lossy
        self._pass(stay.view, stay.process.text)

    def _pass_earlier(self, process: Process, group: str, id: ViewId) -> None:
        awaited = self._awaited.get(process.text)
        if process.ghost or not awaited:
            return
        for view in [view for view in awaited if view.group == group and view.id <= id and process not in view.stays]:
            self._pass(view, process.text)

    def _pass_all(self, text: str) -> None:
        for view in list(self._awaited.get(text, ())):
            self._pass(view, text)

    def _pass(self, view: View, text: str) -> None:
        view.awaiting.pop(text, None)
        awaited = self._awaited.get(text)
        if awaited is not None:
            awaited.pop(view, None)
            if not awaited:
                del self._awaited[text]
        if not view.awaiting and not view.closed:
            view.closed = True
            if not view.detached:
                del self.open[(view.group, view.id, view.members)]
            self._close(view)
