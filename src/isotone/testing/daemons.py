"""The daemons of a simulated cluster: the stack that runs in production, one in each node of a world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b

import msgspec

from isotone.core.contract import Address, Automaton
from isotone.evs.explain import why_excluded, why_no_view
from isotone.evs.groups import State as GroupState
from isotone.evs.membership import KnownDaemon, State
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.sessions.settings import ServerSettings
from isotone.evs.stack import Stack, StackSettings
from isotone.sim.full_cluster import is_idle
from isotone.sim.process import SERVICE_LABEL, Boot
from isotone.sim.replicated.port_node import PORT_LABEL
from isotone.sim.world import World
from isotone.testing.replicas import LABEL, Replicas

PORT = 4803


class Daemons:
    """Daemons by name, each with the site it stands in."""

    def __init__(
        self,
        world: World,
        site_of: Mapping[str, str],
        settings: StackSettings,
        sessions: ServerSettings,
        replicas: Replicas | None = None,
    ) -> None:
        self._world, self._replicas = world, replicas
        self._site_of = dict(site_of)
        known = tuple(KnownDaemon(name, site, address_of(name)) for name, site in site_of.items())
        membership = msgspec.structs.replace(settings.membership, known=known)
        self._settings = msgspec.structs.replace(settings, membership=membership)
        self._sessions = sessions
        for name, site in self._site_of.items():
            world.add_process(name, self._program, site=site, address=address_of(name))

    def _program(self, boot: Boot) -> dict[str, Automaton]:
        secret = boot.choice.derive("sessions").word().to_bytes(8, "big") * 2
        stack = Stack(
            me=boot.daemon,
            identity=blake2b(boot.daemon.name.encode(), digest_size=16).digest(),
            site=boot.site,
            address=boot.address,
            settings=self._settings,
            sessions=ServerSessions(boot.daemon, secret=secret, settings=self._sessions),
        )
        if self._replicas is None:
            return {SERVICE_LABEL: stack}
        server = self._replicas.automaton(boot)
        return {SERVICE_LABEL: stack, LABEL: server, PORT_LABEL: self._replicas.port(boot)}

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, up or down."""
        return tuple(self._site_of)

    def stack(self, name: str) -> Stack:
        """The automaton of a daemon that is up."""
        stack = self._world.automaton(name, SERVICE_LABEL)
        assert isinstance(stack, Stack)
        return stack

    def members(self, name: str) -> tuple[str, ...]:
        """Who is in the present daemon view of a daemon."""
        return tuple(member.name for member in self.stack(name).membership.members)

    def components(self) -> tuple[tuple[str, ...], ...]:
        """The sets of running daemons that reach each other."""
        return self._world.network.components([name for name in self._site_of if self._is_running(name)])

    def _is_running(self, name: str) -> bool:
        process = self._world.nodes[name].process
        return process is not None and process.running and not process.stopping

    def unsettled(self, *, quiet: bool) -> Iterator[str]:
        """Daemons whose daemon view is not their component, or (``quiet``) that have something under way."""
        for component in self.components():
            members = tuple(self._world.daemon(name) for name in component)
            for name in component:
                stack = self.stack(name)
                together = stack.membership.members == members and stack.membership.state is State.OP
                if not together or stack.groups.state is not GroupState.GOP or (quiet and not is_idle(stack)):
                    yield name

    def explained(self, name: str) -> str:
        """What a daemon itself says about why it is not where it should be."""
        stack, at = self.stack(name), self._world.clock(name)
        component = next(each for each in self.components() if name in each)
        missing = [other for other in component if other not in self.members(name)]
        return "; ".join([why_no_view(stack, at).text, *(why_excluded(stack, other, at).text for other in missing)])


def address_of(name: str) -> Address:
    """Where a daemon of this name is found, as clients write it."""
    return Address(f"{name}:{PORT}")
