"""A view-synchronous group: every message is delivered in the view in which it was sent.

When another view is about to come the program reads `ViewChanging`. What it sends before it asks for the next event
still goes in the present view; then sends wait until the new view came. So a program that does not read keeps the
others from their next view. All members must have joined the group this way.

Implements: [Spread 2.2.3.2], [Spread 3.4], the program's side of `isotone.evs.sessions.synchrony`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING

import msgspec

from isotone.client.errors import ClientError, Closed, NotSent, Overrun
from isotone.client.events import Bundle, Receipt, SentMessage, Transitional, ViewChanging
from isotone.client.group import MEMBER_BYTES, Group, Membership
from isotone.client.inbox import Inbox
from isotone.client.ledger import Parcel
from isotone.core import boundary as b4
from isotone.core.contract import Action, Event
from isotone.core.ids import ClientId
from isotone.core.services import Service
from isotone.core.views import GroupView
from isotone.evs.sessions.synchrony import (
    FLUSH,
    SYNCHRONOUS,
    AskFlush,
    EndMembership,
    FlushAllowed,
    SynchronousMember,
    TellFlushed,
    synchronous_service,
)

if TYPE_CHECKING:
    from isotone.client.session import Session

logger = logging.getLogger("isotone.client")


class SynchronousGroup(Group):
    """As `Group`, with a flush before each new view. Made by `Session.join` with ``view_synchronous=True``."""

    def __init__(self, session: Session, name: str, inbox: Inbox) -> None:
        super().__init__(session, name, inbox)
        self._member: SynchronousMember | None = None  # of the present session
        self._closed = False  # the program is done with the view: nothing more is begun in it
        self._under_way = 0  # sends of the present view that are not through
        self._waiting: list[asyncio.Future[None]] = []  # sends of the next
        self._error: ClientError | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waits_for(self) -> tuple[ClientId, ...]:
        """Whose flush the next view waits for; empty when none is about to come."""
        return self._member.waits_for if self._member is not None else ()

    # --- sending ---------------------------------------------------------------------------------------------------

    async def _send_in_view(self, pieces: Sequence[Parcel], due: float | None) -> Receipt:
        """In the present view, or in the next; `NotSent` if there is neither, or the session ended before it left."""
        await self._until_open(due)
        receipt: Receipt | None = None
        self._under_way += 1
        try:
            for piece in pieces:
                marked = msgspec.structs.replace(
                    piece, service=synchronous_service(piece.service), flags=piece.flags | SYNCHRONOUS
                )
                receipt = await self.session._sending.send_one(marked, due, again=False)
        finally:
            self._under_way -= 1
            self._flush_if_done()
        assert receipt is not None  # there is at least one piece
        return receipt

    async def _until_open(self, due: float | None) -> None:
        while self._closed or self._member is None or not self._member.may_send:
            if self._membership in (Membership.LEAVING, Membership.OVER):
                raise self._error or Closed(f"we left {self.name}; Session.send reaches it without being in it")
            waiter: asyncio.Future[None] = self.session._loop.create_future()
            self._waiting.append(waiter)
            await self.session._sending.wait(waiter, due, NotSent("deadline"))

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    # --- what the session tells it ---------------------------------------------------------------------------------

    def _on_group_view(self, told: GroupView, me: ClientId) -> None:
        if self._member is None:
            self._member = SynchronousMember(me, self.name)
        self._react(b4.Indicated(0, (me,), b4.View(told)))

    def _on_bundle(self, bundle: Bundle, size: int) -> None:
        if self._member is not None:
            self._react(b4.Indicated(0, (self._member.me,), b4.Message(bundle.bundle, bundle.stamp)))

    def _on_transitional(self, signal: Transitional) -> None:
        if self._member is not None:
            self._react(b4.Indicated(0, (self._member.me,), signal))

    def _react(self, event: Event) -> None:
        assert self._member is not None
        for action in self._member.handle(event):
            self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case b4.Indicate(indication=b4.Message(bundle=bundle, stamp=stamp)):
                super()._on_bundle(Bundle(bundle, stamp, self.session), len(bundle.payload))
            case b4.Indicate(indication=b4.View(view=view)):
                self._closed = False
                assert self._member is not None
                super()._on_group_view(view, self._member.me)
                self._wake()
            case b4.Indicate(indication=b4.Transitional() as signal):
                super()._on_transitional(signal)
            case AskFlush():
                self._inbox.put(ViewChanging(self.name), MEMBER_BYTES, then=self._close)
            case TellFlushed(body=body):
                self._begin(self._tell_flushed(body))
            case EndMembership():
                self._end(Overrun(f"too many messages wait for the next view of {self.name}: we left it"))
                self._begin(self.session._ask_leave(self))

    def _close(self) -> None:
        """The program has taken `ViewChanging`, and asks for what follows."""
        if self._member is not None and self._member.target is not None and not self._member.allowed:
            self._closed = True
            self._flush_if_done()

    def _flush_if_done(self) -> None:
        if self._closed and not self._under_way and self._member is not None:
            self._react(FlushAllowed(0))

    async def _tell_flushed(self, body: bytes) -> None:
        parcel = Parcel((self.name,), Service.AGREED, (body,), (), FLUSH)
        try:
            await self.session._sending.send_one(parcel, None, again=False)
        except ClientError as error:
            logger.debug("%s: the flush of %s did not go out: %s", self.session.name, self.name, error)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = self.session._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_session_over(self, unknown: list[SentMessage]) -> bool:
        self._member, self._closed = None, False
        return super()._on_session_over(unknown)

    def _end(self, error: ClientError | None = None, *, told: bool = False) -> None:
        self._error = self._error or error
        super()._end(error, told=told)
        self._wake()
