"""The state machine: records in, answers out; the same everywhere, and after a snapshot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from isotone.core.errors import InputError, LocalProtocolError, MachineError
from isotone.replicated import dict_state, lock_state, machine, small_states
from isotone.replicated.class_state import Classes, command
from isotone.replicated.machine import Machine, Outcome
from isotone.replicated.outcome import Answer
from isotone.replicated.own_class import bound_arguments
from isotone.replicated.records import (
    MARK,
    Announced,
    Called,
    Closed,
    Opened,
    Record,
    Removed,
    Renewed,
    Ticked,
    decode,
    encode,
)

SERVERS = ("a", "b", "c")


class Script:
    """A machine and its next position; each call is checked against a copy that goes through snapshots."""

    def __init__(self, classes: Classes | None = None) -> None:
        self.machine = Machine(classes)
        self._requests: dict[int, int] = {}

    def put(self, record: Record | bytes) -> Outcome:
        raw = record if isinstance(record, bytes) else encode(record)
        copy = Machine(self.machine.classes)
        copy.restore(self.machine.snapshot())
        position = self.machine.state.position + 1
        outcome = self.machine.apply(position, raw)
        assert copy.apply(position, raw) == outcome and copy.digest() == self.machine.digest()
        return outcome

    def open(self, lease: int = 3) -> int:
        opened = self.put(Opened("nonce", lease)).opened
        assert opened is not None
        return opened[1]

    def call(self, session: int, kind: str, name: str, method: str, *arguments: Any) -> list[Answer]:
        request = self._requests[session] = self._requests.get(session, 0) + 1
        return self.put(Called(session, request, request, kind, name, method, arguments)).answers

    def value(self, session: int, kind: str, name: str, method: str, *arguments: Any) -> Any:
        (answer,) = self.call(session, kind, name, method, *arguments)
        assert not answer.error
        return answer.value

    def rounds(self, count: int) -> list[int]:
        """The lease clock goes on; the sessions that end."""
        ended = []
        for _ in range(count):
            for server in SERVERS[:2]:
                ended += self.put(Ticked(server, self.machine.state.round, SERVERS)).expired
        return ended


def test_a_command_that_comes_twice_is_applied_once() -> None:
    script = Script()
    session = script.open()
    call = Called(session, 1, 1, "counter", "hits", "add", (5,))
    assert script.put(call).answers == [Answer(session, 1, 5)]
    assert script.put(call).answers == [Answer(session, 1, 5)]
    assert script.put(Called(session, 2, 2, "counter", "hits", "add", (1,))).answers == [Answer(session, 2, 6)]
    assert script.put(call).answers == []  # settled: nobody asks any more


def test_a_command_of_a_session_that_is_over_is_refused() -> None:
    script = Script()
    session = script.open()
    script.put(Closed(session))
    (answer,) = script.call(session, "counter", "hits", "add", 1)
    assert answer.error and not script.machine.state.objects


def test_a_session_ends_by_the_ticks_of_most_servers_and_not_by_those_of_one() -> None:
    script = Script()
    session = script.open(lease=3)
    for _ in range(20):
        assert not script.put(Ticked("a", script.machine.state.round, SERVERS)).expired
    assert script.machine.state.round == 0
    assert script.rounds(2) == []
    script.put(Renewed(session))
    assert script.rounds(2) == [] and script.rounds(1) == [session]


def test_a_late_tick_counts_for_nothing() -> None:
    script = Script()
    script.put(Ticked("a", 5, SERVERS))
    script.put(Ticked("b", 5, SERVERS))
    script.put(Ticked("x", 0, SERVERS))
    assert script.machine.state.round == 0 and not script.machine.state.ticked


def test_a_lock_goes_to_the_next_with_a_higher_fence() -> None:
    script = Script()
    one, two, three = script.open(), script.open(), script.open(lease=100)
    acquire = ("lock", "door", "acquire", True, 1, True, b"")
    fence = script.value(one, *acquire)
    assert script.call(two, *acquire) == [] and script.call(three, *acquire) == []
    assert script.value(three, "lock", "door", "release", fence) is False  # another one's
    script.put(Closed(two))
    answers = script.call(one, "lock", "door", "release", fence)
    assert [(each.session, each.value) for each in answers] == [(three, fence + 1), (one, True)]


def test_readers_share_and_a_writer_waits_for_all_of_them() -> None:
    script = Script()
    one, two, three = script.open(), script.open(), script.open()
    first = script.value(one, "lock", "book", "acquire", False, 9, True, b"")
    second = script.value(two, "lock", "book", "acquire", False, 9, True, b"")
    assert script.call(three, "lock", "book", "acquire", True, 9, True, b"") == []
    assert script.value(one, "lock", "book", "acquire", False, 9, False, b"") is None  # behind the writer
    script.call(one, "lock", "book", "release", first)
    answers = script.call(two, "lock", "book", "release", second)
    assert answers[0].session == three


def test_an_item_comes_back_when_its_taker_dies() -> None:
    script = Script()
    one, two = script.open(lease=2), script.open(lease=100)
    number = script.value(two, "queue", "jobs", "put", b"x")
    assert script.value(one, "queue", "jobs", "take", True) == [number, b"x", 1, 1]
    assert script.call(two, "queue", "jobs", "take", True) == []
    script.machine.state.sessions[two].renewed = 10
    assert script.rounds(2) == [one]
    assert script.value(two, "queue", "jobs", "done", number, 1) is False  # the fence of the dead one
    assert script.value(two, "queue", "jobs", "done", number, 2) is True


def test_owned_entries_go_with_their_session() -> None:
    script = Script()
    one, two = script.open(), script.open()
    script.call(one, "dict", "stock", "set", "mine", b"1", True)
    script.call(two, "dict", "stock", "set", "theirs", b"1", False)
    script.put(Closed(one))
    stock = script.machine.state.objects["stock"]
    assert isinstance(stock, dict_state.DictState) and list(stock.entries) == ["theirs"]
    assert [(each.key, each.value) for each in stock.changes][-1] == ("mine", None)


def test_a_transaction_is_all_or_nothing() -> None:
    script = Script()
    session = script.open()
    script.call(session, "dict", "stock", "set", "apples", b"3", False)
    done = script.value(
        session, "dict", "stock", "transact", [["value", "apples", b"3"]], [["apples", None], ["pears", b"1"]], []
    )
    assert done[0] is True
    done = script.value(
        session, "dict", "stock", "transact", [["revision", "apples", 7]], [["plums", b"1"]], [["missed", b"1"]]
    )
    assert done[0] is False
    stock = script.machine.state.objects["stock"]
    assert isinstance(stock, dict_state.DictState) and sorted(stock.entries) == ["missed", "pears"]
    (answer,) = script.call(session, "dict", "stock", "transact", [["odd"]], [["x", b"1"]], [])
    assert answer.error and "x" not in stock.entries


@pytest.mark.parametrize(("votes", "decision"), [((True, True), "commit"), ((True, False), "abort")])
def test_the_first_suggestion_decides(votes: tuple[bool, bool], decision: str) -> None:
    script = Script()
    one, two = script.open(), script.open()
    for session, name, yes in zip((one, two), "ab", votes, strict=True):
        script.call(session, "commitment", "deal", "begin", ["a", "b"], name)
        script.call(session, "commitment", "deal", "vote", name, yes)
    assert script.value(one, "commitment", "deal", "wait") == decision
    assert script.value(two, "commitment", "deal", "abort") == decision


def test_a_participant_that_dies_before_its_vote_aborts() -> None:
    script = Script()
    one, two = script.open(), script.open()
    script.call(one, "commitment", "deal", "begin", ["a", "b"], "a")
    script.call(two, "commitment", "deal", "begin", ["a", "b"], "b")
    script.call(one, "commitment", "deal", "vote", "a", True)
    assert script.call(one, "commitment", "deal", "wait") == []
    assert [each.value for each in script.put(Closed(two)).answers] == ["abort"]


def test_one_name_is_one_kind_of_object() -> None:
    script = Script()
    session = script.open()
    script.call(session, "counter", "x", "add", 1)
    (answer,) = script.call(session, "dict", "x", "delete", "k")
    assert answer.error == "x is a counter, not a dict"


@pytest.mark.parametrize(
    ("kind", "method", "arguments"),
    [
        ("dict", "set", (1, b"", False)),
        ("dict", "explode", ()),
        ("counter", "add", ("x",)),
        ("counter", "add", (2**63 - 1, 1)),
        ("set", "add", (1,)),
        ("queue", "put", (1,)),
        ("lock", "acquire", (True, 0, True, b"")),
        ("barrier", "arrive", (0,)),
        ("commitment", "vote", ("x", True)),
        ("nothing", "x", ()),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_no_object(
    kind: str, method: str, arguments: tuple[Any, ...]
) -> None:
    script = Script()
    (answer,) = script.call(script.open(), kind, "x", method, *arguments)
    assert answer.error and answer.value is None
    assert not script.machine.state.objects


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SESSIONS_MAX", 2)
    monkeypatch.setattr(machine, "OBJECTS_MAX", 1)
    monkeypatch.setattr(machine, "RESULTS_MAX", 3)
    monkeypatch.setattr(dict_state, "ENTRIES_MAX", 1)
    monkeypatch.setattr(lock_state, "WAITING_MAX", 0)
    monkeypatch.setattr(small_states, "ITEMS_MAX", 0)
    script = Script()
    session = script.open()
    script.open()
    assert script.put(Opened("third", 3)).opened == ("third", 0)
    script.call(session, "dict", "d", "set", "a", b"", False)
    assert "full" in script.call(session, "dict", "d", "set", "b", b"", False)[0].error
    assert "full" in script.call(session, "dict", "d", "transact", [], [["b", b""]], [])[0].error
    assert "already" in script.call(session, "counter", "c", "add", 1)[0].error
    for request in (10, 11, 12):
        outcome = script.put(Called(session, request, 5, "dict", "d", "delete", ("x",)))
    assert not outcome.answers[0].error
    outcome = script.put(Called(session, 13, 5, "dict", "d", "delete", ("x",)))
    assert "too many requests" in outcome.answers[0].error


def test_changes_are_forgotten_from_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dict_state, "CHANGES_MAX", 4)
    script = Script()
    session = script.open()
    for number in range(20):
        script.call(session, "dict", "d", "set", f"k{number}", b"", False)
    state = script.machine.state.objects["d"]
    assert isinstance(state, dict_state.DictState)
    assert 4 <= len(state.changes) <= 8 and state.forgotten == state.changes[0].revision - 1


def test_records_of_others_are_passed_over_and_newer_ones_stop() -> None:
    script = Script()
    assert script.put(b"hello") == Outcome() and script.machine.state.position == 1
    with pytest.raises(InputError, match="newer version"):
        decode(MARK + b"\x63")
    with pytest.raises(InputError, match="cannot be read"):
        decode(MARK + b"\x01\xff")


def test_a_state_of_another_version_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Machine().restore(b"\xff")
    other = Machine()
    other.state.version = 99
    with pytest.raises(InputError, match="version 99"):
        Machine().restore(other.snapshot())


class Account(msgspec.Struct):
    """A class of one's own."""

    balance: int = 0

    @command
    def deposit(self, amount: int) -> int:
        self.balance += amount
        if self.balance > 100:
            raise ValueError("too much")
        return self.balance

    @command
    def roll(self) -> int:
        import random

        self.balance = random.getrandbits(60)
        return self.balance


def classes() -> Classes:
    made = Classes()
    assert made.add(Account) == "class:Account"
    return made


def announce(script: Script, *servers: str) -> None:
    for server in servers:
        script.put(Announced(server, SERVERS, "class:Account", ("deposit", "roll")))


def test_a_command_that_one_server_does_not_know_is_refused() -> None:
    script = Script(classes())
    session = script.open()
    announce(script, "a", "b")
    (answer,) = script.call(session, "class:Account", "alice", "deposit", 1)
    assert "not known to the program of c" in answer.error and not script.machine.state.objects
    announce(script, "c")
    assert script.value(session, "class:Account", "alice", "deposit", 1) == 1


def test_a_command_that_raises_changes_nothing() -> None:
    script = Script(classes())
    session = script.open()
    announce(script, *SERVERS)
    assert script.value(session, "class:Account", "alice", "deposit", 60) == 60
    (answer,) = script.call(session, "class:Account", "alice", "deposit", 60)
    assert answer.error == "Account.deposit raised ValueError: too much"
    assert script.value(session, "class:Account", "alice", "deposit", 1) == 61


def test_a_server_without_the_class_stops_and_a_client_goes_on() -> None:
    script = Script(classes())
    session = script.open()
    announce(script, *SERVERS)
    call = encode(Called(session, 1, 1, "class:Account", "alice", "deposit", (1,)))
    for is_server in (True, False):
        other = Machine(is_server=is_server)
        other.restore(script.machine.snapshot())
        if is_server:
            with pytest.raises(InputError, match="does not know"):
                other.apply(other.state.position + 1, call)
        else:
            other.apply(other.state.position + 1, call)
            assert list(other.blind) == ["alice"]


def test_a_command_that_is_not_deterministic_is_caught() -> None:
    made = classes()
    made.twice = True
    checked = Machine(made)
    position = 0
    records: list[Record] = [Opened("n", 3)]
    records += [Announced(server, SERVERS, "class:Account", ("roll",)) for server in SERVERS]
    for record in records:
        position += 1
        checked.apply(position, encode(record))
    with pytest.raises(LocalProtocolError, match="not deterministic"):
        checked.apply(position + 1, encode(Called(1, 1, 1, "class:Account", "alice", "roll", ())))


class Plain:
    """Without fields that can be encoded."""

    @command
    def go(self) -> None: ...


def test_what_cannot_be_replicated_is_told() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be replicated"):
        Classes().add(Plain)
    with pytest.raises(LocalProtocolError, match="no command"):
        Classes().add(Script)


# --- what the machine lacks is no answer -----------------------------------------------------------------------------


class Deep(msgspec.Struct):
    """Commands that need more than there is."""

    depth: int = 0

    @command
    def dive(self) -> int:
        self.depth += 1
        return self.dive()

    @command
    def dive_and_hide_it(self) -> None:
        try:
            self.dive()
        except RecursionError:
            raise ValueError("not done") from None

    @command
    def fill(self) -> None:
        raise MemoryError

    @command
    def nest(self, depth: int = 100_000) -> list[Any]:
        return nested(depth)


def nested(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth - 1):
        made = [made]
    return made


@pytest.mark.parametrize("depth", [99, 100, 200])
def test_what_is_nested_too_deep_is_refused_as_argument_and_as_result(depth: int) -> None:
    made = Classes()
    made.add(Deep)
    script = Script(made)
    session = script.open()
    for server in SERVERS:
        script.put(Announced(server, SERVERS, "class:Deep", ("nest",)))
    (answer,) = script.call(session, "class:Deep", "x", "nest", depth)
    told = "Deep.nest raised ValueError: it returned a value that is nested deeper than 100"
    assert answer.error == (told if depth > 100 else "")
    if depth < 100:  # the arguments are a list themselves
        assert bound_arguments("x", Deep.nest, (nested(depth),), {}) == (nested(depth),)
    else:
        with pytest.raises(LocalProtocolError, match="an argument is nested deeper than 100"):
            bound_arguments("x", Deep.nest, (nested(depth),), {})


@pytest.mark.parametrize("method", ["dive", "dive_and_hide_it", "fill", "nest"])
def test_a_command_that_runs_out_of_stack_or_memory_stops_the_replica_and_is_no_answer(method: str) -> None:
    made = Classes()
    made.add(Deep)
    script = Script(made)
    session = script.open()
    for server in SERVERS:
        script.put(Announced(server, SERVERS, "class:Deep", (method,)))
    position = script.machine.state.position
    with pytest.raises(MachineError, match=rf"the command Deep\.{method} ran out of (stack|memory) here"):
        script.machine.apply(position + 1, encode(Called(session, 1, 1, "class:Deep", "x", method, ())))
    assert script.machine.state.position == position and not script.machine.state.objects


# --- objects that go -------------------------------------------------------------------------------------------------


def remove(script: Script, session: int, kind: str, name: str, who: str = "") -> Answer:
    request = 1_000 + script.machine.state.position
    (answer,) = script.put(Removed(session, request, request, kind, name, who)).answers[-1:]
    script._requests[session] = request
    return answer


def test_an_object_is_removed_and_its_room_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "OBJECTS_MAX", 1)
    script = Script()
    session = script.open()
    script.call(session, "counter", "hits", "add", 1)
    assert "remove some" in script.call(session, "set", "people", "add", b"x")[0].error
    assert remove(script, session, "dict", "hits").error == "hits is a counter, not a dict"
    assert remove(script, session, "counter", "hits").value is True
    assert remove(script, session, "counter", "hits").value is False
    assert script.value(session, "set", "people", "add", b"x") is True


def test_a_removal_that_comes_twice_is_done_once() -> None:
    script = Script()
    session = script.open()
    script.call(session, "counter", "hits", "add", 1)
    removed = Removed(session, 5, 5, "counter", "hits")
    assert script.put(removed).answers == [Answer(session, 5, True)]
    script.put(Called(session, 6, 5, "counter", "hits", "add", (1,)))
    assert script.put(removed).answers == [Answer(session, 5, True)]
    assert list(script.machine.state.objects) == ["hits"]


def test_what_is_in_use_is_not_removed() -> None:
    script = Script()
    session = script.open()
    fence = script.value(session, "lock", "door", "acquire", True, 1, True, b"")
    script.call(session, "queue", "jobs", "put", b"x")
    number, _, item_fence, _ = script.value(session, "queue", "jobs", "take", True)
    script.call(session, "barrier", "start", "arrive", 2)
    script.call(session, "commitment", "deal", "begin", ["a", "b"], "a")
    for kind, name in [("lock", "door"), ("queue", "jobs"), ("barrier", "start"), ("commitment", "deal")]:
        assert "is not removed" in remove(script, session, kind, name).error
    assert script.value(session, "lock", "door", "release", fence) is True
    assert script.value(session, "queue", "jobs", "done", number, item_fence) is True
    assert remove(script, session, "queue", "jobs").value is True
    assert list(script.machine.state.objects) == ["start", "deal"]


def test_a_lock_that_nobody_holds_or_waits_for_takes_no_room() -> None:
    script = Script()
    one, two = script.open(), script.open()
    for name in ("a", "b"):
        script.call(one, "lock", name, "acquire", True, 1, True, b"")
    script.call(two, "lock", "b", "acquire", True, 1, True, b"")
    assert script.value(two, "lock", "c", "release", 7) is False
    script.put(Closed(one))
    assert list(script.machine.state.objects) == ["b"]
    script.put(Closed(two))
    assert not script.machine.state.objects


def test_a_commitment_is_forgotten_when_all_participants_are_done_with_it() -> None:
    script = Script()
    one, two = script.open(), script.open()
    for session, name in ((one, "a"), (two, "b")):
        script.call(session, "commitment", "deal", "begin", ["a", "b"], name)
        assert "not decided" in remove(script, session, "commitment", "deal", name).error
        script.call(session, "commitment", "deal", "vote", name, True)
    assert "no participant" in remove(script, one, "commitment", "deal", "x").error
    assert remove(script, one, "commitment", "deal", "a").value is True
    assert remove(script, one, "commitment", "deal", "a").value is True
    assert script.value(two, "commitment", "deal", "wait") == "commit"
    assert remove(script, two, "commitment", "deal", "b").value is True
    assert not script.machine.state.objects


def test_a_dict_that_was_removed_told_its_deletions_and_knows_no_older_changes() -> None:
    script = Script()
    session = script.open()
    script.call(session, "dict", "stock", "set", "apples", b"1", False)
    known = script.machine.state.objects["stock"]
    assert isinstance(known, dict_state.DictState)
    remove(script, session, "dict", "stock")
    assert [(each.key, each.value) for each in known.changes] == [("apples", b"1"), ("apples", None)]
    removed_at = script.machine.state.position
    script.call(session, "dict", "stock", "set", "pears", b"1", False)
    again = script.machine.state.objects["stock"]
    assert isinstance(again, dict_state.DictState) and again.forgotten == removed_at
