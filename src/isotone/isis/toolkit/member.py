"""One membership of a toolkit: views by rank, state transfer, forming, checkpoints, properties, and the tools in it.

All that is replicated changes only when a broadcast or a view of the group is heard, so the state at one view is the
same at every member. A process that joins loads the state as of its view and then hears what came since. When nobody
has the state any more, all members *form* the group anew: the best state that one of them brings counts, which may be
a checkpoint.

Implements: [ISIS 3.7], [ISIS 5.2] the recovery of components. Deviations: D-form (what is done when all members with
the state fail before those who join have it: the paper leaves it open).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import msgspec

from isotone.core.contract import Action
from isotone.isis.delivery import digest_of
from isotone.isis.toolkit.layer import CastWanted, Heard, Order, TellWanted, Viewed
from isotone.isis.toolkit.outbox import Outbox
from isotone.isis.toolkit.transfer import Receiver, Sender
from isotone.isis.toolkit.wire import (
    Body,
    Bring,
    CheckpointMark,
    Complete,
    Letter,
    Offer,
    Part,
    PropertySet,
    Want,
    Weight,
    decode_body,
    encode,
)
from isotone.trace.toolkit import MemberReady, StateCounted

KEPT, CHECKPOINT, NOTHING = 2, 1, 0


class Phase(Enum):
    """How far a membership is."""

    ENTERING = "entering"  # not in a view yet
    FORMING = "forming"  # nobody has the state
    LOADING = "loading"  # somebody has it
    READY = "ready"


class Saved(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint."""

    view: int
    mark: int
    data: bytes


class State(msgspec.Struct, frozen=True, array_like=True):
    """Of a group, as of one instant."""

    era: str
    mark: int
    members: tuple[str, ...]
    full: tuple[str, ...]
    properties: dict[str, bytes]
    tools: dict[str, Any]


_STATE = msgspec.msgpack.Decoder(State)


class CheckpointTaken(Action, frozen=True, gc=False):
    """The state of a group at one instant, to be kept."""

    group: str
    saved: Saved


class MemberIsReady(Action, frozen=True, gc=False):
    """The process has the state of the group; ``how``: founded, checkpoint, kept or transferred."""

    group: str
    how: str


class PropertyChanged(Action, frozen=True, gc=False):
    """A global property has another value from this instant on."""

    group: str
    key: str
    value: bytes


class ViewChanged(Action, frozen=True, gc=False):
    """The members by rank, at a member that is ready."""

    group: str
    number: int
    members: tuple[str, ...]


class Tool:
    """A part of a group's state with its messages; see the module about when it may change."""

    name = ""
    takes: tuple[type[Body], ...] = ()
    deeds: tuple[str, ...] = ()  # methods that an application asks for

    def __init__(self, member: Member) -> None:
        self.member = member

    def state(self) -> Any:
        """For a transfer or checkpoint, in a fixed order."""
        return None

    def load(self, state: Any) -> None:
        """Replace the state."""

    def begin_anew(self) -> None:
        """The state is of a checkpoint: what was under way then is over."""

    def essence(self) -> Any:
        """What must be equal at all members at one instant."""
        return self.state()

    def on_view(self, view: Viewed) -> None:
        """Whoever is not in the view is gone."""

    def hear(self, sender: str, message: Body) -> None:
        """A broadcast."""

    def told(self, sender: str, message: Body) -> None:
        """A private message."""

    def resume(self) -> None:
        """The state was just loaded: take up the duties of this member."""


class Member:
    """One group as this process knows it."""

    def __init__(
        self,
        group: str,
        out: Outbox,
        build: Callable[[Member], Sequence[Tool]],
        *,
        quorum: int = 1,
        checkpoint: Saved | None = None,
    ) -> None:
        self.group, self.out = group, out
        self.phase = Phase.ENTERING
        self.view = Viewed(group, 0, ())  # the last that was heard
        self.applied = self.view  # the last that the state knows
        self.full: set[str] = set()  # who has the state; while loading: who may have it
        self.properties: dict[str, bytes] = {}
        self.era = ""
        self.mark = 0
        self._quorum, self._checkpoint = quorum, checkpoint
        self._buffer: list[Heard | Viewed] = []
        self._has_state = False  # while forming: this member has it all the same
        self._missed: list[Heard | Viewed] = []  # while forming: what came behind that state, up to the present view
        self._forming = self.view
        self._letters: list[tuple[str, Body]] = []  # private messages that came before the state
        self._instant = 0  # the view whose state is loaded
        self._brought: dict[str, Weight] = {}
        self._receiver: Receiver | None = None
        self._offered: tuple[str, Offer] | None = None  # before it was known to be wanted
        self._sender = Sender(self.tell, lambda body: self.cast(Order.CAUSAL, body))
        self.tools = tuple(build(self))

    @property
    def me(self) -> str:
        """This process."""
        return self.out.me

    @property
    def is_ready(self) -> bool:
        """Whether it has the state."""
        return self.phase is Phase.READY

    def cast(self, order: Order, body: Body, label: str = "") -> None:
        """To all members; without the label where all have one order anyway."""
        label = label if self.out.has_labels else ""
        self.out.asked.append(CastWanted(self.out.at, self.group, order, encode(body), label))

    def tell(self, process: str, body: Body) -> None:
        """To one of them."""
        self.out.asked.append(TellWanted(self.out.at, process, encode(Letter(self.group, body))))

    def set_property(self, key: str, value: bytes) -> None:
        """A global property of the group changes at one instant."""
        self.cast(Order.EVENT, PropertySet(key, value))

    def checkpoint(self) -> None:
        """Every member saves the state of one instant."""
        self.cast(Order.EVENT, CheckpointMark())

    # --- views -----------------------------------------------------------------------------------------------------

    def on_view(self, view: Viewed) -> None:
        """A new view of the group."""
        self.view = view
        self.full.intersection_update(view.members)
        if self.phase is Phase.ENTERING:
            self.full = {each for each in view.members if each != self.me}
            self._load(view.number)
            self._take_early_offer()
        if not self.full or self.phase is Phase.FORMING:
            self._form(())
        elif self.phase is Phase.LOADING and view.number != self._instant:
            self._buffer.append(view)
        elif self.phase is Phase.READY:
            self._apply(view)
        self._attend()

    def _apply(self, view: Viewed) -> None:
        joined = [each for each in view.members if each not in self.applied.members]
        for process in self.applied.members:
            if process not in view.members:
                self._sender.drop(process)
        self.applied = view
        for tool in self.tools:
            tool.on_view(view)
        if joined:
            self._sender.keep(view.number, self._encoded(), joined)
        self._count("")
        self.out.say(ViewChanged(self.group, view.number, view.members))

    # --- broadcasts ------------------------------------------------------------------------------------------------

    def on_heard(self, heard: Heard) -> None:
        """A broadcast of the group."""
        body = decode_body(heard.body)
        if isinstance(body, Bring):
            self._on_bring(heard.sender, body)
        elif self.phase is Phase.READY:
            self._take(heard.sender, body)
        elif self.phase is not Phase.ENTERING:
            self._buffer.append(heard)
            if isinstance(body, Complete) and body.process in self.view.members:
                self.full.add(body.process)
        self._attend()

    def _take(self, sender: str, body: Body) -> None:
        match body:
            case Complete(process=process):
                self._sender.drop(process)
                if process in self.applied.members:
                    self.full.add(process)
            case PropertySet(key=key, value=value):
                self.properties[key] = value
                self.out.say(PropertyChanged(self.group, key, value))
            case CheckpointMark():
                self.mark += 1
                self._count(f"mark {self.mark}")
                self._checkpoint = Saved(self.applied.number, self.mark, self._encoded())
                self.out.say(CheckpointTaken(self.group, self._checkpoint))
            case _:
                for tool in self.tools:
                    if isinstance(body, tool.takes):
                        tool.hear(sender, body)

    def on_told(self, sender: str, body: Body) -> None:
        """A private message about this group."""
        match body:
            case Offer():
                self._on_offer(sender, body)
            case Part():
                if self.phase is Phase.LOADING and self._receiver is not None:
                    self._receiver.on_part(sender, body)
                    if self._receiver.is_whole:
                        self._finish_loading(self._receiver.data())
            case Want():
                self._sender.on_want(sender, body)
            case _ if self.phase is Phase.READY:
                self._take_letter(sender, body)
            case _:
                self._letters.append((sender, body))
        self._attend()

    def _take_letter(self, sender: str, body: Body) -> None:
        for tool in self.tools:
            if isinstance(body, tool.takes):
                tool.told(sender, body)

    # --- the state -------------------------------------------------------------------------------------------------

    def _state(self) -> State:
        return State(
            self.era,
            self.mark,
            self.applied.members,
            tuple(sorted(self.full)),
            dict(sorted(self.properties.items())),
            {tool.name: tool.state() for tool in self.tools},
        )

    def _encoded(self) -> bytes:
        return encode(self._state())

    def _restore(self, data: bytes) -> State:
        state = _STATE.decode(data)
        self.era, self.mark, self.properties = state.era, state.mark, dict(state.properties)
        for tool in self.tools:
            tool.load(state.tools[tool.name])
        return state

    def digest(self) -> int:
        """Over all that must be equal at all members."""
        tools = {tool.name: tool.essence() for tool in self.tools}
        return digest_of(encode((self.era, self.mark, sorted(self.properties.items()), tools)))

    def _count(self, instant: str) -> None:
        self.out.record(StateCounted(self.me, self.group, self.applied.number, instant, self.digest()))

    def _attend(self) -> None:
        """As the first by rank that has the state: offer it to who has it not."""
        if self.phase is Phase.READY and self._sender.snapshots:
            if next((each for each in self.view.members if each in self.full), "") == self.me:
                self._sender.offer()

    # --- loading ---------------------------------------------------------------------------------------------------

    def _load(self, view: int) -> None:
        self.phase, self._instant = Phase.LOADING, view
        self._receiver = Receiver(view, self.tell)

    def _on_offer(self, sender: str, offer: Offer) -> None:
        """One of a later view comes from a member that joined behind this one, when all before it are gone."""
        views = [event.number for event in self._buffer if isinstance(event, Viewed)]
        if self.phase is Phase.READY and offer.view <= self.applied.number:
            self.tell(sender, Want(offer.view, offer.digest, offer.parts))
        elif self.phase is Phase.LOADING and offer.view in (self._instant, *views):
            if offer.view != self._instant:
                self._skip(offer.view)
            assert self._receiver is not None
            self._receiver.on_offer(sender, offer)
        else:
            self._offered = (sender, offer)

    def _skip(self, view: int) -> None:
        """Load the state as of a later view: what was heard before it is in there."""
        place = next(
            place for place, each in enumerate(self._buffer) if isinstance(each, Viewed) and each.number == view
        )
        self._buffer = self._buffer[place + 1 :]
        self._load(view)

    def _take_early_offer(self) -> None:
        offered, self._offered = self._offered, None
        if offered is not None and offered[0] in self.view.members:
            self._on_offer(*offered)

    def _finish_loading(self, data: bytes) -> None:
        state = self._restore(data)
        self.full = set(state.full)
        self.applied = Viewed(self.group, self._instant, state.members)
        self._become_ready("transferred")

    def _become_ready(self, how: str) -> None:
        """With the state as of the instant; then what was heard since."""
        self.phase = Phase.READY
        lacking = [each for each in self.applied.members if each not in self.full and each != self.me]
        self._sender.keep(self._instant, self._encoded(), lacking)
        self.out.record(MemberReady(self.me, self.group, self._instant, self.era, how))
        self._count("")
        self.out.say(ViewChanged(self.group, self.applied.number, self.applied.members))
        for tool in self.tools:
            tool.resume()
        buffer, self._buffer = self._buffer, []
        for place, event in enumerate(buffer):
            if isinstance(event, Heard):
                self._take(event.sender, decode_body(event.body))
                continue
            self.full.intersection_update(event.members)
            if not self.full:
                self._form(buffer[place:])
                return
            self._apply(event)
        letters, self._letters = self._letters, []
        for sender, body in letters:
            self._take_letter(sender, body)
        self.out.say(MemberIsReady(self.group, how))

    # --- forming ---------------------------------------------------------------------------------------------------

    def _form(self, heard: Sequence[Heard | Viewed]) -> None:
        """Bring what there is; anew with every view. What was heard since the state that is kept follows it."""
        if self.phase is Phase.FORMING and self._has_state:
            heard = [*self._missed, self._forming, *self._buffer, self.view, *heard]
        elif self.phase is not Phase.READY:
            self._has_state = False
        else:
            self._has_state = True
        last = max((place for place, each in enumerate(heard) if isinstance(each, Viewed)), default=-1)
        self._missed = list(heard[: max(last, 0)])
        self.phase, self._instant, self._forming = Phase.FORMING, self.view.number, self.view
        self._buffer, self._brought = list(heard[last + 1 :]), {}
        self._sender.snapshots.clear()
        weight: Weight = (NOTHING, 0, 0)
        if self._has_state:
            weight = (KEPT, 0, 0)
        elif self._checkpoint is not None:
            weight = (CHECKPOINT, self._checkpoint.view, self._checkpoint.mark)
        self.cast(Order.CAUSAL, Bring(self.view.number, weight))

    def _on_bring(self, sender: str, bring: Bring) -> None:
        if bring.view != self.view.number:
            return
        if self.phase is Phase.LOADING:
            since: list[Heard] = []
            for event in self._buffer:
                since = [*since, event] if isinstance(event, Heard) else []
            self._form(since)
        assert self.phase is Phase.FORMING, f"{sender} forms {self.group} anew, and {self.me} has its state"
        self._brought[sender] = bring.weight
        members = self.view.members
        if len(members) < self._quorum or any(each not in self._brought for each in members):
            return
        winner = max(members, key=lambda each: (self._brought[each], -members.index(each)))
        kind = self._brought[winner][0]
        self.full = {each for each in members if self._brought[each][0] == kind} if kind == KEPT else {winner}
        if self.me in self.full:
            self._found(kind)
        else:
            self._load(self.view.number)
            self._take_early_offer()

    def _found(self, kind: int) -> None:
        """With the state that this member brought. Those that were kept are equal: what is under way goes on."""
        how = {KEPT: "kept", CHECKPOINT: "checkpoint", NOTHING: "founded"}[kind]
        if kind == CHECKPOINT:
            assert self._checkpoint is not None
            self._restore(self._checkpoint.data)
            for tool in self.tools:
                tool.begin_anew()
        if kind != KEPT:
            self.era = str(self._instant)
        for event in (*(self._missed if kind == KEPT else ()), self.view):
            if isinstance(event, Heard):
                self._take(event.sender, decode_body(event.body))
            else:
                self.applied = event
                for tool in self.tools:
                    tool.on_view(event)
        self._become_ready(how)
