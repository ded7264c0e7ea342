"""The reliable network of one daemon view, forming or installed: a `Transport`, and what it leaves armed or open.

Every attempt has a network of its own, so nothing of one daemon view can be taken for another's. When it ends it is
closed: timers are cancelled, streams are closed, and later events of it find nobody.

Implements: [Spread 2.2.7], ninit; [Spread Figure 6.4]. Deviations: D-network one for each attempt instead of one that
is initialised anew, so that nothing of one can be taken for another's.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isotone.core.contract import (
    Action,
    CancelTimer,
    CloseStream,
    Event,
    OpenStream,
    SetTimer,
    Started,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    TimerFired,
    TimerKey,
)
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.evs.links.contract import DeclareFailed
from isotone.evs.membership.counting import Counting
from isotone.evs.membership.settings import MembershipSettings
from isotone.evs.ordering.units import Unit
from isotone.evs.transport.events import DeliverUnits
from isotone.evs.transport.transport import Transport
from isotone.evs.transport.view import TransportView


class Outcome(msgspec.Struct, gc=False):
    """What an event led to: effects, units that came up, and why the network failed if it did."""

    actions: list[Action]
    units: Sequence[Unit] = ()
    failed: str = ""


class Network:
    """One of them at a time works at a daemon."""

    def __init__(
        self,
        me: DaemonId,
        view: TransportView,
        *,
        version: int,
        settings: MembershipSettings,
        lamport: int,
        first_stream: int,
    ) -> None:
        self.view, self.version = view, version
        self.index = view.members.index(me)
        self.installed = False
        self.transport = Transport(
            me=me.name,
            view=view,
            settings=msgspec.structs.replace(
                settings.transport, record_units=settings.record and settings.record_units
            ),
            lamport=lamport,
            first_stream=first_stream,
            under_membership=True,
        )
        self._counting = Counting(me.name, view, self.transport, settings.count_us if settings.record else 0)
        self._timers: dict[TimerKey, None] = {}
        self._streams: dict[int, None] = {}

    @property
    def id(self) -> DaemonViewId:
        """The daemon view's."""
        return self.view.id

    @property
    def lamport(self) -> int:
        """The highest time that is known here."""
        return self.transport.stamper.lamport

    def start(self, at: int) -> Outcome:
        """Begin."""
        self._counting.begin(at)
        return self.handle(Started(at))

    def handle(self, event: Event) -> Outcome:
        """An event of one of its links, or from above."""
        if isinstance(event, TimerFired):
            if self._timers.pop(event.key, event) is event:
                return Outcome([])
        elif isinstance(event, StreamClosed):
            self._streams.pop(event.stream, None)
        try:
            return self._sorted(self.transport.handle(event))
        except RemoteProtocolError as error:
            return Outcome([], failed=f"protocol: {error}")  # a member breaks the rules: nothing here can be trusted

    def owns_timer(self, key: TimerKey) -> bool:
        """Whether the timer is one of its links'."""
        return key in self._timers

    def owns_stream(self, stream: int) -> bool:
        """Whether the stream is one of its links'."""
        return stream in self._streams

    def adopt(self, opened: StreamOpened, received: StreamReceived) -> Outcome:
        """A stream that greets one of its links."""
        self._streams[opened.stream] = None
        first = self.handle(opened)
        second = self.handle(received)
        return Outcome([*first.actions, *second.actions], [*first.units, *second.units], first.failed or second.failed)

    def counts(self, at: int) -> list[Action]:
        """What its links counted, for the record, if that is due."""
        return self._counting.tell(at)

    def close(self) -> list[Action]:
        """Nothing of it moves any more."""
        self.transport.freeze()
        actions = self._counting.tell_last()
        actions += [CancelTimer(key) for key in self._timers]
        actions += [CloseStream(stream) for stream in self._streams]
        self._timers.clear()
        self._streams.clear()
        return actions

    def _sorted(self, actions: Sequence[Action]) -> Outcome:
        outcome = Outcome([])
        for action in actions:
            match action:
                case DeliverUnits(units=units):
                    outcome.units = units
                case DeclareFailed(reason=reason):
                    outcome.failed = reason
                case _:
                    self._note(action)
                    outcome.actions.append(action)
        return outcome

    def _note(self, action: Action) -> None:
        match action:
            case SetTimer(key=key):
                self._timers[key] = None
            case CancelTimer(key=key):
                self._timers.pop(key, None)
            case OpenStream(stream=stream):
                self._streams[stream] = None
            case CloseStream(stream=stream):
                self._streams.pop(stream, None)
