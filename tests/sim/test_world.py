"""The world: order of events, clocks, timers, life of processes, boundary B4, quiet, failures, reproducibility."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec
import pytest

from isotone.core.boundary import (
    Ask,
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Indicate,
    Indicated,
    Join,
    Message,
    Requested,
    Send,
)
from isotone.core.bundles import bundle_of
from isotone.core.contract import (
    Action,
    Address,
    Automaton,
    CancelTimer,
    DatagramsReceived,
    Event,
    MulticastDatagrams,
    Persist,
    Put,
    Record,
    SendDatagrams,
    SetTimer,
    Started,
    Stop,
    Stopping,
    TimerFired,
)
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service
from isotone.sim import Boot, ClockSettings, DiskSettings, LinkSettings, NetworkSettings, Observer, RunFailed, World
from isotone.trace.events import Crashed, Gap, Recovered, Row
from isotone.trace.events import Disconnected as DisconnectedEntry
from tests.sim.automata import Echo, Scripted, Told, obedient, obey, one

EXACT = ClockSettings(offset_max_us=0, drift_max_ppm=0)


def main(world: World, name: str) -> Scripted:
    automaton = world.automaton(name, "main")
    assert isinstance(automaton, Scripted)
    return automaton


def tell(world: World, name: str, *actions: Action, label: str = "main") -> None:
    world.tell(name, label, Told(0, actions))


# --- timers and clocks ---------------------------------------------------------------------------------------------


def fired(world: World, name: str) -> list[tuple[int, object]]:
    return [(event.at, event.key) for event in main(world, name).heard if isinstance(event, TimerFired)]


def test_timers_fire_in_order_and_re_arming_replaces() -> None:
    world = World(seed=1, clock=EXACT)
    world.add_process("a", obedient)
    tell(world, "a", SetTimer("x", 300), SetTimer("y", 100), SetTimer("z", 200))
    tell(world, "a", SetTimer("x", 150), SetTimer("z", 500), CancelTimer("never armed"))
    world.run_until(1_000)
    assert fired(world, "a") == [(100, "y"), (150, "x"), (500, "z")]
    tell(world, "a", SetTimer("x", 10), CancelTimer("x"), SetTimer("y", 10), CancelTimer("y"), SetTimer("y", 40))
    world.run_until(2_000)
    assert fired(world, "a")[3:] == [(1_040, "y")]


def test_a_timer_may_re_arm_itself() -> None:
    def tick(event: Event) -> Sequence[Action]:
        return [SetTimer("tick", 1_000)] if isinstance(event, Started | TimerFired) else []

    world = World(seed=1, clock=EXACT)
    world.add_process("a", one(tick))
    world.run_until(10_000)
    assert [at for at, _ in fired(world, "a")] == list(range(1_000, 11_000, 1_000))


def test_clocks_differ_drift_and_never_ring_early() -> None:
    world = World(seed=1, clock=ClockSettings(offset_max_us=10**9, drift_max_ppm=10_000))
    for name in ("a", "b"):
        world.add_process(name, obedient)
    begins = {name: world.clock(name) for name in ("a", "b")}
    assert begins["a"] != begins["b"]
    for name in ("a", "b"):
        tell(world, name, SetTimer("x", 1_000_000))
    world.run_until(2_000_000)
    rung = {name: fired(world, name)[0][0] - begins[name] for name in ("a", "b")}
    assert all(1_000_000 <= waited <= 1_000_001 for waited in rung.values())
    passed = {name: world.clock(name) - begins[name] for name in ("a", "b")}
    assert passed["a"] != passed["b"]
    assert all(abs(each - 2_000_000) <= 20_000 for each in passed.values())


def test_the_clock_begins_anew_at_a_restart() -> None:
    world = World(seed=1)
    world.add_process("a", obedient)
    world.run_until(50_000)
    before = world.clock("a")
    world.crash("a")
    world.restart("a")
    assert world.clock("a") != before
    started = main(world, "a")
    world.run_until(world.now)
    assert started.heard[0].at == world.clock("a")


# --- life ----------------------------------------------------------------------------------------------------------


def test_each_start_is_a_new_incarnation_and_is_recorded() -> None:
    rows: list[Row] = []
    boots: list[Boot] = []

    def program(boot: Boot) -> Mapping[str, Automaton]:
        boots.append(boot)
        return {"main": Scripted(obey)}

    world = World(seed=1, sink=rows.append)
    world.add_process("a", program, site="north")
    world.run_until(10)
    world.crash("a")
    world.restart("a", address=world.new_address("a"))
    assert [(boot.daemon, boot.site, boot.address) for boot in boots] == [
        (DaemonId("a", 1), "north", "a.1"),
        (DaemonId("a", 2), "north", "a.2"),
    ]
    assert boots[0].choice.word() != boots[1].choice.word()
    assert [(row.node, row.incarnation, row.index, row.at, row.entry) for row in rows] == [
        ("a", 1, 0, 0, Recovered("a#1")),
        ("a", 1, 1, 10, Crashed("a#1")),
        ("a", 2, 0, 10, Recovered("a#2")),
    ]


def test_a_crash_ends_timers_and_all_that_was_on_its_way() -> None:
    world = World(seed=1)
    world.add_process("a", obedient)
    world.add_process("b", obedient)
    first = main(world, "a")
    tell(world, "a", SetTimer("x", 1_000))
    tell(world, "b", SendDatagrams(Address("a.1"), [[b"hello"]]))
    world.run_until(50)
    world.crash("a")
    world.run_until(10_000)
    assert [type(event) for event in first.heard] == [Started, Told]
    assert world.run_until_quiet(1_000)
    with pytest.raises(LocalProtocolError, match="a is down"):
        world.tell("a", "main", Told(0, ()))


def test_a_pause_holds_everything_and_resume_hands_it_out_in_order() -> None:
    world = World(seed=1, network=NetworkSettings(lan=LinkSettings(latency_us=100, jitter_us=0)))
    world.add_process("a", obedient)
    world.add_process("b", obedient)
    tell(world, "a", SetTimer("x", 1_000))
    world.run_until(0)
    world.pause("a")
    tell(world, "b", SendDatagrams(Address("a.1"), [[b"early"]]))
    tell(world, "a", Record(Gap(1)))
    world.run_until(5_000)
    assert world.is_paused("a")
    heard = main(world, "a").heard
    assert [type(event) for event in heard] == [Started, Told]
    world.resume("a")
    world.run_until(5_000)
    assert [type(event) for event in heard[2:]] == [Told, DatagramsReceived, TimerFired]
    assert {event.at for event in heard[2:]} == {world.clock("a")}


def test_a_paused_process_loses_datagrams_beyond_its_receive_buffer() -> None:
    world = World(seed=1, network=NetworkSettings(receive_buffer_bytes_max=2_500))
    world.add_process("a", obedient)
    world.add_process("b", obedient)
    world.pause("a")
    for _ in range(5):
        tell(world, "b", SendDatagrams(Address("a.1"), [[bytes(1_000)]]))
        world.run_for(1_000)
    world.resume("a")
    world.run_for(1)
    assert len(main(world, "a").of(DatagramsReceived)) == 2


def test_stop_lets_automata_say_farewell() -> None:
    def farewell(event: Event) -> Sequence[Action]:
        return [SendDatagrams(Address("b.1"), [[b"bye"]])] if isinstance(event, Stopping) else []

    rows: list[Row] = []
    world = World(seed=1, sink=rows.append)
    world.add_process("a", one(farewell))
    world.add_process("b", obedient)
    world.stop("a")
    world.run_until(10_000)
    assert not world.is_up("a")
    assert [bytes(event.data) for event in main(world, "b").heard if isinstance(event, DatagramsReceived)] == [b"bye"]
    assert rows[-1].entry == Crashed("a#1")


def test_an_automaton_may_end_its_process_and_nothing_behind_that_is_done() -> None:
    world = World(seed=1)
    world.add_process("a", obedient)
    world.add_process("b", obedient)
    tell(world, "a", Stop("enough"), SendDatagrams(Address("b.1"), [[b"never"]]), SetTimer("x", 1))
    world.run_until(10_000)
    assert not world.is_up("a")
    assert not main(world, "b").of(DatagramsReceived)


# --- order of one instant ------------------------------------------------------------------------------------------


def test_the_actions_of_an_automaton_keep_their_order_across_calls() -> None:
    order: list[str] = []

    class Note(Event, frozen=True):
        text: str

    def note(event: Event) -> Sequence[Action]:
        if isinstance(event, DatagramsReceived):
            order.append(bytes(event.data).decode())
        return []

    world = World(seed=1, network=NetworkSettings(lan=LinkSettings(latency_us=10, jitter_us=5)))
    world.add_process("a", obedient)
    world.add_process("b", one(note))
    for number in range(20):
        tell(world, "a", *(SendDatagrams(Address("b.1"), [[f"{number}.{part}".encode()]]) for part in range(2)))
        world.run_for(1)
    world.run_for(100)
    assert order == [f"{number}.{part}" for number in range(20) for part in range(2)]


def test_a_loop_within_one_instant_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotone.sim.runner.INSTANT_MAX", 1_000)
    world = World(seed=1)
    world.add_process("a", one(lambda event: [SetTimer("x", 0)] if isinstance(event, Started | TimerFired) else []))
    with pytest.raises(RunFailed, match="without time going on"):
        world.run_until(1)
    assert world.handled <= 1_002


# --- boundary B4 ---------------------------------------------------------------------------------------------------

ALICE = ClientId(DaemonId("a", 1), "alice", 1)
BOB = ClientId(DaemonId("a", 1), "bob", 2)


def players(boot: Boot) -> Mapping[str, Automaton]:
    boot.players["bob"] = "bob plays"
    return {"clients": Scripted(obey), "bob plays": Scripted(obey)}


def send_of(client: ClientId, sequence: int) -> Ask:
    return Ask(client, Send(bundle_of(client, sequence, Service.AGREED, ["g"], [b"hello"])))


def test_a_service_for_all_hears_requests_and_reaches_clients() -> None:
    rows: list[Row] = []
    world = World(seed=1, sink=rows.append)
    echo = Echo()
    world.add_service(echo)
    world.add_process("a", lambda boot: {"clients": Scripted(obey)})
    tell(world, "a", Ask(ALICE, Connect()), Ask(ALICE, Join("g")), send_of(ALICE, 1), label="clients")
    world.run_until(0)
    assert [type(event) for event in echo.heard] == [Started, Requested, Requested, Requested]
    clients = world.automaton("a", "clients")
    assert isinstance(clients, Scripted)
    (heard,) = clients.of(Indicated)
    assert isinstance(heard, Indicated) and heard.receivers == (ALICE,) and isinstance(heard.indication, Message)
    assert [row.entry.__struct_config__.tag for row in rows] == ["recover", "join", "send", "deliver"]


def test_each_label_hears_only_the_clients_it_plays() -> None:
    world = World(seed=1)
    world.add_service(Echo())
    world.add_process("a", players)

    class Both(Event, frozen=True):
        pass

    world.run_until(0)
    lane = world.add_service(Scripted(lambda event: [Indicate((ALICE, BOB), Connected())] if event.at else []))
    world.run_until(5)
    world.post(lane, Both(5))
    world.run_until(5)
    for label, client in (("clients", ALICE), ("bob plays", BOB)):
        automaton = world.automaton("a", label)
        assert isinstance(automaton, Scripted)
        assert [event.receivers for event in automaton.heard if isinstance(event, Indicated)] == [(client,)]


def test_without_one_the_service_of_the_process_itself_is_asked() -> None:
    rows: list[Row] = []
    world = World(seed=1, sink=rows.append)
    world.add_process("a", lambda boot: {"service": Echo(), "clients": Scripted(obey)})
    tell(world, "a", send_of(ALICE, 1), label="clients")
    world.run_until(0)
    clients = world.automaton("a", "clients")
    assert isinstance(clients, Scripted) and len(clients.of(Indicated)) == 1
    assert [row.entry.__struct_config__.tag for row in rows] == ["recover", "send", "deliver"]


def test_indications_for_the_dead_are_neither_recorded_nor_heard() -> None:
    rows: list[Row] = []
    world = World(seed=1, sink=rows.append)
    lane = world.add_service(Scripted(lambda event: [Indicate((ALICE,), Connected())] if event.at else []))
    world.add_process("a", lambda boot: {"clients": Scripted(obey)})
    world.run_until(5)
    world.crash("a")
    world.restart("a")
    world.post(lane, Told(5, ()))
    world.run_until(10)
    assert [row.entry for row in rows] == [Recovered("a#1"), Crashed("a#1"), Recovered("a#2")]


def test_indications_to_a_paused_process_are_recorded_when_it_hears_them() -> None:
    rows: list[Row] = []
    world = World(seed=1, sink=rows.append)
    lane = world.add_service(Scripted(lambda event: [Indicate((ALICE,), Connected())] if event.at else []))
    world.add_process("a", lambda boot: {"clients": Scripted(obey)})
    world.run_until(5)
    world.pause("a")
    world.post(lane, Told(5, ()))
    world.run_until(500)
    assert len(rows) == 1
    world.resume("a")
    world.run_until(500)
    assert (rows[-1].at, rows[-1].entry.__struct_config__.tag) == (500, "connect")


def test_the_end_of_a_session_is_recorded_once() -> None:
    def part(event: Event) -> Sequence[Action]:
        if isinstance(event, Requested) and isinstance(event.request, Disconnect):
            return [Indicate((event.client,), Disconnected("as asked"))]
        return []

    rows: list[Row] = []
    world = World(seed=1, sink=rows.append)
    world.add_service(Scripted(part))
    world.add_process("a", lambda boot: {"clients": Scripted(obey)})
    tell(world, "a", Ask(ALICE, Disconnect()), label="clients")
    world.run_until(1)
    assert [row.entry for row in rows if isinstance(row.entry, DisconnectedEntry)] == [DisconnectedEntry(str(ALICE))]


def test_a_foreign_client_cannot_be_played() -> None:
    world = World(seed=1)
    world.add_service(Echo())
    world.add_process("b", lambda boot: {"clients": Scripted(obey)})
    tell(world, "b", Ask(ALICE, Connect()), label="clients")
    with pytest.raises(RunFailed, match="no client of b#1"):
        world.run_until(1)


# --- observers, quiet, failures ------------------------------------------------------------------------------------


class Notes(Observer):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def on_start(self, daemon: DaemonId) -> None:
        self.notes.append(f"start {daemon}")

    def on_crash(self, daemon: DaemonId) -> None:
        self.notes.append(f"crash {daemon}")

    def on_pause(self, daemon: DaemonId) -> None:
        self.notes.append(f"pause {daemon}")

    def on_resume(self, daemon: DaemonId) -> None:
        self.notes.append(f"resume {daemon}")

    def on_connectivity(self, components: tuple[tuple[str, ...], ...]) -> None:
        self.notes.append(" | ".join(" ".join(component) for component in components))


def test_observers_hear_of_life_and_connectivity() -> None:
    world = World(seed=1)
    notes = Notes()
    world.observers.append(notes)
    for name in ("a", "b", "c"):
        world.add_process(name, obedient)
    world.partition(["a"], ["b", "c"])
    world.pause("b")
    world.crash("a")
    world.resume("b")
    world.heal()
    world.cut("b", "c", one_way=True)
    world.restart("a")
    assert notes.notes == [
        "start a#1",
        "a",
        "start b#1",
        "a b",
        "start c#1",
        "a b c",
        "a | b c",
        "pause b#1",
        "crash a#1",
        "b c",
        "resume b#1",
        "b | c",
        "start a#2",
        "a b c",
    ]


def test_quiet_means_nothing_in_flight_and_no_timer_but_periodic_ones() -> None:
    class Beating(Scripted):
        periodic_timers = frozenset({"beat"})

    def beat(event: Event) -> Sequence[Action]:
        if isinstance(event, Told):
            return event.actions
        again = isinstance(event, Started) or (isinstance(event, TimerFired) and event.key == ("beat", 1))
        return [SetTimer(("beat", 1), 10_000)] if again else []

    world = World(seed=1, clock=EXACT)
    world.add_process("a", lambda boot: {"main": Beating(beat)})
    assert world.run_until_quiet(100_000) and world.now == 0
    tell(world, "a", SetTimer("work", 25_000))
    assert world.run_until_quiet(100_000) and world.now == 25_000
    world.after(40_000, lambda: None)
    assert world.run_until_quiet(100_000) and world.now == 65_000
    tell(world, "a", SetTimer("work", 500_000))
    assert not world.run_until_quiet(100_000) and world.now == 165_000
    assert world.run_until_quiet(100_000, idle=lambda: True) and world.now == 165_000
    assert not world.run_until_quiet(1_000, idle=lambda: False) and world.now == 166_000


def test_an_exception_names_process_automaton_event_and_time() -> None:
    def fail(event: Event) -> Sequence[Action]:
        if isinstance(event, TimerFired):
            raise ValueError("broken")
        return [SetTimer("x", 1_234)]

    world = World(seed=1, clock=EXACT)
    world.add_process("a", one(fail))
    with pytest.raises(RunFailed) as failure:
        world.run_until(5_000)
    assert str(failure.value) == "a#1/main at 1234 us, on TimerFired(at=1234, key='x'): ValueError: broken"
    assert isinstance(failure.value.__cause__, ValueError)


def test_an_unknown_action_is_a_failure() -> None:
    class Dance(Action, frozen=True):
        pass

    world = World(seed=1)
    world.add_process("a", obedient)
    tell(world, "a", Dance())
    with pytest.raises(RunFailed, match="not an action that the simulator knows"):
        world.run_until(1)


def test_what_a_peer_did_wrong_is_dropped_and_counted() -> None:
    def refuse(event: Event) -> Sequence[Action]:
        if isinstance(event, Told):
            raise RemoteProtocolError("nonsense")
        return []

    world = World(seed=1)
    world.add_process("a", one(refuse))
    tell(world, "a")
    world.run_until(1)
    assert world.refused.total() == 1


def test_drivers_calls_happen_in_virtual_time() -> None:
    world = World(seed=1)
    seen: list[int] = []
    world.at(700, lambda: seen.append(world.now))
    world.after(300, lambda: seen.append(world.now))
    assert world.step() and world.now == 300
    world.run_until(1_000)
    assert seen == [300, 700] and world.now == 1_000
    assert not world.step()


# --- reproducibility -----------------------------------------------------------------------------------------------


def gossip(boot: Boot) -> Mapping[str, Automaton]:
    """Random talk: each node multicasts at random times and answers at random."""

    def rule(event: Event) -> Sequence[Action]:
        match event:
            case Started() | TimerFired():
                text = b"%d" % boot.choice.below(1_000_000)
                again = SetTimer("talk", boot.choice.between(1_000, 9_000))
                return [again, MulticastDatagrams("lan", [[text], [text, text]])]
            case DatagramsReceived(source=source, data=data):
                entry = Gap(int.from_bytes(hashlib.blake2b(bytes(data), digest_size=4).digest(), "big"))
                answer = [SendDatagrams(source, [[b"yes"]])] if boot.choice.chance(0.3) else []
                return [Record(entry), *answer]
        return []

    return {"main": Scripted(rule)}


def gossip_digest(seed: int) -> str:
    digest = hashlib.blake2b()
    link = LinkSettings(loss=0.1, burst_begin=0.02, reorder=0.1, duplicate=0.1, tail_probability=0.1, tail_us=5_000)
    world = World(
        seed=seed, network=NetworkSettings(lan=link), sink=lambda row: digest.update(msgspec.json.encode(row))
    )
    for name in ("a", "b", "c", "d"):
        world.add_process(name, gossip)
    world.at(20_000, lambda: world.partition(["a", "b"], ["c", "d"]))
    world.at(40_000, lambda: world.crash("b"))
    world.at(50_000, lambda: world.restart("b", address="b.2"))
    world.at(60_000, world.heal)
    world.run_until(100_000)
    return f"{digest.hexdigest()} {world.handled}"


def test_the_same_seed_is_the_same_run_and_another_is_not() -> None:
    assert gossip_digest(1) == gossip_digest(1) != gossip_digest(2)


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_the_same_seed_is_the_same_run_in_any_process(hash_seed: str) -> None:
    script = "from tests.sim.test_world import gossip_digest; print(gossip_digest(1))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == gossip_digest(1)


def test_a_timer_that_is_cancelled_in_the_instant_it_runs_out_never_fires() -> None:
    class Canceller:
        def __init__(self) -> None:
            self.fired: list[object] = []

        def handle(self, event: Event) -> list[Action]:
            if isinstance(event, Started):
                return [SetTimer("first", 100), SetTimer("second", 100)]
            if isinstance(event, TimerFired):
                self.fired.append(event.key)
                return [CancelTimer("second"), SetTimer("third", 0), CancelTimer("third")]
            return []

    world = World(seed=1, clock=EXACT)
    automaton = Canceller()
    world.add_process("a", lambda boot: {"main": automaton})
    world.run_until(1_000)
    assert automaton.fired == ["first"]


def test_virtual_time_never_goes_back() -> None:
    world = World(seed=1, clock=EXACT)
    with pytest.raises(AssertionError, match="go back"):
        world.after(-1, lambda: None)
    world.add_process("a", obedient)
    world.tell("a", "main", Told(0, [SetTimer("early", -1)]))
    with pytest.raises(RunFailed, match="-1 us ahead"):
        world.run_until(10)


def test_a_stop_waits_for_what_others_of_the_process_have_on_their_way_to_disk() -> None:
    """Reference: docs/contracts.md, "A clean end still carries out what was returned"."""
    world = World(seed=1, clock=EXACT, disk=DiskSettings(sync_us=500, jitter_us=0, tail_probability=0))
    world.add_process("a", lambda boot: {"main": Scripted(obey), "other": Scripted(obey)})
    world.add_process("b", obedient)
    world.run_until(10)
    send = SendDatagrams(Address("b.1"), [[b"held back"]])
    world.tell("a", "main", Told(0, [Persist(1, [Put("cell", b"v")]), send]))
    world.tell("a", "other", Told(0, [Stop("done"), SetTimer("never", 5)]))
    world.run_until(100)
    assert world.is_up("a")
    world.run_until(10_000)
    assert not world.is_up("a")
    heard = main(world, "b").heard
    assert [bytes(event.data) for event in heard if isinstance(event, DatagramsReceived)] == [b"held back"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinkSettings(loss=2.0),
        lambda: LinkSettings(latency_us=-1),
        lambda: DiskSettings(failure=-0.1),
        lambda: DiskSettings(sync_us=-1),
    ],
)
def test_settings_out_of_range_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(LocalProtocolError, match=r"probability|negative"):
        make()


def test_a_datagram_over_the_limit_is_the_senders_bug() -> None:
    world = World(seed=1, clock=EXACT)
    for name in ("a", "b"):
        world.add_process(name, obedient)
    world.tell("a", "main", Told(0, [SendDatagrams(Address("b.1"), [[bytes(65_508)]])]))
    with pytest.raises(RunFailed, match="65508 bytes"):
        world.run_until(10)
