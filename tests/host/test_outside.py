"""The answer *maybe* to appends without a deadline, outside of a primary component [COReL 8.2]."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from isotone.core.errors import IsotoneError
from isotone.corel.events import ReconfigurationAnswered, Standing
from isotone.corel.message import Message, Origin
from isotone.corel.quorum import Monarch
from isotone.host.answers import Maybe
from isotone.host.appends import Appends
from isotone.host.changes import Changes
from isotone.host.outside import Outside
from tests.host.replicas import Replicas, red_name, replicas, run

AFTER_US = 1_000


class Server:
    """One that stands where the test says, at the time that the test says."""

    def __init__(self) -> None:
        self.at, self.is_primary = 0, True
        self.appends, self.changes = Appends(), Changes(lambda: "no quorum")
        self.told: dict[int, int | IsotoneError] = {}
        self.outside = Outside(
            self.appends,
            self.changes,
            after_us=AFTER_US,
            orders=lambda: self.is_primary,
            now=lambda: self.at,
            why=str,
        )

    def stand(self, *, primary: bool) -> None:
        self.is_primary = primary
        self.outside.look()

    def begin(self, deadline: int | None = None) -> int:
        number = self.appends.last + 1
        self.appends.begin(lambda outcome: self.told.__setitem__(number, outcome), deadline)
        self.outside.begun()
        return number

    def name(self, request: int) -> None:
        self.appends.named((request,), Message(Origin("x", 1), request, request, (b"",)))
        self.outside.named((request,))

    def answers(self) -> dict[int, str]:
        return {number: each.message for number, each in self.told.items() if isinstance(each, Maybe)}

    async def wait(self) -> None:
        """The time is over; timers of the loop come in order."""
        self.at += AFTER_US
        over = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(AFTER_US / 1_000_000, over.set_result, None)
        await over


def test_who_waits_is_answered_when_the_time_outside_is_over_and_later_ones_once_they_have_a_name() -> None:
    async def main() -> None:
        server = Server()
        early = server.begin()
        server.name(early)
        server.stand(primary=False)
        dated = server.begin(deadline=10**9)
        server.name(dated)
        later = server.begin()
        server.name(later)
        unsent = server.begin()
        assert not server.told, "a change of view may be over soon"
        await server.wait()
        assert server.answers() == {early: f"x.1:{early}", later: f"x.1:{later}"}
        at_once, never = server.begin(), server.begin()
        server.name(at_once)
        assert at_once in server.answers() and never not in server.answers()
        await server.wait()
        assert server.answers()[unsent] == "" and dated not in server.told
        await server.wait()
        assert server.answers()[never] == "" and len(server.appends) == 1

    run(main)


def test_a_change_of_view_that_ends_in_a_primary_component_answers_nobody() -> None:
    async def main() -> None:
        server = Server()
        waiting = server.begin()
        server.name(waiting)
        for _ in range(3):
            server.stand(primary=False)
            server.at += AFTER_US - 1
            server.stand(primary=True)
        await server.wait()
        server.stand(primary=False)
        server.name(server.begin())
        assert not server.told, "the time begins anew each time"

    run(main)


def test_a_change_of_servers_that_was_accepted_is_answered_too_unless_it_has_a_deadline() -> None:
    async def main() -> None:
        server = Server()
        (first, patient), (second, dated), (_, asked) = (
            server.changes.begin(add="", remove="b", is_patient=is_patient) for is_patient in (True, False, True)
        )
        for request in (first, second):
            server.changes.on_answered(ReconfigurationAnswered(request, accepted=True, reason=""))
        server.stand(primary=False)
        await server.wait()
        with pytest.raises(Maybe, match="no quorum"):
            await patient
        assert not dated.done() and not asked.done()
        server.changes.end("over")
        for change in (dated, asked):
            with pytest.raises(Maybe, match="over"):
                await change

    run(main)


def test_nobody_is_answered_while_it_orders_though_that_was_not_told_yet() -> None:
    """The standing is told behind a write."""

    async def main() -> None:
        server = Server()
        server.begin()
        server.stand(primary=False)
        server.is_primary = True
        await server.wait()
        server.name(server.begin())
        assert not server.told

    run(main)


def test_a_primary_component_that_is_no_quorum_of_the_next_servers_answers_maybe(tmp_path: Path) -> None:
    async def main() -> None:
        group = Replicas(tmp_path, "a")
        group.options["maybe_after_ms"] = 1
        await group.start()
        await group.primary()
        log = group.logs["a"]
        log.replica.flow.cap = log.replica.ledger.queue.end
        with pytest.raises(Maybe, match="no quorum of the new set"):
            await log.append(b"behind a reconfiguration")
        with pytest.raises(Maybe, match="the change of servers is not green"):
            await log.reconfigure(rule=Monarch("a"))
        assert log.is_primary
        await group.stop()

    run(main)


async def minority(group: Replicas) -> None:
    """Server a alone, which answers soon."""
    group.options["maybe_after_ms"] = 1
    await group.stop_log("a")
    await group.start_log("a")
    await group.primary()
    await group.stop("b", "c")


def test_a_minority_answers_without_a_deadline_and_one_with_a_deadline_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path) as group:
            await minority(group)
            log = group.logs["a"]
            waiting = asyncio.create_task(log.append(b"with a deadline", within_s=3600.0))
            await log.until(lambda: log.standing.standing is Standing.REGULAR and not log.standing.primary)
            named = asyncio.create_task(red_name(log, b"without"))
            with pytest.raises(Maybe, match="It waits for b, or c") as caught:
                await log.append(b"without")
            name = await named
            assert caught.value.message in {name, ""} and not waiting.done(), "no name if the disk is slower than that"
            await group.start("b")
            assert await waiting > 0
            await log.until(lambda: not log.why_not_green(name))

    run(main)


def test_a_server_without_a_daemon_answers_what_it_cannot_send(tmp_path: Path) -> None:
    async def main() -> None:
        group = Replicas(tmp_path, "a")
        group.kind, group.options["maybe_after_ms"] = "session", 1
        await group.start()
        await group.primary()
        await group.stop_node("a")
        log = group.logs["a"]
        await log.until(lambda: not log.is_primary)
        with pytest.raises(Maybe, match="not sent yet") as caught:
            await log.append(b"x")
        assert not caught.value.message
        await group.stop_log("a")

    run(main)
