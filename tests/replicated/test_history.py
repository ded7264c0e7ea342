"""Histories in the forms of other checkers."""

from __future__ import annotations

from isotone.replicated.history import elle_register, knossos
from isotone.trace.events import Entry, Row
from isotone.trace.replicated import ObjectAnswered, ObjectCalled


def rows() -> list[Row]:
    entries: list[Entry] = [
        ObjectCalled("a", "a/1", "dict", "stock", "set", "apples", "3", 10),
        ObjectAnswered("a", "a/1", "done", "", 20),
        ObjectCalled("b", "b/1", "dict", "stock", "get", "apples", "", 15),
        ObjectAnswered("b", "b/1", "done", "-", 16),
        ObjectCalled("b", "b/2", "dict", "stock", "compare_and_set", "apples", "3>4", 30),
        ObjectAnswered("b", "b/2", "done", "0", 31),
        ObjectCalled("b", "b/3", "dict", "stock", "set", "apples", 'x"y', 40),
        ObjectAnswered("b", "b/3", "not", "", 41),
        ObjectCalled("b", "b/4", "dict", "stock", "delete", "apples", "", 50),
    ]
    return [Row("n", 1, number, 0, entry) for number, entry in enumerate(entries)]


def test_knossos() -> None:
    assert list(knossos(rows(), "stock", "apples")) == [
        "{:index 0, :type :invoke, :process 0, :f :write, :value 3}",
        "{:index 1, :type :invoke, :process 1, :f :read, :value nil}",
        "{:index 2, :type :ok, :process 1, :f :read, :value nil}",
        "{:index 3, :type :ok, :process 0, :f :write, :value 3}",
        "{:index 4, :type :invoke, :process 2, :f :cas, :value [3 4]}",
        "{:index 5, :type :fail, :process 2, :f :cas, :value [3 4]}",
        '{:index 6, :type :invoke, :process 3, :f :write, :value "x\\"y"}',
        '{:index 7, :type :fail, :process 3, :f :write, :value "x\\"y"}',
        "{:index 8, :type :invoke, :process 4, :f :write, :value nil}",
    ]


def test_elle() -> None:
    assert list(elle_register(rows(), "stock"))[:4] == [
        '{:index 0, :type :invoke, :process 0, :f :txn, :value [[:w "apples" 3]]}',
        '{:index 1, :type :invoke, :process 1, :f :txn, :value [[:r "apples" nil]]}',
        '{:index 2, :type :ok, :process 1, :f :txn, :value [[:r "apples" nil]]}',
        '{:index 3, :type :ok, :process 0, :f :txn, :value [[:w "apples" 3]]}',
    ]
