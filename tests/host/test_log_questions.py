"""What a server tells about its log to one that repairs its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec

from isotone.corel import records as r
from isotone.corel.configuration import Configuration
from isotone.corel.ledger import Ledger
from isotone.corel.quorum import Majority
from isotone.corel.recover import begin_anew
from isotone.host.log_client import RemoteLog
from isotone.host.log_port import LogPort
from isotone.host.log_questions import answer
from isotone.host.replica_log import ReplicaLog
from tests.host.replicas import replicas, run


def test_behind_a_restore_the_configuration_of_the_fence_and_that_with_the_identities_are_told() -> None:
    ledger = Ledger.founded("abc", Majority(("a", "b", "c")))
    begin_anew(ledger, ("x",), Majority(("x",)), 7)
    ledger.apply(r.Founded((("x", b"identity"),)))
    log = cast(ReplicaLog, SimpleNamespace(replica=SimpleNamespace(ledger=ledger)))
    told = asyncio.run(answer(log, "forcing", ""))
    assert isinstance(told, list)
    fence, *configurations = told
    known = [msgspec.msgpack.decode(each, type=Configuration) for each in configurations]
    assert fence == 7 and known == [ledger.forced, ledger.queue.configuration]
    assert [each.identities for each in known] == [(), (("x", b"identity"),)]


def test_a_server_tells_what_it_has_and_what_the_others_promised(tmp_path: Path) -> None:
    async def main() -> None:
        async with replicas(tmp_path, "abc") as group:
            await group.logs["a"].append(b"m")
            port = LogPort(group.logs["b"])
            await port.start("127.0.0.1", 0)
            async with RemoteLog(port.address) as log:
                told = await log.state()
            await port.stop()
            assert told.server == "b" and told.green >= 1 and told.history.last.servers == ("a", "b", "c")
            assert dict(told.greens).keys() == {"a", "b", "c"}

    run(main)
