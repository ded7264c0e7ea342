from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core import boundary, contract
from isotone.core.boundary import Requested, Send
from isotone.core.bundles import Bundle
from isotone.core.contract import Action, DatagramsReceived, Event, Persist, Put, Record, SetTimer, Started, TimerFired
from isotone.core.errors import InputError, LocalProtocolError, MachineError
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service
from isotone.trace.events import Recovered
from isotone.trace.journal import MAGIC, JournalWriter, encode_actions, read_journal, register_events, replay
from isotone.trace.records import END, frame, preamble
from isotone.trace.tree import to_tree

ALICE = ClientId(DaemonId("d1", 1), "alice", 1)
EVENTS = [
    each
    for module in (contract, boundary)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Event) and each is not Event
]

_mappings = st.dictionaries(st.text(max_size=3), st.binary(max_size=3), max_size=2)
_numbers = st.integers(-(2**63), 2**64 - 1)
_storages = st.builds(
    contract.Storage,
    cells=_mappings,
    logs=st.dictionaries(
        st.text(max_size=3),
        st.builds(
            contract.StoredLog,
            first=_numbers,
            records=st.lists(st.binary(max_size=3), max_size=2) | st.tuples(st.binary(max_size=3)),
            damaged=st.tuples() | st.tuples(_numbers),
        ),
        max_size=2,
    ),
)


@pytest.fixture(autouse=True, scope="module")
def numbers_that_messagepack_holds() -> Iterator[None]:
    st.register_type_strategy(int, _numbers)
    yield
    st.register_type_strategy(int, st.integers())


def events_of(event: type[Event]) -> st.SearchStrategy[Event]:
    hints = {field.name: field.type for field in msgspec.structs.fields(event)}
    fields = {name: _storages if hint is contract.Storage else st.from_type(hint) for name, hint in hints.items()}
    return st.builds(event, **fields)


def test_the_contract_has_events() -> None:
    assert {"Started", "TimerFired", "DatagramsReceived", "Persisted", "Requested", "Indicated"} <= {
        event.__name__ for event in EVENTS
    }


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_every_event_round_trips(tmp_path: Path, event: type[Event]) -> None:
    path = tmp_path / "journal"

    @given(st.lists(st.tuples(st.text(max_size=4), events_of(event)), max_size=3))
    def check(pairs: list[tuple[str, Event]]) -> None:
        path.unlink(missing_ok=True)
        writer = JournalWriter(path)
        for label, each in pairs:
            writer.append(label, each)
        writer.close()
        torn: list[str] = []
        assert list(read_journal(path, on_torn=torn.append)) == pairs
        assert torn == []

    check()


def test_buffers_come_back_as_bytes(tmp_path: Path) -> None:
    payload = memoryview(bytearray(b"hello"))
    bundle = Bundle(ALICE, 1, Service.SAFE, ("g",), (5,), (0,), payload)
    events: list[Event] = [DatagramsReceived(1, contract.Address("a"), payload, 5), Requested(2, ALICE, Send(bundle))]
    writer = JournalWriter(tmp_path / "j")
    for event in events:
        writer.append("x", event)
    writer.close()
    (_, first), (_, second) = read_journal(tmp_path / "j")
    assert [first, second] == events
    assert isinstance(first, DatagramsReceived) and type(first.data) is bytes
    assert isinstance(second, Requested) and isinstance(second.request, Send)
    assert type(second.request.bundle.service) is Service


def test_torn_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "j"
    writer = JournalWriter(path)
    for number in range(3):
        writer.append("x", TimerFired(number, ("retry", number)))
    writer.close()
    whole = path.read_bytes()
    counts = []
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        torn: list[str] = []
        found = list(read_journal(path, on_torn=torn.append))
        assert found == [("x", TimerFired(number, ("retry", number))) for number in range(len(found))]
        assert len(torn) == 1
        counts.append(len(found))
        with pytest.raises(InputError, match="the journal is not whole: "):
            list(read_journal(path))
    assert counts == sorted(counts) and set(counts) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"hello", "this is not a journal"),
        (preamble(MAGIC, 9), "journal version 9 is unknown here"),
        (preamble(MAGIC, 1) + frame(b"\xc1\xc1"), "not an event"),
        (preamble(MAGIC, 1) + frame(msgspec.msgpack.encode(["x", [4, "Nonsense", 1]])), "unknown class 'Nonsense'"),
        (preamble(MAGIC, 1) + frame(msgspec.msgpack.encode(["x", [4, "Persisted", 1, 2, 3]])), "not an event"),
        (preamble(MAGIC, 1) + frame(msgspec.msgpack.encode(["x", [4, "DaemonId", "d", 1]])), "not an event: DaemonId"),
        (preamble(MAGIC, 1) + frame(msgspec.msgpack.encode(["x", 5])), "not an event: int"),
        (preamble(MAGIC, 1) + frame(msgspec.msgpack.encode(["x", [9, 5]])), "unknown form 9"),
        (preamble(MAGIC, 1) + frame(msgspec.msgpack.encode(["x", []])), "an empty array"),
        (preamble(MAGIC, 1) + frame(msgspec.msgpack.encode(["x", [[1]]])), "not an event"),
        (preamble(MAGIC, 1) + frame(msgspec.msgpack.encode(["x", [5, "Service", 77]])), "not an event"),
        (preamble(MAGIC, 1) + frame(END) + b"x", "the journal is not whole: bytes behind its end"),
        (b"", "the journal is not whole: the file ends within its first bytes"),
        (preamble(MAGIC, 1) + frame(b"\x92\xa1x" + b"\x92\x00" * 100_000 + b"\x01"), "not an event"),
    ],
)
def test_what_is_not_a_journal(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "j").write_bytes(data)
    with pytest.raises(InputError, match=said):
        list(read_journal(tmp_path / "j"))


DAEMON = [4, "DaemonId", "d", 1]
CLIENT = [4, "ClientId", DAEMON, "c", 1]


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ([4, "TimerFired", "notint", "k"], "TimerFired: 'notint' cannot stand in the field 'at'"),
        ([4, "TimerFired", True, "k"], "the field 'at'"),
        ([4, "TimerFired", 1, 5], "the field 'key'"),
        ([4, "TimerFired", 1, [1, "k", None]], "the field 'key'"),
        ([4, "TimerFired", 1, [0, "k"]], "the field 'key'"),
        ([4, "DatagramsReceived", 1, 5, b"", 1], "the field 'source'"),
        ([4, "DatagramsReceived", 1, "a", "text", 1], "the field 'data'"),
        ([4, "Started", 1, DAEMON], "the field 'storage'"),
        ([4, "Started", 1, [4, "Storage", 5, [3]]], "Storage: 5 cannot stand in the field 'cells'"),
        ([4, "Started", 1, [4, "Storage", [3, ["a", "text"]], [3]]], "the field 'cells'"),
        ([4, "Started", 1, [4, "Storage", [3], [3, ["a", [4, "StoredLog", 0, 5]]]]], "the field 'records'"),
        ([4, "StreamOpened", 1, 2, "a", 1], "the field 'accepted'"),
        ([4, "Requested", 1, DAEMON, [4, "Connect"]], "the field 'client'"),
        ([4, "Requested", 1, CLIENT, [4, "Refused", "join", "no"]], "the field 'request'"),
        ([4, "Indicated", 1, [1, DAEMON], [4, "SelfLeave", "g"]], "the field 'receivers'"),
    ],
)
def test_fields_of_a_wrong_type_are_named(tmp_path: Path, tree: list[Any], said: str) -> None:
    (tmp_path / "j").write_bytes(preamble(MAGIC, 1) + frame(msgspec.msgpack.encode(["x", tree])) + frame(END))
    with pytest.raises(InputError, match=said):
        list(read_journal(tmp_path / "j"))


def test_files_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        list(read_journal(tmp_path / "nowhere"))
    JournalWriter(tmp_path / "j").close()
    with pytest.raises(MachineError, match="cannot write the journal"):
        JournalWriter(tmp_path / "j")


class Colour(msgspec.Struct, frozen=True):
    name: str


class Painted(Event, frozen=True):
    colours: tuple[Colour, ...]
    moods: frozenset[str] = frozenset()


def test_events_of_another_package(tmp_path: Path) -> None:
    event = Painted(1, (Colour("red"), Colour("blue")), frozenset("abc"))
    writer = JournalWriter(tmp_path / "j")
    writer.append("x", event)
    writer.close()
    with pytest.raises(InputError, match=r"unknown class '.*test_journal\.Painted'"):
        list(read_journal(tmp_path / "j"))
    register_events(Painted)
    register_events(Painted)
    assert list(read_journal(tmp_path / "j")) == [("x", event)]
    not_an_event: Any = Colour
    with pytest.raises(LocalProtocolError, match="Colour is not an event"):
        register_events(not_an_event)


def test_a_machine_that_refuses_ends_the_journal_and_not_the_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    writer = JournalWriter(tmp_path / "j")
    writer.append("x", TimerFired(1, "a"))
    writer.flush()
    with monkeypatch.context() as patch:
        patch.setattr("os.write", fail)
        writer.append("x", TimerFired(2, "b" * 100_000))
    writer.append("x", TimerFired(3, "c"))
    writer.close()
    assert "No space" in writer.problem
    torn: list[str] = []
    assert list(read_journal(tmp_path / "j", on_torn=torn.append)) == [("x", TimerFired(1, "a"))]
    assert torn == ["the writer did not close it"]


def test_an_event_that_cannot_be_written_ends_it_too(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "j")
    for key in ("a", "\udcff", "b"):
        writer.append("x", TimerFired(1, key))
    writer.close()
    assert "surrogates" in writer.problem
    torn: list[str] = []
    assert list(read_journal(tmp_path / "j", on_torn=torn.append)) == [("x", TimerFired(1, "a"))]
    assert torn == ["the writer did not close it"]


class Echo:
    """Counts, and acts on what it counted; a second one does the same."""

    def __init__(self, step: int = 1) -> None:
        self._count = 0
        self._step = step

    def handle(self, event: Event) -> list[Action]:
        self._count += self._step
        if isinstance(event, Started):
            return []
        return [SetTimer(("n", self._count), event.at), Persist(self._count, [Put("cell", b"x")])]


def test_replay_yields_the_same_actions_byte_for_byte(tmp_path: Path) -> None:
    events: list[Event] = [Started(0), TimerFired(5, "a"), TimerFired(9, ("b", 1))]
    writer = JournalWriter(tmp_path / "j")
    for event in events:
        writer.append("echo", event)
    writer.close()
    digest = replay(Echo(), events)
    assert replay(Echo(), (event for _, event in read_journal(tmp_path / "j"))) == digest
    assert replay(Echo(step=2), events) != digest
    assert replay(Echo(), events[:2]) != digest


def test_actions_are_compared_by_value() -> None:
    lists = Persist(1, [Put("cell", b"x")])
    tuples = Persist(1, (Put("cell", b"x"),))
    assert encode_actions([lists]) == encode_actions([tuples])
    assert encode_actions([lists]) != encode_actions([Persist(1, [Put("cell", b"y")])])
    assert encode_actions([lists]) != encode_actions([lists, lists])
    assert encode_actions([SetTimer("a", 1)]) != encode_actions([SetTimer(("a",), 1)])
    assert encode_actions([Record(Recovered("d1#1"))]) != encode_actions([Record(Recovered("d1#2"))])


def test_sets_and_mappings_have_one_canonical_form() -> None:
    assert to_tree({"b": 1, "a": 2}, canonical=True) == to_tree({"a": 2, "b": 1}, canonical=True)
    assert to_tree({"b": 1, "a": 2}) != to_tree({"a": 2, "b": 1})
    assert to_tree(frozenset("cab")) == [2, "a", "b", "c"]
    with pytest.raises(LocalProtocolError, match="object cannot be written"):
        to_tree(object())
