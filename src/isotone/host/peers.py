"""Other servers as a source for the repair of a log: asked through their ports, one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from isotone.core.errors import IsotoneError
from isotone.corel.configuration import Configuration
from isotone.corel.message import Message
from isotone.corel.quorum import Primary
from isotone.corel.wire import State
from isotone.host.log_client import RemoteLog

Answer = TypeVar("Answer")

WITHIN_S = 5.0


class Peers:
    """Servers by name and address. For one thread without a loop; what one cannot tell another may.

    A server that cannot be reached is not tried again.
    """

    def __init__(self, addresses: Mapping[str, str], credential: bytes = b"") -> None:
        self.addresses, self._credential = dict(addresses), credential
        self.reasons: dict[str, str] = {}  # why one did not help
        self._away: set[str] = set()
        self._known: dict[int, list[Message]] = {}
        self._primaries: list[Primary] | None = None
        self._forcings: list[tuple[int, Configuration]] | None = None
        self._state: bytes | None = None

    def messages(self, after: int, count: int) -> list[Message]:
        """Of the first peer that has them."""
        if after not in self._known:
            self._known[after] = self._first(lambda log: log.messages(after, count)) or []
        return self._known[after]

    def primaries(self) -> list[Primary]:
        """Of all peers."""
        if self._primaries is None:
            found = [self._ask(name, lambda log: log.primaries()) for name in self.addresses]
            self._primaries = [each for told in found if told for each in told]
        return self._primaries

    def forcings(self) -> list[tuple[int, Configuration]]:
        """Of all peers."""
        if self._forcings is None:
            found = [self._ask(name, lambda log: log.forcings()) for name in self.addresses]
            self._forcings = [each for told in found if told for each in told]
        return self._forcings

    def replica_states(self) -> dict[str, State]:
        """Of each that answers, what it has and knows of the others."""
        found = {name: self._ask(name, lambda log: log.state()) for name in self.addresses}
        return {name: state for name, state in found.items() if state is not None}

    def state(self) -> bytes:
        """Of the first peer that has one."""
        if self._state is None:
            found = (self._ask(name, lambda log: log.snapshot()) for name in self.addresses)
            self._state = next((each.state for each in found if each is not None), b"")
        return self._state

    def _first(self, question: Callable[[RemoteLog], Awaitable[list[Message]]]) -> list[Message] | None:
        for name in self.addresses:
            if told := self._ask(name, question):
                return told
        return None

    def _ask(self, name: str, question: Callable[[RemoteLog], Awaitable[Answer]]) -> Answer | None:
        async def asked() -> Answer:
            log = RemoteLog(self.addresses[name], name="scrub", credential=self._credential)
            log.patience.connect_within_us = int(WITHIN_S * 1_000_000)
            async with asyncio.timeout(2 * WITHIN_S), log:
                self._away.discard(name)
                return await question(log)

        if name in self._away:
            return None
        self._away.add(name)
        try:
            return asyncio.run(asked())
        except (IsotoneError, TimeoutError) as error:
            self.reasons[name] = str(error) or "it does not answer"
            return None
