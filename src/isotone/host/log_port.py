"""The port of a replica in a process: other processes append, read, follow and ask how it stands.

What is said is the affair of `isotone.corel.port`; here are the listener, the streams and the log.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from isotone.core.contract import Action
from isotone.core.errors import IsotoneError, MachineError
from isotone.corel.port.events import AppendAnswer, AppendsAnswered, Dropped, LogEnded, RecordsCame
from isotone.corel.port.server import Judge, PortServer, PortTimes, anybody
from isotone.host.answers import Maybe
from isotone.host.log_work import Work, seconds
from isotone.host.port_shell import PortShell
from isotone.host.replica_log import ReplicaLog

log = logging.getLogger("isotone.replica")


class LogPort:
    """Listens for one replica. ``judge``: who may use the log; ``judge_change``: who may change its servers."""

    def __init__(
        self,
        replica: ReplicaLog,
        *,
        judge: Judge = anybody,
        judge_change: Judge = anybody,
        times: PortTimes | None = None,
    ) -> None:
        self.replica = replica
        self.address = ""
        self.server = PortServer(replica.settings.server, judge=judge, judge_change=judge_change, times=times)
        self.shell: PortShell  # from `start` on
        self._work: Work
        self._answers: list[AppendAnswer] = []  # of this turn
        self._listener: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; `address` says where."""
        loop = asyncio.get_running_loop()
        self.shell = PortShell(self.server, self._perform)
        self._work = Work(self.replica, self.shell.hand)
        try:
            self._listener = await loop.create_server(self.shell.accept, host, port)
        except OSError as error:
            raise MachineError(
                f"cannot listen on {host}:{port} for clients of the replica: {error.strerror}"
            ) from error
        name = self._listener.sockets[0].getsockname()
        self.address = f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"
        self._watch = loop.create_task(self._watch_replica())
        log.info("replica %s listens at %s", self.replica.settings.server, self.address)

    async def _watch_replica(self) -> None:
        """A server that ended by itself has no clients any more: they go to another one."""
        await self.replica.until_ended()
        self._close()

    async def stop(self) -> None:
        """Answer what can be answered, and close."""
        if self._watch is not None:
            self._watch.cancel()
        self._close()

    def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._flush()
            self.shell.hand(LogEnded(self.shell.now()))
            self.shell.shut()
            self._work.end()

    # --- what the port says ------------------------------------------------------------------------------------------

    def _perform(self, action: Action) -> None:
        if isinstance(action, RecordsCame):
            self._submit(action)
        elif isinstance(action, Dropped):
            log.warning("replica %s: a client is dropped: %s", self.replica.settings.server, action.reason)
        else:
            self._work.take(action)  # type: ignore[arg-type]

    def _submit(self, came: RecordsCame) -> None:
        within_s = seconds(came.within_ms)
        for request, record in enumerate(came.records, came.request):
            try:
                self.replica.submit(record, partial(self._answered, came.stream, request), within_s=within_s)
            except MachineError as error:
                self._answered(came.stream, request, Maybe(str(error)))

    def _answered(self, stream: int, request: int, outcome: int | IsotoneError) -> None:
        if not self._answers:
            self.replica.host.at_the_end(self._flush)
        self._answers.append(AppendAnswer(stream, request, outcome))

    def _flush(self) -> None:
        """All that became green in one turn goes together."""
        answers, self._answers = self._answers, []
        if answers:
            self.shell.hand(AppendsAnswered(self.shell.now(), tuple(answers)))
