"""The story of the demo: a bank and its tellers, a kill, a partition, a merge, a return. Every wait has an end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from isotone.cli.demo_bank import Teller, keep_log, same_balances
from isotone.cli.demo_break import GROUP
from isotone.cli.demo_record import keep_settled
from isotone.cli.demo_screen import Screen, Standing
from isotone.cli.local_cluster import LocalCluster, LocalDaemon
from isotone.client import Group, Message, Session, Settings, View, connect
from isotone.client.errors import ClientError, Unconfirmed
from isotone.core.errors import IsotoneError, MachineError
from isotone.core.services import Service

NAMES = ("alice", "bob", "carol")
"""A client at the first daemon of each site, and a teller of the bank."""
RUSH, MINORITY = 20, 3
"""So many transfers a teller orders at once; and where nothing can be ordered."""
STEP_WITHIN_S = 30.0
SETTINGS = Settings(reconnect_within_s=60.0, pause_max_s=0.2, close_within_s=2.0)


class Actor:
    """A client that joins the group and keeps what it hears."""

    def __init__(self, name: str, daemon: LocalDaemon, screen: Screen, changed: Callable[[], None]) -> None:
        self.name, self.daemon = name, daemon
        self.members: tuple[str, ...] = ()
        self.heard: list[bytes] = []
        self._standing = Standing(name, daemon.place.name, daemon.place.site)
        self._screen, self._changed = screen, changed
        self._session: Session | None = None
        self._group: Group | None = None
        self._reading: asyncio.Task[None] | None = None
        screen.introduce(self._standing)

    async def enter(self) -> None:
        """Connect and join."""
        self._session = await connect(self.daemon.place.address, name=self.name, settings=SETTINGS)
        self._group = await self._session.join(GROUP)
        self._reading = asyncio.create_task(self._read(self._group))

    async def send(self, text: str, service: Service | None = None, *, confirm: bool = False) -> None:
        """To the group."""
        assert self._group is not None
        await self._group.send(text.encode(), service=service, confirm=confirm)

    def has_heard(self, texts: Iterable[str]) -> bool:
        """All of these."""
        return {text.encode() for text in texts} <= set(self.heard)

    async def leave(self) -> None:
        """Close the session, whatever became of it."""
        if self._session is not None:
            await self._session.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self, group: Group) -> None:
        async for event in group:
            if isinstance(event, View):
                self.members = tuple(sorted(member.name for member in event.members))
            elif isinstance(event, Message):
                self.heard.append(event.body)
            self._screen.tell(self._standing, event)
            self._changed()


class Story:
    """What happens, in order."""

    def __init__(self, cluster: LocalCluster, ports: Mapping[str, int], screen: Screen) -> None:
        self._cluster, self._ports, self._screen = cluster, ports, screen
        self._changes = asyncio.Event()
        sites: dict[str, list[LocalDaemon]] = {}
        for daemon in cluster.daemons:
            sites.setdefault(daemon.place.site, []).append(daemon)
        self.actors, self.tellers = [], []
        for name, (site, daemons) in zip(NAMES, sites.items(), strict=True):
            self.actors.append(Actor(name, daemons[0], screen, self._changes.set))
            self.tellers.append(Teller(name, site, [ports[daemon.place.name] for daemon in daemons], screen))

    async def tell(self) -> None:
        """From the first connection to the last goodbye."""
        try:
            await self._meet()
            await self._open_bank()
            await self._kill()
            await self._cut()
            await self._heal()
            await self._return()
            await self._close_bank()
            await keep_settled(self._cluster.directory, self._cluster.names)
        except (ClientError, IsotoneError, TimeoutError) as error:
            if isinstance(error, MachineError):
                raise
            reason = f"the demo could not go on: {type(error).__name__}: {error}"
            raise MachineError(f"{reason}\n{self._logs()}") from error
        finally:
            await asyncio.gather(*(actor.leave() for actor in self.actors))
            await asyncio.gather(*(teller.leave() for teller in self.tellers))

    async def _meet(self) -> None:
        self._screen.say("a client in each site; all join one group and send through every service")
        for actor in self.actors:
            await actor.enter()
        await self._view_of(self.actors)
        for number, service in enumerate(Service):
            actor = self.actors[number % len(self.actors)]
            await actor.send(f"{service.name.lower()} of {actor.name}", service)
        await self._converse()
        await self._confirmed(self.actors, "all together")

    async def _converse(self) -> None:
        """An answer to an answer: nobody hears one before what it answers."""
        said: list[str] = []
        for actor in self.actors:
            await self._until(partial(actor.has_heard, said), "a conversation")
            said.append(f"{actor.name} answers {said[-1]!r}" if said else f"{actor.name} asks")
            await actor.send(said[-1], Service.CAUSAL)

    async def _open_bank(self) -> None:
        self._screen.say("the bank opens: a server beside each daemon, a teller in each site")
        async with asyncio.timeout(STEP_WITHIN_S):
            await asyncio.gather(*(teller.enter() for teller in self.tellers))
            await self.tellers[0].open_accounts()
        await self._rush(*self.tellers)
        await self._same()

    async def _rush(self, *tellers: Teller) -> None:
        """Each of them orders transfers, and waits until it is known what became of them."""
        async with asyncio.timeout(STEP_WITHIN_S):
            await asyncio.gather(*(teller.order(RUSH) for teller in tellers))
            await asyncio.gather(*(teller.settle() for teller in tellers))

    async def _same(self) -> dict[str, int]:
        async with asyncio.timeout(STEP_WITHIN_S):
            return await same_balances(self.tellers, self._screen)

    async def _kill(self) -> None:
        alice, bob, carol = self.actors
        name = bob.daemon.place.name
        self._screen.say(f"{name} is killed (SIGKILL) under transfers: {bob.name} loses it, the bank has four servers")
        rush = asyncio.create_task(self._rush(*self.tellers))
        bob.daemon.send_signal(signal.SIGKILL)
        try:
            await self._send_blindly([alice, carol], "who is still there")
            await self._view_of([alice, carol])
            await self._confirmed([alice, carol], "without bob")
            await rush
        finally:
            rush.cancel()
        await self._same()

    async def _cut(self) -> None:
        (alice, _, carol), (*others, minority) = self.actors, self.tellers
        site = carol.daemon.place.site
        self._screen.say(f"site {site} is cut off; it is a minority, the bank goes on without it")
        await self._set_faults(cut=site)
        await self._send_blindly([alice, carol], "into the cut")
        await asyncio.gather(self._view_of([alice]), self._view_of([carol]))
        await asyncio.gather(self._confirmed([alice], "on this side"), self._confirmed([carol], "on that side"))
        async with asyncio.timeout(STEP_WITHIN_S):
            await asyncio.gather(self._rush(*others), minority.order(MINORITY))

    async def _heal(self) -> None:
        alice, _, carol = self.actors
        self._screen.say("the cut is healed; the sides merge")
        await self._set_faults(cut="")
        await self._view_of([alice, carol])
        await self._confirmed([alice, carol], "merged")
        async with asyncio.timeout(STEP_WITHIN_S):
            await self.tellers[-1].settle()
        await self._same()

    async def _return(self) -> None:
        bob = self.actors[1]
        self._screen.say(f"{bob.daemon.place.name} is started again; {bob.name} finds it by itself")
        assert bob.daemon.process is not None
        await asyncio.to_thread(bob.daemon.process.wait, STEP_WITHIN_S)
        bob.daemon.start()
        await self._view_of(self.actors)
        await self._confirmed(self.actors, "all again")
        await self._rush(*self.tellers)

    async def _close_bank(self) -> None:
        balances = await self._same()
        async with asyncio.timeout(STEP_WITHIN_S):
            await asyncio.gather(*(teller.leave() for teller in self.tellers))
            count = await keep_log(self._cluster.directory, self._ports, balances)
        self._screen.say(f"the bank closes; its {len(self._ports)} servers have the same {count} records")

    async def _send_blindly(self, actors: Iterable[Actor], text: str) -> None:
        """Before anybody has noticed: what cannot reach all any more comes behind the transitional signal."""
        for actor in actors:
            for service in (Service.AGREED, Service.SAFE):
                await actor.send(f"{text}, {service.name.lower()} of {actor.name}", service)

    async def _confirmed(self, actors: Iterable[Actor], text: str) -> None:
        """Each of them sends with an acknowledgement, and each hears all of these."""
        actors = list(actors)
        bodies = [f"{text}, says {actor.name}" for actor in actors]
        async with asyncio.timeout(STEP_WITHIN_S):
            await asyncio.gather(*(self._acknowledged(actor, body) for actor, body in zip(actors, bodies, strict=True)))
        await self._until(lambda: all(actor.has_heard(bodies) for actor in actors), "messages")

    async def _acknowledged(self, actor: Actor, body: str) -> None:
        """Send until there is an acknowledgement: a view may end in between, on a busy machine too."""
        while True:
            try:
                return await actor.send(body, confirm=True)
            except Unconfirmed as error:
                self._screen.say(f"{actor.name} sends again, {error}")

    async def _view_of(self, actors: Iterable[Actor]) -> None:
        """Until the last view of each of them has exactly them."""
        actors = list(actors)
        names = tuple(sorted(actor.name for actor in actors))
        await self._until(lambda: all(actor.members == names for actor in actors), f"a view of {', '.join(names)}")

    async def _until(self, reached: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(STEP_WITHIN_S):
                while not reached():
                    self._changes.clear()
                    await self._changes.wait()
        except TimeoutError:
            raise MachineError(f"{what}: not within {STEP_WITHIN_S:g} seconds\n{self._logs()}") from None

    def _logs(self) -> str:
        """Of those that ended, or else of all."""
        daemons = self._cluster.daemons
        shown = [each for each in daemons if each.ended not in (None, -signal.SIGKILL)] or daemons
        return "\n".join(f"{each.place.name}: {each.tail()}" for each in shown)

    async def _set_faults(self, *, cut: str) -> None:
        """Each living daemon loses what it exchanges between this site and the others; an empty name heals all."""
        places = [daemon.place for daemon in self._cluster.daemons]
        for daemon in self._cluster.daemons:
            if daemon.ended is None:
                here = daemon.place.site == cut
                others = [place.name for place in places if (place.site == cut) != here] if cut else []
                rules = [{"daemon": name, "cut": True} for name in others]
                await asyncio.to_thread(daemon.admin.post, "/faults", {"rules": rules})
