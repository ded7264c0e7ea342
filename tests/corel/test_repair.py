"""Whatever stands in a log is among the records that may follow what stands before it."""

from __future__ import annotations

from isotone.corel.ledger import Ledger
from isotone.corel.quorum import Majority, Primary
from isotone.corel.records import Founded, Lived, Transferred, decode_record
from isotone.corel.repair import candidates_for
from tests.corel.cluster import Cluster, joined


def ordered() -> Cluster:
    cluster = joined("a", "b", "c", snapshots=True)
    for number in range(6):
        cluster.append("abc"[number % 3], b"record %d" % number)
        cluster.run()
    cluster.settle()
    return cluster


def unknown_in(cluster: Cluster, name: str, primaries: tuple[Primary, ...] = ()) -> list[str]:
    """Kinds of records that nobody would find again, but for how the log began: those are rare."""
    queue = cluster["a"].replica.ledger.queue
    ledger = Ledger.founded("abc", Majority(tuple("abc")))
    unknown = []
    for data in cluster[name].log:
        record = decode_record(data)
        messages = queue.between(min(ledger.queue.end, queue.green), queue.green)
        begins = isinstance(record, Founded) or (isinstance(record, Lived) and bool(record.identity))
        if not begins and data not in candidates_for(ledger, messages, primaries):
            unknown.append(type(record).__name__)
        ledger.apply(record)
    return unknown


def test_every_record_of_an_ordinary_log_is_among_its_candidates() -> None:
    cluster = ordered()
    assert unknown_in(cluster, "c") == []
    cluster.view("a", "c")
    cluster.settle()
    assert unknown_in(cluster, "c") == []


def test_what_a_learner_fetched_is_found_again_with_the_primaries_of_its_peers() -> None:
    cluster = ordered()
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    cluster.settle()
    assert any(isinstance(decode_record(data), Transferred) for data in cluster["x"].log)
    primaries = (cluster["a"].replica.ledger.history.last, Primary(1, ("a", "b", "c")))
    assert "Transferred" not in unknown_in(cluster, "x", primaries)


def test_messages_that_no_peer_has_are_not_made_up() -> None:
    cluster = ordered()
    ledger = Ledger.founded("abc", Majority(tuple("abc")))
    received = [data for data in cluster["c"].log if type(decode_record(data)).__name__ == "Received"]
    assert received and not set(received) & set(candidates_for(ledger, ()))
