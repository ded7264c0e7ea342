"""What a damaged record of a recovery may have said of primaries, lines, order and servers.

A recovery writes what its members told each other, and they may know other things now. But the order became theirs,
numbers only rise, a primary is some of the servers, and what the log says later follows from what is missing.

Implements: docs/protocols/corel.md, Durability. Deviations: none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, combinations, product

from isotone.corel import records as r
from isotone.corel.configuration import Configuration
from isotone.corel.identities import learner_life
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message
from isotone.corel.proposal import Level, Proposal
from isotone.corel.quorum import History, Primary
from isotone.corel.repair_messages import array_bytes, size_of

HISTORIES_MAX = 20_000
SUBSETS_MAX = 10  # servers whose subsets are tried as a primary
VOTERS_MAX = 7  # servers whose votes on a proposal are tried
NUMBERS, NUMBER_BYTES_MAX = 6, 9  # in an arrangement; of one number
Forcing = tuple[int, Configuration]


def primaries_in(records: Iterable[r.Record]) -> Iterator[Primary]:
    """Those that records name."""
    for record in records:
        if isinstance(record, r.Committed | r.Established):
            yield record.primary
        elif isinstance(record, r.Arranged | r.CaughtUp | r.Checkpoint):
            yield from (record.history.last, *record.history.pending)


def servers_of(ledger: Ledger, primaries: Iterable[Primary]) -> tuple[str, ...]:
    """All that may have been in a primary: whoever votes or will, and whoever sent something or was in another."""
    queue = ledger.queue
    named = {server for each in (queue.configuration, *queue.coming()) for server in each.servers}
    named |= {origin.server for origin in queue.counters} | {server for each in primaries for server in each.servers}
    return tuple(sorted(named))


def subsets(servers: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Of the first servers, the largest first."""
    few = servers[:SUBSETS_MAX]
    for size in range(len(few), 0, -1):
        yield from combinations(few, size)


def histories(
    ledger: Ledger, primaries: Sequence[Primary], top: int, forced: Iterable[tuple[str, ...]] = ()
) -> Iterator[History]:
    """What some servers together may have known, the likely first; ``top``: no number was above it.

    ``forced``: the servers of forced configurations.
    """
    now = ledger.history
    known = sorted({now.last, *now.pending, *primaries}, key=lambda each: (each.number, each.servers))
    yield now
    for servers, number in product(forced, range(now.last.number, top + 1)):
        yield History(Primary(number, servers), (), True)
    for last in (each for each in known if each.number >= now.last.number):
        behind = [each for each in known if each.number > last.number]
        yield History(last)
        yield from (History(last, (each,)) for each in behind)
        yield History(last, tuple(each for each in now.pending if each.number > last.number))
        yield from (History(last, pair) for pair in combinations(behind, 2) if pair[0].number < pair[1].number)
    members = list(subsets(servers_of(ledger, known)))
    for number, servers in product(range(now.last.number + 1, top + 1), members):
        primary = Primary(number, servers)
        yield History(primary, tuple(each for each in now.pending if each.number > number))
        yield History(now.last, (*(each for each in now.pending if each.number < number), primary))


def few_histories(
    ledger: Ledger, primaries: Sequence[Primary], top: int, forced: Iterable[tuple[str, ...]] = ()
) -> list[History]:
    """Each once, and not too many."""
    found: dict[History, None] = {}
    for history in histories(ledger, primaries, top, forced):
        found[history] = None
        if len(found) >= HISTORIES_MAX:
            break
    return list(found)


# --- Steps 3 and 6 ----------------------------------------------------------------------------------------------------


def arrangements(
    ledger: Ledger, order: Sequence[Message], known: Sequence[History], length: int
) -> Iterator[r.Arranged]:
    """Lines and order as representatives had them: behind what is green here, the first of these messages."""
    names = [message.name for message in order]
    sizes = [0, *accumulate(map(size_of, names))]
    empty = History(Primary(0, ()))
    frame = len(r.encode_record(r.Arranged(0, 0, 0, (), empty))) - size_of(empty) - array_bytes(0) - NUMBERS
    for history in known:
        left = length - frame - size_of(history)  # for the names and the numbers
        first = bisect_left(sizes, left - array_bytes(len(names)) - NUMBERS * NUMBER_BYTES_MAX)
        for count in range(first, len(sizes)):
            numbers_size = left - array_bytes(count) - sizes[count]
            if numbers_size < NUMBERS:
                break
            named = tuple(names[:count])
            for numbers in _numbered(ledger, count, history, numbers_size):
                committed, green, yellow, context, applied, context_applied = numbers
                yield r.Arranged(committed, green, yellow, named, history, context, applied, context_applied)


def _numbered(ledger: Ledger, count: int, history: History, size: int) -> Iterator[tuple[int, ...]]:
    """All numbers of such a record that take so many bytes together."""
    green, yellow = ledger.queue.green, ledger.queue.green + count
    proposed = {0, ledger.applied} | ({ledger.proposal.number} if ledger.proposal is not None else set())
    committed_ones = sorted({0, ledger.committed, *_numbers(history)})
    for committed, level, applied in product(committed_ones, _levels(ledger, history), sorted(proposed)):
        left = size - sum(map(size_of, (committed, yellow, *level, applied)))
        if not size_of(green) <= left <= size_of(yellow):
            continue
        for line in range(yellow, green - 1, -1):
            if size_of(line) == left:
                yield committed, line, yellow, level[0], applied, level[1]


def _numbers(history: History) -> list[int]:
    return [each.number for each in (history.last, *history.pending)]


def _levels(ledger: Ledger, history: History) -> list[Level]:
    own = (ledger.context, ledger.context_applied)
    numbers = (0, ledger.committed, *_numbers(history))
    return list(dict.fromkeys([own, *product(numbers, sorted({0, own[1]}))]))


# --- growth, force, proposals -----------------------------------------------------------------------------------------


def catchings_up(ledger: Ledger, known: Sequence[History], length: int) -> Iterator[r.CaughtUp]:
    """What a server that caught up learned at last."""
    applied = sorted({0, ledger.applied, ledger.context_applied})
    for history, number in product(known, applied):
        for context in sorted({ledger.context, ledger.committed, *_numbers(history)}):
            found = r.CaughtUp(context, history, number)
            if len(r.encode_record(found)) == length:
                yield found


def forcings_in(records: Iterable[r.Record]) -> Iterator[Forcing]:
    """Fences that records name, with their servers."""
    for record in records:
        if isinstance(record, r.Forced):
            yield record.fence, record.configuration
        elif isinstance(record, r.Checkpoint) and record.knowledge is not None and record.knowledge.forced is not None:
            yield record.knowledge.fence, record.knowledge.forced


def beginnings(
    ledger: Ledger, configurations: Sequence[Configuration], later: Iterable[r.Record], identities: Sequence[bytes]
) -> Iterator[r.Lived | r.Founded]:
    """How the log began, and whose logs the others are, as its store, peers or later records know it."""
    known = dict(pair for each in (ledger.queue.configuration, *configurations) for pair in each.identities)
    for record in later:
        if isinstance(record, r.Founded):
            known |= dict(record.identities)
        elif isinstance(record, r.Checkpoint) and record.knowledge is not None:
            known |= dict(record.knowledge.configuration.identities)
    for identity in (*identities, *known.values()):
        yield r.Lived(ledger.life + 1, identity)
        yield r.Lived(learner_life(identity), identity)
    servers = ledger.queue.configuration.servers
    if set(servers) <= known.keys():
        yield r.Founded(tuple((server, known[server]) for server in servers))


def proposals_in(records: Iterable[r.Record]) -> Iterator[Proposal]:
    """Those that records name."""
    for record in records:
        if isinstance(record, r.Proposed | r.Applied | r.Committed) and record.proposal is not None:
            yield record.proposal


def voted(proposals: Iterable[Proposal], servers: Sequence[str]) -> Iterator[Proposal]:
    """Each with all votes that may have been known."""
    bare = dict.fromkeys(Proposal(*(getattr(each, name) for name in PROPOSED)) for each in proposals)
    for proposal, votes in product(bare, product("-ar", repeat=len(servers[:VOTERS_MAX]))):
        accepted = tuple(server for server, vote in zip(servers, votes, strict=False) if vote == "a")
        rejected = tuple(server for server, vote in zip(servers, votes, strict=False) if vote == "r")
        yield proposal.with_votes(accepted, rejected)


PROPOSED = [name for name in Proposal.__struct_fields__ if name not in {"accepted", "rejected"}]
