"""What comes from the daemon, and whom it concerns: groups, senders, callers, or the program as a whole."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from isotone.client.calls import Calls
from isotone.client.errors import ClientError, Closed, Refused
from isotone.client.events import (
    ANSWER,
    CALL,
    SELF_DISCARD,
    Bundle,
    Interrupted,
    Reconnected,
    Resumed,
    SentMessage,
    Slow,
)
from isotone.client.group import Group, Membership
from isotone.client.inbox import Inbox, Pressure
from isotone.client.ledger import Parcel
from isotone.client.link import Link
from isotone.client.sending import Sending
from isotone.core import boundary as b4
from isotone.core.ids import NO_DAEMON, ClientId
from isotone.core.views import GroupView
from isotone.evs.sessions import notices
from isotone.evs.sessions.client_session import ClientSession

if TYPE_CHECKING:
    from isotone.client.session import Session

logger = logging.getLogger("isotone.client")
HELD_WARN_S = 1.0
"""When sends wait for a slow reader for so long, the log says for whom."""


class Hearing:
    """Everything that is heard by one client, through one session after another."""

    def __init__(self, session: Session, private: Inbox, calls: Calls, private_unread_max: int) -> None:
        self.id = ClientId(NO_DAEMON, "", 0)
        self.groups: dict[str, Group] = {}
        self.calls = calls
        self.private = private
        self.events_wanted = False
        self.dropped_private = 0
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.private_name = ""
        self.over = ("", "")  # why the last session ended, as a code and in words
        self.held: tuple[ClientId, ...] = ()  # clients that do not read, for which our sends wait
        self._held_warning: asyncio.TimerHandle | None = None
        self._session = session
        self._private_unread_max = private_unread_max
        self._unknown: list[SentMessage] = []  # of what was sent to groups that we are not in
        self._link: Link
        self._sending: Sending
        self._pressure: Pressure

    def bind(self, link: Link, sending: Sending, pressure: Pressure) -> None:
        """The other parts of the session."""
        self._link, self._sending, self._pressure = link, sending, pressure

    # --- boundary B4 -----------------------------------------------------------------------------------------------

    def on_indication(self, indication: b4.Indication) -> None:
        """Something came."""
        match indication:
            case b4.Message():
                self._on_message(indication)
            case b4.View(view=view):
                self._on_view(view)
            case b4.Transitional(group=name):
                if name in self.groups:
                    self.groups[name]._on_transitional(indication)
                    self._sending.ledger.signalled(name)
            case b4.SelfLeave(group=name):
                self._on_left(name)
            case b4.Refused():
                self._on_refused(indication)

    def _on_message(self, message: b4.Message) -> None:
        bundle = Bundle(message.bundle, message.stamp, self._session)
        size, groups = len(bundle.bundle.payload), self.groups
        if bundle.sender == self.id:
            self._on_echo(bundle)
            if bundle.bundle.flags & SELF_DISCARD:
                return
        for name in bundle.groups:
            group = groups.get(name)
            if group is not None:
                group._on_bundle(bundle, size)
            elif name == self.private_name:
                self._on_private(bundle, size)

    def echoes(self, parcel: Parcel) -> bool:
        """Whether we will hear this ourselves, if it is sent now: weak services may overtake a join under way."""
        if not parcel.service.is_reliable:
            return False
        joined = [self.groups[name]._membership for name in parcel.groups if name in self.groups]
        joins = Membership.JOINING in joined or Membership.LOST in joined
        is_member = Membership.MEMBER in joined or self.private_name in parcel.groups
        return is_member or (joins and parcel.service.is_agreed)

    def _on_echo(self, bundle: Bundle) -> None:
        """We hear ourselves."""
        joined = [group for name in bundle.groups if (group := self.groups.get(name)) and group._in_session]
        ticket = self._link.session.tickets.ticket_of(bundle.bundle.first_sequence)
        if ticket is not None:
            transitional = any(group._in_transition for group in joined)
            self._sending.ledger.heard(ticket, bundle.count, bundle.stamp, transitional)
        if bundle.bundle.flags & CALL and joined:
            others = tuple(each for each in joined[0].members if each != self.id)
            for message in bundle.messages():
                self.calls.on_heard(message.call_number, others)

    def _on_private(self, bundle: Bundle, size: int) -> None:
        if bundle.bundle.flags & ANSWER:
            for message in bundle.messages():
                self.calls.on_answer(message)
        else:
            self._put_private(bundle, size)

    def _put_private(self, event: object, size: int = 0) -> None:
        self.private.put(event, size)
        while not self.events_wanted and self.private.held > self._private_unread_max:
            self.private.drop_oldest()
            self.dropped_private += 1

    def _on_view(self, told: GroupView) -> None:
        group = self.groups.get(told.group)
        if group is not None:
            group._on_group_view(told, self.id)
            self.calls.on_members(told.group, told.members)

    def _on_left(self, name: str) -> None:
        group = self.groups.pop(name, None)
        if group is not None:
            group._tell_reconnected(None)
            group._end(told=True)
            self._sending.ledger.left(name, frozenset({*self.groups, self.id.private_group}))
            self.calls.fail_all(f"we left {name}", name)

    def _on_refused(self, refused: b4.Refused) -> None:
        """A join or leave came to nothing."""
        request = f"{refused.request} {refused.group}".strip()
        group = self.groups.get(refused.group)
        is_leave = refused.request == "leave"
        wanted = (Membership.LEAVING,) if is_leave else (Membership.JOINING, Membership.LOST, Membership.LEAVING)
        if group is None or group._membership not in wanted or not group._asked:
            logger.warning("the daemon refused %s: %s", request, refused.reason)
        elif is_leave and group.view is not None:
            group._stay(Refused(request, refused.reason))
        else:  # we are not in it; whoever left meanwhile has what he wants
            del self.groups[group.name]
            group._tell_reconnected(None)
            group._end(Refused(request, refused.reason))

    # --- notices ---------------------------------------------------------------------------------------------------

    def on_notice(self, notice: notices.Notice) -> None:
        """The session says something about itself."""
        match notice:
            case notices.Dropped(first=first, count=count, reason=reason):
                self._sending.ledger.dropped(first, count, reason)
            case notices.Slow(held_bytes=held, bound_bytes=bound):
                slow = Slow(held, bound)
                for group in self.groups.values():
                    group._on_slow(slow)
                self._put_private(slow)
            case notices.Held(readers=readers):
                self._note_held(readers)
            case notices.Broken(reason=reason):
                self._note_held(())
                self._put_private(Interrupted(reason))
            case notices.Reconnected():
                self._put_private(Resumed())
            case notices.Roomy():
                self._sending.wake()

    def _note_held(self, readers: tuple[ClientId, ...]) -> None:
        """Our sends wait for these readers, or for none any more; the log has it when it lasts."""
        self.held = readers
        if not readers and self._held_warning is not None:
            self._held_warning.cancel()
            self._held_warning = None
        elif readers and self._held_warning is None:
            self._held_warning = self.opened.get_loop().call_later(HELD_WARN_S, self._warn_held)

    def _warn_held(self) -> None:
        names = ", ".join(map(str, self.held))
        logger.warning("%s: what it sends waits for clients that do not read: %s", self._session.name, names)

    def on_turn(self) -> None:
        """After everything that came together."""
        self._sending.ledger.settled(self._link.session.settled)
        self._pressure.adjust()

    def warn_unread(self) -> None:
        """Nothing more is read from the daemon."""
        waiting = max(self.groups.values(), key=lambda each: each._inbox.held, default=None)
        where = waiting.name if waiting is not None and waiting._inbox.held > self.private.held else "Session.events()"
        held = self._pressure.held
        logger.warning("%s: %d bytes of events were not read, most of %s", self._session.name, held, where)

    # --- sessions that begin and end -------------------------------------------------------------------------------

    def on_opened(self, first: bool) -> None:
        """There is a session: be again where we were."""
        self.id = self._link.session.client
        self.private_name = self.id.private_group
        if first:
            if not self.opened.done():
                self.opened.set_result(None)
        else:
            self._put_private(Reconnected("", None, None, tuple(self._unknown), *self.over))
            self._unknown = []
        for group in self.groups.values():
            self.ask_join(group)
        self._sending.wake()

    def ask_join(self, group: Group) -> None:
        """Once in each session."""
        if not group._asked and group._membership in (Membership.JOINING, Membership.LOST):
            group._asked = True
            self._link.driver.ask(b4.Join(group.name))

    def on_session_over(self, session: ClientSession, code: str, reason: str, *, all_taken: bool) -> None:
        """The session ended; there may be another."""
        self.over = (code, reason)
        self._note_held(())
        if all_taken:
            self._sending.ledger.settled(session.submitted)
        sent = self._sending.ledger.end(session.unwritten, reason)
        unknown = [message for each in sent for message in each.messages()]
        self.calls.fail_all("disconnected")
        left: list[SentMessage] = []  # what groups that we are leaving had not told of earlier sessions
        for name, group in list(self.groups.items()):
            if not group._on_session_over([each for each in unknown if name in each.groups]):
                del self.groups[name]
                left += group._unknown
                group._end(told=True)
        open_fate = {id(each): each for each in (*left, *unknown)}.values()
        self._unknown += [each for each in open_fate if self.groups.keys().isdisjoint(each.groups)]

    def on_over(self, error: ClientError) -> None:
        """No session, and there will be none."""
        ended = None if isinstance(error, Closed) else error  # the program's own wish is no error in its iterations
        if not self.opened.done():
            self.opened.set_exception(error)
            self.opened.exception()
        self._sending.end(error)
        for group in list(self.groups.values()):
            group._end(ended)
        self.groups.clear()
        self.private.end(ended)
