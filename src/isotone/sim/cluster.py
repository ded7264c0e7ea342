"""The scenario language in code: a small cluster with clients, told what happens line by line.

>>> cluster = Cluster("a", "b", "c", seed=7)
>>> cluster.join("a", "alice", "chat")
>>> cluster.partition(["a", "b"], ["c"])
>>> cluster.send("a", "alice", "chat", "hello")
>>> cluster.run_until_quiet()
True

Beneath the clients stands a group service: the EVS oracle unless another one is given. Times are in milliseconds here;
the world below counts microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from isotone.core.boundary import Connect, Disconnect, Indication, Join, Leave, Message, View
from isotone.core.choice import Choice
from isotone.core.contract import Automaton
from isotone.core.errors import LocalProtocolError
from isotone.core.names import check_client_name, check_group_name
from isotone.core.services import Service
from isotone.core.views import GroupView
from isotone.sim.disk import DiskSettings
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.process import CLIENTS_LABEL, Boot
from isotone.sim.scripted import RequestWanted, ScriptedClients, SendWanted
from isotone.sim.world import World
from isotone.trace.events import Ended, Entry, Row, Stabilised

QUIET_LIMIT_MS = 60_000
DEFAULT_SITE = "lan"


class Cluster:
    """Nodes ``a``, ``b`` …, each with a daemon's place and any number of clients; faults and requests as methods."""

    def __init__(
        self,
        *nodes: str,
        seed: int | str = 1,
        service: Automaton | None = None,
        sites: Mapping[str, str] | None = None,
        network: NetworkSettings | None = None,
        disk: DiskSettings | None = None,
    ) -> None:
        self.rows: list[Row] = []
        self.story: list[Row | str] = []  # the rows, and between them what the cluster remarks
        self._on_oracle = service is None
        self.world = World(seed=seed, network=network, disk=disk, sink=self._write)
        self._serve(service, seed)
        self._site_of = {name: (sites or {}).get(name, DEFAULT_SITE) for name in nodes or ("a", "b", "c")}
        for name, site in self._site_of.items():
            self.world.add_process(name, self._program, site=site)

    def _write(self, row: Row) -> None:
        self.rows.append(row)
        self.story.append(row)

    def _program(self, boot: Boot) -> Mapping[str, Automaton]:
        return {CLIENTS_LABEL: ScriptedClients(boot.daemon)}

    def _serve(self, service: Automaton | None, seed: int | str) -> None:
        if service is not None:
            self.world.add_service(service)
            return
        from isotone.sim.evs_system import ToldOracle
        from isotone.spec.oracle import Oracle, OracleSettings

        self.world.add_service(Oracle(Choice(f"oracle/{seed}"), OracleSettings()))
        self.world.observers.append(ToldOracle(self.world))

    # --- time ----------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> float:
        """Virtual time."""
        return self.world.now / 1000

    def run_for(self, ms: float) -> None:
        """Let this much virtual time pass."""
        self.world.run_for(round(ms * 1000))

    def run_until_quiet(self, limit_ms: float = QUIET_LIMIT_MS) -> bool:
        """Run until nothing more is to happen; says whether that came within the limit."""
        return self.world.run_until_quiet(round(limit_ms * 1000))

    def run_until_state(self, node: str, state: str, limit_ms: float = QUIET_LIMIT_MS) -> bool:
        """Run until a daemon is in this state; says whether that came within the limit."""
        raise LocalProtocolError(f"{node} runs no daemon: there is no state {state!r} to wait for")

    def has_entered(self, node: str, reason: str) -> bool:
        """Whether a daemon entered some state for this reason."""
        raise LocalProtocolError(f"{node} runs no daemon that could enter a state: {reason!r}")

    def stabilise(self) -> None:
        """Promise that the network stays as it is: from here on progress is owed, and liveness is judged."""
        self.world.record("", Stabilised(self.world.components()))
        if self._on_oracle:
            from isotone.spec.oracle import Stabilised as OracleStabilised

            self.world.tell_service(OracleStabilised(self.world.now))

    def finish(self, limit_ms: float = QUIET_LIMIT_MS) -> bool:
        """Stabilise, run until quiet, and record the end; says whether it became quiet."""
        self.stabilise()
        quiet = self.run_until_quiet(limit_ms)
        self.world.record("", Ended(quiet))
        return quiet

    # --- faults --------------------------------------------------------------------------------------------------

    def partition(self, *sides: Iterable[str]) -> None:
        """Cut the network between these sides; who is named in none forms one more."""
        self.world.partition(*sides)

    def heal(self) -> None:
        """Undo all cuts and partitions."""
        self.world.heal()

    def cut(self, source: str, destination: str, *, one_way: bool = False) -> None:
        """Cut one link, or one direction of it."""
        self.world.cut(source, destination, one_way=one_way)

    def mend(self, source: str, destination: str, *, one_way: bool = False) -> None:
        """Undo one cut."""
        self.world.mend(source, destination, one_way=one_way)

    def link(self, source: str, destination: str, settings: LinkSettings) -> None:
        """Let one direction of a link behave like this from now on."""
        self.world.network.link(source, destination).change(settings)

    def crash(self, node: str) -> None:
        """End a process without warning, and with it the sessions of its clients."""
        self.world.crash(node)

    def restart(self, node: str, *, address: str | None = None) -> None:
        """Start a node again as a new incarnation."""
        self.world.restart(node, address)

    def stop(self, node: str) -> None:
        """Ask a process to end."""
        self.world.stop(node)

    def pause(self, node: str) -> None:
        """Let a process stand still."""
        self.world.pause(node)

    def resume(self, node: str) -> None:
        """Let it go on."""
        self.world.resume(node)

    # --- clients -------------------------------------------------------------------------------------------------

    def connect(self, node: str, client: str) -> None:
        """Open a session; the first request of a client does so too."""
        self._want(node, RequestWanted(0, client, Connect()))

    def disconnect(self, node: str, client: str) -> None:
        """Close the session."""
        self._want(node, RequestWanted(0, client, Disconnect()))

    def join(self, node: str, client: str, group: str) -> None:
        """Become a member."""
        self._want(node, RequestWanted(0, client, Join(check_group_name(group))))

    def leave(self, node: str, client: str, group: str) -> None:
        """Cease to be a member."""
        self._want(node, RequestWanted(0, client, Leave(check_group_name(group))))

    def send(
        self,
        node: str,
        client: str,
        groups: str | Sequence[str],
        *bodies: str | bytes,
        service: Service = Service.AGREED,
    ) -> None:
        """Send messages as one bundle."""
        chosen = tuple(check_group_name(group) for group in ([groups] if isinstance(groups, str) else groups))
        texts = tuple(body.encode() if isinstance(body, str) else body for body in bodies)
        self._want(node, SendWanted(0, client, service, chosen, texts))

    def _want(self, node: str, event: SendWanted | RequestWanted) -> None:
        check_client_name(event.client)
        self.world.tell(node, CLIENTS_LABEL, event)

    # --- looking -------------------------------------------------------------------------------------------------

    def heard(self, node: str, client: str) -> list[Indication]:
        """All that a client heard since its node started."""
        return list(self._clients(node).heard.get(client, []))

    def messages(self, node: str, client: str) -> list[bytes]:
        """The bodies of the messages that a client heard, in order."""
        bundles = [heard.bundle for heard in self.heard(node, client) if isinstance(heard, Message)]
        return [bytes(body) for bundle in bundles for body in bundle.bodies()]

    def view(self, node: str, client: str, group: str) -> GroupView | None:
        """The last view of a group that a client heard."""
        views = [heard.view for heard in self.heard(node, client) if isinstance(heard, View)]
        return next((view for view in reversed(views) if view.group == group), None)

    def record(self, entry: Entry) -> None:
        """Add an entry of the driver to the trace."""
        self.world.record("", entry)

    def _clients(self, node: str) -> ScriptedClients:
        clients = self.world.automaton(node, CLIENTS_LABEL)
        assert isinstance(clients, ScriptedClients)
        return clients
