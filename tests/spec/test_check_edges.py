"""Late duplicates, refused requests, numbers at the end of their range: what the checkers once got wrong."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from isotone.core.errors import InputError
from isotone.spec.check import Checker, check
from isotone.spec.check.synthetic import Shape, Synthetic
from isotone.trace.events import Delivered, JoinRequested, Row, Sent
from isotone.trace.jsonl import JsonLines
from tests.spec.corruptions import renumbered

SHAPE = Shape(
    seed=1,
    bundles=300,
    nodes=3,
    clients_per_node=2,
    groups=2,
    messages_min=1,
    messages_max=2,
    change_every=1_000_000,
    lag_max=5,
    daemons=False,
)


def run() -> list[Row]:
    return list(Synthetic(SHAPE))


def behind(rows: list[Row], like: Row) -> int:
    return 1 + max(row.index for row in rows if (row.node, row.incarnation) == (like.node, like.incarnation))


@pytest.mark.parametrize("linger", [4, 64, 4096])
def test_a_duplicate_is_found_however_late_it_comes(linger: int) -> None:
    rows = run()
    first = next(row for row in rows if isinstance(row.entry, Delivered))
    again = Row(first.node, first.incarnation, behind(rows, first), 0, first.entry)
    checker = Checker(linger=linger)
    checker.feed_many([*rows, again])
    assert checker.finish().violations["EVS-2.5"].witness == (
        (first.node, first.incarnation, first.index),
        (first.node, first.incarnation, again.index),
    )


def test_two_sends_in_the_wrong_order_are_not_both_sent() -> None:
    """The later sequence was refused where it stands, so its deliveries are of something that was not sent."""
    rows = run()
    sends = [place for place, row in enumerate(rows) if isinstance(row.entry, Sent)]
    sender = rows[sends[0]].entry.client  # type: ignore[attr-defined]
    one, two = [place for place in sends if rows[place].entry.client == sender][:2]  # type: ignore[attr-defined]
    rows[one], rows[two] = (
        Row(rows[one].node, 1, rows[one].index, 0, rows[two].entry),
        Row(rows[two].node, 1, rows[two].index, 0, rows[one].entry),
    )
    assert "EVS-2.6" in check(rows).violations


def test_a_send_that_skips_sequences_was_refused_and_owes_nothing() -> None:
    rows = run()
    last = next(row for row in reversed(rows) if isinstance(row.entry, Sent))
    assert isinstance(last.entry, Sent)
    skipping = replace(last.entry, first_sequence=last.entry.first_sequence + 1000)
    refused = [*rows, Row(last.node, last.incarnation, behind(rows, last), 0, skipping)]
    assert check(refused).violations == {}
    joining = JoinRequested(last.entry.client, "#somebody#d1")
    assert check([*rows, Row(last.node, last.incarnation, behind(rows, last), 0, joining)]).violations == {}


@pytest.mark.parametrize("field", ["first_sequence", "lamport"])
def test_numbers_end_below_2_to_the_63(field: str) -> None:
    """Both engines read the same files, so a number that only one of them could hold is refused by the reader."""
    row = next(row for row in run() if isinstance(row.entry, Delivered))
    header = '{"isotone_trace": 1, "run": "r"}'
    plain = {
        "node": row.node,
        "kind": "deliver",
        "receivers": ["#a#d1#1#1"],
        "sender": "#b#d1#1#1",
        "first_sequence": 1,
        "service": "FIFO",
        "groups": ["g"],
        "lengths": [1, 1],
        "digests": [1, 2],
        "lamport": 1,
        "stamper": "d1#1",
    }
    for number, is_fine in ((2**63 - 2, True), (2**63, False)):
        text = str(plain | {field: number}).replace("'", '"')
        lines = JsonLines("x", [header, text])
        if is_fine:
            assert len(list(lines.rows())) == 1
        else:
            with pytest.raises(InputError, match=r"above|beyond"):
                list(lines.rows())


def test_a_view_of_too_high_an_epoch_is_refused() -> None:
    header = '{"isotone_trace": 1, "run": "r"}'
    view = f'{{"node": "d1", "kind": "stranssig", "daemon": "d1#1", "view": "{2**63}!d1#1"}}'
    with pytest.raises(InputError, match="above"):
        list(JsonLines("x", [header, view]).rows())


def test_the_run_itself_is_good() -> None:
    assert check(renumbered(run())).violations == {}
