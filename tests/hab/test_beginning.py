"""Data centres begin one after the other, while packets are late. None is taken for one that lost its disks."""

from __future__ import annotations

from collections import deque

import pytest

from isotone.core.choice import Choice
from isotone.core.contract import Event, Started, TimerFired
from isotone.hab.centre import Role
from isotone.hab.coordinator import ANSWER
from isotone.hab.events import BroadcastWanted, FoundWanted, LocalBroadcast, LocalDelivered, PacketReceived, SendPacket
from isotone.hab.process import ALIVE, SUBMIT, Hab
from isotone.hab.settings import HabSettings

CENTRES = {"a": ("a1", "a2"), "b": ("b1", "b2"), "c": ("c1", "c2")}
SETTINGS = HabSettings(centres=CENTRES)
SEEDS = 20


class Beginning:
    """Packets arrive in the order in which they were sent, between each two processes, and as late as the seed says."""

    def __init__(self, seed: int) -> None:
        self.choice = Choice(f"beginning/{seed}")
        self.habs = {name: Hab(SETTINGS, name, 1, founder=False) for names in CENTRES.values() for name in names}
        self.between: dict[tuple[str, str], deque[bytes]] = {}
        for name in self.habs:
            self.tell(name, Started(0))

    def tell(self, name: str, event: Event) -> None:
        """Inside a centre everything comes at once."""
        waiting = deque([(name, event)])
        while waiting:
            process, following = waiting.popleft()
            for action in self.habs[process].handle(following):
                if isinstance(action, LocalBroadcast):
                    told = LocalDelivered(0, (action.record,))
                    waiting.extend((peer, told) for peer in CENTRES[SETTINGS.centre_of(process)])
                elif isinstance(action, SendPacket):
                    self.between.setdefault((process, action.to), deque()).append(action.data)

    def timers(self) -> None:
        for name in self.habs:
            for key in (ALIVE, SUBMIT, *((ANSWER, centre) for centre in CENTRES)):
                self.tell(name, TimerFired(0, key))

    def some_arrive(self) -> None:
        """Of each stream as many as the seed says."""
        for (source, to), packets in list(self.between.items()):
            for _ in range(self.choice.between(0, len(packets))):
                self.tell(to, PacketReceived(0, source, packets.popleft()))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_take_part_however_late_their_packets_are(seed: int) -> None:
    world = Beginning(seed)
    begins = {name: world.choice.between(1, 20) for name in CENTRES}
    for step in range(40):
        for name, at in begins.items():
            if step == at:
                world.tell(f"{name}1", FoundWanted(0))
        if step % 3 == 0:
            world.tell("a1", BroadcastWanted(0, step, b"m"))
        world.timers()
        world.some_arrive()
    roles = {name: hab.centre.role for name, hab in world.habs.items()}
    assert roles == {name: Role.PRIMARY if name[0] == "a" else Role.BACKUP for name in world.habs}
    assert world.habs["a1"].centre.confirmed
