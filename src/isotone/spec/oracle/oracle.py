"""The EVS oracle: boundary B4 for a whole world, resolving every choice that the specification leaves open.

One omniscient automaton stands behind the types of `isotone.core.boundary`, for any number of daemons, clients, groups
and components. It promises what `isotone.spec.properties` says about EVS-C, and is adversarial about all else: what
holds above it does not lean on accidents of a transport. ``taken`` counts each kind of free choice.

Implements: [Spread 2.2], EVS-C. Deviations: those of `isotone.spec.properties` and `isotone.spec.oracle.groups`.
"""

from __future__ import annotations

from collections import Counter

from isotone.core.boundary import Requested
from isotone.core.choice import Choice
from isotone.core.contract import Action, CancelTimer, Event, SetTimer, Started, Stopping, TimerFired, TimerKey
from isotone.core.ids import DaemonId
from isotone.spec.oracle import events
from isotone.spec.oracle.formation import reform
from isotone.spec.oracle.model import Daemon, World
from isotone.spec.oracle.reach import place_components, refresh_views
from isotone.spec.oracle.sessions import Desk
from isotone.spec.oracle.settings import OracleSettings
from isotone.spec.oracle.steps import take_step

DEFAULT_SETTINGS = OracleSettings()


class Oracle:
    """Events of the world in, indications to clients and timers out."""

    def __init__(self, choice: Choice, settings: OracleSettings = DEFAULT_SETTINGS) -> None:
        self.taken: Counter[str] = Counter()
        self._world = World(choice, settings, self.taken)
        self._desk = Desk(self._world)
        self._until_disturbed = self._draw_disturbance()

    def handle(self, event: Event) -> list[Action]:
        """Take one event of the world."""
        kind = type(event)
        if kind is Requested:
            return self._on_requested(event)  # type: ignore[arg-type]
        if kind is TimerFired:
            return self._on_timer(event.key)  # type: ignore[attr-defined]
        match event:
            case events.DaemonStarted(daemon=daemon):
                return self._on_started(daemon)
            case events.DaemonCrashed(daemon=daemon):
                return self._on_crashed(daemon)
            case events.DaemonPaused(daemon=daemon):
                return self._on_paused(daemon)
            case events.DaemonResumed(daemon=daemon):
                return self._on_resumed(daemon)
            case events.ConnectivityChanged(components=components):
                self._world.components = components
                return self._on_change()
            case events.Stabilised():
                return self._on_stabilised()
            case Started() | Stopping():
                return []
        raise AssertionError(f"the oracle does not expect {event!r}")

    def _on_requested(self, event: Requested) -> list[Action]:
        client = event.client
        daemon = self._find(client.daemon)
        if daemon is None:
            return []  # nobody is there to refuse it
        actions = self._desk.take(daemon, client, event.request)
        self._until_disturbed -= 1
        if not self._until_disturbed and not self._world.stable:
            self._until_disturbed = self._draw_disturbance()
            self._world.disturbed = True
            self._world.arm_forming(actions)
        return actions

    def _draw_disturbance(self) -> int:
        """After how many requests a view changes without need."""
        every = self._world.settings.disturb_every
        return 1 + self._world.choice.below(2 * every) if every else -1

    def _on_timer(self, key: TimerKey) -> list[Action]:
        out: list[Action] = []
        if key == "form":
            self._world.forming = False
            reform(self._world, out)
        else:
            assert isinstance(key, tuple)
            kind, name, incarnation = key
            daemon = self._world.alive.get(name)  # type: ignore[arg-type]
            if daemon is None or daemon.id.incarnation != incarnation:
                return []
            if kind == "step" and not daemon.paused:
                daemon.armed = False
                take_step(self._world, daemon, out)
            elif kind == "patience" and daemon.paused and not daemon.excluded:
                daemon.excluded = True
                self._world.count("paused_excluded")
                self._world.arm_forming(out)
        return out

    def _find(self, id: DaemonId) -> Daemon | None:
        daemon = self._world.alive.get(id.name)
        return daemon if daemon is not None and daemon.id == id else None

    # --- the world changes ---------------------------------------------------------------------------------------

    def _on_started(self, id: DaemonId) -> list[Action]:
        world = self._world
        assert id.name not in world.alive, f"{id.name} runs already"
        clock, epoch = world.floors.get(id.name, (0, 0))
        world.alive[id.name] = Daemon(id, clock=clock, epoch=epoch)
        return self._on_change()

    def _on_crashed(self, id: DaemonId) -> list[Action]:
        world = self._world
        daemon = world.alive.pop(id.name)
        assert daemon.id == id
        daemon.alive = False
        world.floors[id.name] = (daemon.clock, daemon.epoch)
        if daemon.pending:
            world.count("crash_loses_unsent")
            daemon.pending.clear()
        return [CancelTimer(("step", id.name, id.incarnation)), *self._on_change()]

    def _on_paused(self, id: DaemonId) -> list[Action]:
        world = self._world
        daemon = self._find(id)
        assert daemon is not None and not daemon.paused
        daemon.paused, daemon.armed = True, False
        patience = SetTimer(
            ("patience", id.name, id.incarnation), 1 + world.choice.below(world.settings.patience_us_max)
        )
        return [CancelTimer(("step", id.name, id.incarnation)), patience]

    def _on_resumed(self, id: DaemonId) -> list[Action]:
        daemon = self._find(id)
        assert daemon is not None and daemon.paused
        daemon.paused, daemon.excluded = False, False
        return [CancelTimer(("patience", id.name, id.incarnation)), *self._on_change()]

    def _on_change(self) -> list[Action]:
        """Someone came or went, or links did."""
        out: list[Action] = []
        place_components(self._world)
        for view in refresh_views(self._world):
            self._world.arm_all(view.daemons, view, out)
        self._world.arm_forming(out)
        return out

    def _on_stabilised(self) -> list[Action]:
        """All delays are drawn anew, without lag."""
        world = self._world
        world.stable, world.forming = True, False
        for daemon in world.alive.values():
            daemon.armed = False
        return self._on_change()
