"""Readers that do not keep up: at half of the bound a warning is counted, above it the policy decides, that of the
reader or else of the group whose message came.

`disconnect` ends the session; `block` holds sends of Spread's clients at this daemon to the groups that the reader is
in, and the shell has native clients and other daemons wait too (`isotone.daemon.holding`). What is under way until then
still comes, so at twice the bound a blocked reader is disconnected too.

Deviations: D-slow Spread drops a reader at 1,000 messages that wait, whatever their size.
"""

from __future__ import annotations

from collections.abc import Iterable

from isotone.daemon.spread.session import SpreadSession
from isotone.daemon.spread.settings import GatewaySettings, SpreadCounters
from isotone.evs.sessions.backlog import Memory
from isotone.evs.sessions.settings import SlowPolicy


class SlowReaders:
    """Judges the buffers of all sessions."""

    def __init__(self, settings: GatewaySettings, memory: Memory, counters: SpreadCounters) -> None:
        self.blocking: dict[SpreadSession, None] = {}  # in the order in which they began to block
        self.calm_bytes = settings.buffer_bytes_max // 2
        self._settings = settings
        self._memory = memory
        self._counters = counters

    @property
    def is_exhausted(self) -> bool:
        """Whether all buffers together hold too much."""
        return self._memory.held_bytes > self._settings.buffers_bytes_max

    @property
    def blocked_groups(self) -> frozenset[str]:
        """To which nothing shall be sent for now."""
        readers = (({*each.groups, each.client.private_group}) for each in self.blocking)
        return frozenset[str]().union(*readers)

    def judge(self, session: SpreadSession, groups: Iterable[str]) -> str:
        """After a message to these groups was put into a buffer: why the session has to end, or nothing."""
        held, bound = session.outbox.held_bytes, self._settings.buffer_bytes_max
        if session.outbox.is_single:
            return ""
        if held > self.calm_bytes and not session.warned:
            session.warned = True
            self._counters.warnings += 1
        if held <= bound:
            return ""
        if self._policy(session.client.name, groups) is SlowPolicy.DISCONNECT:
            return f"{held} bytes were not read; the bound is {bound}"
        if held > self._settings.blocked_bytes_max:
            return (
                f"{held} bytes were not read while senders were held; the bound is {self._settings.blocked_bytes_max}"
            )
        if not session.blocks:
            session.blocks = True
            self.blocking[session] = None
            self._counters.blocked += 1
        return ""

    def relieve(self, session: SpreadSession) -> bool:
        """The client read something; whether senders may go on."""
        held, bound = session.outbox.held_bytes, self._settings.buffer_bytes_max
        if held < bound // 4:
            session.warned = False
        return session.blocks and held <= bound // 2 and self.release(session)

    def release(self, session: SpreadSession) -> bool:
        """It blocks nobody any more; whether it did."""
        blocked, session.blocks = session.blocks, False
        self.blocking.pop(session, None)
        return blocked

    def _policy(self, reader: str, groups: Iterable[str]) -> SlowPolicy:
        policies, of_clients = self._settings.policies, self._settings.client_policies
        if of_clients and reader in of_clients:
            return of_clients[reader]
        named = [policies[group] for group in groups if group in policies]
        if named:
            return SlowPolicy.DISCONNECT if SlowPolicy.DISCONNECT in named else SlowPolicy.BLOCK
        return self._settings.policy
