"""The world: whole clusters of automata in virtual time, reproducible from one seed.

A run is a function of the seed and of the driver's calls. Events of one instant are handled first come, first served;
everything random comes from streams of choice derived by name. The trace shows virtual time; automata see only the
clocks of their own processes.

Boundary B4 may be served by one automaton for all (`add_service`, as the EVS oracle is), or by the automaton labelled
"service" in each process. Requests are recorded when the service takes them and indications when it gives them, so
each node's record is in the order in which its service saw it.

Implements: the shell's half of the automaton contract (`isotone.core.contract`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any

from isotone.core.choice import Choice
from isotone.core.contract import Address, Automaton, Event, Started, Stopping, TimerFired
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import DaemonId
from isotone.core.names import check_daemon_name
from isotone.sim.disk import Disk, DiskSettings
from isotone.sim.effects import Effects
from isotone.sim.network import Network, NetworkSettings
from isotone.sim.observer import Observer
from isotone.sim.process import Boot, Clock, ClockSettings, Lane, Node, Phase, Process, Program
from isotone.sim.runner import Runner, restamped
from isotone.spec.bounds import BoundReport
from isotone.trace.events import Crashed, Entry, Recovered, Row
from isotone.trace.recorder import Recorder

SERVICE_NODE = ""


class World:
    """Processes, their disks, the network between them, and time."""

    def __init__(
        self,
        *,
        seed: int | str,
        network: NetworkSettings | None = None,
        disk: DiskSettings | None = None,
        clock: ClockSettings | None = None,
        sink: Callable[[Row], object] | None = None,
    ) -> None:
        self.choice = Choice(seed)
        self.observers: list[Observer] = []
        self.reports: list[BoundReport] = []  # promised times that the system itself compared with what it took
        self._runner = Runner()
        self.agenda = self._runner.agenda
        self.post = self._runner.post
        self.failure = self._runner.failure
        self.nodes: dict[str, Node] = {}
        self._disk_settings = disk or DiskSettings()
        self._clock_settings = clock or ClockSettings()
        self._recorder = Recorder(sink or _nothing)
        self._components: tuple[tuple[str, ...], ...] = ()
        self.network = Network(network or NetworkSettings(), self.agenda, self.choice.derive("network"), self.post)
        self._effects = self._runner.effects = Effects(self)

    # --- processes -----------------------------------------------------------------------------------------------

    def add_process(
        self, name: str, program: Program, *, site: str = "lan", address: str | None = None, start: bool = True
    ) -> None:
        """Add a node; its program builds the automata of every incarnation."""
        if check_daemon_name(name) in self.nodes:
            raise LocalProtocolError(f"there is a process {name!r} already")
        disk = Disk(self._disk_settings, self.choice.derive(f"disk {name}"))
        self.nodes[name] = Node(name, site, Address(address or f"{name}.1"), program, disk)
        self.network.place(name, site)
        if start:
            self.restart(name)

    def add_service(self, service: Automaton) -> Lane:
        """Put one automaton behind boundary B4 for all processes; its clock is virtual time itself."""
        node = Node(SERVICE_NODE, "", Address(""), _no_program, Disk(self._disk_settings, self.choice.derive("disk")))
        process = Process(node, DaemonId(SERVICE_NODE, 0), Address(""), Clock(0))
        process.fill({"service": service}, {})
        self._effects.service = lane = process.lanes["service"]
        self.post(lane, Started(self.now))
        return lane

    def restart(self, name: str, address: str | None = None) -> None:
        """Start a node that is down, as a new incarnation, where it was or at another address."""
        node = self._node(name)
        if node.process is not None:
            raise LocalProtocolError(f"{name} runs already")
        node.incarnation += 1
        node.address = Address(address) if address is not None else node.address
        daemon = DaemonId(name, node.incarnation)
        process = Process(node, daemon, node.address, self._clock(daemon))
        boot = Boot(daemon, node.address, node.site, self.choice.derive(str(daemon)), process.clock.read(self.now))
        process.fill(node.program(boot), boot.players)
        node.process = process
        self.network.open_doors(process)
        self.record(name, Recovered(str(daemon)))
        for observer in self.observers:
            observer.on_start(daemon)
        self._tell_components()
        for label, lane in process.lanes.items():
            self.post(lane, Started(boot.at, node.disk.storage(label)))

    def new_address(self, name: str) -> Address:
        """An address that this node never had, for a restart elsewhere."""
        node = self._node(name)
        node.addresses += 1
        return Address(f"{name}.{node.addresses}")

    def crash(self, name: str) -> None:
        """End a process without warning: what was not durable is lost or torn."""
        process = self._process(name)
        process.node.disk.crash()
        self._end(process)

    def stop(self, name: str) -> None:
        """Ask a process to end: its automata hear `Stopping`, and it ends when their effects are done."""
        process = self._process(name)
        process.stopping = True
        for lane in process.lanes.values():
            self.post(lane, Stopping(process.clock.read(self.now)))
        self.end_when_done(process)

    def end_when_done(self, process: Process) -> None:
        """Look, after all of this instant, whether a stopping process has nothing left to do."""
        if process.stopping:
            self.agenda.push(self.now, self._end_if_done, process)

    def _end_if_done(self, process: Process) -> None:
        if process.running and not any(lane.held for lane in process.lanes.values()):
            assert process.node.disk.is_settled
            self._end(process)

    def pause(self, name: str) -> None:
        """Let a process stand still; what reaches it waits, as far as there is room."""
        process = self._process(name)
        if process.phase is Phase.RUNNING:
            process.enter(Phase.PAUSED)
            for observer in self.observers:
                observer.on_pause(process.daemon)

    def resume(self, name: str) -> None:
        """Let a paused process go on: it finds all that waited, at its present time."""
        process = self._process(name)
        if process.phase is not Phase.PAUSED:
            return
        process.enter(Phase.RUNNING)
        waiting, process.inbox, process.inbox_bytes = process.inbox, deque(), 0
        for observer in self.observers:
            observer.on_resume(process.daemon)
        for call, argument in waiting:
            call(argument)
        self.network.streams.resume(process)
        self.end_when_done(process)

    def _end(self, process: Process) -> None:
        node = process.node
        self.network.close_doors(process)
        self._effects.forget(process)
        process.enter(Phase.ENDED)
        self.record(node.name, Crashed(str(process.daemon)))
        node.process = None
        for observer in self.observers:
            observer.on_crash(process.daemon)
        self._tell_components()

    def is_up(self, name: str) -> bool:
        """Whether the node has a process, running or paused."""
        return self._node(name).process is not None

    def is_paused(self, name: str) -> bool:
        """Whether the node's process stands still."""
        process = self._node(name).process
        return process is not None and process.phase is Phase.PAUSED

    def daemon(self, name: str) -> DaemonId:
        """The incarnation that runs now."""
        return self._process(name).daemon

    def automaton(self, name: str, label: str) -> Automaton:
        """An automaton of the incarnation that runs now, to look at."""
        return self._lane(name, label).automaton

    def clock(self, name: str) -> int:
        """What the clock of this process shows."""
        return self._process(name).clock.read(self.now)

    def has_session(self, name: str, client: str) -> bool:
        """Whether a client of this name at this node has asked for a session, and it is not over."""
        process = self._node(name).process
        return process is not None and any(each.name == client for each in process.sessions)

    def watch_disks(self, within_us: int) -> None:
        """Whose disk takes longer for a sync leaves its groups until it answers."""
        self._effects.disk_within_us = within_us

    def disk(self, name: str) -> Disk:
        """The disk of this node; its ``settings`` may be replaced at any time."""
        return self._node(name).disk

    # --- connectivity --------------------------------------------------------------------------------------------

    def partition(self, *sides: Iterable[str]) -> None:
        """Cut the network between these sides; who is named in none forms one more. Replaces an earlier partition."""
        self.network.partition([list(side) for side in sides])
        self._tell_components()

    def cut(self, source: str, destination: str, *, one_way: bool = False) -> None:
        """Cut one link, or one direction of it; cuts add up until `heal`."""
        self.network.cut(source, destination, one_way=one_way)
        self._tell_components()

    def mend(self, source: str, destination: str, *, one_way: bool = False) -> None:
        """Undo one `cut`."""
        self.network.mend(source, destination, one_way=one_way)
        self._tell_components()

    def heal(self) -> None:
        """Undo all cuts and partitions."""
        self.network.heal()
        self._tell_components()

    def components(self) -> tuple[tuple[str, ...], ...]:
        """The sets of living nodes that reach each other both ways, perhaps over others."""
        return self.network.components([name for name, node in self.nodes.items() if node.process is not None])

    def _tell_components(self) -> None:
        components = self.components()
        if components != self._components:
            self._components = components
            for observer in self.observers:
                observer.on_connectivity(components)

    # --- for drivers ---------------------------------------------------------------------------------------------

    def at(self, when_us: int, call: Callable[[], None]) -> None:
        """Call then, in virtual time."""
        assert when_us >= self.now, "virtual time does not go back"
        self.agenda.push(when_us, _call, call)

    def after(self, delay_us: int, call: Callable[[], None]) -> None:
        """Call after this long, in virtual time."""
        self.agenda.push(self.now + delay_us, _call, call)

    def tell(self, process: str, label: str, event: Event) -> None:
        """Hand an event to an automaton now; its ``at`` is set to the time of that process."""
        lane = self._lane(process, label)
        if isinstance(event, TimerFired):
            lane.firing.add(event.key)
        self.post(lane, restamped(event, lane.process.clock.read(self.now)))

    def tell_service(self, event: Event) -> None:
        """Hand an event to the service of all."""
        assert self._effects.service is not None, "there is no service for all"
        self.post(self._effects.service, restamped(event, self.now))

    def record(self, node: str, entry: Entry) -> None:
        """Add an entry to the record of a node's present incarnation, or of the driver (node "")."""
        found = self.nodes.get(node)
        self._recorder.record(node, found.incarnation if found else 0, self.now, entry)

    # --- time ----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Virtual time in microseconds."""
        return self.agenda.now

    @property
    def handled(self) -> int:
        """How many events automata have handled."""
        return self._runner.handled

    @property
    def refused(self) -> Counter[str]:
        """Inputs that automata refused with `RemoteProtocolError`, by reason; dropped, as the contract says."""
        return self._runner.refused

    def run_until(self, when: int) -> None:
        """Let everything happen up to and including this virtual time."""
        self._runner.run_until(when)

    def run_for(self, delay_us: int) -> None:
        """Let this much virtual time pass."""
        self._runner.run_until(self.now + delay_us)

    def step(self) -> bool:
        """Handle all of the next instant at which something happens; False when nothing ever will."""
        return self._runner.step()

    def run_until_quiet(self, limit_us: int, *, idle: Callable[[], bool] | None = None) -> bool:
        """Run until nothing more is to happen, at most this long; says whether it became quiet.

        Quiet means: nothing is on a link or on its way to a disk, no call of a driver is due, and no timer is armed
        but those that automata list in ``periodic_timers``. With ``idle``, it judges instead of the timers.
        """
        return self._runner.run_until_quiet(limit_us, idle)

    # --- looking up ----------------------------------------------------------------------------------------------

    def _clock(self, daemon: DaemonId) -> Clock:
        settings, choice = self._clock_settings, self.choice.derive(f"clock {daemon}")
        drift = choice.between(-settings.drift_max_ppm, settings.drift_max_ppm)
        return Clock(self.now, choice.below(settings.offset_max_us + 1), drift)

    def _node(self, name: str) -> Node:
        node = self.nodes.get(name)
        if node is None:
            raise LocalProtocolError(f"there is no process {name!r}")
        return node

    def _process(self, name: str) -> Process:
        process = self._node(name).process
        if process is None:
            raise LocalProtocolError(f"{name} is down")
        return process

    def _lane(self, name: str, label: str) -> Lane:
        lane = self._process(name).lanes.get(label)
        if lane is None:
            raise LocalProtocolError(f"{name} has no automaton {label!r}")
        return lane


def _call(call: Callable[[], None]) -> None:
    call()


def _nothing(row: Row) -> None:
    del row


def _no_program(boot: Boot) -> dict[str, Any]:
    raise AssertionError(f"the service of all does not start: {boot.daemon}")
