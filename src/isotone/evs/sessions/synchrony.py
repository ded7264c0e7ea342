"""View synchrony above extended virtual synchrony: a flush before each new view of a group.

A member that hears of a new view says *flushed* in it once its program has sent its last message in the old one; then
it sends nothing until it has heard that from every member of the new view. Only then the view is installed. So every
message is delivered in the view in which it was sent. Whoever says *flushed* does so as AGREED, so all members install
the view at the same place of the order, and behind everything that the others sent before.

Implements: [Spread 2.2.3.2] Sending View Delivery, [Spread 3.4], the library on top of EVS that it refers to.
Deviations: D-parted (who did not come along since the installed view is not heard in it: a member that was apart, since
others may lack what it sent before, nor one that is in another view of the group and whose daemon came back before the
groups were merged), D-last (views that follow each other while members flush are installed as one: the last).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from isotone.core import boundary as b4
from isotone.core.codec.control import ControlCodec, ControlMessage
from isotone.core.contract import Action, Event, Record
from isotone.core.ids import ClientId
from isotone.core.services import Service
from isotone.core.views import Cause, GroupView
from isotone.trace.synchrony import SynchronousDelivered, SynchronousLeft, SynchronousSent, SynchronousView

FLUSH = 0x0004
"""Flag of a bundle: it says that its sender has flushed, and is nothing for programs."""
SYNCHRONOUS = 0x0008
"""Flag of a bundle: a member sent it in its view. What others send to the group is delivered wherever it comes."""
HELD_MAX = 4_096
"""Bundles of the next view that wait for its last flush."""


class Flushed(ControlMessage, frozen=True, tag=0x6F):
    """The sender sends nothing more until it has installed ``view``."""

    view: str


CODEC: ControlCodec[ControlMessage] = ControlCodec(Flushed)


class FlushAllowed(Event, frozen=True, gc=False):
    """The program has sent its last message in this view."""


class AskFlush(Action, frozen=True, gc=False):
    """The program is to say when it has sent its last message in this view: another one is about to come."""

    group: str


class TellFlushed(Action, frozen=True, gc=False):
    """Send this to the group, as AGREED and with the flag `FLUSH`, behind everything that was sent before."""

    group: str
    body: bytes


class EndMembership(Action, frozen=True, gc=False):
    """More waits for a view than may: leave the group."""

    group: str


@dataclass
class SynchronousMember:
    """One client in one group."""

    me: ClientId
    group: str
    view: GroupView | None = None  # installed
    target: GroupView | None = None  # to be installed when all its members have flushed
    allowed: bool = False  # nothing more is sent in the installed view
    together: frozenset[ClientId] = frozenset()  # who came along since the installed view
    _changes: int = 0  # views heard of since
    _signalled: bool = False  # the transitional signal of the installed view is out
    _flushed: set[ClientId] = field(default_factory=set)  # for the target
    _held: list[b4.Message | b4.Transitional] = field(default_factory=list)  # of the target

    # --- to look at ------------------------------------------------------------------------------------------------

    @property
    def may_send(self) -> bool:
        """Whether a message of the program would be sent in the installed view."""
        return self.view is not None and not self.allowed

    @property
    def waits_for(self) -> tuple[ClientId, ...]:
        """Members of the next view that have not flushed."""
        return tuple(each for each in self.target.members if each not in self._flushed) if self.target else ()

    def sent(self, first_sequence: int, count: int) -> Action:
        """What was sent just now, for the trace."""
        assert self.view is not None and self.may_send
        return Record(SynchronousSent(str(self.me), self.group, self.view.id, first_sequence, count))

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        match event:
            case FlushAllowed():
                return self._allow()
            case b4.Indicated(indication=indication):
                return self._on_indication(indication)
        raise AssertionError(f"a member does not expect {event!r}")

    def _on_indication(self, indication: b4.Indication) -> list[Action]:
        match indication:
            case b4.View(view=view):
                return self._on_view(view)
            case b4.Message():
                return self._on_message(indication)
            case b4.Transitional():
                return self._on_signal(indication)
            case b4.SelfLeave():
                return [Record(SynchronousLeft(str(self.me), self.group)), self._tell(indication)]
        return []

    def _allow(self) -> list[Action]:
        if self.target is None or self.allowed:
            return []
        self.allowed = True
        return [self._tell_flushed()]

    # --- a new view ------------------------------------------------------------------------------------------------

    def _on_view(self, view: GroupView) -> list[Action]:
        first = self.target is None and self.view is None
        self.together = frozenset((self.me,)) if first else self.together & set(view.transitional)
        self.target, self._flushed, self._held = view, set(), []
        self._changes += 1
        if self.view is None:
            self.allowed = True
        if self.allowed:
            return [self._tell_flushed()]
        return [AskFlush(self.group)] if self._changes == 1 else []

    def _tell_flushed(self) -> Action:
        assert self.target is not None
        return TellFlushed(self.group, CODEC.encode(Flushed(str(self.target.id))))

    def _on_flushed(self, sender: ClientId, told: Flushed) -> list[Action]:
        if self.target is None or told.view != str(self.target.id) or sender not in self.target.members:
            return []  # of a view that another one has followed
        self._flushed.add(sender)
        return [] if self.waits_for else self._install(self.target)

    def _install(self, target: GroupView) -> list[Action]:
        single = self._changes == 1
        self.view = msgspec.structs.replace(
            target,
            transitional=tuple(each for each in target.members if each in self.together),
            cause=target.cause if single else Cause.NETWORK,
            subject=target.subject if single else None,
            together=target.together if single else (),
        )
        self.together = frozenset(target.members)
        self.target, self.allowed, self._changes, self._signalled, self._flushed = None, False, 0, False, set()
        held, self._held = self._held, []
        row = SynchronousView(
            str(self.me), self.group, target.id, _texts(target.members), _texts(self.view.transitional)
        )
        actions = [Record(row), self._tell(b4.View(self.view))]
        for each in held:
            actions += self._on_indication(each)
        return actions

    # --- messages and signals --------------------------------------------------------------------------------------

    def _on_message(self, message: b4.Message) -> list[Action]:
        bundle = message.bundle
        if bundle.flags & FLUSH:
            told = CODEC.decode(bundle.payload)
            assert isinstance(told, Flushed)
            return self._on_flushed(bundle.sender, told)
        if not bundle.flags & SYNCHRONOUS:
            return [self._tell(message)] if self.view is not None else []
        if bundle.sender in self._flushed:
            return self._hold(message)
        if self.view is None or bundle.sender not in self.together:
            return []  # D-parted
        row = SynchronousDelivered(
            str(self.me), self.group, self.view.id, str(bundle.sender), bundle.first_sequence, len(bundle.lengths)
        )
        return [Record(row), self._tell(message)]

    def _hold(self, message: b4.Message) -> list[Action]:
        """Its sender is in the next view already."""
        if len(self._held) >= HELD_MAX:
            return [EndMembership(self.group)]
        self._held.append(message)
        return []

    def _on_signal(self, signal: b4.Transitional) -> list[Action]:
        """Of the newest view that was heard of; the installed one has at most one too."""
        if self.target is not None:
            self._held.append(signal)
        if self.view is None or self._signalled:
            return []
        self._signalled = True
        return [self._tell(b4.Transitional(self.group, self.view.id))]

    def _tell(self, indication: b4.Indication) -> Action:
        return b4.Indicate((self.me,), indication)


def synchronous_service(service: Service) -> Service:
    """Nothing below FIFO: such a message could come behind its sender's flush."""
    return max(service, Service.FIFO)


def _texts(clients: tuple[ClientId, ...]) -> tuple[str, ...]:
    return tuple(map(str, clients))
