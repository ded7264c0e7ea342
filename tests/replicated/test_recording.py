"""What is recorded of calls and answers, from the objects to the check and to other checkers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import isotone
from isotone.cli.check import check_traces
from isotone.core.errors import InputError
from isotone.core.ordered_log import Maybe
from isotone.replicated.caller import Reply
from isotone.replicated.errors import Rejected
from isotone.replicated.history import elle_list_append, elle_register
from isotone.replicated.recording import HistoryRecorder, text_of, told_call
from isotone.trace.events import Entry, Row
from isotone.trace.jsonl import write_jsonl
from isotone.trace.reader import read
from isotone.trace.replicated import ObjectAnswered, ObjectCalled
from tests.cli.running import isotone as run
from tests.ports import free_port

WITHIN_S = 30.0


def encoded(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (encoded(3), "3"),
        (encoded("3"), '"3"'),
        (encoded("a>b"), '"a\\u003eb"'),
        (encoded([1]), "x9101"),
        (b"\xcc\x03", "xcc03"),  # 3, written longer than need be: bytes that somebody chose
        (b"\xc1", "xc1"),
        (None, "-"),
    ],
)
def test_every_value_has_a_text_of_its_own(value: bytes | None, text: str) -> None:
    assert text_of(value) == text


def test_long_values_are_told_by_their_digest() -> None:
    assert text_of(b"x" * 1000) != text_of(b"x" * 1001)
    assert len(text_of(b"x" * 1000)) == 33


def recorded() -> tuple[HistoryRecorder, list[Entry]]:
    entries: list[Entry] = []
    return HistoryRecorder("a", entries.append, lambda: len(entries)), entries


@pytest.mark.parametrize(("error", "answers"), [(Maybe("nobody knows"), 0), (Rejected("no"), 1)])
def test_only_what_is_certain_is_an_answer(error: Exception, answers: int) -> None:
    recorder, entries = recorded()

    async def called() -> Reply:
        raise error

    with pytest.raises(type(error)):
        asyncio.run(recorder.of_call("dict", "stock", "set", ("apples", encoded(3), False), called()))
    assert [each.answer for each in entries if isinstance(each, ObjectAnswered)] == ["not"] * answers


def test_commands_that_nobody_judges_are_not_recorded() -> None:
    assert told_call("lock", "acquire", (True, 1, True, b"")) is None


async def use(shop: Any) -> None:
    """Every operation that is recorded."""
    stock, people, hits = shop.dict("stock"), shop.set("people"), shop.counter("hits")
    await stock.set("apples", 3, within_s=WITHIN_S)
    assert await stock.get("apples") == 3
    assert await stock.get("pears") is None
    assert await stock.compare_and_set("apples", 3, 4)
    assert not await stock.compare_and_set("apples", 3, 5)
    assert await stock.transact(when={"apples": 4}, then={"apples": 6, "pears": 1})
    assert not await stock.transact(when={"apples": 4}, then={"apples": 7}, otherwise={"plums": 8})
    assert await stock.items() == {"apples": 6, "pears": 1, "plums": 8}
    assert await stock.delete("plums")
    assert await people.add("alice") and await people.add(7) and not await people.add(7)
    assert await people.contains("alice") and not await people.contains("bob")
    assert await people.members() == ["alice", 7]
    assert await hits.add(2) == 2 and await hits.set(9) == 9 and await hits.get() == 9
    await stock.set("worker", 1, owned=True)
    assert await stock.get("apples", stale_ok=True) == 6  # is no part of a history


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a server and of a client, which is another program."""
    directory = tmp_path_factory.mktemp("recording")

    async def main() -> None:
        place, told = f"127.0.0.1:{free_port()}", directory / "histories"
        async with isotone.replica(
            "shop", name="a", state=directory / "a", address=place, clients="127.0.0.1:0", history=told
        ) as shop:
            await use(shop)
            async with isotone.connect_replica(shop.clients_address, history=told) as client:
                assert await client.dict("stock").get("apples", within_s=WITHIN_S) == 6

    asyncio.run(main())
    return directory / "histories"


def test_what_really_happened_is_linearizable(histories: Path) -> None:
    summary = check_traces([histories])
    assert summary.properties["REP-LINEAR"]["holds"] == 1 and not summary.violations
    methods = {row.entry.method for row in read([histories]) if isinstance(row.entry, ObjectCalled)}
    assert methods == {
        *("set", "get", "compare_and_set", "transact", "items", "delete", "set_owned"),
        *("join", "has", "members", "add", "count"),
    }


def lie(change: Callable[[ObjectCalled, ObjectAnswered], bool], result: str) -> Callable[[list[Row]], list[Row]]:
    """The first answer for which it is so is another one."""

    def told(rows: list[Row]) -> list[Row]:
        calls = {row.entry.operation: row.entry for row in rows if isinstance(row.entry, ObjectCalled)}
        for place, row in enumerate(rows):
            entry = row.entry
            if isinstance(entry, ObjectAnswered) and change(calls[entry.operation], entry):
                other = msgspec.structs.replace(entry, result=result)
                return [*rows[:place], msgspec.structs.replace(row, entry=other), *rows[place + 1 :]]
        raise AssertionError("no such answer")

    return told


LIES = {
    "a stale read": lie(lambda call, _: call.method == "get" and call.key == "apples", "-"),
    "a transaction that did not hold": lie(lambda call, _: call.method == "transact", "0"),
    "a transaction that held": lie(lambda call, answer: call.method == "transact" and answer.result == "0", "1"),
    "a read of all keys that lacks one": lie(lambda call, _: call.method == "items", '{"apples":"6","plums":"8"}'),
    "a read of all keys with one that nobody set": lie(
        lambda call, _: call.method == "items", '{"apples":"6","figs":"1","pears":"1","plums":"8"}'
    ),
    "a read of members that lacks one": lie(lambda call, _: call.method == "members", '["7"]'),
    "a lost addition": lie(lambda call, _: call.method == "count", "2"),
}


@pytest.mark.parametrize("told", LIES.values(), ids=LIES)
def test_a_history_with_a_lie_in_it_is_caught(
    histories: Path, tmp_path: Path, told: Callable[[list[Row]], list[Row]]
) -> None:
    write_jsonl(tmp_path / "lie.jsonl", "history", told(list(read([histories]))))
    summary = check_traces([tmp_path / "lie.jsonl"])
    assert [each.property for each in summary.failures] == ["REP-LINEAR"]


@pytest.mark.parametrize("spoilt", ["{", "[]"])
def test_an_operation_that_cannot_be_read_is_named(histories: Path, tmp_path: Path, spoilt: str) -> None:
    rows = lie(lambda call, _: call.method == "items", spoilt)(list(read([histories])))
    write_jsonl(tmp_path / "spoilt.jsonl", "history", rows)
    with pytest.raises(InputError, match="cannot be read"):
        check_traces([tmp_path / "spoilt.jsonl"])


def test_other_checkers_read_it(histories: Path) -> None:
    done = run("replica", "history", str(histories), "--form", "elle-list-append", "--object", "people")
    assert done.exit_code == 0, done.output
    told = [line.partition(", ")[2] for line in done.output.splitlines()]
    assert told == [
        ':type :invoke, :process 0, :f :txn, :value [[:append "people" "alice"]]}',
        ':type :ok, :process 0, :f :txn, :value [[:append "people" "alice"]]}',
        ':type :invoke, :process 1, :f :txn, :value [[:append "people" 7]]}',
        ':type :ok, :process 1, :f :txn, :value [[:append "people" 7]]}',
        ':type :invoke, :process 2, :f :txn, :value [[:append "people" 7]]}',
        ':type :fail, :process 2, :f :txn, :value [[:append "people" 7]]}',
        ':type :invoke, :process 3, :f :txn, :value [[:r "people" nil]]}',
        ':type :ok, :process 3, :f :txn, :value [[:r "people" ["alice" 7]]]}',
    ]
    wrong = run("replica", "history", str(histories), "--form", "knossos", "--object", "stock")
    assert wrong.exit_code == 2


def test_a_transaction_is_one_for_elle(histories: Path) -> None:
    told = [line.partition(", ")[2] for line in elle_register(read([histories]), "stock") if "apples" in line]
    assert ':type :ok, :process 3, :f :txn, :value [[:r "apples" 4] [:w "apples" 6] [:w "pears" 1]]}' in told


def test_a_set_that_shrinks_is_no_list() -> None:
    rows = [Row("n", 1, 0, 0, ObjectCalled("a", "a/1", "set", "people", "part", "7", "", 1))]
    with pytest.raises(InputError, match="discarded"):
        list(elle_list_append(rows, "people"))
