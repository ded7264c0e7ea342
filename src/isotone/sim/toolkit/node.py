"""A process with the toolkit in a simulated run, and the application that uses all tools of it.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from isotone.core import boundary as b4
from isotone.core.contract import Action, Event, SetTimer, Started, TimerFired
from isotone.core.errors import LocalProtocolError
from isotone.isis.toolkit.boards import Boards, Posted
from isotone.isis.toolkit.callers import Answered
from isotone.isis.toolkit.data import Data, ItemChanged
from isotone.isis.toolkit.evs_layer import EvsLayer
from isotone.isis.toolkit.layer import Exited, Operational, Order, Over
from isotone.isis.toolkit.locks import LockHeld
from isotone.isis.toolkit.member import CheckpointTaken, Member, MemberIsReady, PropertyChanged, Tool, ViewChanged
from isotone.isis.toolkit.objects import OperationCall, component_tools, nested, reads
from isotone.isis.toolkit.process import CallWanted, CloseWanted, GroupKind, OpenWanted, Toolkit, ToolUsed
from isotone.isis.toolkit.programs import SYSTEM_GROUP, Programs, StartCopy, StopCopy, system_tools
from isotone.isis.toolkit.wire import encode
from isotone.sim.evs_clients import ClientKilled, StepDue
from isotone.sim.plan import Step

WORK, ROAMING = "work", "roaming"
ENTERS = ("add", "fill", "add_there")
"""Operations that enter a mark."""
APPLICATION = (
    Operational,
    Over,
    Exited,
    ViewChanged,
    MemberIsReady,
    CheckpointTaken,
    PropertyChanged,
    Answered,
    LockHeld,
    ItemChanged,
    Posted,
    StartCopy,
    StopCopy,
)


class Ledger:
    """A resilient object that shows whether an operation was done once."""

    entries: dict[str, int]
    pages: dict[str, str]

    def __init__(self) -> None:
        self.entries = {}
        self.pages = {}
        self.count = 0

    def add(self, mark: str) -> int:
        """Enter a mark."""
        self.entries[mark] = self.entries.get(mark, 0) + 1
        self.count += 1
        return self.count

    @reads
    def total(self) -> int:
        """All marks."""
        return self.count

    async def add_there(self, mark: str) -> int:
        """Enter a mark in the other object too."""
        there: int = await nested(ROAMING).add(mark)
        self.add(mark)
        return there

    def fill(self, mark: str) -> int:
        """Enter a mark, and write more than fits into one message."""
        self.pages[mark[-1:]] = mark[-1:] * 20_000
        return self.add(mark)

    def refuse(self) -> None:
        """Fail, and change nothing."""
        self.count += 1
        raise ValueError("refused")


# --- steps -----------------------------------------------------------------------------------------------------------


class ActStep(Step, frozen=True, tag="act"):
    """A call of an operation."""

    group: str
    method: str


class LockStep(Step, frozen=True, tag="lock"):
    """A process locks items, holds them for some time and counts each up; or gives up when it has waited so long."""

    items: tuple[str, ...]
    writes: bool
    hold_us: int
    patience_us: int = 0


class PostStep(Step, frozen=True, tag="post"):
    """A process posts on a board, or takes the oldest post away."""

    level: str
    removes: bool
    length: int


class EventStep(Step, frozen=True, tag="event"):
    """A checkpoint, or a new value of a property: one instant of the group."""

    checkpoint: bool


class MigrateStep(Step, frozen=True, tag="migrate"):
    """A copy moves from the first process that has one to this one."""


class CopiesStep(Step, frozen=True, tag="copies"):
    """So many copies from now on."""

    copies: int


class LeaveStep(Step, frozen=True, tag="leave"):
    """A process leaves the group that works, in the middle of anything, and enters it again."""

    back_us: int


class BindStep(Step, frozen=True, tag="bind"):
    """A name for a group, or for none."""

    name: str
    target: str


ToolStep = ActStep | LockStep | PostStep | EventStep | MigrateStep | CopiesStep | LeaveStep | BindStep


@dataclass
class Holding:
    """Locks of one step."""

    step: LockStep
    held: int = 0
    read: dict[str, bytes | None] = field(default_factory=dict)  # what the items were when all were held


@dataclass(frozen=True)
class Confirmation:
    """A call that was answered."""

    process: str
    group: str
    method: str
    mark: str
    value: Any


def kinds_for(sites: tuple[str, ...], quorum: int) -> Callable[[str], GroupKind | None]:
    """What groups are made of."""

    def work(member: Member) -> tuple[Tool, ...]:
        return (*component_tools(Ledger, sites)(member), Data(member), Boards(member))

    kinds = {
        SYSTEM_GROUP: GroupKind(system_tools),
        WORK: GroupKind(work, quorum),
        ROAMING: GroupKind(component_tools(Ledger, sites)),
    }
    return kinds.get


@dataclass
class ToolNode:
    """One start of a program with the toolkit."""

    toolkit: Toolkit
    works: bool  # whether it is a member of the group that works
    heard: Callable[[str, Action], None]
    asked: Callable[[str, str, str], None]  # group, method, mark
    confirmed: Callable[[Confirmation], None]
    counted: Callable[[str, str, int], None]  # process, item, its value under the lock
    name: str
    calls: int = 0
    marks: dict[int, tuple[str, str, str]] = field(default_factory=dict)  # by token: group, method, mark
    holdings: dict[str, Holding] = field(default_factory=dict)  # by owner
    held: list[LockHeld] = field(default_factory=list)  # to be used when the group is ready
    posted: int = 0
    unseen: set[bytes] = field(default_factory=set)  # its posts that it has not seen on their board
    problems: list[str] = field(default_factory=list)

    @property
    def periodic_timers(self) -> tuple[str, ...]:
        """Of the toolkit."""
        return self.toolkit.periodic_timers

    def handle(self, event: Event) -> list[Action]:
        """Play a step, or let the toolkit have it."""
        match event:
            case StepDue(step=step):
                try:
                    return self._play(event.at, step)
                except LocalProtocolError:
                    return []  # what the step needs is not there now
            case ClientKilled():
                return self._break_off(event.at)
            case TimerFired(key=("hold", str(owner))):
                return self._free(event.at, owner)
            case TimerFired(key=("patience", str(owner))):
                waits = owner in self.holdings and self.holdings[owner].held < len(self.holdings[owner].step.items)
                return self._free(event.at, owner) if waits else []
            case TimerFired(key="back"):
                return self._tell(OpenWanted(event.at, WORK))
        actions = self._tell(event)
        if isinstance(event, Started):
            actions += self._tell(OpenWanted(event.at, SYSTEM_GROUP))
            if self.works:
                actions += self._tell(OpenWanted(event.at, WORK))
        return actions

    def _break_off(self, at: int) -> list[Action]:
        """The session is gone, in the middle of anything."""
        layer = self.toolkit.layer
        assert isinstance(layer, EvsLayer)
        if layer.client is None or not layer.has_session:
            return []
        ends = b4.Indicated(at, (layer.client,), b4.Disconnected("killed"))
        return [b4.Ask(layer.client, b4.Disconnect()), *self._tell(ends)]

    def _play(self, at: int, step: Step) -> list[Action]:
        match step:
            case ActStep(group=group, method=method):
                return self._call(at, group, method)
            case LockStep():
                self.calls += 1
                owner = f"{self.toolkit.me}!{self.calls}"
                self.toolkit.tool(WORK, "locks")
                self.holdings[owner] = Holding(step)
                patience = [SetTimer(("patience", owner), step.patience_us)] if step.patience_us else []
                return [*patience, *self._lock(at, owner)]
            case PostStep():
                return self._post(at, step)
            case EventStep(checkpoint=True):
                return self._tell(ToolUsed(at, WORK, "", "checkpoint"))
            case EventStep():
                self.calls += 1
                value = f"{self.toolkit.me}:{self.calls}".encode()
                return self._tell(ToolUsed(at, WORK, "", "set_property", ("tone", value)))
            case MigrateStep():
                programs = self.toolkit.tool(SYSTEM_GROUP, "programs")
                assert isinstance(programs, Programs)
                placed = programs.placed.get(ROAMING, ())
                if not placed:
                    return []
                return self._tell(ToolUsed(at, SYSTEM_GROUP, "programs", "move", (ROAMING, placed[0], self.toolkit.me)))
            case CopiesStep(copies=copies):
                return self._tell(ToolUsed(at, SYSTEM_GROUP, "programs", "want", (ROAMING, copies)))
            case LeaveStep(back_us=back):
                self.toolkit.tool(WORK, "locks")  # it is ready there
                self._end()
                return [*self._tell(CloseWanted(at, WORK)), SetTimer("back", back)]
            case BindStep(name=name, target=target):
                return self._tell(ToolUsed(at, SYSTEM_GROUP, "switchboard", "bind", (name, target)))
        raise AssertionError(f"no such step: {step!r}")

    def _call(self, at: int, group: str, method: str) -> list[Action]:
        self.calls += 1
        mark = f"{self.toolkit.me}.{self.calls}"
        arguments = [mark] if method in ENTERS else []
        self.marks[self.calls] = (group, method, mark)
        self.asked(group, method, mark)
        return self._tell(CallWanted(at, self.calls, group, encode(OperationCall(method, arguments, {}))))

    def _post(self, at: int, step: PostStep) -> list[Action]:
        level = Order(step.level)
        boards = self.toolkit.tool(WORK, "boards")
        assert isinstance(boards, Boards)
        posts = boards.read("news", level)
        if step.removes and posts:
            return self._tell(ToolUsed(at, WORK, "boards", "remove", ("news", level, posts[0][0])))
        self.posted += 1
        value = b"%d" % self.posted
        self.unseen.add(value)
        return self._tell(ToolUsed(at, WORK, "boards", "post", ("news", level, value.ljust(step.length))))

    # --- locks -----------------------------------------------------------------------------------------------------

    def _lock(self, at: int, owner: str) -> list[Action]:
        holding = self.holdings[owner]
        item = holding.step.items[holding.held]
        return self._tell(ToolUsed(at, WORK, "locks", "ask", (item, owner, holding.step.writes)))

    def _on_held(self, at: int, held: LockHeld) -> list[Action]:
        holding = self.holdings.get(held.owner)
        if holding is None:
            return []  # it was given up
        holding.held += 1
        if holding.held < len(holding.step.items):
            return self._lock(at, held.owner)
        actions: list[Action] = []
        holding.read = self._items(holding)
        if held.writes:
            for item, old in holding.read.items():
                value = int(old or b"0") + 1
                self.counted(self.toolkit.me, item, value)
                actions += self._tell(ToolUsed(at, WORK, "data", "put", (item, str(value).encode())))
        return [*actions, SetTimer(("hold", held.owner), holding.step.hold_us)]

    def _free(self, at: int, owner: str) -> list[Action]:
        holding = self.holdings.pop(owner, None)
        if holding is None:
            return []
        member = self.toolkit.members.get(WORK)
        if holding.read and not holding.step.writes and member is not None and member.is_ready:
            if self._items(holding) != holding.read:
                self.problems.append(f"{owner} read {holding.read}, and then {self._items(holding)}")
        actions: list[Action] = []
        for item in holding.step.items[: holding.held + 1]:
            actions += self._tell(ToolUsed(at, WORK, "locks", "free", (item, owner)))
        return actions

    def _items(self, holding: Holding) -> dict[str, bytes | None]:
        data = self.toolkit.tool(WORK, "data")
        assert isinstance(data, Data)
        return {item: data.get(item) for item in holding.step.items}

    def _end(self) -> None:
        """What it had in the group that works is over."""
        self.holdings.clear()
        self.held.clear()
        self.unseen.clear()

    # --- what is heard ---------------------------------------------------------------------------------------------

    def _tell(self, event: Event) -> list[Action]:
        out: list[Action] = []
        for action in self.toolkit.handle(event):
            if not isinstance(action, APPLICATION):
                out.append(action)
                continue
            self.heard(self.name, action)
            match action:
                case Answered():
                    self._on_answer(action)
                case LockHeld():
                    self.held.append(action)
                case Posted(id=id, value=value) if id.startswith(f"{self.toolkit.me}:"):
                    self.unseen.discard(value.rstrip())
                case Over():
                    self._end()
        member = self.toolkit.members.get(WORK)
        while self.held and member is not None and member.is_ready:
            out += self._on_held(event.at, self.held.pop(0))
        return out

    def _on_answer(self, answer: Answered) -> None:
        group, method, mark = self.marks.pop(answer.token)
        if answer.problem:
            return
        value = msgspec.msgpack.decode(answer.result)
        if answer.failed != (method == "refuse"):
            self.problems.append(f"{method} said {value!r}")
        else:
            self.confirmed(Confirmation(self.toolkit.me, group, method, mark, value))
