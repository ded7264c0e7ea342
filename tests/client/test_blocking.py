"""The blocking twin: the same names, threads instead of tasks, and a clean end."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import isotone
from isotone.client import Closed, blocking
from isotone.client.errors import ConnectFailed
from isotone.evs.sessions.settings import ClientSettings
from tests.client.daemon import WITHIN_S, Daemon


@contextmanager
def daemon_beside(**options: object) -> Iterator[Daemon]:
    """A daemon in a thread of its own."""
    worker = blocking.Worker("daemon")

    async def start() -> Daemon:
        return await Daemon(**options).__aenter__()  # type: ignore[arg-type]

    daemon = worker.run(start())
    try:
        yield daemon
    finally:
        worker.run(daemon.__aexit__())
        worker.stop()


def public(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


@pytest.mark.parametrize("name", ["Session", "Group"])
def test_it_has_all_that_its_twin_has(name: str) -> None:
    twin, mine = getattr(isotone, name), getattr(blocking, name)
    assert public(twin) <= public(mine)
    for each in sorted(public(twin)):
        if callable(getattr(twin, each)):
            asked = set(inspect.signature(getattr(twin, each)).parameters)
            assert asked <= set(inspect.signature(getattr(mine, each)).parameters), each


def test_the_groups_that_one_is_in() -> None:
    with daemon_beside() as daemon, blocking.connect(daemon.address, name="alice", timeout=WITHIN_S) as me:
        chat = me.join("chat", timeout=WITHIN_S)
        assert me.groups == {"chat": chat} and me.dropped_private == 0
        chat.leave(timeout=WITHIN_S)
        assert me.groups == {}


def test_the_example_without_asyncio() -> None:
    with daemon_beside() as daemon, blocking.connect(daemon.address, name="alice", timeout=WITHIN_S) as me:
        chat = me.join("chat", timeout=WITHIN_S)
        chat.send(b"hello", timeout=WITHIN_S)
        sure = chat.send_many([b"a", b"b", b"c"], confirm=True, timeout=WITHIN_S)
        heard = []
        for event in chat:
            heard.append(event)
            if len(heard) == 3:
                break
        assert isinstance(heard[0], isotone.View) and heard[0].members == (me.id,) == chat.members
        assert [event.body for event in heard[1:]] == [b"hello", b"a"]  # type: ignore[union-attr]
        rest = next(chat.bundles())
        assert isinstance(rest, isotone.Bundle) and sure and rest.stamp == sure.stamp and bytes(rest.payload) == b"bc"
        with pytest.raises(TimeoutError):
            chat.receive(timeout=0.01)
        chat.leave()
        assert [type(event) for event in chat] == [isotone.SelfLeave]
        with pytest.raises(Closed):
            chat.receive()


def test_calls_between_threads() -> None:
    with (
        daemon_beside() as daemon,
        blocking.connect(daemon.address, name="alice") as alice,
        blocking.connect(daemon.address, name="bob") as bob,
    ):
        chat, served = alice.join("chat"), bob.join("chat")

        def serve() -> None:
            for event in served:
                if isinstance(event, isotone.Message) and event.is_call:
                    event.reply(b"answer to " + event.body)

        server = threading.Thread(target=serve)
        server.start()
        answers = chat.call(b"question", answers="all", deadline=WITHIN_S)
        assert [(each.sender, each.body) for each in answers] == [(bob.id, b"answer to question")]
        bob.close()
        server.join(WITHIN_S)
        assert not server.is_alive(), "closing ends the iteration"
        alice.send(alice.id, b"to myself")
        message = alice.receive(timeout=WITHIN_S)
        assert isinstance(message, isotone.Message) and message.body == b"to myself"


def test_the_end_is_clean() -> None:
    with daemon_beside() as daemon:
        before = set(threading.enumerate())
        me = blocking.connect(daemon.address)
        assert len(set(threading.enumerate()) - before) == 1
        me.close()
        me.close()
        assert set(threading.enumerate()) <= before
        with pytest.raises(Closed):
            me.send("g", b"x")
        with pytest.raises(Closed):
            me.receive()
        settings = isotone.Settings(session=ClientSettings(connect_within_us=20_000))
        worker = blocking.Worker("x")
        worker.run(asyncio.sleep(0))
        worker.stop()
        with pytest.raises(ConnectFailed):
            blocking.connect("127.0.0.1:1", settings=settings)
        assert set(threading.enumerate()) <= before


def test_a_thread_that_reads_ends_when_another_closes() -> None:
    with daemon_beside() as daemon:
        for _ in range(20):
            me = blocking.connect(daemon.address)
            groups = [me.join(name) for name in "abc"]
            ended: list[int] = []
            readers = [threading.Thread(target=_read_all, args=(group, ended)) for group in groups]
            for reader in readers:
                reader.start()
            me.close()
            for reader in readers:
                reader.join(WITHIN_S)
            assert len(ended) == 3 and set(ended) <= {0, 1}


def _read_all(group: blocking.Group, ended: list[int]) -> None:
    ended.append(len(list(group)))
