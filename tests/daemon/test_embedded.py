"""A daemon inside of a program: no settings, one machine, and nothing left behind."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

import isotone
from isotone.core.errors import InputError, MachineError
from isotone.daemon.composition import Hooks
from isotone.daemon.embedded import node
from isotone.daemon.node import Phase
from isotone.daemon.security.access import Access
from tests.daemon.local_cluster import DEADLINE_S


def test_the_shortest_program() -> None:
    async def main() -> None:
        async with asyncio.timeout(DEADLINE_S), isotone.node() as daemon:
            assert daemon.address.startswith("127.0.0.1:") and daemon.is_ready
            async with isotone.connect(daemon.address, name="alice") as me:
                chat = await me.join("chat")
                await chat.send(b"hello", service=isotone.AGREED)
                async for event in chat:
                    if isinstance(event, isotone.Message):
                        assert event.body == b"hello"
                        break
        assert daemon.phase is Phase.ENDED
        assert daemon.why_not_ready == "ended"

    asyncio.run(main())


def test_two_in_one_process_find_each_other_and_keep_their_state(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(DEADLINE_S),
            node(name="a", state=tmp_path / "a", trace=tmp_path / "trace") as first,
            node(name="b", peers=[("a", first.address)]) as second,
        ):
            met = asyncio.Event()
            first.observers.append(lambda at: met.set() if len(first.stack.membership.members) == 2 else None)
            await met.wait()
            assert second.name == "b" and first.status().trace.level == "buffered"
        async with node(name="a", state=tmp_path / "a") as again:
            assert again.me.incarnation == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    ("address", "hooks", "told"),
    [
        ("127.0.0.1:0", None, []),
        ("0.0.0.0:0", None, ["daemons talk without keys", "clients connect without saying who they are"]),
        ("0.0.0.0:0", Hooks(admit=Access(anonymous=False).admit), ["daemons talk without keys"]),
    ],
)
def test_what_is_open_to_a_network_is_warned_of(
    address: str, hooks: Hooks | None, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with node(address=address, hooks=hooks):
            pass

    with caplog.at_level(logging.WARNING, "isotone.daemon"):
        asyncio.run(main())
    warnings = [record.getMessage() for record in caplog.records if " at " in record.getMessage()]
    assert len(warnings) == len(told) and all(text in line for text, line in zip(told, warnings))


def test_what_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(InputError, match="is no address"):
            async with node(address="nowhere"):
                pass
        async with node(name="a", state=tmp_path) as daemon:
            with pytest.raises(MachineError, match="in use by another process"):
                async with node(name="a", state=tmp_path):
                    pass
            with pytest.raises(MachineError, match="cannot listen"):
                async with node(name="b", address=daemon.address):
                    pass

    asyncio.run(main())


def test_a_program_that_fails_still_stops_its_daemon() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="of the program"):
            async with node() as daemon:
                raise RuntimeError("of the program")
        assert daemon.phase is Phase.ENDED

    asyncio.run(main())
