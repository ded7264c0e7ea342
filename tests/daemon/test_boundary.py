"""Boundary B4 in a daemon: what is held behind a write is not told to a client that went meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from isotone.core.boundary import (
    Ask,
    Connect,
    Disconnect,
    Disconnected,
    Indicate,
    Indicated,
    Indication,
    Requested,
    Transitional,
)
from isotone.core.contract import Action, Event, Persist, Put, TimerFired, Write
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId
from isotone.daemon.boundary import Boundary
from isotone.daemon.engine import Engine, Lane
from isotone.daemon.recording import Recording
from isotone.trace.events import Entry

ME = DaemonId("d", 1)
ANN, BOB = ClientId(ME, "ann", 1), ClientId(ME, "bob", 1)
SIGNAL = Transitional("g", GroupViewId(DaemonViewId(1, ME)))


class Rows:
    """Stands for the record."""

    is_on = True

    def __init__(self) -> None:
        self.rows: list[Entry] = []

    def record(self, entry: Entry) -> None:
        self.rows.append(entry)


class Script:
    """Answers a timer as the test wrote, and hears the rest."""

    def __init__(self, **answers: list[Action]) -> None:
        self.told: list[tuple[tuple[ClientId, ...], Indication]] = []
        self._answers = answers

    def handle(self, event: Event) -> Sequence[Action]:
        if isinstance(event, Indicated):
            self.told.append((event.receivers, event.indication))
        return self._answers.get(str(event.key), []) if isinstance(event, TimerFired) else []


class House:
    """A stack that waits for its disk, and its boundary."""

    def __init__(self) -> None:
        held = [Persist(1, [Put("cell", b"")]), Indicate((ANN, BOB), SIGNAL), Indicate((ANN,), SIGNAL)]
        ended: list[Action] = [Indicate((ANN,), Disconnected("asked for"))]
        self.stack = Script(held=held, ended=ended, fresh=[Indicate((ANN, BOB), SIGNAL)])
        self.lane, self.rows = Lane("stack", self.stack), Rows()
        self.engine = Engine(lambda: 0, submit=self._submit, failed=self._failed)
        self.boundary = Boundary(self.engine, self.lane, cast(Recording, self.rows))
        self.lane.performers[Indicate] = self.boundary.indicate
        for client in (ANN, BOB):
            self.engine.take(self.lane, Requested(0, client, Connect()))

    def _submit(self, lane: Lane, ticket: int, writes: Sequence[Write]) -> None:
        """The test says when it is durable."""

    def _failed(self, lane: Lane, event: object, error: BaseException) -> None:
        raise error

    def fire(self, key: str) -> None:
        self.engine.take(self.lane, TimerFired(0, key))

    def disconnect(self, client: ClientId) -> None:
        self.boundary.ask(self.lane, Ask(client, Disconnect()))
        self.engine.drain()


def test_what_was_held_is_not_told_to_who_went_meanwhile() -> None:
    house = House()
    house.fire("held")
    house.disconnect(ANN)
    house.fire("ended")
    house.engine.persisted(house.lane, 0, 1, "")
    assert house.stack.told == [((BOB,), SIGNAL), ((ANN,), Disconnected("asked for"))]
    kinds = [type(row).__name__ for row in house.rows.rows]
    assert kinds == ["Disconnected", "SignalDelivered"]
    assert house.rows.rows[-1].receivers == (str(BOB),)  # type: ignore[attr-defined]


def test_without_a_write_under_way_the_word_of_the_stack_is_taken() -> None:
    """So that a stack that tells a client after its end is found out by the record."""
    house = House()
    house.disconnect(ANN)
    house.fire("fresh")
    assert house.stack.told == [((ANN, BOB), SIGNAL)]
    house.fire("held")
    house.disconnect(BOB)
    house.engine.persisted(house.lane, 0, 1, "")
    house.fire("fresh")
    assert house.stack.told[-1] == ((ANN, BOB), SIGNAL), "what was held is over"
