"""Every checker of view-synchronous groups over one run; no order across nodes is assumed.

Implements: [DESIGN 4], [Spread 2.2.3.2]. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.ids import GroupViewId
from isotone.spec.check.account import Account, CollectedRows
from isotone.spec.synchrony_properties import SYNCHRONY_PROPERTIES
from isotone.spec.verdicts import EventId, State, Verdict
from isotone.trace.events import Row
from isotone.trace.synchrony import SynchronousDelivered, SynchronousLeft, SynchronousSent, SynchronousView

ENTRIES = (SynchronousSent, SynchronousDelivered, SynchronousView, SynchronousLeft)

Message = tuple[str, int]
"""Who sent it, and its sequence."""


def _event(row: Row) -> EventId:
    return (row.node, row.incarnation, row.index)


@dataclass
class Stay:
    """A member in one view, up to the next; ``came``: its row and entry, ``following``: the next, if there is one."""

    row: Row
    came: SynchronousView
    sent: dict[int, Row] = field(default_factory=dict)
    given: dict[Message, Row] = field(default_factory=dict)
    following: SynchronousView | None = None
    ended: bool = False  # left the group

    @property
    def view(self) -> GroupViewId:
        """Where it stays."""
        return self.came.in_view


class SynchronyChecker(CollectedRows):
    """Judges one run."""

    def finish(
        self, *, lossy: bool, liveness: State | None, components: tuple[tuple[str, ...], ...]
    ) -> dict[str, Verdict]:
        """A verdict for each property."""
        account = Account(SYNCHRONY_PROPERTIES)
        if not lossy:
            stays = _stays(self._rows, account)
            _judge_views(stays, account)
            _judge_sending(stays, account)
            _judge_sets(stays, account)
            _judge_same(stays, account)
            _judge_self(stays, account)
            _judge_order(stays, account)
        return account.verdicts(lossy=lossy or self._is_torn, liveness=liveness)


Stays = dict[tuple[str, str], list[Stay]]
"""By (group, client), in their order."""


def _stays(rows: list[Row], account: Account) -> Stays:
    stays: Stays = {}
    for row in rows:
        entry = row.entry
        assert isinstance(entry, SynchronousSent | SynchronousDelivered | SynchronousView | SynchronousLeft)
        mine = stays.setdefault((entry.vgroup, entry.member), [])
        last = mine[-1] if mine and not mine[-1].ended else None
        if isinstance(entry, SynchronousView):
            if last is not None:
                last.following = entry
            mine.append(Stay(row, entry))
        elif isinstance(entry, SynchronousLeft):
            if last is not None:
                last.ended = True
        elif last is None or last.view != entry.in_view:
            text = f"{entry.member} has messages of view {entry.in_view} of {entry.vgroup}, where it is not."
            account.accuse("SENDING", (_event(row),), text)
        elif isinstance(entry, SynchronousSent):
            last.sent |= {entry.first + place: row for place in range(entry.count)}
        else:
            _give(last, entry, row, account)
    return stays


def _give(stay: Stay, entry: SynchronousDelivered, row: Row, account: Account) -> None:
    for sequence in range(entry.first, entry.first + entry.count):
        if (entry.origin, sequence) in stay.given:
            text = f"{entry.member} was given message {sequence} of {entry.origin} twice."
            account.accuse("ORDER", (_event(row), _event(stay.given[entry.origin, sequence])), text)
        stay.given[entry.origin, sequence] = row


def _judge_views(stays: Stays, account: Account) -> None:
    first: dict[tuple[str, GroupViewId], Stay] = {}
    for (group, client), mine in sorted(stays.items()):
        before: Stay | None = None
        for stay in mine:
            account.exercised.add("VIEWS")
            known = first.setdefault((group, stay.view), stay)
            if known.came.present != stay.came.present:
                text = f"view {stay.view} of {group} differs at {known.came.member} and {client}."
                account.accuse("VIEWS", (_event(stay.row), _event(known.row)), text)
            if client not in stay.came.present:
                account.accuse("VIEWS", (_event(stay.row),), f"{client} is not in its view {stay.view} of {group}.")
            if before is not None and not before.view < stay.view:
                text = f"{client} goes from view {before.view} of {group} to {stay.view}."
                account.accuse("VIEWS", (_event(before.row), _event(stay.row)), text)
            before = stay


def _judge_sending(stays: Stays, account: Account) -> None:
    sent_in: dict[tuple[str, Message], tuple[GroupViewId, Row]] = {
        (group, (client, sequence)): (stay.view, row)
        for (group, client), mine in stays.items()
        for stay in mine
        for sequence, row in stay.sent.items()
    }
    for (group, client), mine in sorted(stays.items()):
        for stay in mine:
            for message, row in stay.given.items():
                if (found := sent_in.get((group, message))) is None:
                    text = f"{client} was given message {message[1]}, which {message[0]} did not send."
                    account.accuse("SENDING", (_event(row),), text)
                    continue
                account.exercised.add("SENDING")
                if found[0] != stay.view:
                    text = f"{client} was given message {message[1]} of {message[0]} in {stay.view}, not in {found[0]}."
                    account.accuse("SENDING", (_event(row), _event(found[1])), text)


def _moves(stays: Stays) -> dict[tuple[str, GroupViewId], dict[str, tuple[Stay | None, Stay]]]:
    """Into each view of each group: by client, from where and to where."""
    moves: dict[tuple[str, GroupViewId], dict[str, tuple[Stay | None, Stay]]] = {}
    for (group, client), mine in sorted(stays.items()):
        before: Stay | None = None
        for stay in mine:
            moves.setdefault((group, stay.view), {})[client] = (before, stay)
            before = None if stay.ended else stay
    return moves


def _judge_sets(stays: Stays, account: Account) -> None:
    for (group, view), by_client in _moves(stays).items():
        for client, (before, stay) in by_client.items():
            if client not in stay.came.came_along:
                text = f"{client} is not in its own transitional set of view {view} of {group}."
                account.accuse("SETS", (_event(stay.row),), text)
            for other in stay.came.came_along:
                if other == client or other not in by_client:
                    continue
                account.exercised.add("SETS")
                others_before, others = by_client[other]
                alike = (before and before.view) == (others_before and others_before.view)
                if not alike or others.came.came_along != stay.came.came_along:
                    text = f"{client} and {other} do not come together to view {view} of {group} as {client} says."
                    account.accuse("SETS", (_event(stay.row), _event(others.row)), text)


def _judge_same(stays: Stays, account: Account) -> None:
    for (group, view), by_client in _moves(stays).items():
        for client, (before, stay) in by_client.items():
            for other in stay.came.came_along:
                others_before = by_client[other][0] if other in by_client else None
                if other <= client or before is None or others_before is None:
                    continue
                account.exercised.add("SAME")
                mine, theirs = before.given, others_before.given
                for message in sorted(mine.keys() ^ theirs.keys())[:1]:
                    one, two = (client, other) if message in mine else (other, client)
                    text = f"of {one} and {two}, who went to {view} of {group}, {one} alone was given {message}."
                    account.accuse("SAME", (_event((mine | theirs)[message]), _event(by_client[two][1].row)), text)


def _judge_self(stays: Stays, account: Account) -> None:
    for (group, client), mine in sorted(stays.items()):
        for stay in mine:
            for sequence, row in stay.sent.items() if stay.following is not None else ():
                account.exercised.add("SELF")
                if (client, sequence) not in stay.given:
                    text = f"{client} was never given its own message {sequence} to {group}."
                    account.accuse("SELF", (_event(row),), text)


def _judge_order(stays: Stays, account: Account) -> None:
    sent: dict[tuple[str, str, GroupViewId], list[int]] = {
        (group, client, stay.view): sorted(stay.sent) for (group, client), mine in stays.items() for stay in mine
    }
    for (group, client), mine in sorted(stays.items()):
        for stay in mine:
            given: dict[str, list[tuple[int, Row]]] = {}
            for (sender, sequence), row in stay.given.items():
                given.setdefault(sender, []).append((sequence, row))
            for sender, got in given.items():
                wanted = sent.get((group, sender, stay.view))
                if wanted is None:
                    continue
                account.exercised.add("ORDER")
                for place, (sequence, row) in enumerate(got):
                    if place >= len(wanted) or wanted[place] != sequence:
                        text = f"{client} was given message {sequence} of {sender} in the wrong place."
                        account.accuse("ORDER", (_event(row),), text)
                        break
