"""The toolkit of one process: its groups, its calls, and what an application asks, above a layer of groups.

When the site is declared dead everything that the process had is over; it comes back under another name, and enters
the same groups anew.

Implements: [ISIS 5], Figure 2. Deviations: none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from isotone.core.contract import Action, Event, Persist, Put, SetTimer, Started, TimerFired
from isotone.core.errors import LocalProtocolError
from isotone.isis.toolkit.callers import Answered, Callers
from isotone.isis.toolkit.layer import (
    EnterWanted,
    Exited,
    ExitWanted,
    Heard,
    Layer,
    LayerAsked,
    LayerHeard,
    Operational,
    Over,
    Secured,
    SecureWanted,
    TellWanted,
    Told,
    Viewed,
)
from isotone.isis.toolkit.member import CheckpointTaken, Member, MemberIsReady, Saved, Tool
from isotone.isis.toolkit.objects import Component, NestedWanted
from isotone.isis.toolkit.outbox import Outbox
from isotone.isis.toolkit.programs import SYSTEM_GROUP, Programs, StartCopy, StopCopy, Switchboard
from isotone.isis.toolkit.wire import Reply, decode_letter, encode
from isotone.trace.toolkit import MemberLeft, ProcessBegan

REPEAT = "toolkit-repeat"
TICK_US = 100_000
CELL_PREFIX = "toolkit/"
TICKETS = 1 << 40
"""Of checkpoints: above those of the layer."""
_SAVED = msgspec.msgpack.Decoder(Saved)


@dataclass(frozen=True)
class GroupKind:
    """What a group is made of. ``quorum``: so many members form it anew when nobody has its state."""

    build: Callable[[Member], Sequence[Tool]]
    quorum: int = 1


# --- asked by the application ----------------------------------------------------------------------------------------


class OpenWanted(Event, frozen=True, gc=False):
    """Be a member of this group from now on, whenever the site is operational."""

    group: str


class CloseWanted(Event, frozen=True, gc=False):
    """Be a member of it no more."""

    group: str


class CallWanted(Event, frozen=True, gc=False):
    """Ask an action of a group; `Answered` has the same token."""

    token: int
    group: str
    body: bytes


class ToolUsed(Event, frozen=True, gc=False):
    """Call a method of a tool (none: of the membership) of a group, one of its ``deeds``."""

    group: str
    tool: str
    deed: str
    arguments: tuple[Any, ...] = ()


MEMBER_DEEDS = ("set_property", "checkpoint")


class Toolkit:
    """One process."""

    def __init__(self, layer: Layer, kinds: Callable[[str], GroupKind | None]) -> None:
        self.layer = layer
        self.out = Outbox(layer.has_labels)
        self.members: dict[str, Member] = {}
        self.callers = Callers(self.out)
        self.opened: dict[str, None] = {}  # groups that the application or the programs of this site want
        self.periodic_timers = (*layer.periodic_timers, REPEAT)
        self._kinds = kinds
        self._closing: set[str] = set()  # groups that this process leaves
        self._placed: set[str] = set()  # groups opened because this site runs them as programs
        self._checkpoints: dict[str, Saved] = {}
        self._ticket = TICKETS
        self._nested: dict[int, tuple[str, str, str, str]] = {}  # by token: group, operation, nested id, its group

    @property
    def me(self) -> str:
        """This process; empty while it is not there."""
        return self.out.me

    def tool(self, group: str, name: str) -> Tool:
        """Of a group that is ready here."""
        member = self.members.get(group)
        if member is None or not member.is_ready:
            raise LocalProtocolError(f"{group!r} is not ready here")
        for tool in member.tools:
            if tool.name == name:
                return tool
        raise LocalProtocolError(f"{group!r} has no {name}")

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        self.out.at = event.at
        heard: list[Action] = []
        match event:
            case Started(storage=storage):
                for cell, data in storage.cells.items():
                    if cell.startswith(CELL_PREFIX):
                        self._checkpoints[cell.removeprefix(CELL_PREFIX)] = _SAVED.decode(data)
                heard = [SetTimer(REPEAT, TICK_US), *self.layer.handle(event)]
            case TimerFired(key=key) if key == REPEAT:
                if not self.layer.trouble:
                    self.callers.repeat()
                heard = [SetTimer(REPEAT, TICK_US)]
            case OpenWanted(group=group):
                self._open(group)
            case CloseWanted(group=group):
                self._close(group)
            case CallWanted(token=token, group=group, body=body):
                self._call(token, group, body)
            case ToolUsed():
                self._use(event)
            case SecureWanted(at=at, token=token):
                heard = self.layer.handle(SecureWanted(at, -token))  # those of calls are positive
            case _:
                heard = self.layer.handle(event)
        return self._settle(heard)

    def _call(self, token: int, group: str, body: bytes) -> None:
        if not self.me:
            raise LocalProtocolError(f"the site is not operational: {self.layer.trouble}")
        self.callers.call(group, body, token)

    def _use(self, used: ToolUsed) -> None:
        target: object
        if used.tool:
            tool = self.tool(used.group, used.tool)
            target, deeds = tool, tool.deeds
        else:
            target, deeds = self.members.get(used.group), MEMBER_DEEDS
        if target is None or used.deed not in deeds:
            raise LocalProtocolError(f"{used.group!r} has no {used.tool} that can {used.deed}")
        getattr(target, used.deed)(*used.arguments)

    def _open(self, group: str) -> None:
        self.opened[group] = None
        if self.me and group not in self.members and group not in self._closing:
            kind = self._kinds(group)
            if kind is None:
                raise LocalProtocolError(f"nobody said what {group!r} is made of")
            self.members[group] = Member(
                group, self.out, kind.build, quorum=kind.quorum, checkpoint=self._checkpoints.get(group)
            )
            self.out.asked.append(EnterWanted(self.out.at, group))

    def _close(self, group: str) -> None:
        self.opened.pop(group, None)
        self._placed.discard(group)
        if self.members.pop(group, None) is not None:
            for token, (asker, _, id, _) in list(self._nested.items()):
                if asker == group:  # whoever takes its operation over asks anew
                    del self._nested[token]
                    self.callers.forget(id)
            self._closing.add(group)
            self.out.asked.append(ExitWanted(self.out.at, group))

    # --- what follows ----------------------------------------------------------------------------------------------

    def _settle(self, heard: list[Action]) -> list[Action]:
        """Until nothing follows."""
        waiting, done = deque(heard), []
        while True:
            if self.out.actions:
                actions, self.out.actions = self.out.actions, []
                for action in actions:
                    done += self._act(action)
            elif self.out.asked:
                asked, self.out.asked = self.out.asked, []
                for each in asked:
                    waiting += self._ask(each)
            elif waiting:
                action = waiting.popleft()
                if isinstance(action, LayerHeard):
                    self._hear(action)
                else:
                    done.append(action)
            else:
                return done

    def _ask(self, asked: LayerAsked) -> list[Action]:
        if isinstance(asked, TellWanted) and asked.to == self.me:
            return [Told(self.me, asked.body)]
        return self.layer.handle(asked)

    def _hear(self, heard: LayerHeard) -> None:
        match heard:
            case Operational(me=me):
                if not self.me:
                    self.out.me = me
                    self.out.record(ProcessBegan(me))
                    for group in list(self.opened):
                        self._open(group)
                self.out.say(heard)
            case Over():
                self._end(heard)
            case Heard(group=group):
                if group in self.members:
                    self.members[group].on_heard(heard)
            case Viewed(group=group):
                if group in self.members:
                    self.members[group].on_view(heard)
            case Exited(group=group):
                self._closing.discard(group)
                self.out.record(MemberLeft(self.me, group))
                self.out.say(heard)
                if group in self.opened:
                    self._open(group)
            case Secured(token=token) if token < 0:
                self.out.say(Secured(-token))
            case Secured(token=token):
                self.callers.on_secured(token)
            case Told(sender=sender, body=body):
                self._on_told(sender, body)

    def _on_told(self, sender: str, data: bytes) -> None:
        letter = decode_letter(data)
        if isinstance(letter.body, Reply):
            self.callers.on_reply(letter.body)
        elif letter.group in self.members:
            self.members[letter.group].on_told(sender, letter.body)

    def _end(self, over: Over) -> None:
        self.members.clear()
        self._closing.clear()
        self.out.asked.clear()
        self._nested.clear()
        self.callers.end()
        self.out.me = ""
        for group in sorted(self._placed):
            del self.opened[group]
        self._placed.clear()
        self.out.say(over)

    def _act(self, action: Action) -> list[Action]:
        """What a tool wants done: by another tool, by the disk, or by the application."""
        match action:
            case CheckpointTaken(group=group, saved=saved):
                self._checkpoints[group] = saved
                self._ticket += 1
                return [Persist(self._ticket, (Put(CELL_PREFIX + group, encode(saved)),)), action]
            case NestedWanted():
                self._call_nested(action)
                return []
            case Answered(token=token) if token < 0:
                self._on_nested(action)
                return []
            case StartCopy(program=program) if self._kinds(program) is not None:
                self._placed.add(program)
                self._open(program)
            case StartCopy(program=program):
                self._programs().tell_ready(program)  # it has no state to wait for
            case StopCopy(program=program) if program in self._placed:
                self._close(program)
            case MemberIsReady(group=group) if group in self._placed or group == SYSTEM_GROUP:
                self._tell_ready()
        return [action]

    def _tell_ready(self) -> None:
        """Which copies here have what they need; later if the system's group is just being formed anew."""
        system = self.members.get(SYSTEM_GROUP)
        if system is None or not system.is_ready:
            return
        for group in sorted(self._placed):
            if group in self.members and self.members[group].is_ready:
                self._programs().tell_ready(group)

    def _programs(self) -> Programs:
        programs = self.tool(SYSTEM_GROUP, Programs.name)
        assert isinstance(programs, Programs)
        return programs

    # --- nested operations -----------------------------------------------------------------------------------------

    def group_of(self, name: str) -> str:
        """What the switchboard says; a name that it does not have is that of a group."""
        system = self.members.get(SYSTEM_GROUP)
        for tool in system.tools if system is not None else ():
            if isinstance(tool, Switchboard):
                return tool.names.get(name, name)
        return name

    def _call_nested(self, wanted: NestedWanted) -> None:
        token = -1 - len(self._nested)
        while token in self._nested:
            token -= 1
        id, group = f"{wanted.id}/{wanted.place}", self.group_of(wanted.name)
        self._nested[token] = (wanted.group, wanted.id, id, group)
        self.callers.call(group, wanted.body, token, id)

    def _on_nested(self, answer: Answered) -> None:
        group, operation, id, target = self._nested.pop(answer.token, ("", "", "", ""))
        member = self.members.get(group)
        for tool in member.tools if member is not None else ():
            if isinstance(tool, Component):
                problem = str(msgspec.msgpack.decode(answer.result)) if answer.failed else answer.problem
                tool.on_nested(operation, target, id, answer.result, problem)
