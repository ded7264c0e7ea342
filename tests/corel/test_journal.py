"""Writing: what is durable when, restarts in the middle, checkpoints, damage."""

from __future__ import annotations

import pytest

from isotone.core.contract import PersistFailed, Started, Stop, Storage, StoredLog
from isotone.core.errors import LocalProtocolError
from isotone.corel.checkpoint import checkpoint_of
from isotone.corel.ledger import Ledger
from isotone.corel.quorum import History, Primary
from isotone.corel.records import Lived, decode_record, encode_record
from tests.corel.cluster import Cluster, joined


def busy(checkpoint_records: int = 4_096) -> Cluster:
    """Some views, messages of all colours."""
    cluster = Cluster("a", "b", "c", checkpoint_records=checkpoint_records)
    for members in ("abc", "ab", "abc"):
        cluster.view(*members)
        cluster.run()
        for name in members:
            cluster.append(name, name.encode() * 5)
        cluster.run()
    cluster.append("b", b"yellow")
    cluster.step("a")
    return cluster


def ledger_of(log: list[bytes], first: int = 1) -> Ledger:
    ledger = Ledger(History(Primary(0, ("a", "b", "c"))))
    ledger.restore(StoredLog(first, tuple(log)))
    return ledger


def test_a_restart_finds_what_was_written() -> None:
    cluster = busy()
    before = cluster["a"].replica.ledger
    after = ledger_of(cluster["a"].log)
    assert after.queue.yellow == before.queue.yellow and after.queue.end == before.queue.end
    assert (after.committed, after.attempted, after.life) == (before.committed, before.attempted, before.life)


def test_every_prefix_of_a_log_is_a_state() -> None:
    """A crash leaves a prefix: lines are in order and the queue is whole at each."""
    log = busy()["a"].log
    committed = 0
    for end in range(len(log) + 1):
        ledger = ledger_of(log[:end])
        queue = ledger.queue
        assert queue.forgotten <= queue.green <= queue.yellow <= queue.end
        assert ledger.committed >= committed
        committed = ledger.committed


def test_a_checkpoint_says_the_same_and_the_log_is_cut() -> None:
    cluster = joined_with_checkpoints()
    server = cluster["a"]
    assert server.first > 1 and len(server.log) < 60
    live = server.replica.ledger
    read = ledger_of(server.log, server.first)
    assert (read.queue.end, read.queue.green, read.life) == (live.queue.end, live.queue.green, live.life)
    assert read.queue.counters == live.queue.counters and 0 < read.queue.forgotten_records <= 40


def joined_with_checkpoints() -> Cluster:
    cluster = Cluster("a", "b", "c", checkpoint_records=8)
    cluster.view("a", "b", "c")
    for number in range(40):
        cluster.append("a", b"%d" % number)
        cluster.settle()
    return cluster


def test_a_torn_checkpoint_is_as_if_it_were_not_there() -> None:
    ledger = ledger_of(busy()["a"].log)
    log = busy()["a"].log
    parts = [encode_record(each) for each in checkpoint_of(ledger)]
    assert len(parts) == 3
    torn = ledger_of(log + parts[:2])
    assert torn.queue == ledger.queue
    gone_on = ledger_of([*log, *parts[:2], encode_record(Lived(2))])  # the next life began behind it
    assert gone_on.queue == ledger.queue and gone_on.life == 2


def test_a_damaged_log_stops_the_server() -> None:
    cluster = busy()
    replica = cluster.restart("a").replica
    actions = type(replica)(replica.settings, replica.session.daemon, b"a").handle(
        Started(0, Storage({}, {"log": StoredLog(1, (b"",), (1,))}))
    )
    (stop,) = actions
    assert isinstance(stop, Stop) and "damaged at 1" in stop.reason and "another server" in stop.reason


def test_a_record_of_no_server_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="not a record"):
        decode_record(b"\x93\x01\x02\x03")


def test_a_failed_write_stops_the_server() -> None:
    cluster = joined("a", "b", "c")
    (stop,) = cluster["a"].replica.handle(PersistFailed(0, 1, "disk failed"))
    assert isinstance(stop, Stop) and "disk failed" in stop.reason


def test_a_life_is_never_used_twice() -> None:
    cluster = joined("a", "b", "c")
    lives = [cluster.restart("a").replica.ledger.life for _ in range(3)]
    assert lives == [2, 3, 4]


def test_a_checkpoint_in_the_middle_of_a_recovery_says_what_came_of_it() -> None:
    """c gets what a and b ordered without it, in many parcels, and says all again between two of them."""
    cluster = joined("a", "b", "c", checkpoint_records=6)
    cluster.view("a", "b")
    cluster.view("c")
    cluster.run()
    for number in range(12):
        cluster.append("a", b"%d" % number + b"." * 30_000)
        cluster.run()
    cluster.view("a", "b", "c")
    firsts = set()
    while cluster["c"].lines[0] < 12:
        assert cluster.waiting("c") or cluster.waiting("a") or cluster.waiting("b")
        for name in "abc":
            cluster.step(name, min(1, cluster.waiting(name)))
        found = ledger_of(cluster["c"].log, cluster["c"].first)  # it may stop at any time
        assert found.queue.held == cluster["c"].replica.ledger.queue.held
        firsts.add((cluster["c"].first, cluster["c"].standing))
    assert [first for first, standing in firsts if first > 1 and standing == "priority"]
    cluster.restart("c")
    assert cluster["c"].lines[2] == 12
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["c"].replica.flow.is_primary and not cluster.report(stable=True).violations


def said_again(ledger: Ledger) -> Ledger:
    """As a server finds it that has nothing but the checkpoint."""
    found = Ledger(History(Primary(0, ("a", "b", "c"))))
    for record in checkpoint_of(ledger):
        found.apply(decode_record(encode_record(record)))
    return found


def test_a_checkpoint_says_every_field_of_the_ledger() -> None:
    """At every step of a log with all kinds of records, also while a recovery is under way."""
    cluster = joined("a", "b", "c")
    cluster.view("a", "b")
    cluster.view("c")
    cluster.run()
    cluster.append("c", b"of c")
    for number in range(5):
        cluster.append("a", b"%d" % number + b"." * 30_000)
        cluster.run()
    cluster.view("a", "b", "c")
    cluster.settle()
    ledger = Ledger(History(Primary(0, ("a", "b", "c"))))
    seen = set()
    for data in cluster["c"].log:
        ledger.apply(decode_record(data))
        ledger.queue.taken.clear()
        assert said_again(ledger) == ledger
        seen.add(type(decode_record(data)).__name__)
    assert {"Received", "Arranged", "Committed"} <= seen
