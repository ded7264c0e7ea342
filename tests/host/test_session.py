"""A server as a client of a daemon that is not there, or does not take it: it says why, and does not storm."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from isotone.host import session as module
from isotone.host.log_questions import answer
from isotone.host.replica_log import ReplicaLog
from isotone.host.replica_status import status_of
from isotone.host.session import SessionService
from tests.host.replicas import Replicas, replicas, run

WARNING = "a has no session with a daemon"


def test_a_server_without_a_daemon_says_so_and_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        group = Replicas(tmp_path, "a")
        group.kind = "session"
        await group.start_node("a")
        address = group.nodes["a"].address
        await group.stop_node("a")
        log = await group.start_log("a")
        service = log.host.service
        assert isinstance(service, SessionService)
        while not service.absence:
            await asyncio.sleep(0)
        why = await answer(log, "explain", "")
        assert isinstance(why, str)
        assert why.startswith(f"a orders nothing: it has no session with a daemon: {address}: ")
        assert status_of(log).why_no_primary == why
        assert f"{WARNING}: {address}: " in caplog.text
        await group.start_node("a")
        await group.primary()
        assert not service.absence and not log.why_no_primary()
        assert caplog.text.count(WARNING) <= 2, "each reason once: the daemon may be half there in between"
        await group.stop_node("a")
        await log.until(lambda: bool(service.absence))
        assert "it has no session with a daemon: " in log.why_no_primary()
        await group.stop_log("a")

    run(main)


def test_a_server_that_its_daemon_refuses_says_so_once_and_comes_less_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is in use."""
    monkeypatch.setattr(module, "CLOSE_SECONDS", 3600.0)

    async def another(group: Replicas) -> tuple[ReplicaLog, SessionService]:
        service = SessionService(group.nodes["a"].address)
        log = ReplicaLog(group.settings("a"), service=service, directory=tmp_path / "other")
        await log.start()
        return log, service

    async def main() -> None:
        async with replicas(tmp_path, "a", kind="session") as group:
            log, service = await another(group)
            pauses = list[float]()
            while len(pauses) < 5:
                await log.until(lambda: service._pause_s not in pauses)
                pauses.append(service._pause_s)
            assert pauses == [0.0, 0.1, 0.2, 0.4, 0.8]
            assert "it has no session with a daemon: refused: the name a is in use" in log.why_no_primary()
            assert caplog.text.count(WARNING) == 1
            while not any(session.pause for session in service._sessions.values()):
                await asyncio.sleep(0)
            await log.stop()  # in a pause, and at once
            log, service = await another(group)
            await log.until(lambda: bool(service.absence))
            await group.stop_log("a")
            await log.until(lambda: bool(log.replica.session.view))
            assert not service.absence and service._pause_s == 0.0
            await log.stop()

    run(main)
