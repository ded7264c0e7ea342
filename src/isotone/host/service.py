"""What a host asks of whoever carries boundary B4 for it, and what it hears.

Ids: an automaton asks to connect under a provisional id, of which only the name counts. `Connected` has the id that
the session really has as its receiver, and from then on only that one counts. When there will be no session,
`Disconnected` has the provisional id as its receiver. So a client tries again with another provisional id. One that
names the daemon in whose process it runs may choose its ids itself: they are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import msgspec

from isotone.core.boundary import Ask, Indication, Request
from isotone.core.ids import ClientId, DaemonId
from isotone.trace.events import Entry


class Port(Protocol):
    """The host, as its service sees it."""

    def now(self) -> int:
        """The time of this process."""

    def on_told(self, receivers: tuple[ClientId, ...], indication: Indication) -> None:
        """Clients are told something; it waits its turn."""

    def on_turn(self) -> None:
        """All of now was told; what waits may have its turn at once."""

    def on_moved(self) -> None:
        """Less waits than before."""

    def on_broken(self, reason: str, error: BaseException | None) -> None:
        """It cannot go on."""


class Service(Protocol):
    """A way to boundary B4."""

    waiting_bytes: int
    """Of sends that wait for room."""

    @property
    def daemon(self) -> DaemonId:
        """Who serves, as far as it is known."""

    def begin(self, port: Port) -> None:
        """Before anything is asked, on the running loop."""

    def ask(self, action: Ask) -> None:
        """Carry a request, in order for each session."""

    def part(self, reason: str) -> tuple[ClientId, ...]:
        """End all sessions, ahead of what waits; their clients, which are told that they are `Disconnected`."""

    def on_turn(self) -> None:
        """The automaton has asked all that it asks now."""

    @property
    def record(self) -> Callable[[Entry], None] | None:
        """Where the automaton's records go, if the service has a place for them."""

    async def close(self, *, clean: bool) -> None:
        """Nothing is asked any more."""


@runtime_checkable
class Attached(Protocol):
    """A service in another process than its daemon, which may be away."""

    absence: str
    """Why there is no session with it, if there is none."""


def absence_of(service: Service) -> str:
    """Why it has no session with a daemon, as far as it can tell; empty if it has one."""
    return service.absence if isinstance(service, Attached) else ""


def kind_of(request: Request) -> str:
    """The word for a request in `Refused`."""
    return type(request).__name__.lower()


class Around(msgspec.Struct, frozen=True):
    """What an automaton is built from in a host."""

    name: str
    daemon: DaemonId  # that serves, if it is known before a session is open; else `NO_DAEMON`
    identity: bytes  # of the store, for all time
    incarnation: int
    seed: str  # for a `Choice`; unpredictable
