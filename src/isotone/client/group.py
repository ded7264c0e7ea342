"""A group that the program joined: send to it, hear what happens in it, leave it.

States: *joining* → *member* → *leaving* → *over*. When a session ended and there is a new one, members become *lost*
and join again by themselves.

Implements: [Spread 3.4.1], a light-weight group as an application sees it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from isotone.client.calls import Answers
from isotone.client.errors import ClientError, Closed
from isotone.client.events import (
    Bundle,
    BundleEvent,
    GroupEvent,
    Message,
    Receipt,
    Reconnected,
    SelfLeave,
    SentMessage,
    Slow,
    Transitional,
    View,
)
from isotone.client.inbox import Inbox
from isotone.client.sending import Body
from isotone.core.ids import ClientId, MessageId
from isotone.core.services import Service
from isotone.core.views import GroupView
from isotone.evs.sessions.synchrony import FLUSH

if TYPE_CHECKING:
    from isotone.client.session import Session

EventType = TypeVar("EventType")
MEMBER_BYTES = 128


class Membership(Enum):
    """How it stands with us and the group."""

    JOINING = "the first view is awaited"
    MEMBER = "member"
    LOST = "the session ended; joins again in the next"
    LEAVING = "leaving"
    OVER = "left"


class Events(AsyncIterator[EventType], Generic[EventType]):
    """An iterator over an inbox: messages one by one, or bundles."""

    def __init__(self, inbox: Inbox, *, by_bundle: bool = False) -> None:
        self._inbox = inbox
        self._take = inbox.take_bundle if by_bundle else inbox.take

    async def __anext__(self) -> EventType:
        if not self._inbox.may_take():
            await self._inbox.wait()
        return self._take()  # type: ignore[return-value]


class Group:
    """One group, of one session. Made by `Session.join`."""

    def __init__(self, session: Session, name: str, inbox: Inbox) -> None:
        self.name = name
        self.session = session
        self.view: View | None = None
        """The newest view that came; what the program did not read yet may be older."""
        self._inbox = inbox
        self._membership = Membership.JOINING
        self._asked = False  # in the present session
        self._in_session = False  # the present session has told us a view: only then are its events the group's
        self._in_transition = False
        self._entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left: list[asyncio.Future[None]] = []  # who waits until we are out
        self._unknown: list[SentMessage] = []

    @property
    def members(self) -> tuple[ClientId, ...]:
        """The members of the newest view."""
        return self.view.members if self.view is not None else ()

    @property
    def is_member(self) -> bool:
        """Whether we are in the group now."""
        return self._membership is Membership.MEMBER

    @property
    def held(self) -> tuple[ClientId, ...]:
        """Clients that do not read, for which sends of this session wait; see `Session.held`."""
        return self.session.held

    @property
    def _hears(self) -> bool:
        """Whether we hear what we send, now or when we are back."""
        return self._membership in (Membership.MEMBER, Membership.LOST)

    # --- sending ---------------------------------------------------------------------------------------------------

    async def send(
        self,
        body: Body,
        *,
        service: Service | None = None,
        type: int = 0,
        deadline: float | None = None,
        confirm: bool = False,
        self_discard: bool = False,
    ) -> Receipt:
        """Send to the group; returns when the daemon has taken it, or when it is confirmed. See `Session.send`."""
        self._check_joined()
        return await self.session.send(
            self.name, body, service=service, type=type, deadline=deadline, confirm=confirm, self_discard=self_discard
        )

    async def post(
        self, body: Body, *, service: Service = Service.AGREED, type: int = 0, self_discard: bool = False
    ) -> MessageId | None:
        """Send to the group and wait for nothing, but for room when there is none; see `Session.post`."""
        self._check_joined()
        return await self.session.post(self.name, body, service=service, type=type, self_discard=self_discard)

    async def send_many(
        self,
        bodies: Sequence[Body],
        *,
        service: Service | None = None,
        types: Sequence[int] = (),
        deadline: float | None = None,
        confirm: bool = False,
        self_discard: bool = False,
    ) -> Receipt | None:
        """Send messages in this order, in as few bundles as they fit in. See `Session.send_many`."""
        self._check_joined()
        return await self.session.send_many(
            self.name,
            bodies,
            service=service,
            types=types,
            deadline=deadline,
            confirm=confirm,
            self_discard=self_discard,
        )

    async def call(
        self,
        body: Body,
        *,
        deadline: float,
        answers: Answers = "all",
        service: Service = Service.AGREED,
        type: int = 0,
    ) -> list[Message]:
        """Ask the other members and wait for the first answer, a majority, all, or so many. See `Session.call`."""
        self._check_joined()
        return await self.session.call(self.name, body, deadline=deadline, answers=answers, service=service, type=type)

    def _check_joined(self) -> None:
        if self._membership in (Membership.LEAVING, Membership.OVER):
            raise Closed(f"we left {self.name}; Session.send reaches it without being in it")

    async def leave(self) -> None:
        """Cease to be a member; returns when that took effect. The iteration ends with `SelfLeave`."""
        await self.session._leave(self)

    # --- hearing ---------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[GroupEvent]:
        return Events[GroupEvent](self._inbox)

    def bundles(self) -> AsyncIterator[BundleEvent]:
        """The same, but with bundles as a whole: the cost is one of bundles, not of messages."""
        return Events[BundleEvent](self._inbox, by_bundle=True)

    async def receive(self, timeout: float | None = None) -> GroupEvent:
        """The next event; `TimeoutError` if none comes in so many seconds, `Closed` when none will."""
        return await receive(Events[GroupEvent](self._inbox), timeout)

    # --- what the session tells it ---------------------------------------------------------------------------------

    def _on_group_view(self, told: GroupView, me: ClientId) -> None:
        view = View(told.group, told.id, told.members, told.transitional, told.cause, told.subject, told.together)
        size = MEMBER_BYTES * len(view.members)
        self._tell_reconnected(view, size)
        self.view, self._in_session, self._in_transition = view, True, False
        if self._membership is Membership.LOST:
            self._membership = Membership.MEMBER
        elif self._membership is Membership.JOINING and me in view.members:
            self._membership = Membership.MEMBER
            if not self._entered.done():
                self._entered.set_result(None)
        self._put(view, size)

    def _tell_reconnected(self, new_view: View | None, size: int = 0) -> None:
        """Between events of two sessions, whatever we want of the group meanwhile: it may be leaving."""
        if self.view is not None and not self._in_session:
            unknown, self._unknown = tuple(self._unknown), []
            self._put(Reconnected(self.name, self.view, new_view, unknown, *self.session._hearing.over), size)

    def _on_bundle(self, bundle: Bundle, size: int) -> None:
        """A message to several groups comes as soon as we are in one of them: it may be too early for this one."""
        if self._in_session and not bundle.bundle.flags & FLUSH:
            self._put(bundle, size)

    def _on_transitional(self, signal: Transitional) -> None:
        if self._in_session:
            self._in_transition = True
            self._put(signal)

    def _on_slow(self, slow: Slow) -> None:
        if self._in_session:
            self._put(slow)

    def _put(self, event: object, size: int = 0) -> None:
        self._inbox.put(event, size)

    def _on_session_over(self, unknown: list[SentMessage]) -> bool:
        """The session is over; whether to join again in the next."""
        self._asked, self._in_session, self._in_transition = False, False, False
        self._unknown += unknown
        if self._membership is Membership.LEAVING:
            return False
        if self._membership is Membership.MEMBER:
            self._membership = Membership.LOST
        return True

    def _stay(self, error: ClientError) -> None:
        """We may not leave."""
        self._membership = Membership.MEMBER if self._in_session else Membership.LOST
        left, self._left = self._left, []
        for waiter in left:
            if not waiter.done():
                waiter.set_exception(error)

    def _end(self, error: ClientError | None = None, *, told: bool = False) -> None:
        """We are out: by our own wish (``told``), or because of an error."""
        if told:
            self._put(SelfLeave(self.name))
        self._membership = Membership.OVER
        self._inbox.end(error)
        if not self._entered.done():
            self._entered.set_exception(error or Closed(f"the session was closed before we were in {self.name}"))
            self._entered.exception()  # whoever waits hears it; nobody need to
        left, self._left = self._left, []
        for waiter in left:
            if not waiter.done():
                waiter.set_result(None)

    def __repr__(self) -> str:
        return f"<group {self.name}: {self._membership.value}, {len(self.members)} members>"


async def receive(events: Events[EventType], timeout: float | None) -> EventType:
    """The next of these events, in time."""
    try:
        if timeout is None:
            return await events.__anext__()
        async with asyncio.timeout(timeout):
            return await events.__anext__()
    except StopAsyncIteration:
        raise Closed("nothing more comes") from None
