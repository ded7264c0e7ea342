"""Which messages may move when survivors go on alone, and that the record reaches all of them or none runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.core.contract import Storage, StoredLog
from isotone.core.errors import InputError, LocalProtocolError, MachineError
from isotone.corel import records as r
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message, Origin
from isotone.corel.quorum import Majority, Monarch, Weighted
from isotone.corel.recover import forced_record, forced_rule
from isotone.host.dumping import ledger_at
from isotone.host.recovering import held, moved, write_forced
from isotone.host.scrub import create
from isotone.host.store import Store

SERVERS = ("a", "b", "c")
ONE, TWO = (Message(Origin("a", 1), number, number, (b"%d" % number,)) for number in (1, 2))


def ledger(*steps: r.Record) -> Ledger:
    made = Ledger.founded(SERVERS, Majority(SERVERS))
    for step in steps:
        made.apply(step)
    return made


GREEN = (r.Received((ONE, TWO), True), r.Greened(2))


@pytest.mark.parametrize(
    ("survivor", "names"),
    [
        (GREEN, []),
        ((r.Received((ONE, TWO), True),), []),
        ((r.Received((ONE, TWO), False),), ["a.1:1", "a.1:2"]),
        ((r.Received((ONE,), True), r.Received((TWO,), False)), ["a.1:2"]),
        ((), []),
    ],
)
def test_what_is_green_elsewhere_and_only_red_here_may_move(survivor: tuple[r.Record, ...], names: list[str]) -> None:
    assert moved({"a": ledger(*GREEN), "c": ledger(*survivor)}, ["c"]) == names
    yellow = ledger(r.Received((ONE, TWO), True))
    assert moved({"a": yellow, "c": ledger(*survivor)}, ["c"]) == names, "it may have become green"
    red = ledger(r.Received((ONE, TWO), False))
    assert not moved({"a": red, "c": ledger(*survivor)}, ["c"])


def test_the_record_reaches_all_survivors_or_none(tmp_path: Path) -> None:
    stores = {server: tmp_path / server for server in "bc"}
    for server, path in stores.items():
        steps = (r.Lived(1, server.encode()), *GREEN)
        create(path, server, Storage(logs={LOG: StoredLog(1, [r.encode_record(step) for step in steps])}))
    ledgers = {server: ledger_at(path, SERVERS) for server, path in stores.items()}
    with pytest.raises(LocalProtocolError, match="named twice: b, c, c"):
        forced_record(ledgers, ("b", "c", "c"))
    record = forced_record(ledgers, ("b", "c"))
    running = Store(stores["c"])
    running.open("c")
    with pytest.raises(MachineError, match="the store of c is in use: stop the server first"), held(stores):
        pass
    running.close()
    assert ledger_at(stores["b"], SERVERS).fence == 0
    with held(stores) as opened:
        with pytest.raises(MachineError, match="in use"):
            running.open("c")
        write_forced(opened.values(), record)
    with pytest.raises(InputError, match="must be sound and readable here"), held({"a": tmp_path / "a"}):
        pass
    assert not (tmp_path / "a").exists(), "none is made"
    for path in stores.values():
        forced = ledger_at(path, SERVERS)
        assert forced.fence == 1 and forced.queue.configuration.servers == ("b", "c")
        assert forced.queue.configuration.retired == ("a",)


def test_the_rule_of_the_settings_is_carried_over(tmp_path: Path) -> None:
    """A log says the rule only where it was changed, or said again by a checkpoint."""
    create(tmp_path / "b", "b", Storage(logs={LOG: StoredLog(1, [r.encode_record(step) for step in GREEN])}))
    rule = Weighted({"a": 1, "b": 3, "c": 1})
    ledgers = {"b": ledger_at(tmp_path / "b", SERVERS, rule)}
    assert forced_rule(ledgers, ("b",)) == Weighted({"b": 3})
    monarchy = {"b": ledger_at(tmp_path / "b", SERVERS, Monarch("a"))}
    assert forced_rule(monarchy, ("b",)) == Majority(("b",))  # the monarch is gone
    assert not ledger_at(tmp_path / "b", ("a", "c"), Majority(("a", "c"))).ready  # no founder
