"""What a daemon still holds of a daemon view that ended, small enough to be told to everybody.

Of each site it says up to which sequence everything is *settled*, that is at or below the daemon's agreed line, so
that nothing is owed to it there, with or without content; which sequences it has with content, settled or not; and the
highest sequence that it knows to exist. Metadata above the line counts as known, not as content.

Bounds: runs are no more than the flow windows of all sites allow, and a holding travels in as many pieces as it needs.
Of each kind it has at most `RUNS_MAX`, more than windows of the usual size hold. When there would be more, the runs
that were settled are left out first, then the highest: the daemon forgets what it does not claim, as if it had never
come.

Implements: [Spread 6.1.9], the fields of STATETRANS that concern messages. Deviations: D-holding runs of sequences
instead of the highest sequence with a list of missing messages, because content may be missing where metadata came.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import SEQUENCE_MAX

RUNS_MAX = 500_000  # of content, and of metadata

Run = tuple[int, int]
"""First and last of consecutive sequences."""


class SiteHolding(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """One site's stream. The tuples alternate: how many sequences are not there, how many are.

    ``metadata`` are those above ``settled`` whose metadata is here without content.
    """

    settled: int
    known: int
    content: tuple[int, ...] = ()
    metadata: tuple[int, ...] = ()


class Holding(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Everything at one daemon. Whatever has a time up to ``committed_line`` and is there, it will deliver."""

    agreed_line: int
    stable_line: int
    committed_line: int
    lamport: int
    sites: tuple[SiteHolding, ...]


# --- runs: ascending, apart from each other --------------------------------------------------------------------------


def runs_of(sequences: Iterable[int]) -> list[Run]:
    """Ascending sequences as runs."""
    out: list[Run] = []
    for sequence in sequences:
        if out and out[-1][1] == sequence - 1:
            out[-1] = (out[-1][0], sequence)
        else:
            out.append((sequence, sequence))
    return out


def united(*many: Sequence[Run]) -> list[Run]:
    """What stands in any of them."""
    out: list[Run] = []
    for first, last in sorted(run for runs in many for run in runs):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return out


def without(runs: Sequence[Run], others: Sequence[Run]) -> list[Run]:
    """What stands in the first only."""
    out: list[Run] = []
    place = 0
    for first, last in runs:
        while place < len(others) and others[place][1] < first:
            place += 1
        at = place
        while at < len(others) and others[at][0] <= last:
            if first < others[at][0]:
                out.append((first, others[at][0] - 1))
            first = others[at][1] + 1
            at += 1
        if first <= last:
            out.append((first, last))
    return out


def shared(runs: Sequence[Run], others: Sequence[Run]) -> list[Run]:
    """What stands in both."""
    return without(runs, without(runs, others))


def through(last: int) -> list[Run]:
    """Everything up to here."""
    return [(1, last)] if last else []


def run_around(runs: Sequence[Run], sequence: int) -> Run | None:
    """The run in which a sequence stands."""
    place = bisect_right(runs, (sequence, SEQUENCE_MAX))
    return runs[place - 1] if place and sequence <= runs[place - 1][1] else None


def contains(runs: Sequence[Run], sequence: int) -> bool:
    """Whether a sequence stands in them."""
    return run_around(runs, sequence) is not None


# --- the wire's form -------------------------------------------------------------------------------------------------


def packed(runs: Sequence[Run]) -> tuple[int, ...]:
    """Runs as they are told."""
    out: list[int] = []
    end = 0
    for first, last in runs:
        out += (first - 1 - end, last - first + 1)
        end = last
    return tuple(out)


def unpacked(told: tuple[int, ...], *, known: int) -> list[Run]:
    """The inverse of `packed`, checked."""
    if len(told) % 2:
        raise RemoteProtocolError("a holding with half a run")
    out: list[Run] = []
    end = 0
    for place in range(0, len(told), 2):
        absent, there = told[place : place + 2]
        if absent < (place > 0) or there < 1:
            raise RemoteProtocolError("a holding with an empty run")
        out.append((end + absent + 1, end + absent + there))
        end += absent + there
    if end > known:
        raise RemoteProtocolError("a holding of more than is known to exist")
    return out


def coarse(runs: Sequence[Sequence[Run]], settled: Sequence[int], limit: int = RUNS_MAX) -> list[list[Run]]:
    """The runs of all sites, with fewer of them if they are too many."""
    out = [list(each) for each in runs]
    excess = sum(map(len, out)) - limit
    for each, line in zip(out, settled):
        below = sum(last <= line for _, last in each)
        cut = max(0, min(below, excess))
        del each[:cut]
        excess -= cut
    while excess > 0:
        longest = max(out, key=len)
        longest.pop()
        excess -= 1
    return out


def check_holding(holding: Holding, *, sites: int) -> None:
    """Refuse whatever no daemon of the view can have told; runs are checked as they are unpacked."""
    if len(holding.sites) != sites:
        raise RemoteProtocolError(f"a holding of {len(holding.sites)} sites in a view of {sites}")
    if sum(len(site.content) + len(site.metadata) for site in holding.sites) > 4 * RUNS_MAX:
        raise RemoteProtocolError(f"a holding of more than {RUNS_MAX} runs")
    times = (holding.agreed_line, holding.stable_line, holding.committed_line, holding.lamport)
    if not all(0 <= each <= SEQUENCE_MAX for each in times) or holding.stable_line > holding.agreed_line:
        raise RemoteProtocolError("a holding with lines that contradict each other")
    if not all(0 <= site.settled <= site.known <= SEQUENCE_MAX for site in holding.sites):
        raise RemoteProtocolError("a holding that is settled above what is known to exist")
