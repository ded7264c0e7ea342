"""How ``isotone group`` ends: refused, not delivered, and no daemon are different codes."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from threading import Event, Thread
from typing import NoReturn

import pytest

import isotone as library
from isotone.cli import group as commands_of_group
from isotone.client.errors import NotAMember, Unconfirmed, UnknownFate
from isotone.core.ids import ClientId, DaemonId, MessageId
from isotone.daemon.composition import Hooks
from isotone.daemon.security.access import Access, AccessRule
from tests.cli.running import isotone, told

RULES = [
    AccessRule(groups=["open"]),
    AccessRule(groups=["heard"], allow=["join"]),
    AccessRule(groups=["said"], allow=["send"]),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A daemon with an access list, in a thread of its own."""
    access, found, began, loop = Access(RULES), [""], Event(), asyncio.new_event_loop()
    done = asyncio.Event()

    async def serve() -> None:
        async with library.node(hooks=Hooks(admit=access.admit, permit=access.permit)) as daemon:
            found[0] = daemon.address
            began.set()
            await done.wait()

    thread = Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert began.wait(60)
    yield found[0]
    loop.call_soon_threadsafe(done.set)
    thread.join()
    loop.close()


@pytest.mark.parametrize(
    "arguments",
    [
        ("send", "heard", "hello"),
        ("send", "heard", "hello", "--confirm"),
        ("send", "said", "hello", "--confirm"),
        ("recv", "said", "--timeout", "30"),
        ("chat", "said"),
        ("ping", "said"),
        ("ping", "heard"),
        ("flood", "heard"),
    ],
    ids=" ".join,
)
def test_what_is_refused_ends_with_2(address: str, arguments: tuple[str, ...]) -> None:
    result = isotone("group", *arguments, "--address", address)
    assert result.exit_code == 2, result.output
    assert "anonymous may not " in result.stderr


def test_what_is_allowed_ends_with_0(address: str) -> None:
    assert told("group", "send", "said", "hello", "--address", address)["service"] == "agreed"
    assert told("group", "send", "open", "hello", "--confirm", "--address", address)["service"] == "safe"


@pytest.mark.parametrize("reason", ["transitional", "disconnected", "deadline", "left"])
def test_what_is_not_confirmed_ends_with_1(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    async def unconfirmed(*_: object, **__: object) -> NoReturn:
        raise Unconfirmed(reason)

    monkeypatch.setattr(commands_of_group, "send", unconfirmed)
    result = isotone("group", "send", "room", "hello", "--confirm")
    assert result.exit_code == 1
    assert f"not confirmed: {reason}" in result.stderr


@pytest.mark.parametrize("error", [Unconfirmed, UnknownFate])
def test_what_became_of_which_message_is_told_to_people_and_programs(
    monkeypatch: pytest.MonkeyPatch, error: type[Unconfirmed | UnknownFate]
) -> None:
    name = "#ann#d1#3#17:5"

    async def lost(*_: object, **__: object) -> NoReturn:
        raise error("disconnected", id=MessageId(ClientId(DaemonId("d1", 3), "ann", 17), 5))

    monkeypatch.setattr(commands_of_group, "send", lost)
    shown = isotone("group", "send", "room", "hello", "--confirm")
    assert shown.exit_code == 1 and f"message {name}" in shown.stderr
    told = isotone("group", "send", "room", "hello", "--confirm", "--json")
    assert (told.exit_code, told.stderr) == (1, shown.stderr)
    assert json.loads(told.stdout) == {"error": shown.stderr.removeprefix("isotone: ").rstrip(), "id": name}


def test_what_is_not_done_in_time_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(commands_of_group, "send", never)
    result = isotone("group", "send", "room", "hello", "--timeout", "0.01")
    assert (result.exit_code, result.stderr) == (1, "isotone: not done within 0.01 seconds\n")


def test_what_else_goes_wrong_ends_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> NoReturn:
        raise NotAMember("nobody knows")

    monkeypatch.setattr(commands_of_group, "send", broken)
    assert isotone("group", "send", "room", "hello").exit_code == 3


@pytest.mark.parametrize("service", ["fifo", "agreed", "unreliable"])
def test_only_safe_messages_are_confirmed(service: str) -> None:
    result = isotone("group", "send", "room", "x", "--confirm", "--service", service, "--address", "127.0.0.1:1")
    assert result.exit_code == 2
    assert f"only SAFE messages can be confirmed, not {service.upper()}" in result.stderr


@pytest.mark.parametrize("addresses", [1, 3])
def test_every_address_is_tried_before_the_time_is_over(addresses: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands_of_group, "CONNECT_WITHIN_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes calls and never answers
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        everywhere = [word for _ in range(addresses) for word in ("--address", where)]
        result = isotone("group", "send", "room", "x", *everywhere, "--timeout", "60")
    assert result.exit_code == 3
    assert where in result.stderr and "no attempt was made" not in result.stderr
