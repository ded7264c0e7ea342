"""What a caller passes wrongly comes back to it: the server goes on, and so does what others asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from isotone.core.errors import IsotoneError, LocalProtocolError
from isotone.core.ordered_log import OrderedLog, Snapshot
from isotone.corel.quorum import AllOf, Majority, Weighted
from isotone.host import arguments
from isotone.host.answers import NotYet, Refused
from isotone.host.log_client import RemoteLog
from isotone.host.log_port import LogPort
from isotone.host.replica_log import ReplicaLog
from tests.host.replicas import replicas, run

RELEASED = memoryview(b"abcd")
RELEASED.release()
NOT_BYTES = ("str", None, 5, 1.5, [1, 2], {"a": 1}, object(), RELEASED)
NOT_NUMBERS = ("1", None, 1.5, b"1", [1], object())
NOT_TIMES = (float("nan"), float("inf"), float("-inf"), -1, -0.001, 1e300, 10**400, "1", b"1", object(), Decimal(1))
NOT_TEXTS = (5, b"a", None, ["a"], object(), "\ud800", "a" * 2_000)

deep: Any = Majority(("a",))
for _ in range(10_000):
    deep = AllOf((deep,))
NOT_RULES = (
    object(),
    "majority",
    0,
    {"type": "Majority"},
    Majority(("\ud800",)),
    Majority(5),  # type: ignore[arg-type]
    Weighted({"a": "many"}),  # type: ignore[dict-item]
    Weighted({"a": 2**70}),
    AllOf((object(),)),  # type: ignore[arg-type]
    Majority(tuple("s" * 100 for _ in range(30))),
    deep,
)
NOT_VOTES = (5, "a", [("a", 1)], {5: 1}, {"a": "many"}, {"a": -1}, {"a": 2**70}, {"a": None}, {"a": 1, 5: 1})

Call = Callable[[Any, Any], Any]
"""Of a log, embedded or remote, with a value that is wrong."""


async def followed(log: Any, first: Any) -> None:
    async for _ in log.follow(first):
        break


WRONG: dict[str, tuple[Call, tuple[Any, ...]]] = {
    "append": (lambda log, value: log.append(value), NOT_BYTES),
    "append within": (lambda log, value: log.append(b"x", within_s=value), NOT_TIMES),
    "read from": (lambda log, value: log.read(value, 1), (*NOT_NUMBERS, 0, -1, 2**63)),
    "read to": (lambda log, value: log.read(1, value), NOT_NUMBERS),
    "follow": (followed, (*NOT_NUMBERS, 0, -5, 2**63)),
    "wait for": (lambda log, value: log.wait_for(value, within_s=0), (*NOT_NUMBERS, -3, 2**63)),
    "wait within": (lambda log, value: log.wait_for(1, within_s=value), NOT_TIMES),
    "offer": (lambda log, value: log.offer_snapshot(value), (None, (1, b"state"), b"state", 5)),
    "offer a state": (lambda log, value: log.offer_snapshot(Snapshot(1, value)), NOT_BYTES),
    "offer at": (lambda log, value: log.offer_snapshot(Snapshot(value, b"")), (*NOT_NUMBERS, 0, -1, 2**63)),
    "add": (lambda log, value: log.reconfigure(add=value), NOT_TEXTS),
    "remove": (lambda log, value: log.reconfigure(remove=value), NOT_TEXTS),
    "rule": (lambda log, value: log.reconfigure(rule=value), NOT_RULES),
    "votes": (lambda log, value: log.reconfigure(votes=value), NOT_VOTES),
    "change within": (lambda log, value: log.reconfigure(remove="b", within_s=value), NOT_TIMES),
}


@asynccontextmanager
async def remote(directory: Path) -> AsyncIterator[tuple[RemoteLog, LogPort]]:
    async with replicas(directory, "a") as group:
        port = LogPort(group.logs["a"])
        await port.start("127.0.0.1", 0)
        async with RemoteLog(port.address) as log:
            yield log, port
        await port.stop()


@pytest.mark.parametrize("method", WRONG)
def test_a_server_goes_on_whatever_it_is_asked(tmp_path: Path, method: str) -> None:
    call, values = WRONG[method]

    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log = group.logs["a"]
            assert await log.append(b"before") == 1
            for position, value in enumerate(values, 2):
                with pytest.raises(LocalProtocolError):
                    await call(log, value)
                assert await log.append(b"after") == position

    run(main)


ONLY_REMOTE: dict[str, tuple[Call, tuple[Any, ...]]] = {
    "messages": (lambda log, value: log.messages(value, 1), (*NOT_NUMBERS, -1, 2**63)),
    "so many messages": (lambda log, value: log.messages(0, value), (*NOT_NUMBERS, -1, 2**63)),
    "explain": (lambda log, value: log.explain(value), NOT_TEXTS),
}


@pytest.mark.parametrize("method", [*WRONG, *ONLY_REMOTE])
def test_a_connection_goes_on_whatever_is_asked_over_it(tmp_path: Path, method: str) -> None:
    """What others have in flight over it is answered with a position, not with *maybe*."""
    call, values = {**WRONG, **ONLY_REMOTE}[method]

    async def main() -> None:
        async with remote(tmp_path) as (log, _):
            stream = log.client._stream
            assert await log.append(b"before") == 1
            for position, value in enumerate(values, 2):
                other = asyncio.create_task(log.append(b"after"))
                with pytest.raises(LocalProtocolError):
                    await call(log, value)
                assert await other == position
            assert log.client._stream == stream

    run(main)


@pytest.mark.parametrize("value", [5, None, [5], b"127.0.0.1:1", ["\ud800:1"]], ids=repr)
def test_a_client_of_no_address(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match="address"):
        RemoteLog(value)


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:", ":1", "127.0.0.1:65536", f"{'a' * 70}:1", "a..b:1"])
def test_an_address_that_is_none_is_not_tried_again(address: str) -> None:
    async def main() -> None:
        with pytest.raises(LocalProtocolError, match="is no address"):
            await RemoteLog(address).end()

    run(main)


def test_a_client_says_who_it_is_in_texts_and_bytes() -> None:
    for wrong in NOT_TEXTS:
        with pytest.raises(LocalProtocolError, match="a client's name"):
            RemoteLog("127.0.0.1:1", name=wrong)
    for wrong in NOT_BYTES:
        with pytest.raises(LocalProtocolError, match="a credential"):
            RemoteLog("127.0.0.1:1", credential=wrong)


@pytest.mark.parametrize("kind", ["embedded", "remote"])
def test_what_is_like_bytes_is_taken_as_it_is_now(tmp_path: Path, kind: str) -> None:
    class Named(bytes):
        pass

    async def main() -> None:
        async with remote(tmp_path) as (client, port):
            log: OrderedLog = port.replica if kind == "embedded" else client
            changing = bytearray(b"abcd")
            appended = asyncio.gather(*map(log.append, (changing, memoryview(changing)[::2], Named(b"x"))))
            await asyncio.sleep(0)
            changing[:] = b"----"
            assert await appended == [1, 2, 3]
            records = [entry.record for entry in await log.read(1, 3)]
            assert records == [b"abcd", b"ac", b"x"] and {type(record) for record in records} == {bytes}
            await log.offer_snapshot(Snapshot(2, bytearray(b"state")))
            assert await log.snapshot() == Snapshot(2, b"state")

    run(main)


@pytest.mark.parametrize("kind", ["embedded", "remote"])
def test_ranges_and_times_at_their_ends(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        async with remote(tmp_path) as (client, port):
            log: Any = port.replica if kind == "embedded" else client
            assert await log.append(b"x", within_s=Fraction(3600)) == 1
            assert await log.append(b"x", within_s=arguments.WITHIN_MAX_S) == 2
            assert len(await log.read(1, 10**30)) == 2 and not await log.read(1, -(10**30))
            await log.wait_for(0)
            with pytest.raises(NotYet):
                await log.wait_for(3, within_s=0)
            with pytest.raises(Refused, match="b is no server"):
                await log.reconfigure(rule=Majority(("a",)), votes={"b": 1})

    run(main)


def test_submit_looks_at_all_before_it_takes_anything(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log = group.logs["a"]
            told: list[int | IsotoneError] = []
            for wrong in ("str", None, 5):
                with pytest.raises(LocalProtocolError, match="a record is bytes"):
                    log.submit(wrong, told.append)  # type: ignore[arg-type]
            for within_s in (float("nan"), float("inf"), -1.0):
                with pytest.raises(LocalProtocolError, match="within_s"):
                    log.submit(b"x", told.append, within_s=within_s)
            with pytest.raises(LocalProtocolError, match="a function, not None"):
                log.submit(b"x", None)  # type: ignore[arg-type]
            assert not log.waiting_appends
            assert await log.append(b"x") == 1 and not told

    run(main)


def test_an_answer_on_which_its_receiver_fails_is_no_bother_to_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(outcome: object) -> None:
        raise ValueError(f"{outcome} is of no use")

    async def main() -> None:
        async with replicas(tmp_path, "a") as group:
            log: ReplicaLog = group.logs["a"]
            log.submit(b"one", fails)
            assert await log.append(b"two") == 2
            assert "failed on the answer" in caplog.text

    run(main)
