"""Two data centres of one process each, one disaster: every interleaving of broadcasts, messages and declaration.

The local broadcast of a single process delivers at once. Messages between the centres are never lost but with a centre,
and arrive in any order. Timers do not fire: without loss nothing needs them.

Implements: [HAB 3], [HAB Appendix A] explored small.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from isotone.core.contract import Action, Event, Started
from isotone.hab.centre import Role
from isotone.hab.events import (
    BroadcastWanted,
    DeclareWanted,
    HaDeliver,
    LocalBroadcast,
    LocalDelivered,
    PacketReceived,
    SendPacket,
)
from isotone.hab.messages import WIDE, Alive, Kind
from isotone.hab.process import Hab
from isotone.hab.settings import HabSettings, Mode
from isotone.sim.canonical import branch, canonical

CENTRES = {"a": ("a1",), "b": ("b1",)}


@dataclass
class World:
    """Both processes, what is between them, and what is still to happen."""

    habs: dict[str, Hab]
    network: list[tuple[str, str, bytes]] = field(default_factory=list)  # from, to, and the packet
    delivered: dict[str, list[bytes]] = field(default_factory=lambda: {"a1": [], "b1": []})
    acts: frozenset[str] = frozenset({"a1 broadcasts", "b1 broadcasts", "a1 crashes"})

    def tell(self, name: str, event: Event) -> None:
        """Hand over an event, and carry out all that follows inside the process."""
        waiting: deque[Event] = deque([event])
        while waiting:
            for action in self.habs[name].handle(waiting.popleft()):
                if isinstance(action, LocalBroadcast):
                    waiting.append(LocalDelivered(0, (action.record,)))
                else:
                    self._carry_out(name, action)

    def _carry_out(self, name: str, action: Action) -> None:
        match action:
            case HaDeliver(entries=entries):
                self.delivered[name] += [entry.record for entry in entries if entry.kind is Kind.RECORD]
            case SendPacket(to=to, data=data) if to in self.habs and not isinstance(WIDE.decode(data), Alive):
                self.network.append((name, to, data))


class TwoCentres:
    """The model. ``mode``: of the primary."""

    def __init__(self, mode: Mode) -> None:
        self._settings = HabSettings(centres=CENTRES, mode=mode, ahead_max=1)

    def initial(self) -> Iterator[World]:
        """Both are there."""
        world = World({name: Hab(self._settings, name, 1) for name in ("a1", "b1")})
        for name in ("a1", "b1"):
            world.tell(name, Started(0))
        yield world

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        """What may happen next."""
        for act in sorted(world.acts):
            after = branch(world)
            after.acts -= {act}
            self._act(after, act)
            yield act, after
        for place, (source, to, data) in enumerate(world.network):
            after = branch(world)
            del after.network[place]
            after.tell(to, PacketReceived(0, source, data))
            yield f"{to} gets {type(WIDE.decode(data)).__name__} of {source}", after

    def _act(self, world: World, act: str) -> None:
        match act:
            case "a1 crashes":
                del world.habs["a1"]
                world.network = [each for each in world.network if each[1] != "a1"]
                world.acts = (world.acts - {"a1 broadcasts"}) | {"b1 declares"}
            case "b1 declares":
                world.tell("b1", DeclareWanted(0, "a", override=True))
            case _:
                name = act[:2]
                world.tell(name, BroadcastWanted(0, 1, name.encode()))

    def identity(self, world: World) -> bytes:
        """The order of packets on their way is none."""
        return canonical((world.habs, sorted(world.network), world.delivered, world.acts))

    def problem(self, world: World) -> str | None:
        """[HAB 2.4] total order and integrity; and what a waiting primary delivered, the backup has."""
        a, b = world.delivered["a1"], world.delivered["b1"]
        if len(set(a)) < len(a) or len(set(b)) < len(b):
            return f"something is delivered twice: {a} and {b}"
        if self._settings.mode is Mode.WAITING and a[: len(b)] != b[: len(a)]:
            return f"the orders differ: {a} and {b}"
        if self._settings.mode is Mode.WAITING and len(a) > len(b):
            return f"the primary delivered {a}, and the backup {b}"
        return None

    def may_end(self, world: World) -> bool:
        """Whoever lives has delivered what it broadcast, and one leads [HAB 2.4, Validity]."""
        if len(world.habs) == 1:
            hab = world.habs["b1"]
            return hab.centre.role is Role.PRIMARY and b"b1" in world.delivered["b1"]
        return {*world.delivered["a1"]} == {*world.delivered["b1"]} == {b"a1", b"b1"}
