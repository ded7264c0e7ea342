"""Where programs stand in the simulated network, and how they reach daemons from there.

Whoever connects without further ado stands beside the daemon that it calls, on its side of every partition. A program
that was launched has a place of its own: it can be killed, and cut off from its daemon. Which program a task belongs
to is a context variable, so the tasks and callbacks that it starts inherit it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar, copy_context
from typing import Any

from isotone.core.contract import Address
from isotone.core.errors import LocalProtocolError
from isotone.sim.process import Boot
from isotone.sim.world import World
from isotone.testing.loop import VirtualLoop
from isotone.testing.transport import Portal, StreamTransport

PROGRAMS = "programs"
_place: ContextVar[str] = ContextVar("isotone_place", default="")


class Places:
    """The places of one world: whose side each is on, and which tasks run there."""

    def __init__(self, world: World, site_of: Mapping[str, str]) -> None:
        self._world = world
        self._site_of = site_of  # of the daemons
        self._beside: dict[str, str] = {}  # place to daemon
        self._sides: Sequence[Sequence[str]] = ()
        self._programs: dict[str, asyncio.Task[Any]] = {}

    # --- streams ---------------------------------------------------------------------------------------------------

    async def connect(
        self, loop: VirtualLoop, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a stream from where the running task stands."""
        if host not in self._site_of:
            raise LocalProtocolError(f"there is no daemon {host!r} in this cluster, only {', '.join(self._site_of)}")
        place = _place.get() or f"{host}.local"
        if place not in self._beside:
            self._add(place, host)
        process = self._world.nodes[place].process
        if process is None:
            raise ConnectionRefusedError(f"{place} was killed")
        transport = StreamTransport(loop, factory, self._world.network.streams, process.lanes[PROGRAMS], (host, port))
        transport.open(Address(f"{host}:{port}"))
        try:
            return transport, await transport.opened
        except asyncio.CancelledError:
            transport.abort()
            raise

    def transports(self, daemon: str) -> list[StreamTransport]:
        """The streams of programs to this daemon that are open or on their way, in the order of places."""
        return [
            transport
            for place in self._beside
            for transport in self._transports_at(place)
            if transport.get_extra_info("peername")[0] == daemon
        ]

    def break_all(self) -> None:
        """Break every stream: the world ends."""
        for place in self._beside:
            for transport in self._transports_at(place):
                transport.break_off()

    def _transports_at(self, place: str) -> list[StreamTransport]:
        process = self._world.nodes[place].process
        if process is None:
            return []
        portal = process.lanes[PROGRAMS].automaton
        assert isinstance(portal, Portal)
        return list(portal.transports.values())

    # --- programs --------------------------------------------------------------------------------------------------

    def launch(self, loop: VirtualLoop, name: str, main: Coroutine[Any, Any, Any], beside: str) -> asyncio.Task[Any]:
        """Run a coroutine as a program with a place of its own."""
        if beside not in self._site_of:
            main.close()
            raise LocalProtocolError(f"there is no daemon {beside!r} in this cluster, only {', '.join(self._site_of)}")
        running = self._programs.get(name)
        if running is not None and not running.done():
            main.close()
            raise LocalProtocolError(f"there is a program {name!r} already")
        if name not in self._beside:
            self._add(name, beside)
        elif not self._world.is_up(name):
            self._beside[name] = beside
            self._world.restart(name)
            self.partition(self._sides)
        context = copy_context()
        context.run(_place.set, name)
        task = self._programs[name] = loop.create_task(main, name=name, context=context)
        return task

    def kill(self, loop: VirtualLoop, name: str) -> None:
        """End a program as a kill does: its streams are reset, and its tasks are cancelled and reach nobody."""
        if name not in self._programs:
            known = ", ".join(self._programs) or "none"
            raise LocalProtocolError(f"there is no program {name!r} to kill; launched were: {known}")
        if not self._world.is_up(name):
            return
        for transport in self._transports_at(name):
            transport.kill()
        self._world.crash(name)
        for task in list(loop.unfinished()):
            if loop.tasks[task].get(_place) == name:
                task.cancel(f"program {name} was killed")

    def _add(self, place: str, daemon: str) -> None:
        self._beside[place] = daemon
        self._world.add_process(place, _program, site=self._site_of[daemon])
        self.partition(self._sides)

    # --- partitions --------------------------------------------------------------------------------------------------

    def partition(self, sides: Iterable[Iterable[str]]) -> None:
        """Cut the network; who is named nowhere stands beside its daemon."""
        self._sides = [list(side) for side in sides]
        named = {name for side in self._sides for name in side}
        self._world.partition(*(list(self._with_places(side, named)) for side in self._sides))

    def _with_places(self, side: Sequence[str], named: set[str]) -> Iterator[str]:
        yield from side
        for place, daemon in self._beside.items():
            if daemon in side and place not in named:
                yield place

    def heal(self) -> None:
        """No partition and no cut any more."""
        self._sides = ()
        self._world.heal()


def _program(boot: Boot) -> dict[str, Portal]:
    del boot
    return {PROGRAMS: Portal()}
