"""Every checker of the ISIS toolkit over one run. No order across processes is assumed.

Implements: [DESIGN 4], [ISIS 3.7], [ISIS 5]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TypeVar

from isotone.spec.check.account import Account, CollectedRows
from isotone.spec.toolkit_properties import TOOLKIT_PROPERTIES
from isotone.spec.verdicts import EventId, State, Verdict
from isotone.trace.events import Entry, Row
from isotone.trace.toolkit import (
    ActionAnswered,
    ActionAsked,
    ActionBegun,
    ActionDone,
    CopyStarted,
    CopyStopped,
    LockFreed,
    LockTaken,
    MemberLeft,
    MemberReady,
    PostMade,
    PostSeen,
    ProcessBegan,
    StateCounted,
)

ENTRIES = (
    ProcessBegan,
    MemberReady,
    MemberLeft,
    StateCounted,
    ActionAsked,
    ActionBegun,
    ActionDone,
    ActionAnswered,
    LockTaken,
    LockFreed,
    PostMade,
    PostSeen,
    CopyStarted,
    CopyStopped,
)
CAUSAL = "causal"
_Entry = TypeVar("_Entry", bound=Entry)


class ToolkitChecker(CollectedRows):
    """Judges one run."""

    def finish(
        self, *, lossy: bool, liveness: State | None, components: tuple[tuple[str, ...], ...]
    ) -> dict[str, Verdict]:
        """A verdict for each property."""
        account = Account(TOOLKIT_PROPERTIES)
        if not lossy:
            _Judge(self._rows, account).judge(live=liveness is None and len(components) <= 1)
        return account.verdicts(lossy=lossy or self._is_torn, liveness=liveness)


def _event(row: Row) -> EventId:
    return (row.node, row.incarnation, row.index)


def is_nested(message: str) -> bool:
    """Whether an action asked it: then a cohort may ask it again."""
    return "/" in message.partition("@")[2]


class _Judge:
    def __init__(self, rows: list[Row], account: Account) -> None:
        self._rows, self._account = rows, account
        self._eras: dict[tuple[str, str], str] = {}  # what each process is in, while rows are gone through
        last = {
            row.node: row.entry.process for row, _ in self._all(ProcessBegan) if isinstance(row.entry, ProcessBegan)
        }
        self._surviving = set(last.values())

    def _all(self, kind: type[_Entry]) -> Iterator[tuple[Row, _Entry]]:
        for row in self._rows:
            if isinstance(row.entry, kind):
                yield row, row.entry

    def judge(self, *, live: bool) -> None:
        """All of it."""
        self._judge_equal()
        self._judge_eras()
        self._judge_once()
        self._judge_locks()
        self._judge_boards()
        self._judge_causal_boards()
        self._judge_copies()
        if live:
            self._judge_answered()
            self._judge_posted()

    def _judge_equal(self) -> None:
        first: dict[tuple[str, int, str], tuple[Row, StateCounted]] = {}
        for row, entry in self._all(StateCounted):
            known_row, known = first.setdefault((entry.pgroup, entry.number, entry.instant), (row, entry))
            if known.process == entry.process:
                continue
            self._account.exercised.add("EQUAL")
            if known.digest != entry.digest:
                text = (
                    f"{known.process} and {entry.process} have different states of {entry.pgroup} "
                    f"at view {entry.number} {entry.instant}."
                )
                self._account.accuse("EQUAL", (_event(known_row), _event(row)), text)

    def _judge_eras(self) -> None:
        left = {(entry.process, entry.pgroup) for _, entry in self._all(MemberLeft)}
        ready = list(self._all(MemberReady))
        for row, entry in ready:
            if entry.how not in {"founded", "checkpoint"}:
                continue
            for other_row, other in ready:
                if other.pgroup != entry.pgroup or other.number >= entry.number:
                    continue
                self._account.exercised.add("ERA")
                if other.process in self._surviving and (other.process, other.pgroup) not in left:
                    text = f"{entry.pgroup} begins anew at view {entry.number}, though {other.process} has its state."
                    self._account.accuse("ERA", (_event(other_row), _event(row)), text)

    def _judge_once(self) -> None:
        asked = {entry.message: entry.process for _, entry in self._all(ActionAsked)}
        results: dict[
            tuple[str, str], tuple[Row, int]
        ] = {}  # by message and era: a group without its state does it anew
        digests: dict[str, set[int]] = {}  # of those that survive, if the group had one era; else of all
        eras: dict[str, set[str]] = {}
        for _, ready in self._all(MemberReady):
            eras.setdefault(ready.pgroup, set()).add(ready.era)
        taken: set[tuple[str, str, str]] = set()
        for row in self._rows:
            if isinstance(row.entry, MemberReady):
                self._eras[row.entry.process, row.entry.pgroup] = row.entry.era
                taken = {each for each in taken if each[:2] != (row.entry.process, row.entry.pgroup)}
            if not isinstance(row.entry, ActionDone):
                continue
            entry = row.entry
            key = (entry.process, entry.pgroup, entry.message)
            if key in taken:
                self._account.accuse("ONCE", (_event(row),), f"{entry.process} took {entry.message} over twice.")
            taken.add(key)
            if entry.process in self._surviving or len(eras.get(entry.pgroup, ())) > 1:
                digests.setdefault(entry.message, set()).add(entry.digest)
            if entry.process not in self._surviving:
                continue  # what it alone took over never happened
            era = self._eras.get((entry.process, entry.pgroup), "")
            known_row, digest = results.setdefault((entry.message, era), (row, entry.digest))
            if digest != entry.digest:
                text = f"{entry.message} has two results."
                self._account.accuse("ONCE", (_event(known_row), _event(row)), text)
        self._judge_answers(set(asked), digests)

    def _judge_answers(self, asked: set[str], digests: dict[str, set[int]]) -> None:
        answered: set[str] = set()
        for row, entry in self._all(ActionAnswered):
            self._account.exercised.add("ONCE")
            message = entry.message
            if message not in asked or (message in answered and not is_nested(message)):
                self._account.accuse("ONCE", (_event(row),), f"{message} was answered twice, or never asked.")
            answered.add(message)
            if entry.process in self._surviving and entry.digest not in digests.get(message, {entry.digest}):
                self._account.accuse("ONCE", (_event(row),), f"the answer to {message} is not its result.")

    def _judge_answered(self) -> None:
        answered = {entry.message for _, entry in self._all(ActionAnswered)}
        for row, entry in self._all(ActionAsked):
            if entry.process in self._surviving and not is_nested(entry.message):
                self._account.exercised.add("ANSWERED")
                if entry.message not in answered:
                    self._account.accuse("ANSWERED", (_event(row),), f"{entry.message} was never answered.")

    def _judge_locks(self) -> None:
        writers: dict[tuple[str, str, str], dict[int, tuple[Row, LockTaken]]] = {}
        took: dict[tuple[str, str, str], tuple[Row, LockTaken, str]] = {}
        reads: list[tuple[Row, str, LockTaken, int]] = []
        for row in self._rows:
            entry = row.entry
            if isinstance(entry, MemberReady):
                self._eras[entry.process, entry.pgroup] = entry.era
            elif isinstance(entry, LockTaken):
                era = self._eras.get((entry.process, entry.pgroup), "")
                took[entry.process, entry.item, entry.origin] = (row, entry, era)
                if entry.writes:
                    self._take_writer(writers.setdefault((entry.pgroup, entry.item, era), {}), row, entry)
            elif isinstance(entry, LockFreed) and not entry.writes:
                found = took.pop((entry.process, entry.item, entry.origin), None)
                if found is not None:
                    reads.append((found[0], found[2], found[1], entry.place))
        for row, era, entry, until in reads:
            for place, (other_row, other) in writers.get((entry.pgroup, entry.item, era), {}).items():
                self._account.exercised.add("EXCLUDE")
                if entry.place <= place < until and other.origin != entry.origin:
                    text = f"{other.origin} wrote {entry.item} while {entry.origin} read it."
                    self._account.accuse("EXCLUDE", (_event(row), _event(other_row)), text)

    def _take_writer(self, known: dict[int, tuple[Row, LockTaken]], row: Row, entry: LockTaken) -> None:
        other_row, other = known.setdefault(entry.place, (row, entry))
        if len(known) > 1:
            self._account.exercised.add("EXCLUDE")
        if other.origin != entry.origin:
            text = f"{other.origin} and {entry.origin} both write {entry.item} from place {entry.place}."
            self._account.accuse("EXCLUDE", (_event(other_row), _event(row)), text)

    def _judge_boards(self) -> None:
        eras: dict[tuple[str, str], str] = {}
        first: dict[tuple[str, str, str, int], tuple[Row, PostSeen]] = {}
        for row in self._rows:
            entry = row.entry
            if isinstance(entry, MemberReady):
                eras[entry.process, entry.pgroup] = entry.era
            elif isinstance(entry, PostSeen) and entry.place and entry.process in self._surviving:
                era = eras.get((entry.process, entry.pgroup), "")
                known_row, known = first.setdefault((entry.pgroup, era, entry.board, entry.place), (row, entry))
                if known.process != entry.process:
                    self._account.exercised.add("BOARD")
                if known.message != entry.message:
                    text = f"{known.message} and {entry.message} both stand at place {entry.place} of {entry.board}."
                    self._account.accuse("BOARD", (_event(known_row), _event(row)), text)

    def _judge_causal_boards(self) -> None:
        pasts: dict[tuple[str, str], list[str]] = {}  # by process and group: causal posts that it saw or made
        made: dict[str, tuple[tuple[str, str], int]] = {}  # by post: its poster's, and how many of them came before
        seen: dict[tuple[str, str], dict[str, tuple[int, Row]]] = {}  # by process and group: where each post stands
        for row in self._rows:
            entry = row.entry
            if not isinstance(entry, PostMade | PostSeen) or entry.level != CAUSAL:
                continue
            key = (entry.process, entry.pgroup)
            if isinstance(entry, PostMade):
                made[entry.message] = (key, len(pasts.setdefault(key, [])))
            elif entry.process in self._surviving:
                known = seen.setdefault(key, {})
                known.setdefault(entry.message, (len(known), row))
            pasts.setdefault(key, []).append(entry.message)
        for (process, group), places in seen.items():
            for poster in [key for key in pasts if key[1] == group]:
                last = list(accumulate((places.get(post, (-1,))[0] for post in pasts[poster]), max, initial=-1))
                for post, (place, row) in places.items():
                    maker, count = made.get(post, (("", ""), 0))
                    if maker != poster:
                        continue
                    before = last[count]
                    if before >= 0 and poster[0] != process:
                        self._account.exercised.add("CAUSAL")
                    if before > place:
                        late = next(each for each, known in places.items() if known[0] == before)
                        text = f"{process} sees {post} before {late}, which {poster[0]} knew when it made that post."
                        self._account.accuse("CAUSAL", (_event(row), _event(places[late][1])), text)

    def _judge_posted(self) -> None:
        left = {(entry.process, entry.pgroup) for _, entry in self._all(MemberLeft)}
        seen = {(entry.process, entry.message) for _, entry in self._all(PostSeen)}
        for row, entry in self._all(PostMade):
            if entry.process in self._surviving and (entry.process, entry.pgroup) not in left:
                self._account.exercised.add("POSTED")
                if (entry.process, entry.message) not in seen:
                    self._account.accuse(
                        "POSTED", (_event(row),), f"{entry.process} never saw its post {entry.message}."
                    )

    def _judge_copies(self) -> None:
        running: set[tuple[str, str]] = set()
        for row in self._rows:
            entry = row.entry
            if not isinstance(entry, CopyStarted | CopyStopped):
                continue
            self._account.exercised.add("COPIES")
            key, starts = (entry.process, entry.program), isinstance(entry, CopyStarted)
            if (key in running) == starts:
                self._account.accuse("COPIES", (_event(row),), f"{entry.process} begins or ends {entry.program} twice.")
            (running.add if starts else running.discard)(key)
