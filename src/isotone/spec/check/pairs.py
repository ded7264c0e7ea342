"""Two agreed messages in different orders at two processes, whatever their stamps say.

Only bundles whose stamps were in trouble can be in two orders. Of all messages those are looked at pair by pair that no
single order of everything explains: taking away what is first everywhere, again and again, and then what is last
everywhere, leaves only what is in a circle or between two. So many bundles of one stamp cost no more than others.

Implements: [Spread 2.13.2], its second half. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable

from isotone.core.services import Service
from isotone.spec.check.records import Bundle, Piece, Process
from isotone.spec.check.tally import Tally

Rows = list[list[Piece]]
"""What a process delivered, row by row."""


def judge_pairs(tally: Tally, held: Iterable[Bundle], troubled: Iterable[Bundle]) -> None:
    """Total order by what was delivered, among what is held, where one of the two is in trouble."""
    suspects = {piece: None for bundle in troubled if bundle.service >= Service.AGREED for piece in bundle.pieces}
    if not suspects:
        return
    agreed = [piece for bundle in held if bundle.service >= Service.AGREED for piece in bundle.pieces]
    left = _without_first(dict.fromkeys(piece for piece in agreed if len(piece.by) > 1), forward=True)
    left = _without_first(left, forward=False)
    for one in suspects:
        for other in left if one in left else ():
            if other is not one:
                _judge_pair(tally, one, other)


def _without_first(pieces: dict[Piece, None], *, forward: bool) -> dict[Piece, None]:
    """Take away, as long as there is one, a piece that is in the first row of all who delivered it (or in the last)."""
    left = dict(pieces)
    rows = _rows(pieces, forward=forward)
    first_at = dict.fromkeys(pieces, 0)  # at how many it is in the first row
    ready: list[Piece] = []

    def uncover(process: Process) -> None:
        mine = rows[process]
        while mine and not any(piece in left for piece in mine[-1]):
            mine.pop()
        for piece in mine[-1] if mine else ():
            if piece in left:
                first_at[piece] += 1
                if first_at[piece] == len(piece.by):
                    ready.append(piece)

    for process in rows:
        uncover(process)
    while ready:
        piece = ready.pop()
        del left[piece]
        for process in piece.by:
            if not any(other in left for other in rows[process][-1]):
                uncover(process)
    return left


def _rows(pieces: Iterable[Piece], *, forward: bool) -> dict[Process, Rows]:
    """By process, the first row at the end of the list."""
    by_index: dict[Process, dict[int, list[Piece]]] = {}
    for piece in pieces:
        for process, index in piece.by.items():
            by_index.setdefault(process, {}).setdefault(index, []).append(piece)
    return {process: [found[index] for index in sorted(found, reverse=forward)] for process, found in by_index.items()}


def _judge_pair(tally: Tally, one: Piece, other: Piece) -> None:
    common = [process for process in one.by if process in other.by and one.by[process] != other.by[process]]
    ahead = [process for process in common if one.by[process] < other.by[process]]
    behind = [process for process in common if one.by[process] > other.by[process]]
    for p in ahead:
        for q in behind:
            rows = [process.event(piece.by[process]) for process in (p, q) for piece in (one, other)]
            tally.accuse("2.13.2", rows, _two_orders(p, q, one, other))


def _two_orders(p: Process, q: Process, one: Piece, other: Piece) -> str:
    if p.text > q.text:
        p, q, one, other = q, p, other, one
    return f"{p.text} delivered {one} before {other}, {q.text} the other way round; both are agreed."
