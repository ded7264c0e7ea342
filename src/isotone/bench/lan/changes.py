"""Changes of views while messages flow: how long until the new view, and how long an unaffected client hears nothing.

The members' clients note when views and messages came, on one clock for the whole machine. The first member and its
daemon are the unaffected ones; the last daemon is killed, cut off, healed and started again.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from isotone.bench.lan.board import Word
from isotone.bench.lan.cells import Cell
from isotone.bench.lan.clusters import Running
from isotone.bench.lan.measuring import Members, check_outcomes
from isotone.core.errors import MachineError

VIEW_WITHIN_S = 60.0
END_WITHIN_S = 180.0
SETTLE_S = 0.4
LOOK_S = 0.002
IDLE_GAP_S = 0.001
"""Silence can only be heard where something is sent: without load a message every millisecond."""
Found = dict[str, float]


class Watch:
    """The unaffected member while something happens."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self._slot = members.board.slot(0)

    def begin(self) -> int:
        """The time, in nanoseconds; silence counts from now on."""
        self.members.board.watch_anew()
        return time.monotonic_ns()

    def view_ms(self, began: int, word: Word, within_s: float = VIEW_WITHIN_S) -> float:
        """How long after that the newest view came that somebody left, or entered."""
        self.members.wait_until(lambda: self._slot.get(word) > began, within_s, "hear a view")
        return (self._slot.get(word) - began) / 1e6

    def silence_ms(self) -> float:
        """The longest one since it began, up to the next delivery from now on: one that still lasts counts in full."""
        now = time.monotonic_ns()
        self.members.wait_until(lambda: self._slot.get(Word.LAST_AT) > now, VIEW_WITHIN_S, "go on")
        return self._slot.get(Word.LONGEST_GAP) / 1e6


def members_of(cell: Cell, running: Running, rate: float, *, joiner: bool = False) -> Members:
    """Under this load, or with a message every millisecond."""
    return Members(cell, running, rates=[rate], gap_s=0.0 if rate else IDLE_GAP_S, joiner=joiner)


def killed(cell: Cell, running: Running, rate: float) -> Found:
    """SIGKILL to the last daemon: until the view, and silence; then it is started again, which may be heard too."""
    last = cell.daemons - 1
    with members_of(cell, running, rate) as members:
        members.go()
        time.sleep(SETTLE_S)
        watch = Watch(members)
        members.lost.add(last)
        began = watch.begin()
        running.daemons[last].signal(signal.SIGKILL)
        found = {"view_ms": watch.view_ms(began, Word.LEFT_AT), "silence_ms": watch.silence_ms()}
        watch.begin()
        running.restart(last)
        if running.is_together() is not None:  # else nobody can say when it is back
            _wait(running.is_together)
            time.sleep(SETTLE_S)
            found["return_silence_ms"] = watch.silence_ms()
        check_outcomes(cell, members.stop())
    return found


def dropped(cell: Cell, running: Running, rate: float) -> Found:
    """All traffic of the last daemon is lost silently, until it is out; then it comes back, and views merge."""
    last = cell.daemons - 1
    with members_of(cell, running, rate) as members:
        members.go()
        time.sleep(SETTLE_S)
        watch = Watch(members)
        members.lost.add(last)  # it misses what is sent meanwhile
        began = watch.begin()
        running.drop(last)
        try:
            found = {"view_ms": watch.view_ms(began, Word.LEFT_AT), "silence_ms": watch.silence_ms()}
        finally:
            began = watch.begin()
            running.heal(last)
        found["merge_ms"] = watch.view_ms(began, Word.ENTERED_AT)
        time.sleep(SETTLE_S)
        found["merge_silence_ms"] = watch.silence_ms()
        check_outcomes(cell, members.stop())
    return found


def joined(cell: Cell, running: Running, rate: float, seconds: float) -> Found:
    """A client joins and leaves the members' group, again and again."""
    with members_of(cell, running, rate, joiner=True) as members:
        watch = Watch(members)
        members.go()
        time.sleep(SETTLE_S)
        watch.begin()
        time.sleep(seconds)
        silence = watch.silence_ms()
        outcomes = members.stop()
    check_outcomes(cell, outcomes[: cell.member_count])
    joiner = outcomes[-1]
    if not joiner.joins_us:
        raise MachineError("no client joined in time")
    middle = len(joiner.joins_us) // 2
    return {
        "join_ms": sorted(joiner.joins_us)[middle] / 1e3,
        "leave_ms": sorted(joiner.leaves_us)[middle] / 1e3,
        "silence_ms": silence,
    }


def rolling_restart(cell: Cell, running: Running, rate: float) -> Found:
    """All daemons but that of the unaffected member end and come back, one after the other."""
    with members_of(cell, running, rate) as members:
        members.go()
        time.sleep(SETTLE_S)
        watch = Watch(members)
        began = watch.begin()
        for place in range(1, cell.daemons):
            members.lost.add(place)
            running.daemons[place].signal(signal.SIGTERM)
            if not running.daemons[place].wait(END_WITHIN_S):
                raise MachineError(f"daemon {place + 1} does not end")
            running.restart(place)
            _wait(running.is_together)
        time.sleep(SETTLE_S)
        found = {"silence_ms": watch.silence_ms(), "seconds": (time.monotonic_ns() - began) / 1e9}
        check_outcomes(cell, members.stop())
    return found


def _wait(reached: Callable[[], bool | None]) -> None:
    deadline = time.monotonic() + VIEW_WITHIN_S
    while not reached():
        if time.monotonic() > deadline:
            raise MachineError(f"the daemons are not together after {VIEW_WITHIN_S:g} s")
        time.sleep(LOOK_S * 10)
