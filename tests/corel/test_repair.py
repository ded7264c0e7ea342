"""A damaged record is found again with the help of a peer, or the server must be replaced."""

from __future__ import annotations

from zlib import crc32

from isotone.core import boundary as b4
from isotone.core.contract import Action, Started, Stop, Storage, StoredLog, TimerFired
from isotone.core.ids import ClientId, DaemonId, Stamp
from isotone.corel.events import RepairRecord, RepairTried
from isotone.corel.ledger import Ledger
from isotone.corel.quorum import Majority
from isotone.corel.records import Received, decode_record
from isotone.corel.repair import ASKED_MAX, Repairer, candidates_for
from isotone.corel.settings import ReplicaSettings
from tests.corel.cluster import GROUP, Cluster, joined

CLIENT = ClientId(DaemonId("dc", 9), "c", 1)


def damaged_cluster() -> Cluster:
    cluster = joined("a", "b", "c", snapshots=True)
    for number in range(6):
        cluster.append("abc"[number % 3], b"record %d" % number)
        cluster.run()
    cluster.settle()
    cluster.crash("c")
    cluster.view("a", "b")
    cluster.run("a", "b")
    return cluster


def repairer() -> Repairer:
    servers = ("a", "b", "c")
    settings = ReplicaSettings(server="c", servers=servers, group=GROUP, quorum=Majority(servers))
    return Repairer(settings, DaemonId("dc", 9))


def started(log: list[bytes], *damaged: int) -> tuple[Repairer, list[Action]]:
    records = tuple(b"" if number in damaged else data for number, data in enumerate(log, 1))
    automaton = repairer()
    storage = Storage({}, {"log": StoredLog(1, records, damaged)})
    assert [type(action) for action in automaton.handle(Started(0, storage))] == [b4.Ask]
    return automaton, automaton.handle(b4.Indicated(0, (CLIENT,), b4.Connected()))


def answered(cluster: Cluster, automaton: Repairer, actions: list[Action]) -> list[Action]:
    """Bring its question to all, and the answer of one back to it."""
    asked = [action.request for action in actions if isinstance(action, b4.Ask)]
    assert len(asked) == 1 and isinstance(asked[0], b4.Send)
    for name in "ab":
        cluster.indicate(cluster[name], b4.Message(asked[0].bundle, Stamp(1, DaemonId("d", 1))))
    found: list[Action] = []
    while cluster.private:
        group, message = cluster.private.popleft()
        assert group == CLIENT.private_group
        found += automaton.handle(b4.Indicated(0, (CLIENT,), message))
    return found


def chosen(log: list[bytes], offered: RepairRecord) -> int:
    """What a host does: look for the checksum."""
    wanted = crc32(log[offered.number - 1])
    return next((place for place, each in enumerate(offered.candidates) if crc32(each) == wanted), -1)


def numbers_of(log: list[bytes], kind: type) -> list[int]:
    return [number for number, data in enumerate(log, 1) if isinstance(decode_record(data), kind)]


def test_damaged_messages_come_from_a_peer() -> None:
    cluster = damaged_cluster()
    log = cluster["c"].log
    damaged = numbers_of(log, Received)[1:3]
    automaton, actions = started(log, *damaged)
    for number in damaged:
        (offered,) = answered(cluster, automaton, actions)
        assert isinstance(offered, RepairRecord) and offered.number == number
        place = chosen(log, offered)
        assert offered.candidates[place] == log[number - 1]
        actions = automaton.handle(RepairTried(0, number, place))
    (stop,) = actions
    assert isinstance(stop, Stop) and stop.reason.startswith("repaired: 2 records")


def test_every_record_of_an_ordinary_log_is_among_its_candidates() -> None:
    cluster = damaged_cluster()
    log, queue = cluster["c"].log, cluster["a"].replica.ledger.queue
    ledger = Ledger.founded("abc", Majority(tuple("abc")))
    unknown = []
    for data in log:
        record = decode_record(data)
        messages = queue.between(min(ledger.queue.end, queue.green), queue.green)
        if data not in candidates_for(ledger, messages):
            unknown.append(type(record).__name__)
        ledger.apply(record)
    assert unknown == ["Arranged"]  # of the first view


def test_what_has_no_candidate_is_not_repaired() -> None:
    cluster = damaged_cluster()
    automaton, actions = started(cluster["c"].log, numbers_of(cluster["c"].log, Received)[0])
    (offered,) = answered(cluster, automaton, actions)
    assert isinstance(offered, RepairRecord)
    (stop,) = automaton.handle(RepairTried(0, offered.number, -1))
    assert isinstance(stop, Stop) and "add one with a new name" in stop.reason


def test_when_nobody_answers_it_says_so() -> None:
    automaton, actions = started(damaged_cluster()["c"].log, 3)
    for _ in range(ASKED_MAX - 1):
        actions = automaton.handle(TimerFired(0, "ask"))
        assert isinstance(actions[0], b4.Ask)
    (stop,) = automaton.handle(TimerFired(0, "ask"))
    assert isinstance(stop, Stop) and "no server answers" in stop.reason


def test_a_sound_log_needs_no_repair() -> None:
    (stop,) = repairer().handle(Started(0, Storage({}, {"log": StoredLog(1, tuple(damaged_cluster()["c"].log))})))
    assert stop == Stop("nothing is damaged")
