"""`isotone explain` names the cause on real daemons: an injected cut, a client that does not read, an exclusion."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import isotone
from tests.cli.running import Running, first_object, process, told, wait_until
from tests.cli.running import isotone as command

BODY = bytes(60_000)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("explain")
    with process("up", "3", "--port", "0", "--directory", str(home / "up"), "--json", log=home / "log") as running:
        yield Running(first_object(running, home / "log"))


@pytest.fixture(autouse=True)
def healed(cluster: Running) -> Iterator[None]:
    yield
    for name in cluster.daemons:
        cluster.client(name).post("/faults", {"rules": []})
    wait_until(cluster.is_together, "all are together")


def causes(answer: dict[str, Any], kind: str) -> list[str]:
    return [cause["text"] for cause in answer["causes"] if cause["kind"] == kind]


def test_a_message_that_a_cut_keeps_from_its_receivers(cluster: Running) -> None:
    """Asked at one daemon: the others are known to it by its settings, and are asked as well."""

    async def sent() -> str:
        async with (
            isotone.connect(cluster.daemons["d1"]["address"], name="ann") as near,
            isotone.connect(cluster.daemons["d3"]["address"], name="cid") as far,
        ):
            await far.join("cut")
            group = await near.join("cut")
            await asyncio.to_thread(command, "faults", "cut", "d3", *cluster.at("d1"))
            return str(await group.post(b"is anybody there?"))

    answer = told("explain", "message", asyncio.run(sent()), *cluster.at("d2"), code=1)
    assert sorted(each["daemon"] for each in answer["daemons"]) == ["d1", "d2", "d3"]
    assert causes(answer, "injected fault") == [
        "injected fault at d1: between it and d3 all packets are lost; `isotone faults heal` ends it"
    ]


def test_a_message_behind_a_client_that_does_not_read(cluster: Running, tmp_path: Path) -> None:
    """The reader is stopped, so that nothing may be sent to its group; a fault elsewhere is not listed as a cause."""
    command("faults", "delay", "d2", "1", *cluster.at("d3"))
    where = ("--name", "sleeper", "--address", cluster.daemons["d2"]["address"])

    async def send_until_held() -> dict[str, Any]:
        async with isotone.connect(cluster.clients, name="ann") as session:
            last = [await session.post("slow", BODY)]

            async def send() -> None:
                while True:
                    last[0] = await session.post("slow", BODY)

            sending = asyncio.create_task(send())
            await asyncio.to_thread(wait_until, lambda: bool(session.held), "the sender is held")
            assert [reader.name for reader in session.held] == ["sleeper"]
            answer = await asyncio.to_thread(told, "explain", "message", str(last[0]), *cluster.at("d1"), code=1)
            sending.cancel()
            return answer  # type: ignore[no-any-return]

    with process("group", "recv", "slow", *where, "--json", log=tmp_path / "log") as reader:
        wait_until(lambda: bool(cluster.client("d1").get("/groups", name="slow")["groups"]), "the reader is a member")
        reader.send_signal(signal.SIGSTOP)
        try:
            answer = asyncio.run(send_until_held())
        finally:
            reader.send_signal(signal.SIGKILL)
    assert [cause["kind"] for cause in answer["causes"]] == ["slow reader"]
    assert answer["causes"][0]["text"].startswith("client sleeper at d2 does not read: ")
    assert "senders to its groups (slow) have waited for" in answer["causes"][0]["text"]


def test_an_exclusion_by_an_injected_fault(cluster: Running) -> None:
    """With several addresses; the fault is named, not what the daemons concluded from it."""
    everywhere = [part for name in cluster.daemons for part in cluster.at(name)]
    assert command("faults", "partition", "d1,d2", "/", "d3", *everywhere).exit_code == 0
    wait_until(lambda: cluster.members("d1") == ["d1", "d2"] and cluster.members("d3") == ["d3"], "d3 is out")
    shown = command("explain", "exclusion", "d3", *everywhere)
    assert shown.exit_code == 1
    assert shown.stdout.splitlines()[:3] == [
        "cause: injected fault at d1: between it and d3 all packets are lost; `isotone faults heal` ends it",
        "cause: injected fault at d2: between it and d3 all packets are lost; `isotone faults heal` ends it",
        "cause: the daemons are in 2 parts: d1 d2 | d3",
    ]
    unknown = told("explain", "exclusion", "d9", *everywhere, code=1)
    assert causes(unknown, "injected fault") == [], "these have nothing to do with it"
