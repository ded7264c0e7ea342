"""Appends under way: each is answered once, whatever becomes of its message."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.core.errors import IsotoneError
from isotone.core.ordered_log import Snapshot
from isotone.corel.events import AppendNamed, InstallSnapshot
from isotone.corel.message import Message, Origin
from isotone.host.answers import Maybe
from isotone.host.appends import Appends
from tests.host.replicas import replicas, run

X = Origin("x", 1)
Outcomes = list[int | IsotoneError]


def message(counter: int, *records: bytes) -> Message:
    return Message(X, counter, counter, records)


def test_what_a_snapshot_passed_over_is_answered_maybe_and_the_rest_stays_open() -> None:
    appends, told = Appends(), Outcomes()
    for deadline in (None, 100, None):
        appends.begin(told.append, deadline)
    appends.named((1, 2), message(1, b"one", b"two"))
    appends.named((3,), message(2, b"three"))
    appends.passed(lambda name: name == (X, 1), "passed")
    assert [(type(each), getattr(each, "message", "")) for each in told] == [(Maybe, "x.1:1")] * 2
    assert len(appends) == 1 and appends.next_deadline is None
    appends.greened(1, [message(1, b"one", b"two"), message(2, b"three")])
    assert told[2:] == [3] and not len(appends)


def test_a_deadline_is_kept_also_where_nobody_can_say_why(caplog: pytest.LogCaptureFixture) -> None:
    appends, told = Appends(), Outcomes()
    for deadline in (10, 20, 30):
        appends.begin(told.append, deadline)
    appends.named((1,), message(1, b"one"))

    def why(name: str) -> str:
        if name:
            raise AssertionError("a bug in the explanation")
        return "not sent"

    appends.expire(20, why)
    assert [(type(each), getattr(each, "message", "")) for each in told] == [(Maybe, "x.1:1"), (Maybe, "")]
    assert "a bug in the explanation" in str(told[0]) and "x.1:1" in caplog.text
    assert len(appends) == 1 and appends.next_deadline == 30


def test_a_server_that_learns_its_own_message_by_a_snapshot_answers_who_sent_it(tmp_path: Path) -> None:
    """A learner sends, is cut off, and finds its message in a state: no word of its position ever comes."""

    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log, told = group.logs["a"], Outcomes()
            queue = log.replica.ledger.queue
            await log.append(b"ordered, and forgotten")
            forgotten = queue.held[0]
            await log.append(b"ordered, and held")
            held = queue.held[1]
            await log.offer_snapshot(Snapshot(1, b"a state"))
            await log.until(lambda: queue.forgotten == 1)
            coming = Message(held.origin, held.counter + 1, held.lamport + 1, (b"coming",))
            for each in (forgotten, held, coming):
                log._on_named(AppendNamed((log._appends.begin(told.append, None),), each))
            log._on_install(InstallSnapshot(1, b"a state"))
            (answer,) = told
            assert isinstance(answer, Maybe) and answer.message == str(forgotten)
            assert "before a snapshot" in answer.reason and log.waiting_appends == 2

    run(main)
