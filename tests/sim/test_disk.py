"""Disks: order behind a Persist, group commit, failure, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.choice import Choice
from isotone.core.contract import (
    Action,
    Address,
    Append,
    CutHead,
    CutTail,
    DatagramsReceived,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Put,
    SendDatagrams,
    SetTimer,
    Started,
    Stopping,
    Storage,
    StoredLog,
    TimerFired,
    Write,
)
from isotone.sim import DiskSettings, LinkSettings, NetworkSettings, World
from isotone.sim.disk import Disk, Submission
from tests.sim.automata import Scripted, Told, obedient, obey, one

STEADY = DiskSettings(sync_us=1_000, jitter_us=0, tail_probability=0)
FAST = NetworkSettings(lan=LinkSettings(latency_us=1, jitter_us=0))


def disk_world(disk: DiskSettings = STEADY) -> World:
    world = World(seed=3, disk=disk, network=FAST)
    world.add_process("a", lambda boot: {"main": Scripted(obey), "other": Scripted(obey)})
    world.add_process("b", obedient)
    return world


def tell(world: World, *actions: Action, label: str = "main") -> None:
    world.tell("a", label, Told(0, actions))


def send(text: bytes) -> SendDatagrams:
    return SendDatagrams(Address("b.1"), [[text]])


def heard_by_b(world: World) -> list[bytes]:
    automaton = world.automaton("b", "main")
    assert isinstance(automaton, Scripted)
    return [bytes(event.data) for event in automaton.heard if isinstance(event, DatagramsReceived)]


def answers(world: World, label: str = "main") -> list[tuple[str, int]]:
    automaton = world.automaton("a", label)
    assert isinstance(automaton, Scripted)
    return [
        (type(event).__name__, event.ticket)
        for event in automaton.heard
        if isinstance(event, Persisted | PersistFailed)
    ]


def append(text: bytes) -> list[Write]:
    return [Append("log", text)]


# --- order and group commit ----------------------------------------------------------------------------------------


def test_a_persist_holds_back_what_is_behind_it_and_nothing_else() -> None:
    world = disk_world()
    tell(world, send(b"before"), Persist(1, append(b"r")), send(b"behind"))
    tell(world, send(b"next call"))
    tell(world, send(b"other automaton"), label="other")
    world.run_until(999)
    assert heard_by_b(world) == [b"before", b"other automaton"]
    assert answers(world) == []
    world.run_until(1_001)
    assert heard_by_b(world)[2:] == [b"behind", b"next call"]
    assert answers(world) == [("Persisted", 1)]


def test_timers_stand_in_the_stream_too() -> None:
    world = disk_world()
    tell(world, Persist(1, append(b"r")), SetTimer("x", 0))
    world.run_until(999)
    automaton = world.automaton("a", "main")
    assert isinstance(automaton, Scripted) and not automaton.of(TimerFired)
    world.run_until(1_001)
    assert len(automaton.of(TimerFired)) == 1


def test_many_persists_commit_together() -> None:
    world = disk_world()
    tell(world, Persist(1, append(b"1")), send(b"after 1"))
    world.run_until(500)
    for ticket in range(2, 12):
        tell(world, Persist(ticket, append(b"%d" % ticket)), send(b"after %d" % ticket))
        tell(world, Persist(ticket, []), label="other")
    world.run_until(1_999)
    assert heard_by_b(world) == [b"after 1"]
    world.run_until(2_001)
    assert heard_by_b(world) == [b"after %d" % ticket for ticket in range(1, 12)]
    assert world.disk("a").syncs == 2
    assert answers(world) == [("Persisted", ticket) for ticket in range(1, 12)]


def test_what_is_durable_is_found_at_the_next_start_by_its_own_automaton() -> None:
    world = disk_world()
    tell(world, Persist(1, [Put("cell", b"v"), Append("log", b"1"), Append("log", b"2"), Append("log", b"3")]))
    tell(world, Persist(2, [CutHead("log", 2), CutTail("log", 3), Put("cell", b"w")]))
    tell(world, Persist(1, [Put("cell", b"mine")]), label="other")
    world.run_until(10_000)
    world.crash("a")
    world.restart("a")
    world.run_until(10_000)
    found = []
    for label in ("main", "other"):
        automaton = world.automaton("a", label)
        assert isinstance(automaton, Scripted) and isinstance(automaton.heard[0], Started)
        found.append(automaton.heard[0].storage)
    assert found == [Storage({"cell": b"w"}, {"log": StoredLog(2, (b"2",))}), Storage({"cell": b"mine"}, {})]


def test_a_log_cut_to_nothing_keeps_its_numbers() -> None:
    disk = Disk(STEADY, Choice(1))
    disk.submit(Submission("x", 1, [*append(b"1"), *append(b"2"), CutHead("log", 3)]))
    disk.begin_sync()
    disk.end_sync()
    assert disk.storage("x").logs["log"] == StoredLog(3, ())
    disk.submit(Submission("x", 2, append(b"3")))
    disk.begin_sync()
    disk.end_sync()
    assert disk.storage("x").logs["log"] == StoredLog(3, (b"3",))


# --- failure -------------------------------------------------------------------------------------------------------


def test_a_failed_sync_is_answered_and_what_was_behind_is_not_done() -> None:
    world = disk_world(DiskSettings(sync_us=1_000, jitter_us=0, tail_probability=0, failure=1.0))
    tell(world, Persist(1, append(b"1")), send(b"behind 1"))
    world.run_until(500)
    tell(world, Persist(2, append(b"2")), send(b"behind 2"))
    world.run_until(10_000)
    assert answers(world) == [("PersistFailed", 1), ("PersistFailed", 2)]
    assert heard_by_b(world) == []
    world.disk("a").settings = STEADY
    tell(world, send(b"goes on"), Persist(3, append(b"3")), send(b"behind 3"))
    world.run_until(20_000)
    assert answers(world)[2:] == [("Persisted", 3)]
    assert heard_by_b(world) == [b"goes on", b"behind 3"]


def test_a_full_disk_refuses() -> None:
    world = disk_world(DiskSettings(sync_us=1_000, jitter_us=0, tail_probability=0, capacity_bytes=100))
    tell(world, Persist(1, append(bytes(90))))
    world.run_until(2_000)
    tell(world, Persist(2, append(bytes(90))))
    world.run_until(4_000)
    assert answers(world) == [("Persisted", 1), ("PersistFailed", 2)]
    tell(world, Persist(3, [CutHead("log", 9)]))
    world.run_until(6_000)
    tell(world, Persist(4, append(bytes(90))))
    world.run_until(8_000)
    assert answers(world)[2:] == [("Persisted", 3), ("Persisted", 4)]


def test_a_damaged_record_is_listed() -> None:
    world = disk_world()
    tell(world, Persist(1, [*append(b"1"), *append(b"2"), *append(b"3")]))
    world.run_until(10_000)
    world.disk("a").damage("main", "log", 2)
    assert world.disk("a").storage("main").logs["log"] == StoredLog(1, (b"1", b"", b"3"), (2,))


# --- crashes -------------------------------------------------------------------------------------------------------


def survivors(seed: int) -> tuple[bytes, bytes, tuple[bytes, ...]]:
    """What two cells and a log hold after a crash in the middle of everything."""
    disk = Disk(STEADY, Choice(seed))
    disk.submit(Submission("x", 1, [Put("c", b"old"), Put("d", b"old"), *append(b"0")]))
    disk.begin_sync()
    disk.end_sync()
    disk.submit(Submission("x", 2, [Put("c", b"new"), *append(b"1"), *append(b"2")]))
    disk.begin_sync()
    disk.submit(Submission("x", 3, [Put("c", b"newer"), Put("d", b"new"), *append(b"3")]))
    disk.crash()
    storage = disk.storage("x")
    return storage.cells["c"], storage.cells["d"], tuple(storage.logs["log"].records)


def test_a_crash_keeps_prefixes_of_logs_and_any_mixture_of_cells() -> None:
    found = {survivors(seed) for seed in range(400)}
    logs = [tuple(b"%d" % number for number in range(length)) for length in range(1, 5)]
    assert found == {(c, d, log) for c in (b"old", b"new", b"newer") for d in (b"old", b"new") for log in logs}


def test_what_was_synced_always_survives_and_unfinished_effects_never_happen() -> None:
    kept = set()
    for seed in range(40):
        world = World(seed=seed, disk=STEADY, network=FAST)
        world.add_process("a", obedient)
        world.add_process("b", obedient)
        tell(world, Persist(1, append(b"1")), send(b"1"))
        world.run_until(1_500)
        tell(world, Persist(2, append(b"2")), send(b"2"))
        world.run_until(2_000)
        world.crash("a")
        world.restart("a")
        world.run_until(10_000)
        assert heard_by_b(world) == [b"1"]
        records = world.disk("a").storage("main").logs["log"].records
        kept.add(tuple(records))
    assert kept == {(b"1",), (b"1", b"2")}


def test_a_clean_stop_waits_for_the_disk() -> None:
    def last_words(event: Event) -> Sequence[Action]:
        return [Persist(9, append(b"last")), send(b"bye")] if isinstance(event, Stopping) else []

    world = World(seed=1, disk=STEADY, network=FAST)
    world.add_process("a", one(last_words))
    world.add_process("b", obedient)
    a = world.automaton("a", "main")
    assert isinstance(a, Scripted)
    world.stop("a")
    world.run_until(500)
    assert world.is_up("a")
    world.run_until(2_000)
    assert not world.is_up("a")
    assert [type(event) for event in a.heard] == [Started, Stopping, Persisted]
    assert heard_by_b(world) == [b"bye"]
    assert world.disk("a").storage("main").logs["log"].records == (b"last",)


def test_a_paused_process_that_is_asked_to_stop_does_so_when_it_goes_on() -> None:
    world = disk_world()
    world.pause("a")
    world.stop("a")
    world.run_until(5_000)
    assert world.is_up("a")
    world.resume("a")
    world.run_until(5_000)
    assert not world.is_up("a")


def test_a_paused_process_learns_of_its_sync_when_it_goes_on() -> None:
    world = disk_world()
    tell(world, Persist(1, append(b"1")), send(b"behind"))
    world.run_until(500)
    world.pause("a")
    world.run_until(5_000)
    assert heard_by_b(world) == []
    world.resume("a")
    world.run_until(5_001)
    assert heard_by_b(world) == [b"behind"] and answers(world) == [("Persisted", 1)]
