"""State transfer: broken off between any two pieces, continued by another server; half states that are dropped."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from isotone.core.contract import TimerFired
from isotone.corel import records as r
from isotone.corel.configuration import founded
from isotone.corel.events import ReconfigurationWanted, SnapshotOffered
from isotone.corel.learning import SILENCES_MAX
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message, Origin
from isotone.corel.proposal import Proposal
from isotone.corel.quorum import Majority
from isotone.corel.records import decode_record
from isotone.corel.snapshot import SnapshotHead, pieces_of
from tests.corel.cluster import Cluster, joined
from tests.corel.test_growth import primaries, with_snapshot

SIZE = 900_000  # more than one request brings


def half_learned(cluster: Cluster) -> int:
    """x has some pieces of a state; how many bytes."""
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    cluster.run()
    arriving = cluster["x"].replica.ledger.arriving
    assert arriving is not None and 0 < arriving.size < SIZE
    return arriving.size


def learn(cluster: Cluster, *names: str) -> None:
    for _ in range(20):
        cluster.settle()
    assert [cluster[name].standing for name in names] == ["regular"] * len(names)


def cut_behind(cluster: Cluster, name: str, pieces: int) -> None:
    """A crash tears the last write of a server: behind so many pieces of a state."""
    log = cluster[name].log
    kinds = [type(decode_record(data)) for data in log]
    begun = len(kinds) - 1 - kinds[::-1].index(r.SnapshotBegun)
    cluster.crash(name)
    del log[begun + 1 + pieces :]
    cluster.restart(name)


def test_half_a_state_that_was_offered_is_dropped_and_the_next_one_is_kept() -> None:
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"1", b"2")
    cluster.settle()
    cluster.tell("a", SnapshotOffered(0, 1, b"s" * 100_000))
    assert len(pieces_of(b"s" * 100_000)) == 4
    cut_behind(cluster, "a", 2)
    assert cluster["a"].replica.ledger.arriving is None and cluster["a"].replica.ledger.snapshot is None
    cluster.view("a", "b", "c")
    cluster.settle()
    cluster.tell("a", SnapshotOffered(0, 2, b"t" * 100_000))
    cluster.restart("a")
    assert cluster["a"].installed == [(2, b"t" * 100_000)]


def test_an_offered_state_takes_the_place_of_half_a_learned_one() -> None:
    """b has all that its half state stands for, from c: it is dropped, and b keeps its own."""
    cluster = with_snapshot(SIZE)
    half_learned(cluster)
    cluster.tell("x", SnapshotOffered(0, 1, b"too early"))
    assert cluster["x"].replica.ledger.arriving is not None
    learn(cluster, "x")
    cluster.append("a", b"more")
    cluster.settle()
    end = cluster["x"].replica.ledger.queue.green_records
    cluster.tell("x", SnapshotOffered(0, end, b"own"))
    cluster.restart("x")
    assert cluster["x"].installed == [(end, b"own")]


def test_messages_help_who_has_half_a_state() -> None:
    """a has a state and forgot the messages; b still has them, and no state."""
    cluster = with_snapshot(SIZE)
    for name in "bc":
        cluster[name].log[:] = [data for data in cluster[name].log if not _is_of_a_state(data)]
        cluster.restart(name)
    assert cluster["b"].replica.ledger.queue.forgotten == 0
    cluster.view("a", "b", "c")
    cluster.settle()
    half_learned(cluster)
    cluster.crash("a")
    cluster.view("b", "c", "x")
    learn(cluster, "x")
    assert cluster["x"].replica.ledger.arriving is None and not cluster["x"].installed
    assert cluster["x"].replica.ledger.queue.green == 10 and not cluster.report().violations


def _is_of_a_state(data: bytes) -> bool:
    return isinstance(decode_record(data), r.SnapshotBegun | r.SnapshotPiece | r.Forgotten)


def test_another_server_with_another_state_begins_anew() -> None:
    cluster = with_snapshot(SIZE)
    half_learned(cluster)
    cluster.crash("a")
    for name in "bc":
        cluster.tell(name, SnapshotOffered(0, 9, b"t" * SIZE))
    cluster.view("b", "c", "x")
    learn(cluster, "x")
    assert cluster["x"].installed == [(9, b"t" * SIZE)] and not cluster.report().violations


def offered_again(cluster: Cluster, record: bytes) -> None:
    """More is ordered, and all of a, b and c have a newer state."""
    cluster.append("a", record)
    cluster.run()
    for name in "abc":
        cluster.tell(name, TimerFired(0, "settle"))
    cluster.run()
    for name in "abc":
        position = cluster[name].replica.ledger.queue.green_records
        cluster.tell(name, SnapshotOffered(0, position, b"%d" % position * (SIZE // 2)))


def test_newer_states_make_nobody_begin_anew() -> None:
    """Whenever x asks there is a newer state: the one that it fetches stays, and with it what stands behind it."""
    cluster = with_snapshot(SIZE)
    had = [half_learned(cluster)]
    for _ in range(20):
        offered_again(cluster, b"more")
        cluster.tell("x", TimerFired(0, "pace"))
        cluster.run()
        arriving = cluster["x"].replica.ledger.arriving
        had.append(arriving.size if arriving else SIZE)
        assert cluster["a"].replica.ledger.queue.forgotten == 8 or cluster["x"].standing == "regular"
    assert had == sorted(had) and cluster["x"].installed == [(8, b"s" * SIZE)]
    assert cluster["x"].standing == "regular" and cluster["x"].green[-1] == b"more"
    snapshot = cluster["a"].replica.ledger.snapshot
    assert snapshot is not None and cluster["a"].replica.ledger.queue.forgotten == snapshot.head.place, "it is over"
    assert not cluster.report().violations


def test_two_who_learn_at_once_fetch_the_same_state() -> None:
    cluster = with_snapshot(SIZE)
    half_learned(cluster)
    cluster.join("y")
    cluster.view("a", "b", "c", "x", "y")
    offered_again(cluster, b"more")
    for _ in range(9):
        cluster.settle()
    assert cluster["x"].installed == cluster["y"].installed == [(8, b"s" * SIZE)]
    assert primaries(cluster) == "abcxy" and not cluster.report().violations


@pytest.mark.parametrize("gone", [True, False])
def test_a_state_stays_only_while_somebody_fetches_it_and_could_catch_up(
    gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """x is gone; or more than a state's size came meanwhile, and a newer state is less to send."""
    monkeypatch.setattr("isotone.corel.lending.BEHIND_BYTES_MIN", 0)
    cluster = with_snapshot(SIZE)
    half_learned(cluster)
    if gone:
        cluster.crash("x")
        cluster.view("a", "b", "c")
        cluster.run()
    offered_again(cluster, b"." if gone else b"." * (SIZE + 1))
    snapshot = cluster["a"].replica.ledger.snapshot
    assert snapshot is not None and cluster["a"].replica.ledger.queue.forgotten == snapshot.head.place
    if not gone:
        learn(cluster, "x")
        assert [position for position, _ in cluster["x"].installed] == [11], "the rest of the other was not there"


def with_states_that_differ() -> Cluster:
    """x asks a, which has another state than b and c."""
    cluster = joined("a", "b", "c", snapshots=True)
    for name in "abc":
        cluster.append("a", b"1", b"2")
        cluster.settle()
        position = cluster[name].replica.ledger.queue.green_records
        cluster.tell(name, SnapshotOffered(0, position, name.encode() * SIZE))
    cluster.settle()
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    for name in "abcx":
        cluster.step(name, cluster.waiting(name))
    return cluster


def whisper_all_but(cluster: Cluster, late: int) -> list[Any]:
    """x's request comes to its server, and all of the answer but the last parts; these."""
    asked, cluster.private = list(cluster.private), deque()
    for group, message in asked:
        for server in cluster.servers.values():
            client = server.replica.session.client
            if client is not None and client.private_group == group:
                cluster.indicate(server, message)
    answers, cluster.private = list(cluster.private), deque()
    for _, message in answers[: len(answers) - late]:
        cluster.indicate(cluster["x"], message)
    return answers[len(answers) - late :]


def test_a_slow_answer_is_waited_for() -> None:
    """The last piece of each answer comes after the timer: nobody else is asked, and nothing begins anew."""
    cluster = with_states_that_differ()
    had = []
    while not cluster["x"].installed:
        late = whisper_all_but(cluster, 1)
        cluster.tell("x", TimerFired(0, "pull"))
        assert not cluster.private, "it heard something, and waits for the rest"
        cluster.private.extend(late)
        whisper_all_but(cluster, 0)
        arriving = cluster["x"].replica.ledger.arriving
        had.append(arriving.size if arriving else SIZE)
        cluster.tell("x", TimerFired(0, "pace"))
        assert len(had) < 9
    assert had == sorted(set(had)) and cluster["x"].installed == [(2, b"a" * SIZE)]


def test_a_server_that_helped_and_falls_silent_is_asked_a_few_times_more() -> None:
    cluster = with_states_that_differ()
    whisper_all_but(cluster, 1)
    learner, asked = cluster["x"].replica.learner, []
    for _ in range(SILENCES_MAX + 2):
        cluster.tell("x", TimerFired(0, "pull"))
        asked.append(learner.teacher)
    assert asked == ["a"] * (SILENCES_MAX + 1) + ["b"]
    cluster.tell("x", TimerFired(0, "pull"))
    assert learner.teacher == "c", "b has not helped"


def test_a_slow_disk_is_no_reason_to_ask_another() -> None:
    """What came is not durable when the timer runs out; it stands in front of the write where it ends."""
    cluster = with_states_that_differ()
    cluster.hold_disk("x")
    whisper_all_but(cluster, 0)
    for _ in range(9):
        cluster.tell("x", TimerFired(0, "pull"))
    assert cluster["x"].replica.learner.teacher == "a" and not cluster.private
    cluster.release_disk("x")
    learn(cluster, "x")
    assert cluster["x"].installed == [(2, b"a" * SIZE)] and not cluster.report().violations


def test_the_same_server_is_asked_again_in_the_next_view() -> None:
    cluster = with_states_that_differ()
    cluster.tell("x", TimerFired(0, "pull"))
    cluster.private.clear()
    cluster.tell("x", TimerFired(0, "pace"))
    whisper_all_but(cluster, 1)
    assert cluster["x"].replica.learner.teacher == "b"
    cluster.crash("a")
    cluster.view("b", "c", "x")
    learn(cluster, "x")
    assert cluster["x"].installed == [(4, b"b" * SIZE)] and not cluster.report().violations


def test_an_answer_that_comes_twice_begins_nothing_anew() -> None:
    cluster = with_snapshot(SIZE)
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    for name in "abcx":
        cluster.step(name, cluster.waiting(name))
    cluster.tell("x", TimerFired(0, "pull"))  # it asks b too, and then hears from both
    cluster.run()
    learn(cluster, "x")
    written = [type(decode_record(data)) for data in cluster["x"].log]
    assert written.count(r.SnapshotBegun) == 1 and written.count(r.SnapshotPiece) == len(pieces_of(b"s" * SIZE))
    assert cluster["x"].installed == [(8, b"s" * SIZE)]


def test_pieces_that_do_not_make_the_state_begin_it_anew() -> None:
    """The last of them was another one's: the bytes are not those that the head names."""
    cluster = with_snapshot(SIZE)
    half_learned(cluster)
    arriving = cluster["x"].replica.ledger.arriving
    assert arriving is not None
    arriving.pieces[1] = b"t" * len(arriving.pieces[1])
    learn(cluster, "x")
    assert cluster["x"].installed == [(8, b"s" * SIZE)]


def test_why_a_state_is_not_kept() -> None:
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"1", b"2")
    cluster.settle()
    flow = cluster["a"].replica.flow
    assert "not green here: the order ends at 2" in flow.why_not_kept(3)
    cluster.tell("a", ReconfigurationWanted(0, 1, remove="c"))
    cluster.settle()
    assert "the servers changed behind position 1" in flow.why_not_kept(1) and not flow.why_not_kept(2)
    cluster.tell("a", SnapshotOffered(0, 2, b"state"))
    assert "a state at position 2 stands for the same" in flow.why_not_kept(2)
    cluster.append("a", b"3", b"4")
    cluster.settle()
    cluster.tell("a", SnapshotOffered(0, 4, b"state"))
    cluster.settle()
    assert "what stands behind position 1 is forgotten" in flow.why_not_kept(1)
    cluster = with_snapshot(SIZE)
    half_learned(cluster)
    assert "a state at position 8 is on its way" in cluster["x"].replica.flow.why_not_kept(1)


def half_a_state(place: int) -> list[r.Record]:
    """As a server writes it that learned from one with a state up to this place, until another helped it."""
    head = SnapshotHead(place, place, place, 9, place, (), founded("abc", Majority(("a", "b", "c"))), 0, b"digest")
    return [r.SnapshotBegun(head, True), r.SnapshotPiece(b"half")]


MESSAGES = tuple(Message(Origin("b", 1), number, number, (b"%d" % number,)) for number in (1, 2))
PROPOSAL = Proposal(1, 0, 0, 0, 0, 0, tuple(message.name for message in MESSAGES))


@pytest.mark.parametrize("passing", [r.Greened(2), r.Applied(PROPOSAL)])
def test_half_a_state_is_dropped_wherever_the_green_line_passes_it(passing: r.Record) -> None:
    for place, is_dropped in ((2, True), (3, False)):
        ledger = Ledger.founded("abc", Majority(("a", "b", "c")))
        for record in (*half_a_state(place), r.Received(MESSAGES, True), passing):
            ledger.apply(record)
        assert ledger.queue.green == 2 and (ledger.arriving is None) == is_dropped


def test_half_a_state_that_nobody_waits_for_does_not_keep_another_from_being_kept() -> None:
    """a caught up with servers that know less than the one whose state it has half of, and takes part since."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"1")
    cluster.settle()
    cluster.restart("a", [*cluster["a"].log, *map(r.encode_record, half_a_state(9))])
    assert "a state at position 9 is on its way" in cluster["a"].replica.flow.why_not_kept(1)
    cluster.view("a", "b", "c")
    cluster.settle()
    assert not cluster["a"].replica.flow.why_not_kept(1)
    cluster.tell("a", SnapshotOffered(0, 1, b"own"))
    cluster.settle()
    assert cluster["a"].replica.ledger.arriving is None
    cluster.restart("a")
    assert cluster["a"].installed == [(1, b"own")]


def test_a_checkpoint_says_half_a_state_again() -> None:
    cluster = with_snapshot(SIZE, checkpoint_records=4)
    had = half_learned(cluster)
    assert cluster["x"].first > 1  # its log was cut meanwhile
    cluster.restart("x")
    arriving = cluster["x"].replica.ledger.arriving
    assert arriving is not None and arriving.size == had
    cluster.view("b", "c", "x")
    learn(cluster, "x")
    assert cluster["x"].installed == [(8, b"s" * SIZE)] and not cluster.report().violations


def test_a_crash_between_any_two_pieces() -> None:
    """Of the one that learns, or of the one that teaches: whatever is on the disk is not asked for again."""
    cluster = with_snapshot(SIZE)
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    for name in "abcx":
        cluster.step(name, cluster.waiting(name))
    taught: list[int] = []
    for turn in range(60):
        if cluster["x"].installed:
            break
        cluster.run()
        arriving = cluster["x"].replica.ledger.arriving
        taught.append(arriving.size if arriving else SIZE)
        if turn % 2:
            cluster.restart("x")
        else:
            cluster.restart("abc"[turn // 2 % 3])
        cluster.view("a", "b", "c", "x")
        cluster.run()
    assert taught == sorted(taught) and cluster["x"].installed == [(8, b"s" * SIZE)]
    learn(cluster, "x")
    cluster.tell("b", ReconfigurationWanted(0, 1, add="x"))
    cluster.settle()
    assert primaries(cluster) == "abcx" and not cluster.report(stable=True).violations


class Counted(list[Any]):
    """How many elements were looked at."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        Counted.looks += len(found) if isinstance(index, slice) else 1
        return found


def test_a_teacher_looks_at_what_it_sends_and_no_more() -> None:
    """Many requests for a long order, and each message is looked at about once."""
    cluster = joined("a", "b", "c", snapshots=True, transfer_bytes_per_s=10**9)
    count = 600
    for number in range(count):
        cluster.append("a", b"%d" % number + b"." * 4_000)
        cluster.run()
    cluster.settle()
    for name in "abc":
        queue = cluster[name].replica.ledger.queue
        queue.held = Counted(queue.held)
    Counted.looks = 0
    cluster.join("x")
    cluster.view("a", "b", "c", "x")
    asked = 0
    while cluster["x"].lines[0] < count - 64:
        before = cluster["x"].lines[0]
        cluster.run()
        cluster.tell("x", TimerFired(0, "pace"))
        asked += cluster["x"].lines[0] > before
    assert asked >= 6 and Counted.looks < 2 * count
