"""Copies of a database: calls in their order, what is refused, what changed, restarts, damage."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isotone.core.errors import InputError, LocalProtocolError, MachineError
from isotone.replicated.database import database_copy, guard, tables
from isotone.replicated.database.changes import RowChange, TableChange
from isotone.replicated.database.database_copy import CallDone, DatabaseCopy
from isotone.replicated.database.files import DirectoryFiles, MemoryFiles
from isotone.replicated.database.procedures import Procedures
from isotone.replicated.database.state import Databases
from isotone.replicated.database.transaction import Transaction
from isotone.replicated.errors import ChangesForgotten
from isotone.replicated.machine import Machine
from isotone.replicated.records import Announced, Called, Opened, encode

ACCOUNTS = "CREATE TABLE account (owner TEXT PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0))"


def sql_procedures() -> Procedures:
    """One that runs what it is given, so that each test says what it does."""
    made = Procedures("bank")

    @made.procedure
    def run(db: Transaction, *statements: Any) -> list[Any]:
        return [db.execute(*each) if isinstance(each, list) else db.execute(each) for each in statements]

    @made.procedure
    def transfer(db: Transaction, giver: str, taker: str, amount: int) -> int:
        db.execute("UPDATE account SET balance = balance - ? WHERE owner = ?", amount, giver)
        db.execute("UPDATE account SET balance = balance + ? WHERE owner = ?", amount, taker)
        return int(db.execute("SELECT balance FROM account WHERE owner = ?", giver)[0][0])

    @made.procedure
    def careless(db: Transaction, *statements: str) -> int:
        for each in statements:
            try:
                db.execute(each)
            except Exception:
                continue
        return len(statements)

    @made.procedure
    def spin(db: Transaction) -> None:
        while True:
            db.execute("SELECT 1")

    @made.procedure
    def odd(db: Transaction) -> Any:
        return db

    return made


class Bank:
    """A copy and its next position."""

    def __init__(self, files: Any = None, procedures: Procedures | None = None, **options: Any) -> None:
        self.files = files or MemoryFiles()
        self.copy = DatabaseCopy(procedures or sql_procedures(), self.files, **options)
        self.copy.open(b"", 0, {})
        self.position = 0

    def call(self, procedure: str, *arguments: Any) -> CallDone:
        self.position += 1
        done = self.copy.call(self.position, b"%d" % self.position, procedure, arguments)
        assert self.copy.problems() == []
        return done

    def run(self, *statements: Any) -> Any:
        done = self.call("run", *statements)
        assert not done.error, done.error
        return done.value

    def why(self, *statements: Any) -> str:
        done = self.call("run", *statements)
        assert done.value is None
        return done.error

    def last(self) -> list[TableChange | RowChange]:
        (told,) = self.copy.changes(self.position - 1, 9)
        assert told.position == self.position
        return list(told.changes)


def bank(**options: Any) -> Bank:
    made = Bank(**options)
    made.run(ACCOUNTS, "INSERT INTO account VALUES ('alice', 10), ('bob', 5)")
    return made


def test_a_procedure_is_one_transaction_and_its_changes_are_told() -> None:
    made = bank()
    assert made.call("transfer", "alice", "bob", 3).value == 7
    assert made.copy.read("SELECT * FROM account ORDER BY owner", ()) == [("alice", 7), ("bob", 8)]
    assert made.last() == [
        RowChange("account", ("alice", 10), ("alice", 7)),
        RowChange("account", ("bob", 5), ("bob", 8)),
    ]
    assert [each.kind for each in made.last() if isinstance(each, RowChange)] == ["update", "update"]


def test_a_procedure_that_raises_changes_nothing() -> None:
    made = bank()
    done = made.call("transfer", "alice", "bob", 30)
    assert done.error == "transfer: raised IntegrityError: CHECK constraint failed: balance >= 0"
    assert made.copy.read("SELECT sum(balance) FROM account", ()) == [(15,)]
    assert made.copy.changes(made.position - 1, 9) == []


def test_only_the_net_change_of_a_row_is_told() -> None:
    made = bank()
    made.run(
        "INSERT INTO account VALUES ('carol', 1)",
        "UPDATE account SET balance = 2 WHERE owner = 'carol'",
        "UPDATE account SET owner = 'dora' WHERE owner = 'carol'",
        "DELETE FROM account WHERE owner = 'bob'",
        "INSERT INTO account VALUES ('bob', 5)",
        "INSERT OR REPLACE INTO account VALUES ('alice', 9)",
    )
    assert made.last() == [
        RowChange("account", ("alice", 10), ("alice", 9)),
        RowChange("account", None, ("dora", 2)),
    ]


def test_triggers_cascades_and_upserts_are_noticed() -> None:
    made = bank()
    made.run(
        "CREATE TABLE note (owner TEXT NOT NULL REFERENCES account (owner) ON DELETE CASCADE, n INTEGER, "
        "PRIMARY KEY (owner, n)) WITHOUT ROWID",
        "CREATE TRIGGER poor AFTER UPDATE ON account WHEN new.balance = 0 BEGIN "
        "UPDATE account SET balance = 1 WHERE owner = new.owner; INSERT INTO note VALUES (new.owner, 1); END",
    )
    made.run("UPDATE account SET balance = 0 WHERE owner = 'bob'")
    assert RowChange("account", ("bob", 5), ("bob", 1)) in made.last()
    made.run("INSERT INTO account VALUES ('bob', 3) ON CONFLICT (owner) DO UPDATE SET balance = excluded.balance")
    made.run("DELETE FROM account WHERE owner = 'bob'")
    assert set(made.last()) == {RowChange("account", ("bob", 3), None), RowChange("note", ("bob", 1), None)}


def test_tables_that_are_made_altered_and_dropped_are_told_with_their_rows() -> None:
    made = Bank()
    made.run(ACCOUNTS, "INSERT INTO account VALUES ('alice', 10)")
    first, row = made.last()
    assert isinstance(first, TableChange) and first.form is not None and first.form.key == (0,)
    assert row == RowChange("account", None, ("alice", 10))
    made.run("ALTER TABLE account ADD COLUMN city TEXT DEFAULT 'Haifa'", "UPDATE account SET balance = 11")
    _, row, update = made.last()
    assert row == RowChange("account", None, ("alice", 10, "Haifa"))
    assert update == RowChange("account", ("alice", 10, "Haifa"), ("alice", 11, "Haifa"))
    made.run("/* a comment */ ALTER TABLE account RENAME TO client -- and another")
    assert [type(each).__name__ for each in made.last()] == ["TableChange", "TableChange", "RowChange"]
    made.run("CREATE INDEX by_city ON client (city)", "CREATE VIEW rich AS SELECT * FROM client WHERE balance > 5")
    assert made.copy.changes(made.position - 1, 1) == []
    made.run("DROP VIEW rich", "DROP TABLE client")
    assert made.last() == [TableChange("client", None)]


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("SELECT random()", "random() is not the same at every replica: take a parameter named random"),
        ("INSERT INTO account VALUES (randomblob(4), 1)", "randomblob()"),
        ("SELECT current_timestamp", "take a parameter named now"),
        ("SELECT date('now')", "would read the clock"),
        ("SELECT datetime()", "would read the clock"),
        ("SELECT strftime('%Y')", "would read the clock"),
        ("SELECT datetime(0, 'unixepoch', 'localtime')", "time zone"),
        ("SELECT last_insert_rowid()", "use RETURNING"),
        ("SELECT total_changes()", "total_changes()"),
        ("SELECT sqlite_version()", "sqlite_version()"),
        ("PRAGMA foreign_keys = OFF", "PRAGMA is not allowed in a procedure"),
        ("ATTACH 'x.db' AS x", "ATTACH"),
        ("COMMIT", "TRANSACTION"),
        ("SAVEPOINT x", "SAVEPOINT"),
        ("ANALYZE", "not allowed in a procedure"),
        ("CREATE TEMP TABLE t (k INTEGER PRIMARY KEY)", "not allowed"),
        ("CREATE VIRTUAL TABLE t USING fts5(x)", "not allowed"),
        ("DELETE FROM isotone_calls", "the replica's own"),
        ("SELECT * FROM isotone_copy", "the replica's own"),
        ("CREATE TABLE isotone_mine (k INTEGER PRIMARY KEY)", "the replica's own"),
        ("SELECT isotone_note('account', 'INSERT', 1, 2)", "isotone_note"),
        ("SELECT load_extension('x')", "load_extension"),
        ("CREATE TABLE t (k INTEGER)", "no primary key"),
        ("CREATE TABLE t AS SELECT * FROM account", "no primary key"),
        ("INSERT OR ROLLBACK INTO account VALUES ('alice', 1)", "rolled the whole transaction back"),
        ("SELECT riches FROM account", "no such column"),
        ("INSERT INTO account VALUES ('x', zeroblob(99999999))", "too big"),
    ],
)
@pytest.mark.parametrize("procedure", ["run", "careless"])
def test_what_is_not_deterministic_or_not_allowed_is_refused(procedure: str, statement: str, told: str) -> None:
    made = bank()
    before = made.copy.read("SELECT * FROM account", ())
    done = made.call(procedure, "UPDATE account SET balance = 99", statement)
    if procedure == "careless" and told in ("no such column", "too big"):  # what SQLite says alike everywhere
        assert done.value == 2
        return
    assert told in done.error
    assert made.copy.read("SELECT * FROM account", ()) == before
    made.run("UPDATE account SET balance = 3")  # it goes on


def test_what_hides_in_a_default_is_refused_too() -> None:
    made = bank()
    made.run(
        "CREATE TABLE log (k INTEGER PRIMARY KEY, at TEXT DEFAULT current_timestamp, n INTEGER DEFAULT (random()))"
    )
    assert "take a parameter named now" in made.why("INSERT INTO log (k, n) VALUES (1, 1)")
    assert "take a parameter named random" in made.why("INSERT INTO log (k, at) VALUES (1, 'x')")
    made.run("INSERT INTO log VALUES (1, date(0, 'unixepoch', '+1 day'), 2)")
    assert made.copy.read("SELECT at FROM log", ()) == [("1970-01-02",)]


def test_loops_are_bounded_by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "STEPS_MAX", 200_000)
    made = bank()
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    assert "more than 200000 steps" in made.why(endless)
    assert "more than 200000 steps" in made.call("careless", endless, "DELETE FROM account").error
    assert "more than 200000 steps" in made.call("spin").error
    with pytest.raises(LocalProtocolError, match="more than 200000 steps"):
        made.copy.read(endless, ())


def test_steps_are_counted_alike_whatever_ran_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest loop that passes passes in a new copy, and the next larger one does not."""
    monkeypatch.setattr(guard, "STEPS_MAX", 50_000)
    loop = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT count(*) FROM n"
    made = bank()
    largest = max(size for size in range(2_000, 4_000, 50) if not made.call("run", loop.format(size)).error)
    for _ in range(3):
        other = bank()
        assert not other.call("run", loop.format(largest)).error
        assert other.call("run", loop.format(largest + 50)).error


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (["INSERT INTO account VALUES (NULL, 1)"], "NULL"),
        ([f"INSERT INTO account VALUES ({2**63 - 1}, 1)"], ""),  # it is text here
        (["CREATE TABLE n (k INTEGER PRIMARY KEY)", f"INSERT INTO n VALUES ({2**63 - 1})"], "cannot be replicated"),
        ([f"CREATE TABLE n ({', '.join(f'c{n}' for n in range(61))}, PRIMARY KEY (c0))"], "at most 60"),
    ],
)
def test_rows_and_tables_that_cannot_be_watched(statements: list[str], told: str) -> None:
    error = bank().call("run", *statements).error
    assert told in error and bool(error) == bool(told)


def test_a_procedure_changes_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS_MAX", 10)
    made = bank()
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)"
    many = f"{numbers} INSERT INTO account SELECT i, 1 FROM n"
    assert "at most 10 rows" in made.why(many)
    assert "at most 10 rows" in made.call("careless", many).error


def test_a_foreign_key_that_is_checked_at_the_end() -> None:
    made = bank()
    made.run(
        "CREATE TABLE note (k INTEGER PRIMARY KEY, owner TEXT REFERENCES account (owner) DEFERRABLE INITIALLY DEFERRED)"
    )
    assert "FOREIGN KEY" in made.why("INSERT INTO note VALUES (1, 'nobody')")
    made.run("INSERT INTO note VALUES (1, 'carol')", "INSERT INTO account VALUES ('carol', 1)")


def test_what_a_procedure_returns_must_be_encodable() -> None:
    assert "cannot be encoded" in bank().call("odd").error


def test_a_procedure_that_runs_out_of_stack_or_memory_is_no_answer() -> None:
    made = Procedures("bank")

    @made.procedure
    def dive(db: Transaction) -> None:
        db.execute("CREATE TABLE IF NOT EXISTS account (owner TEXT PRIMARY KEY)")
        sink()

    @made.procedure
    def dive_quietly(db: Transaction) -> None:
        try:
            sink()
        except RecursionError:
            raise ValueError("not done") from None

    def sink() -> None:
        sink()

    @made.procedure
    def fill(db: Transaction) -> None:
        raise MemoryError

    @made.procedure
    def count(db: Transaction) -> int:
        return len(db.execute("SELECT name FROM sqlite_master WHERE name = 'account'"))

    files = MemoryFiles()
    for procedure in ("dive", "dive_quietly", "fill"):
        copy = DatabaseCopy(made, files)
        copy.open(b"", 0, {})
        with pytest.raises(MachineError, match=rf"the procedure {procedure} of bank ran out of (stack|memory) here"):
            copy.call(1, b"1", procedure, ())
        copy.close()
    copy = DatabaseCopy(made, files)
    copy.open(b"", 0, {})
    assert copy.call(1, b"1", "count", ()).value == 0


def test_a_statement_is_all_or_nothing_also_with_or_fail() -> None:
    made = bank()
    made.call("careless", "INSERT OR FAIL INTO account VALUES ('carol', 1), ('alice', 1)")
    assert made.copy.read("SELECT count(*) FROM account", ()) == [(2,)]


def test_a_procedure_that_is_not_deterministic_is_caught() -> None:
    counter = itertools.count()
    procedures = Procedures("bank")

    @procedures.procedure
    def bad(db: Transaction) -> None:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY)")
        db.execute("INSERT INTO t VALUES (?)", next(counter))

    with pytest.raises(LocalProtocolError, match="not deterministic"):
        Bank(procedures=procedures, twice=True).call("bad")


@pytest.mark.parametrize(
    "function",
    [lambda made: made.procedure(_later), lambda made: made.procedure(_named), lambda made: Procedures("a/b")],
)
def test_what_is_no_procedure_is_told(function: Callable[[Procedures], Any]) -> None:
    with pytest.raises(LocalProtocolError):
        function(Procedures("bank"))


async def _later(db: Transaction) -> None: ...


def _named(db: Transaction, *, x: int) -> None: ...


# --- reads -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("statement", ["DELETE FROM account", "PRAGMA user_version = 3", "BEGIN", "DROP TABLE account"])
def test_a_read_cannot_write(statement: str) -> None:
    made = bank()
    with pytest.raises(LocalProtocolError, match="not allowed in a read"):
        made.copy.read(statement, ())
    assert made.copy.problems() == []


def test_a_read_may_ask_for_the_time() -> None:
    assert bank().copy.read("SELECT date('now') > '2020', abs(random()) >= 0, current_date > '2020'", ()) == [(1, 1, 1)]


# --- restarts and damage ---------------------------------------------------------------------------------------------


def on_disk(path: Path) -> Bank:
    return bank(files=DirectoryFiles(path))


def test_after_a_restart_calls_that_come_again_are_answered_as_they_were(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    told = [made.call("transfer", "alice", "bob", 3), made.call("transfer", "alice", "bob", 30)]
    made.copy.close()
    again = Bank(DirectoryFiles(tmp_path))
    again.position = 1
    assert [again.call("transfer", "alice", "bob", 3), again.call("transfer", "alice", "bob", 30)] == told
    assert again.copy.read("SELECT sum(balance), max(balance) FROM account", ()) == [(15, 8)]


def test_a_snapshot_takes_the_place_of_an_older_copy_and_not_of_a_newer_one(tmp_path: Path) -> None:
    made = bank()
    done = made.call("transfer", "alice", "bob", 3)
    image = made.copy.image()
    for path, behind in ((tmp_path / "a", 0), (tmp_path / "b", 3)):
        other = on_disk(path)
        for _ in range(behind):
            other.call("transfer", "alice", "bob", 3 if other.position == 1 else 1)
        other.copy.close()
        other.copy.open(image, made.position, done.digests)
        assert other.copy.position == max(2, other.position)
        assert other.copy.read("SELECT balance FROM account", ()) == ([(7,), (8,)] if not behind else [(5,), (10,)])


def test_a_copy_of_another_history_is_made_anew(tmp_path: Path) -> None:
    made = bank()
    done = made.call("transfer", "alice", "bob", 3)
    other = on_disk(tmp_path)
    other.call("transfer", "alice", "bob", 4)
    other.call("transfer", "alice", "bob", 4)
    other.copy.close()
    other.copy.open(made.copy.image(), made.position, done.digests)
    assert other.copy.read("SELECT balance FROM account", ()) == [(7,), (8,)]
    with pytest.raises(MachineError, match="another history"):
        other.copy.call(2, b"another", "transfer", ("alice", "bob", 1))


def test_a_table_changed_behind_our_back_is_noticed_and_the_copy_made_anew(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    done = made.call("transfer", "alice", "bob", 3)
    image = made.copy.image()
    path = DirectoryFiles(tmp_path).path("bank")
    with sqlite3.connect(path) as other:
        other.execute("UPDATE account SET balance = 1000 WHERE owner = 'alice'")
    other.close()
    for use in (
        lambda: made.copy.read("SELECT 1", ()),
        lambda: made.copy.call(3, b"3", "transfer", ("alice", "bob", 1)),
    ):
        with pytest.raises(MachineError, match="behind our back"):
            use()
    assert "behind our back" in made.copy.problems()[0]
    made.copy.close()
    made.copy.open(image, made.position, done.digests)
    assert made.copy.read("SELECT balance FROM account", ()) == [(7,), (8,)]
    assert Path(f"{path}.set-aside").exists()


@pytest.mark.parametrize("damage", [b"", b"no database at all" * 300])
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    made = on_disk(tmp_path)
    done = made.call("transfer", "alice", "bob", 3)
    image = made.copy.image()
    made.copy.close()
    DirectoryFiles(tmp_path).path("bank").write_bytes(damage)
    made.copy.open(image, made.position, done.digests)
    assert made.copy.read("SELECT balance FROM account", ()) == [(7,), (8,)]


def test_a_full_disk_is_no_answer(tmp_path: Path) -> None:
    """Whatever the procedure makes of it, this replica stops, and nothing was changed."""
    for procedure in ("run", "careless"):
        made = on_disk(tmp_path / procedure)
        connection = made.copy._connection
        assert connection is not None
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(MachineError, match=r"full.*Nothing is lost"):
            made.call(procedure, "INSERT INTO account VALUES ('x', 1), (hex(zeroblob(90000)), 1)")
        made.copy.close()
        again = Bank(DirectoryFiles(tmp_path / procedure))
        assert again.copy.position == 1 and again.copy.problems() == []


def test_changes_are_forgotten_behind_a_snapshot_from_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_copy, "CALLS_KEPT", 5)
    made = bank()
    for _ in range(10):
        made.call("transfer", "alice", "bob", 1)
    made.copy.forget_calls(3)
    assert [each.position for each in made.copy.changes(2, 99)] == list(range(3, 12))
    made.copy.forget_calls(11)
    with pytest.raises(ChangesForgotten, match="behind 6"):
        made.copy.changes(5, 9)
    assert [each.position for each in made.copy.changes(6, 2)] == [7, 8]


# --- the machine -----------------------------------------------------------------------------------------------------

SERVERS = ("a",)


def machine(files: MemoryFiles | None = None, *, is_server: bool = True, known: bool = True) -> Machine:
    return Machine(databases=Databases([sql_procedures()] if known else [], files), is_server=is_server)


def records() -> list[bytes]:
    known = Announced("a", SERVERS, "database:bank", ("careless", "odd", "run", "spin", "transfer"))
    calls = [
        ("run", ACCOUNTS, "INSERT INTO account VALUES ('alice', 10), ('bob', 5)"),
        ("transfer", "alice", "bob", 3),
        ("transfer", "alice", "bob", 30),
        ("transfer", "alice", "bob", 2),
    ]
    told: list[Any] = [Opened("n", 3), known]
    told += [Called(1, n, n, "database:bank", "bank", name, tuple(rest)) for n, (name, *rest) in enumerate(calls, 1)]
    return [encode(each) for each in told]


def test_states_are_equal_whichever_way_a_replica_came_to_them() -> None:
    whole = machine()
    for position, record in enumerate(records(), 1):
        whole.apply(position, record)
    for cut in range(2, len(records())):
        files = MemoryFiles(commits_kept=9)
        first = machine(files)
        for position, record in enumerate(records(), 1):
            first.apply(position, record)
            if position == cut:
                snapshot = first.snapshot()
        for lost in range(5):
            files.crash(lambda count, lost=lost: min(lost, count))
            again = machine(files)
            again.restore(snapshot)
            for position, record in enumerate(records()[cut:], cut + 1):
                again.apply(position, record)
            assert again.digests() == whole.digests() and again.digest() == whole.digest()
            assert again.databases.copy_of(again.state.objects["bank"]).problems() == []  # type: ignore[arg-type]


def test_no_snapshot_is_made_while_a_copy_is_further_than_the_state() -> None:
    files = MemoryFiles(commits_kept=9)
    first = machine(files)
    for position, record in enumerate(records(), 1):
        first.apply(position, record)
    again = machine(files)
    for position, record in enumerate(records()[:4], 1):
        again.apply(position, record)
    with pytest.raises(LocalProtocolError, match="further than"):
        again.snapshot()


def test_a_server_without_the_procedures_stops_and_a_client_goes_on() -> None:
    whole = machine()
    for position, record in enumerate(records(), 1):
        whole.apply(position, record)
    with pytest.raises(InputError, match="databases="):
        machine(known=False).restore(whole.snapshot())
    client = machine(known=False, is_server=False)
    client.restore(whole.snapshot())
    assert list(client.blind) == ["bank"]


def test_a_procedure_that_one_server_does_not_know_is_refused() -> None:
    made = machine()
    made.apply(1, encode(Opened("n", 3)))
    made.apply(2, encode(Announced("a", ("a", "b"), "database:bank", ("run",))))
    (answer,) = made.apply(3, encode(Called(1, 1, 1, "database:bank", "bank", "run", (ACCOUNTS,)))).answers
    assert "run of the database bank is not known to the program of b" in answer.error
    assert not made.state.objects
