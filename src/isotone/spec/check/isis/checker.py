"""Every checker of ISIS over one run. Rows are collected and judged at the end; no order across sites is assumed.

Implements: [DESIGN 4], [ISIS 3], [ISIS 4.2], [ISIS 4.4]. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.check.account import Account
from isotone.spec.check.isis.history import ENTRIES, History, event_of
from isotone.spec.check.isis.orders import judge_abcasts, judge_causal, judge_group_order
from isotone.spec.isis_properties import ISIS_PROPERTIES
from isotone.spec.verdicts import State, Verdict
from isotone.trace.events import Row
from isotone.trace.isis import BroadcastBegun, BroadcastDelivered, GroupLeft, GroupViewInstalled, SiteViewInstalled

__all__ = ["ENTRIES", "IsisChecker"]


class IsisChecker:
    """Judges one run."""

    def __init__(self) -> None:
        self._rows = 0
        self._is_torn = False
        self._history = History()
        self._account = Account(ISIS_PROPERTIES)

    def __len__(self) -> int:
        return self._rows

    def feed(self, row: Row) -> None:
        """Take one row."""
        self._rows += 1
        self._history.take(row)

    def lose(self, row: Row) -> None:
        """Rows of this node are missing here: the run is not whole, and nothing of it is judged."""
        self._is_torn = True

    def missing(self) -> set[str]:
        """None: sites are daemons, which name each other."""
        return set()

    def finish(
        self, *, lossy: bool, liveness: State | None, components: tuple[tuple[str, ...], ...]
    ) -> dict[str, Verdict]:
        """A verdict for each property."""
        history, account = self._history, self._account
        lossy = lossy or self._is_torn
        if not lossy:
            _judge_sites(history, account)
            _judge_once(history, account)
            _judge_views(history, account)
            _judge_dead(history, account)
            _judge_rejected(history, account)
            judge_abcasts(history, account)
            judge_causal(history, account)
            judge_group_order(history, account)
            if liveness is None and len(components) <= 1:
                _judge_atomic(history, account)
                _judge_bounded(history, account)
        return account.verdicts(lossy=lossy, liveness=liveness)


def _judge_sites(history: History, account: Account) -> None:
    first: dict[tuple[tuple[str, ...], int], tuple[SiteViewInstalled, str]] = {}
    for site in sorted(history.views):
        before = None
        for row, entry in history.views[site]:
            account.exercised |= {"SITES", "QUORUM"}
            cluster = history.cluster_of(site)
            known, other = first.setdefault((cluster, entry.number), (entry, site))
            if known.servers != entry.servers:
                text = f"site view {entry.number} is {', '.join(known.servers)} at {other}, not so at {site}."
                account.accuse("SITES", (event_of(row),), text)
            if before is not None and entry.number != before + 1:
                account.accuse("SITES", (event_of(row),), f"{site} goes from site view {before} to {entry.number}.")
            if site not in entry.servers:
                account.accuse("SITES", (event_of(row),), f"{site} installs site view {entry.number} without itself.")
            if 2 * len(entry.servers) <= len(cluster):
                account.accuse("QUORUM", (event_of(row),), f"site view {entry.number} has no majority.")
            before = entry.number


def _judge_once(history: History, account: Account) -> None:
    for process in sorted(history.told):
        seen: set[str] = set()
        for row, entry in history.told[process]:
            if not isinstance(entry, BroadcastDelivered):
                continue
            account.exercised.add("ONCE")
            if entry.message in seen:
                account.accuse("ONCE", (event_of(row),), f"{process} was handed {entry.message} twice.")
            seen.add(entry.message)
            if (found := history.begun.get(entry.message)) is None:
                account.accuse("ONCE", (event_of(row),), f"nobody sent {entry.message}, which {process} was handed.")
            elif found[1].digest != entry.digest or found[1].origin != entry.origin:
                account.accuse("ONCE", (event_of(row), event_of(found[0])), f"{entry.message} is not as it was sent.")
            elif entry.primitive != "gbcast" and process not in found[1].destinations:
                account.accuse("ONCE", (event_of(row),), f"{entry.message} was not addressed to {process}.")


def _judge_views(history: History, account: Account) -> None:
    first: dict[tuple[str, int], tuple[GroupViewInstalled, str]] = {}
    for process in sorted(history.told):
        last: dict[str, int] = {}
        for row, entry in history.told[process]:
            if not isinstance(entry, GroupViewInstalled):
                continue
            account.exercised.add("VIEWS")
            known, other = first.setdefault((entry.pgroup, entry.number), (entry, process))
            if known.servers != entry.servers:
                text = f"view {entry.number} of {entry.pgroup} differs at {other} and {process}."
                account.accuse("VIEWS", (event_of(row),), text)
            if entry.number <= last.get(entry.pgroup, 0):
                account.accuse("VIEWS", (event_of(row),), f"views of {entry.pgroup} do not rise at {process}.")
            if process not in entry.servers:
                account.accuse("VIEWS", (event_of(row),), f"{process} is not in its view of {entry.pgroup}.")
            last[entry.pgroup] = entry.number


def _judge_dead(history: History, account: Account) -> None:
    for process in sorted(history.told):
        failed: dict[str, set[str]] = {}  # by group
        for row, entry in history.told[process]:
            if isinstance(entry, GroupViewInstalled):
                failed.setdefault(entry.pgroup, set()).update(entry.failed)
                if entry.failed:
                    account.exercised.add("DEAD")
            elif isinstance(entry, GroupLeft):
                failed.pop(entry.pgroup, None)
            elif any(entry.origin in each for each in failed.values()):
                text = f"{process} was handed {entry.message} behind the failure of {entry.origin}."
                account.accuse("DEAD", (event_of(row),), text)


def _judge_rejected(history: History, account: Account) -> None:
    _judge_addresses(history, account)
    for message in sorted(history.rejected):
        account.exercised.add("REJECTED")
        begun = history.begun.get(message)
        if begun is not None and not begun[1].outside and history.survives(begun[1].origin):
            text = f"{message} was rejected, though a member of its group sent it."
            account.accuse("REJECTED", (event_of(history.rejected[message][0][0]),), text)
        rejecting = [entry.site for _, entry in history.rejected[message] if history.survives(entry.site)]
        for process in sorted(history.told):
            if not rejecting or not history.survives(process):
                continue
            for row, entry in history.told[process]:
                if isinstance(entry, BroadcastDelivered) and entry.message == message:
                    text = f"{message} was rejected at {rejecting[0]} and handed to {process}."
                    account.accuse("REJECTED", (event_of(row), event_of(history.rejected[message][0][0])), text)


def _judge_addresses(history: History, account: Account) -> None:
    """Whoever is handed a message in a view could know that all its members are addressed."""
    for process in sorted(history.told):
        views: dict[str, tuple[str, ...]] = {}
        for row, entry in history.told[process]:
            if isinstance(entry, GroupViewInstalled):
                views[entry.pgroup] = entry.servers
            elif (
                isinstance(entry, BroadcastDelivered) and entry.primitive != "gbcast" and entry.message in history.begun
            ):
                missed = set(views.get(entry.pgroup, ())) - set(history.begun[entry.message][1].destinations)
                if missed:
                    text = (
                        f"{entry.message} was handed to {process} in a view with {min(missed)}, who is not addressed."
                    )
                    account.accuse("REJECTED", (event_of(row),), text)


def _judge_atomic(history: History, account: Account) -> None:
    """Owed: what survivors were handed, and what its senders had been handed or sent before they sent it."""
    handed, seen_by = _handed(history)
    owed: dict[str, None] = {}
    stack = [message for process in sorted(handed) if history.survives(process) for message in sorted(handed[process])]
    past: dict[str, list[str]] = {}
    for rows in history.said.values():
        for place, (_, entry) in enumerate(rows):
            if isinstance(entry, BroadcastBegun):
                past[entry.message] = [other.message for _, other in rows[:place]]
    while stack:
        message = stack.pop()
        if message not in owed:
            owed[message] = None
            stack += past.get(message, [])
    for message in owed:
        if message not in history.begun or message in history.rejected:
            continue
        row, begun = history.begun[message]
        if begun.primitive == "gbcast":
            continue
        account.exercised.add("ATOMIC")
        for process in begun.destinations:
            if not history.survives(process) or message in handed[process]:
                continue
            if _is_behind(history, process, begun.pgroup, seen_by.get(message, {}).get(process, set())):
                account.accuse("ATOMIC", (event_of(row),), f"{message} never came to {process}.")
        if message not in seen_by and _is_owed_unseen(history, begun):
            account.accuse("ATOMIC", (event_of(row),), f"{message} came to nobody, but its sender was heard later.")


def _is_behind(history: History, process: str, group: str, witnesses: set[str]) -> bool:
    """Whether it was a member where the message has its place: these were handed it in a view with that process.

    One that failed says nothing of a process that left when it knew that: see ISIS-GBCAST.
    """
    if (process, group) not in history.left:
        return bool(witnesses)
    row, number = history.left[process, group]
    return any(history.survives(each) or not history.knew_failed(process, row, number, each) for each in witnesses)


def _is_owed_unseen(history: History, begun: BroadcastBegun) -> bool:
    """A member sent it to members of which one is there to the end."""
    members = _members_at_end(history)
    stays = [each for each in begun.destinations if history.survives(each) and begun.pgroup in members.get(each, ())]
    return not begun.outside and begun.origin in begun.destinations and bool(stays)


def _handed(history: History) -> tuple[dict[str, set[str]], dict[str, dict[str, set[str]]]]:
    """What each process was handed; and of each message by member, who was handed it in a view with that member."""
    handed: dict[str, set[str]] = {}
    seen_by: dict[str, dict[str, set[str]]] = {}
    for process, rows in history.told.items():
        mine = handed.setdefault(process, set())
        views: dict[str, tuple[str, ...]] = {}
        for _, entry in rows:
            if isinstance(entry, GroupViewInstalled):
                views[entry.pgroup] = entry.servers
            elif isinstance(entry, BroadcastDelivered):
                mine.add(entry.message)
                for member in views.get(entry.pgroup, ()):
                    seen_by.setdefault(entry.message, {}).setdefault(member, set()).add(process)
    return handed, seen_by


def _members_at_end(history: History) -> dict[str, set[str]]:
    """The groups that each process has been in without ever leaving."""
    members: dict[str, set[str]] = {}
    for process, rows in history.told.items():
        left = {entry.pgroup for _, entry in rows if isinstance(entry, GroupLeft)}
        members[process] = {entry.pgroup for _, entry in rows if isinstance(entry, GroupViewInstalled)} - left
    return members


def _judge_bounded(history: History, account: Account) -> None:
    for site in sorted(history.kept):
        row, kept = history.kept[site]
        if history.survives(site):
            account.exercised.add("BOUNDED")
            if kept.ids or kept.buffered or kept.listed:
                text = f"{site} keeps {kept.ids} ids, {kept.buffered} messages and {kept.listed} of a list."
                account.accuse("BOUNDED", (event_of(row),), text)
