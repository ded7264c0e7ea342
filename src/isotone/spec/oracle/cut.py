"""Where the daemons that leave a view together cut its order: what they deliver, and what of it after the signal.

All daemons that move from one view to the same next one get the same `Transition`. The rules, with the clients' group
views in mind, because at EVS-C the promises speak of those:

* the signal stands behind everything that any of them agreed on, and not behind a SAFE entry that someone may lack;
* they deliver all that one of them stamped (self delivery) or delivered (virtual synchrony), and everything below a
  SAFE entry that anybody delivered before the signal (2.14.2);
* of the rest they lose what they like (holes), and then what causally depends on a hole;
* leaves and kills that anybody agreed on stand before the signal, because behind it they make no view and bundles of
  strangers may have been sent in theirs (2.9.1); joins perhaps. When changes follow behind it, or are lost, AGREED and
  SAFE bundles to such a group are delivered in other views here and elsewhere, or withheld from all others.

A transition may be diverted to another view before its signal, with the same cut, so that who still takes it stays
consistent with who does not. It is not diverted when the tail changes groups, because view ids name the next view.

Implements: [Spread 2.2.3], [Spread 6.1.9] and [Spread 6.4.5], as a choice among all cuts that they allow.
"""

from __future__ import annotations

from isotone.core.ids import ClientId
from isotone.core.services import Service
from isotone.spec.oracle.groups import Group, Groups, holds
from isotone.spec.oracle.model import DATA, EVERYONE, JOIN, LEAVE, NEVER, Daemon, Entry, Transition, ViewState, World
from isotone.spec.oracle.ordering import apply_change, merged_of

_UNRELIABLE, _FIFO, _CAUSAL, _AGREED, _SAFE = map(
    int, (Service.UNRELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE)
)


def cut(world: World, source: ViewState, target: ViewState, together: list[Daemon], *, settles: bool) -> Transition:
    """Choose a transition of these daemons, who are in ``source`` without one."""
    transition = Transition(source, target, together, settles=settles)
    lead = max(together, key=lambda daemon: daemon.cursor)
    groups = lead.groups.copy()
    if settles:
        begin = lead.cursor
        if begin == 0:
            groups.merge(merged_of(source), source.origin_of[lead.id], [])
            begin = 1
        transition.line = _choose_line(world, transition, begin)
        for entry in source.log[begin : transition.line]:
            apply_change(groups, source, entry, None, [])
        groups.signal(transition.together, [])
        _Selection(world, transition, groups).select()
        _seal(source, transition, together)
    else:
        assert lead.cursor == 0 and source.safe_line == 0
        groups.signal(transition.together, [])
        source.received = [
            0 if daemon.id in transition.together else had for daemon, had in zip(source.daemons, source.received)
        ]
    transition.end = groups.close()
    return transition


def divert(world: World, old: Transition, target: ViewState, together: list[Daemon]) -> Transition:
    """The same cut on the way to another view, for some of those who have not passed the signal."""
    assert old.divertible
    transition = Transition(old.source, target, together, settles=old.settles)
    transition.line, transition.early, transition.tail = old.line, old.early, old.tail
    transition.prefix = old.prefix
    lead = max(together, key=lambda daemon: daemon.cursor)
    groups = lead.groups.copy()
    if old.settles and lead.cursor == 0:
        groups.merge(merged_of(old.source), old.source.origin_of[lead.id], [])
    for entry in old.source.log[max(lead.cursor, 1) : old.line]:
        apply_change(groups, old.source, entry, None, [])
    groups.signal(transition.together, [])
    transition.end = groups.close()
    world.count("diverted_transition")
    return transition


def _choose_line(world: World, transition: Transition, low: int) -> int:
    """An index for the signal: at least ``low``, at most before what nobody may deliver without it."""
    source, choice = transition.source, world.choice
    log, stable = source.log, max(min(source.received), source.safe_line)
    high = low
    while high < min(len(log), source.cap):
        entry = log[high]
        if entry.reach != EVERYONE or (entry.service == _SAFE and high >= stable):
            break
        high += 1
    line = choice.weighted(((low, 0.35), (high, 0.3), (choice.between(low, high), 0.35)))
    lowest = JOIN
    if any(entry.kind == JOIN for entry in log[low : source.high]) and choice.chance(0.7):
        lowest, line = LEAVE, low  # a join that others agreed on may come behind the signal here
    for index in range(min(source.high, len(log)) - 1, line - 1, -1):
        if log[index].kind >= lowest:
            line = index + 1
            break
    if any(entry.kind == JOIN for entry in log[line : source.high]):
        world.count("other_side")
    assert line <= high, "what somebody agreed on is within everybody's reach"
    return line


class _Selection:
    """Chooses what is delivered after the signal. ``groups`` is their state at the signal and moves along."""

    def __init__(self, world: World, transition: Transition, groups: Groups) -> None:
        self._world = world
        self._transition = transition
        self._groups = groups
        self._first_hole = NEVER  # Lamport time
        self._split: dict[str, None] = {}  # those of which members elsewhere may have other views then
        self._keep = world.choice.pick((1.0, 0.0, 0.5, 0.8))

    def select(self) -> None:
        transition, source = self._transition, self._transition.source
        transition.prefix = len(source.log)
        for index in range(transition.line, len(source.log)):
            entry = source.log[index]
            if entry.owed or (entry.service and entry.service < _AGREED and entry.early & transition.mask):
                transition.early.append(entry)
            elif self._must_keep(entry, index) or self._may_keep(entry):
                self._keep_entry(entry, index)
            elif entry.service != _UNRELIABLE:
                self._lose_entry(entry, index)

    def _must_keep(self, entry: Entry, index: int) -> bool:
        if index < self._transition.source.safe_line:
            return entry.service != _UNRELIABLE
        return bool(entry.stamper & self._transition.mask) and entry.service != _UNRELIABLE

    def _may_keep(self, entry: Entry) -> bool:
        """Choose whether what others stamped survives here."""
        transition, hole = self._transition, self._first_hole
        if not entry.reach & transition.mask or entry.withheld or not self._world.choice.chance(self._keep):
            return False
        if entry.service >= _FIFO and _follows_hole(entry, transition):
            return False
        return entry.service < _CAUSAL or (
            hole > entry.past and not any(extra.lost is transition for extra in entry.extras)
        )

    def _keep_entry(self, entry: Entry, index: int) -> None:
        transition = self._transition
        transition.tail.append(entry)
        if entry.service != _UNRELIABLE and self._first_hole != NEVER:
            self._world.count("skipped_hole")
        if entry.kind != DATA:
            transition.divertible = False
            self._note_change(entry)
            apply_change(self._groups, transition.source, entry, transition, [])
        elif entry.service >= _AGREED and any(self._is_split(name) for name in entry.groups):
            self._keep_apart(entry, index)

    def _keep_apart(self, entry: Entry, index: int) -> None:
        """Others may have it in another view; or, if it is one of their own and nobody is beyond it, they shall not."""
        transition, source = self._transition, self._transition.source
        own = bool(entry.stamper & transition.mask) and index >= source.high
        if own and self._world.choice.chance(0.5):
            entry.withheld = transition
            source.cap = min(source.cap, index)
        else:
            self._world.count("other_side")

    def _lose_entry(self, entry: Entry, index: int) -> None:
        entry.lost = self._transition
        self._world.count("lost_message")
        if self._first_hole == NEVER:
            self._first_hole = entry.lamport
            self._transition.prefix = index
        if entry.kind != DATA:
            self._note_change(entry)

    def _note_change(self, entry: Entry) -> None:
        stranger = not entry.stamper & self._transition.mask
        names = [entry.group] if entry.group else _groups_of(self._groups, entry.client)
        for name in names:
            group = self._groups.by_name.get(name)
            if stranger or (group is not None and group.signalled):
                self._split[name] = None

    def _is_split(self, name: str) -> bool:
        """Whether members here and members elsewhere could get a bundle to this group in different views."""
        group = self._groups.by_name.get(name)
        return name in self._split and group is not None and self._has_members_here(group)

    def _has_members_here(self, group: Group) -> bool:
        return any(client.daemon in self._transition.together for client in group.members)


def _seal(source: ViewState, transition: Transition, together: list[Daemon]) -> None:
    """From here on the order below stays as it is, and everyone knows what these daemons will have."""
    for index in range(transition.line - 1, source.safe_line - 1, -1):
        if source.log[index].service == _SAFE:
            source.safe_line = index + 1
            break
    source.high = max(source.high, transition.line)
    source.line = max(source.line, source.log[-1].lamport)
    for daemon in together:
        source.received[source.members.index(daemon.id)] = transition.prefix


def _follows_hole(entry: Entry, transition: Transition) -> bool:
    """Whether something that the same client sent before is lost."""
    earlier = entry.previous
    while earlier is not None:
        if earlier.lost is transition:
            return True
        earlier = earlier.previous if earlier.service < _FIFO else None
    return False


def _groups_of(groups: Groups, client: ClientId) -> list[str]:
    return [name for name, group in groups.by_name.items() if holds(group.members, client)]
