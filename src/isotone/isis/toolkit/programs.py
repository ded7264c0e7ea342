"""The process group manager and the switchboard: k copies of a program run over the sites, and names lead to groups.

All sites are members of one system group. Who runs what follows from its views and from one order of changes, so all
compute the same; a copy that fails or ends is begun elsewhere. A copy moves by two group events: begin at the target,
then, when it is ready there, end at the source.

Implements: [ISIS 5], process group manager, switchboard, migration. Deviations: none.
"""

from __future__ import annotations

from typing import Any

from isotone.core.contract import Action
from isotone.core.errors import LocalProtocolError
from isotone.isis.toolkit.layer import Order, Viewed
from isotone.isis.toolkit.member import Member, Tool
from isotone.isis.toolkit.wire import Body, CopiesWanted, CopyEnded, CopyMoved, NameBound
from isotone.trace.toolkit import CopyStarted, CopyStopped

SYSTEM_GROUP = "$system"
LABEL = "programs"
COPIES_MAX = 64


class StartCopy(Action, frozen=True, gc=False):
    """Run this program here."""

    program: str


class StopCopy(Action, frozen=True, gc=False):
    """Do not run it here any more."""

    program: str


class Programs(Tool):
    """Which process runs which program."""

    name = "programs"
    deeds = ("want", "tell_ended", "move")
    takes = (CopiesWanted, CopyEnded, CopyMoved)

    def __init__(self, member: Member) -> None:
        super().__init__(member)
        self.copies: dict[str, int] = {}
        self.placed: dict[str, list[str]] = {}  # by program: the processes, in the order in which they were chosen
        self.moves: dict[str, tuple[str, str]] = {}  # by program: source and target
        self._running: set[str] = set()

    def state(self) -> Any:
        """All tables."""
        return [sorted(self.copies.items()), sorted(self.placed.items()), sorted(self.moves.items())]

    def load(self, state: Any) -> None:
        """Of a snapshot."""
        copies, placed, moves = state
        self.copies, self.placed = dict(copies), {name: list(processes) for name, processes in placed}
        self.moves = {name: (source, target) for name, (source, target) in moves}

    def resume(self) -> None:
        """Run what this member is to run."""
        self._run()

    # --- asked -----------------------------------------------------------------------------------------------------

    def want(self, program: str, copies: int) -> None:
        """So many copies from now on; 0 ends the program."""
        if not 0 <= copies <= COPIES_MAX:
            raise LocalProtocolError(f"0 to {COPIES_MAX} copies of a program can run, not {copies}")
        self.member.cast(Order.TOTAL, CopiesWanted(program, copies), LABEL)

    def tell_ended(self, program: str) -> None:
        """The copy here ended by itself."""
        self.member.cast(Order.TOTAL, CopyEnded(program), LABEL)

    def move(self, program: str, source: str, target: str) -> None:
        """A group event."""
        self.member.cast(Order.EVENT, CopyMoved(program, source, target))

    def tell_ready(self, program: str) -> None:
        """The copy here has what it needs: if it was moved here, it ends at the source."""
        source, target = self.moves.get(program, ("", ""))
        if target == self.member.me:
            self.member.cast(Order.EVENT, CopyMoved(program, source, target, ready=True))

    # --- heard -----------------------------------------------------------------------------------------------------

    def hear(self, sender: str, message: Body) -> None:
        """A change."""
        match message:
            case CopiesWanted(program=program, copies=copies):
                self.copies[program] = copies
                self.placed.setdefault(program, [])
                self._place(program, "")
            case CopyEnded(program=program):
                if sender == self.member.me:
                    self._running.discard(program)
                if program in self.copies:
                    self._unplace(program, sender)
                    self._place(program, sender)
            case CopyMoved():
                self._on_moved(message)
        self._run()

    def _on_moved(self, moved: CopyMoved) -> None:
        program, members = moved.program, self.member.applied.members
        placed = self.placed.get(program, [])
        if moved.ready:
            if self.moves.get(program) == (moved.source, moved.target):
                del self.moves[program]
                self._unplace(program, moved.source)
        elif moved.source in placed and moved.target in members and moved.target not in placed:
            if program not in self.moves:
                placed.append(moved.target)
                self.moves[program] = (moved.source, moved.target)

    def _unplace(self, program: str, process: str) -> None:
        if process in self.placed.get(program, ()):
            self.placed[program].remove(process)
        if process in self.moves.get(program, ()):
            del self.moves[program]

    def _place(self, program: str, avoided: str) -> None:
        """Copies where there are fewest; where one has just ended only if there is no other place."""
        members, placed = self.member.applied.members, self.placed[program]
        wanted = self.copies[program] + (program in self.moves)
        while len(placed) > wanted:
            self._unplace(program, placed[-1])
            wanted = self.copies[program] + (program in self.moves)
        load = {each: sum(each in processes for processes in self.placed.values()) for each in members}
        free = [each for each in members if each not in placed]
        free.sort(key=lambda each: (each == avoided, load[each], members.index(each)))
        placed += free[: max(0, wanted - len(placed))]

    def on_view(self, view: Viewed) -> None:
        """Copies that failed begin elsewhere; a member that joined takes what finds no other place."""
        for program in sorted(self.copies):
            for process in list(self.placed[program]):
                if process not in view.members:
                    self._unplace(program, process)
            self._place(program, "")
        self._run()

    def _run(self) -> None:
        member = self.member
        for program in sorted({*self.placed, *self._running}):
            placed, running = member.me in self.placed.get(program, ()), program in self._running
            if placed and not running:
                self._running.add(program)
                member.out.record(CopyStarted(member.me, program))
                member.out.say(StartCopy(program))
            elif running and not placed:
                self._running.discard(program)
                member.out.record(CopyStopped(member.me, program))
                member.out.say(StopCopy(program))


class Switchboard(Tool):
    """Names of services, and the groups that they stand for."""

    name = "switchboard"
    deeds = ("bind",)
    takes = (NameBound,)

    def __init__(self, member: Member) -> None:
        super().__init__(member)
        self.names: dict[str, str] = {}

    def state(self) -> Any:
        """All names."""
        return sorted(self.names.items())

    def load(self, state: Any) -> None:
        """Of a snapshot."""
        self.names = dict(state)

    def bind(self, name: str, target: str) -> None:
        """A name for a group; the first one has it. No target: it is free."""
        self.member.cast(Order.TOTAL, NameBound(name, target), LABEL)

    def hear(self, sender: str, message: Body) -> None:
        """In one order."""
        if isinstance(message, NameBound):
            if message.target:
                self.names.setdefault(message.name, message.target)
            else:
                self.names.pop(message.name, None)


def system_tools(member: Member) -> tuple[Tool, ...]:
    """Of the system group."""
    return Switchboard(member), Programs(member)
