"""Programs with the ordinary client in a simulated cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

import isotone
from isotone.client import ConnectFailed
from isotone.core.errors import LocalProtocolError
from isotone.testing import Cluster, Deadlock, NotSimulated, cluster, run
from tests.testing.virtual import pause

T = TypeVar("T")


def play(main: Callable[[Cluster], Awaitable[T]], *, seed: int = 1) -> T:
    async def inside() -> T:
        async with cluster(3, seed=seed) as c:
            return await main(c)

    return run(inside)


async def hear(group: isotone.Group, kind: type[T], within: float = 60.0) -> T:
    """The next event of this kind."""
    async with asyncio.timeout(within):
        async for event in group:
            if isinstance(event, kind):
                return event
    raise AssertionError(f"no {kind.__name__} came")


async def until_members(group: isotone.Group, *names: str, within: float = 60.0) -> None:
    async with asyncio.timeout(within):
        while tuple(sorted(member.name for member in group.members)) != names:
            await hear(group, isotone.View)


def test_messages_go_round() -> None:
    async def main(c: Cluster) -> None:
        async with (
            isotone.connect(c.address("d1"), name="alice") as alice,
            isotone.connect(c.address("d2"), name="bob") as bob,
        ):
            here, there = await alice.join("chat"), await bob.join("chat")
            sent = await here.send(b"hello", confirm=True)
            message = await hear(there, isotone.Message)
            assert (message.body, message.id, message.stamp, message.sender.name) == (
                b"hello",
                sent.id,
                sent.stamp,
                "alice",
            )

    play(main)


def test_a_partition_is_signalled_and_ends() -> None:
    async def main(c: Cluster) -> None:
        async with (
            isotone.connect(c.address("d1"), name="alice") as alice,
            isotone.connect(c.address("d2"), name="bob") as bob,
        ):
            here, there = await alice.join("chat"), await bob.join("chat")
            await until_members(here, "alice", "bob")
            c.partition(["d1"], ["d2", "d3"])
            await hear(here, isotone.Transitional)
            await until_members(here, "alice")
            await until_members(there, "bob")
            c.heal()
            await until_members(here, "alice", "bob")

    play(main)


def test_after_a_crash_the_client_is_back_and_says_what_it_missed() -> None:
    async def main(c: Cluster) -> None:
        async with isotone.connect(c.address("d1"), name="alice") as alice:
            chat = await alice.join("chat")
            c.crash("d1")
            await pause(0.5)
            c.restart("d1")
            event = await hear(chat, isotone.Reconnected)
            assert event.old_view is not None and event.new_view is not None
            assert event.old_view.members != event.new_view.members
        c.crash("d2")
        with pytest.raises(ConnectFailed):
            await isotone.connect(c.address("d2"), name="bob")

    play(main)


def test_a_broken_stream_loses_and_doubles_nothing() -> None:
    async def main(c: Cluster) -> None:
        async with isotone.connect(c.address("d1"), name="alice") as alice:
            chat = await alice.join("chat")

            async def send() -> None:
                for number in range(100):
                    await chat.send(str(number).encode())
                    await pause(0.001)

            sending = asyncio.create_task(send())
            heard = []
            for _ in range(100):
                message = await hear(chat, isotone.Message)
                heard.append(int(message.body))
                if len(heard) % 25 == 0:
                    c.break_streams("d1")
            assert heard == list(range(100))
            await sending

    play(main)


def test_a_killed_program_is_missed_when_its_session_is_given_up() -> None:
    async def main(c: Cluster) -> None:
        ended: list[str] = []

        async def program() -> None:
            try:
                async with isotone.connect(c.address("d2"), name="bob") as bob:
                    async for _ in await bob.join("chat"):
                        pass
            finally:
                ended.append("bob")

        async with isotone.connect(c.address("d1"), name="alice") as alice:
            chat = await alice.join("chat")
            c.launch("bob", program(), beside="d2")
            await until_members(chat, "alice", "bob")
            c.kill_client("bob")
            began = c.now
            await until_members(chat, "alice")
            assert 20 < c.now - began < 60
            assert ended == ["bob"]
            c.launch("bob", program(), beside="d2")
            await until_members(chat, "alice", "bob")
            c.kill_client("bob")

    play(main)


def test_waiting_for_what_never_comes_is_a_deadlock_though_sessions_live() -> None:
    async def main(c: Cluster) -> None:
        async def wait_for_a_word() -> None:
            async with isotone.connect(c.address("d1"), name="alice") as alice:
                await hear_for_ever(await alice.join("chat"))

        async def hear_for_ever(chat: isotone.Group) -> None:
            async for event in chat:
                assert not isinstance(event, isotone.Message)

        await asyncio.gather(wait_for_a_word())

    with pytest.raises(Deadlock, match=r"wait_for_a_word waits in .*hear_for_ever \(test_clients.py"):
        play(main)


def test_a_long_wait_that_ends_is_no_deadlock() -> None:
    async def main(c: Cluster) -> None:
        async with isotone.connect(c.address("d1"), name="alice") as alice:
            chat = await alice.join("chat")
            asyncio.get_running_loop().call_later(200, c.crash, "d2")
            with pytest.raises(TimeoutError):
                await hear(chat, isotone.Message, within=150)
            await pause(100)
            assert not c.is_up("d2")

    play(main)


def test_with_others_named_a_program_is_at_one_of_them_soon_after_a_crash() -> None:
    """Alone it would look for its own daemon much longer, for with that one nothing would be missed."""

    async def main(c: Cluster) -> None:
        async with isotone.connect(c.addresses(), name="alice") as me:
            chat = await me.join("chat")
            at = me.id.daemon.name
            c.crash(at)
            began = c.now
            again = await hear(chat, isotone.Reconnected)
            assert me.id.daemon.name != at and 3.0 <= c.now - began < 4.0
            assert again.code == "unreachable" and "resumed" in again.reason

    play(main)


def test_closing_ends_in_time_though_the_daemon_stands_still(caplog: pytest.LogCaptureFixture) -> None:
    async def main(c: Cluster) -> None:
        me = await isotone.connect(c.address("d1"), name="alice")
        chat = await me.join("chat")
        c.pause("d1")
        for _ in range(3):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    while True:
                        await chat.post(bytes(1_000))
        began = c.now
        await me.close()
        assert c.now - began == pytest.approx(5.0, abs=0.01)

    play(main)
    assert "not all that was posted was taken" in caplog.text


def test_the_deadline_of_a_call_holds_though_the_daemon_stands_still() -> None:
    async def main(c: Cluster) -> None:
        async with isotone.connect(c.address("d1"), name="alice") as me:
            chat = await me.join("chat")
            c.pause("d1")
            began = c.now
            with pytest.raises(isotone.client.NoAnswer, match="deadline"):
                await chat.call(b"who is there?", deadline=0.5)
            assert c.now - began == pytest.approx(0.5, abs=0.01)
            c.resume("d1")

    play(main)


@pytest.mark.parametrize(
    ("address", "tls", "words"),
    [
        ("unix:/nowhere", None, "create_unix_connection"),
        ("d1:4803", True, "no TLS"),
        ("d9:4803", None, "no daemon 'd9' in this cluster"),
    ],
)
def test_what_is_not_simulated_is_said_at_once(address: str, tls: bool | None, words: str) -> None:
    async def main(c: Cluster) -> float:
        with pytest.raises((NotSimulated, LocalProtocolError), match=words):
            await isotone.connect(address, name="alice", tls=tls)
        return c.now

    assert play(main) < 1.0
