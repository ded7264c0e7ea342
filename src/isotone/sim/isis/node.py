"""A site as a process of a simulated run: the kernel, and processes that join, leave, end and send.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from isotone.core import boundary as b4
from isotone.core.choice import Choice
from isotone.core.contract import Action, Event, SetTimer, Started, TimerFired
from isotone.core.services import Service
from isotone.isis import events as e
from isotone.isis.kernel import Kernel
from isotone.isis.names import process_id
from isotone.sim.evs_clients import ClientKilled, StepDue
from isotone.sim.plan import Step

REPLIES = (0.05, 0.15, 0.5)
APPLICATION = (
    e.Deliver,
    e.DeliverView,
    e.Left,
    e.BroadcastDone,
    e.FlushDone,
    e.AnswerHeard,
    e.CallOpened,
    e.SiteViewChanged,
    e.SiteDied,
)


class CastStep(Step, frozen=True, tag="cast"):
    """A process sends to a group; ``place`` of a CBCAST < 0: a minimal broadcast, 0: by logical clock.

    An ABCAST without a label that has a place is a causal one.
    """

    process: str
    group: str
    primitive: str
    label: str
    place: int
    uniform: bool
    length: int


class MoveStep(Step, frozen=True, tag="move"):
    """A process joins a group, or leaves it."""

    process: str
    group: str
    joins: bool


class EndStep(Step, frozen=True, tag="end"):
    """A process ends and begins anew under another name, in the same groups."""

    process: str


@dataclass
class IsisNode:
    """One start of a program with a site."""

    kernel: Kernel
    groups: dict[str, tuple[str, ...]]  # where each process wants to be
    heard: Callable[[str, Action], None]
    wanted: dict[str, set[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # the present name of each process
    cast: int = 0
    choice: Choice = field(default_factory=lambda: Choice("replies"))
    replies: int = 60  # that are left
    asked_otherwise: list[str] = field(default_factory=list)  # anything but FIFO to private groups, at B4
    slow: dict[str, int] = field(default_factory=dict)  # by site: so late does everything leave for it, in its order
    replied: Callable[[str, str], None] = lambda site, process: None  # this site said something at once to that one

    def __post_init__(self) -> None:
        self._late: dict[str, list[b4.Ask]] = {}
        self._sent = 0  # in the session at B4: what leaves late is numbered when it does
        self._replies = self.choice.pick(REPLIES)

    def handle(self, event: Event) -> list[Action]:
        """Play a step, break the session, or let the kernel have it."""
        match event:
            case StepDue(step=step):
                return self._play(event.at, step)
            case ClientKilled():
                return self._kill(event.at)
            case TimerFired(key=("late", str() as site)):
                return [self._numbered(ask) for ask in self._late.pop(site, [])]
        actions = self._tell(event)
        if isinstance(event, Started):
            for process, groups in sorted(self.groups.items()):
                self.names[process] = process
                self.wanted[process] = set(groups)
            actions += self._join_all(event.at)
        return actions

    def _join_all(self, at: int) -> list[Action]:
        return [
            action
            for process in sorted(self.wanted)
            for group in sorted(self.wanted[process])
            for action in self._tell(e.JoinWanted(at, self.names[process], group))
        ]

    def _play(self, at: int, step: Step) -> list[Action]:
        match step:
            case CastStep():
                self.cast += 1
                mark = f"{self.kernel.me}.{self.cast}.".encode()
                body = (mark * (step.length // len(mark) + 1))[: max(step.length, len(mark))]
                primitive, name = e.Primitive(step.primitive), self.names[step.process]
                wanted = e.BroadcastWanted(
                    at, name, step.group, primitive, body, step.label, self._place(step), step.uniform
                )
                causal = primitive is e.Primitive.ABCAST and step.label == "" and step.place != 0
                return self._tell(msgspec.structs.replace(wanted, causal=causal))
            case MoveStep(process=process, group=group, joins=joins):
                if joins == (group in self.wanted[process]):
                    return []
                (self.wanted[process].add if joins else self.wanted[process].discard)(group)
                asked = e.JoinWanted if joins else e.LeaveWanted
                return self._tell(asked(at, self.names[process], group))
            case EndStep(process=process):
                ended = self.names[process]
                name, _, generation = ended.partition("+")
                self.names[process] = f"{name}+{int(generation or 1) + 1}"
                actions = self._tell(e.ProcessEnded(at, ended))
                for group in sorted(self.wanted[process]):
                    actions += self._tell(e.JoinWanted(at, self.names[process], group))
                return actions
        raise AssertionError(f"no such step: {step!r}")

    def _place(self, step: CastStep) -> int:
        """A named chain is numbered by its writer: dense at one site, far from those of others."""
        if step.place <= 0 or step.primitive != "cbcast":
            return min(step.place, 0)
        return self.cast

    def _kill(self, at: int) -> list[Action]:
        client = self.kernel._client
        if client is None:
            return []
        lost = b4.Indicated(at, (client,), b4.Disconnected("killed"))
        return [b4.Ask(client, b4.Disconnect()), *self._tell(lost)]

    def _tell(self, event: Event) -> list[Action]:
        actions = self.kernel.handle(event)
        out: list[Action] = []
        died = False
        for action in actions:
            if isinstance(action, APPLICATION):
                died = died or isinstance(action, e.SiteDied)
                self.heard(self.kernel.settings.site, action)
                continue
            if isinstance(action, b4.Ask) and isinstance(action.request, b4.Send):
                bundle = action.request.bundle
                if bundle.service is not Service.FIFO or not all(each.startswith("#") for each in bundle.groups):
                    self.asked_otherwise.append(f"{bundle.service.name} to {', '.join(bundle.groups)}")
            out += self._on_its_way(action)
        if died:
            return out + self._join_all(event.at)
        for action in actions:
            if isinstance(action, e.Deliver):
                out += self._reply(event.at, action)
        return out

    def _on_its_way(self, action: Action) -> list[Action]:
        """At once, or late where the path is slow."""
        if not isinstance(action, b4.Ask) or not isinstance(action.request, b4.Send):
            if isinstance(action, b4.Ask) and isinstance(action.request, b4.Connect):
                self._sent, self._late = 0, {}
            return [action]
        site = action.request.bundle.groups[0].split("#")[1]
        if site in self._late:
            self._late[site].append(action)
            return []
        if site in self.slow:
            self._late[site] = [action]
            return [SetTimer(("late", site), self.choice.between(1, self.slow[site]))]
        return [self._numbered(action)]

    def _numbered(self, ask: b4.Ask) -> Action:
        assert isinstance(ask.request, b4.Send)
        self._sent += 1
        return b4.Ask(ask.client, b4.Send(msgspec.structs.replace(ask.request.bundle, first_sequence=self._sent)))

    def _reply(self, at: int, heard: e.Deliver) -> list[Action]:
        """Now and then a process says something at once about what it heard: that is what order is for."""
        process = heard.processes[0].partition("/")[2]
        has_ended = process not in self.names.values()
        if self.replies <= 0 or has_ended or not self.choice.chance(self._replies):
            return []
        self.replies -= 1
        self.cast += 1
        primitive = self.choice.pick((e.Primitive.CBCAST, e.Primitive.CBCAST, e.Primitive.ABCAST))
        body = f"{self.kernel.me}.{self.cast}".encode()
        actions = self._tell(e.BroadcastWanted(at, process, heard.group, primitive, body, self.choice.pick(("", "x"))))
        self.replied(self.kernel.settings.site, heard.sender)
        return actions

    def missing(self) -> list[str]:
        """What this site lacks in a calm system."""
        life = self.kernel.life
        if life is None:
            return ["is not operational"]
        missing = [f"asked {each} at B4" for each in self.asked_otherwise]
        if len(life.site.view.members) != len(self.kernel.settings.sites):
            missing.append(f"is in a site view with {', '.join(life.site.view.members)} only")
        for process in sorted(self.wanted):
            for group in sorted(self.wanted[process]):
                view = life.site.groups.get(group)
                if view is None or process_id(self.kernel.me, self.names[process]) not in view.members:
                    missing.append(f"{self.names[process]} is not in {group}")
        if not life.idle or not life.site.channels.idle:
            missing.append("has something under way")
        if life.site.store or life.cbcasts.buffer or life.cbcasts.delivered:
            missing.append(f"keeps {len(life.site.store)} ids and {len(life.cbcasts.buffer)} messages")
        return missing
