"""The public session of a client: join groups, send, hear. See `isotone.connect`.

It is the owner of a `Link`: what its sessions say becomes events of groups, outcomes of sends and answers of calls.

Implements: [Spread 3.2], the interface of the client library; [Spread 2.2.1], sends to groups that one is not in.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Sequence
from types import TracebackType

from isotone.client.asking import as_bytes, as_groups, sending_service
from isotone.client.calls import Answers, Calls, check_answers, numbered
from isotone.client.errors import ClientError, Closed, NoAnswer, NotAMember, NotSent, UnknownFate
from isotone.client.events import ANSWER, CALL, SELF_DISCARD, Message, Receipt, SessionEvent
from isotone.client.group import Events, Group, Membership, receive
from isotone.client.hearing import Hearing
from isotone.client.inbox import Inbox, Pressure
from isotone.client.ledger import Parcel
from isotone.client.link import Endpoint, Link, State
from isotone.client.sending import Body, Sending, parcels
from isotone.client.streams import Loop
from isotone.client.synchrony import SynchronousGroup
from isotone.core import boundary as b4
from isotone.core.choice import Choice
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import ClientId, MessageId
from isotone.core.names import check_group_name, is_private_group
from isotone.core.services import Service

logger = logging.getLogger("isotone.client")
WARN_S = 60.0
"""So often, at most, a program that does not read is mentioned in the log."""


class Session:
    """A client of a daemon, for as long as the program wants; `isotone.connect` makes one."""

    def __init__(self, endpoint: Endpoint, loop: Loop, choice: Choice) -> None:
        self._loop = loop
        self._endpoint = endpoint
        settings = endpoint.settings
        self._pressure = Pressure(settings.inbox_bytes_max, settings.overrun_bytes_max, self._on_pause)
        self._hearing = Hearing(self, Inbox(loop, self._pressure), Calls(choice.word()), settings.private_unread_max)
        self._link = Link(endpoint, self._hearing, loop, choice)
        self._sending = Sending(self._link, self._pressure, loop, self._hearing.echoes, settings.session)
        self._hearing.bind(self._link, self._sending, self._pressure)
        self._tasks: dict[asyncio.Task[None], None] = {}  # leaves that nobody waits for
        self._closing: asyncio.Future[None] | None = None
        self._warn_at = -math.inf

    # --- to look at ------------------------------------------------------------------------------------------------

    @property
    def id(self) -> ClientId:
        """Who we are for others. Another session, after a `Reconnected`, is another id."""
        return self._hearing.id

    @property
    def name(self) -> str:
        """Our private name."""
        return self._endpoint.name

    @property
    def private_group(self) -> str:
        """Where we alone can be reached."""
        return self.id.private_group

    @property
    def groups(self) -> dict[str, Group]:
        """The groups that we are in."""
        return {name: group for name, group in self._hearing.groups.items() if group.view is not None}

    @property
    def is_connected(self) -> bool:
        """Whether the daemon can be reached at present."""
        return self._link.is_connected

    @property
    def held(self) -> tuple[ClientId, ...]:
        """Clients that do not read, for which our daemon holds what we send; empty when it holds nothing."""
        return self._hearing.held

    @property
    def dropped_private(self) -> int:
        """Private messages and notices that were forgotten because nobody ever looked at `events()`."""
        return self._hearing.dropped_private

    # --- groups ----------------------------------------------------------------------------------------------------

    async def join(self, group: str, *, view_synchronous: bool = False) -> Group:
        """Become a member; returns when the first view with us came, which is also the first event of the group.

        With ``view_synchronous`` every message is delivered in the view in which it was sent: before each new view all
        members flush, see `ViewChanging`. All members must have joined the group so.
        """
        if is_private_group(check_group_name(group)):
            raise LocalProtocolError(f"{group} is private: it has its client alone")
        groups = self._hearing.groups
        while (held := groups.get(group)) is not None and held._membership is Membership.LEAVING:
            await self._out_of(held)
        if held is not None:
            raise LocalProtocolError(f"{self.name} joined {group} already")
        kind = SynchronousGroup if view_synchronous else Group
        joined = groups[group] = kind(self, group, Inbox(self._loop, self._pressure))
        try:
            await self._sending.room()
            self._hearing.ask_join(joined)
            self._sending.wake()
            await self._sending.wait(joined._entered)
        except BaseException:
            self._abandon(joined)
            raise
        return joined

    def _abandon(self, group: Group) -> None:
        """Whoever wanted to join does not wait any more."""
        if group._membership is Membership.OVER:
            return
        group._inbox.end()
        if not group._asked:
            del self._hearing.groups[group.name]
            group._end()
            return
        group._membership = Membership.LEAVING
        task = self._loop.create_task(self._ask_leave(group))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _ask_leave(self, group: Group) -> None:
        try:
            await self._sending.room()
        except ClientError:
            return  # with the session, the membership is over too
        if group._membership is Membership.LEAVING and group._asked:
            self._sending.ask(b4.Leave(group.name))
        else:
            self._sending.wake()  # the turn is the next one's

    async def _leave(self, group: Group) -> None:
        if group._membership is Membership.OVER:
            raise Closed(f"we left {group.name} before")
        if group._membership is not Membership.LEAVING:
            await self._sending.room()
            if group._membership in (Membership.MEMBER, Membership.LOST):
                group._membership = Membership.LEAVING
                self._sending.ask(b4.Leave(group.name))
            else:
                self._sending.wake()  # somebody else did it: the turn is the next one's
        await self._out_of(group)

    async def _out_of(self, group: Group) -> None:
        if group._membership is Membership.LEAVING:
            waiter: asyncio.Future[None] = self._loop.create_future()
            group._left.append(waiter)
            await self._sending.wait(waiter)

    # --- sending ---------------------------------------------------------------------------------------------------

    async def send(
        self,
        groups: str | ClientId | Sequence[str | ClientId],
        body: Body,
        *,
        service: Service | None = None,
        type: int = 0,
        deadline: float | None = None,
        confirm: bool = False,
        self_discard: bool = False,
    ) -> Receipt:
        """Send one message to one group or several, whether we are in them or not, or to one client.

        Returns when the daemon has *taken* the message. With ``confirm`` it returns when we heard it ourselves as
        SAFE and no transitional signal stood before it: all members have it, and the receipt has its stamp. Only that
        is an acknowledgement. The receipt's ``id`` names the message, as for `isotone explain message`. After
        ``deadline`` seconds it is not sent any more: `NotSent`. With ``self_discard`` we do not find it among our own
        events.
        """
        flags = SELF_DISCARD if self_discard else 0
        parcel = self._parcel(
            as_groups(groups), (as_bytes(body),), service, types=(type,), confirm=confirm, flags=flags
        )
        return await self._send((parcel,), self._due(deadline))

    async def _send(self, pieces: Sequence[Parcel], due: float | None) -> Receipt:
        """To a view-synchronous group of ours in its view; otherwise as soon as there is room."""
        synchronous = self._synchronous(pieces[0].groups)
        if synchronous is not None:
            return await synchronous._send_in_view(pieces, due)
        if len(pieces) == 1:
            return await self._sending.send_one(pieces[0], due)
        receipt = await self._sending.send(pieces, due)
        assert receipt is not None  # there is at least one piece
        return receipt

    def _synchronous(self, groups: tuple[str, ...]) -> SynchronousGroup | None:
        """The group of ours that is sent to, if it is view-synchronous: then it stands alone."""
        joined = self._hearing.groups
        for name in groups:
            group = joined.get(name)
            if isinstance(group, SynchronousGroup):
                if len(groups) > 1:
                    raise LocalProtocolError(f"{name} is view-synchronous here: send to it alone")
                return group
        return None

    async def post(
        self,
        groups: str | ClientId | Sequence[str | ClientId],
        body: Body,
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> MessageId | None:
        """Send one message and wait for nothing, but for room when there is none.

        It keeps its order with all else that is sent. When this returns the message waits in this process, and goes
        with others that do in one bundle in the next turn of the loop; what became of it nobody says, but that
        `Reconnected` names it if its fate is unknown. The id that is returned holds while this session lasts and no
        earlier message is dropped; it is None while there is no session.
        """
        named = (groups,) if isinstance(groups, str) else as_groups(groups)
        kind = (named, service, SELF_DISCARD if self_discard else 0)
        content = body if isinstance(body, bytes) else as_bytes(body)
        if self._synchronous(kind[0]) is not None:
            parcel = self._parcel(kind[0], (content,), service, types=(type,), confirm=False, flags=kind[2])
            return (await self._send((parcel,), None)).id
        posted = self._sending.post(kind, content, type)
        while not posted:
            await self._sending.room()
            posted = self._sending.post(kind, content, type, in_turn=True)
        return self._sending.posted_id()

    async def send_many(
        self,
        groups: str | ClientId | Sequence[str | ClientId],
        bodies: Sequence[Body],
        *,
        service: Service | None = None,
        types: Sequence[int] = (),
        deadline: float | None = None,
        confirm: bool = False,
        self_discard: bool = False,
    ) -> Receipt | None:
        """Send messages in this order, in as few bundles as they fit in; None if there are none.

        The receipt is that of the last message. The others have the numbers before its own, if the session lasted.
        """
        if not bodies:
            return None
        flags = SELF_DISCARD if self_discard else 0
        contents = tuple(map(as_bytes, bodies))
        whole = self._parcel(as_groups(groups), contents, service, types=tuple(types), confirm=confirm, flags=flags)
        pieces = parcels(whole, self._endpoint.settings.session)
        return await self._send(pieces, self._due(deadline))

    def _parcel(
        self,
        groups: tuple[str, ...],
        bodies: tuple[bytes, ...],
        service: Service | None,
        *,
        types: tuple[int, ...],
        confirm: bool,
        flags: int,
    ) -> Parcel:
        if types and len(types) != len(bodies):
            raise LocalProtocolError(f"{len(bodies)} messages with {len(types)} types")
        chosen = sending_service(service, confirm=confirm)
        joined = self._hearing.groups
        if confirm:
            outside = [group for group in groups if group not in joined or not joined[group]._hears]
            if outside:
                raise NotAMember(f"confirm=True needs membership: join {', '.join(outside)} first")
        return Parcel(groups, chosen, bodies, types, flags, confirm)

    def _due(self, deadline: float | None) -> float | None:
        return None if deadline is None else self._loop.time() + deadline

    # --- calls -----------------------------------------------------------------------------------------------------

    async def call(
        self,
        group: str,
        body: Body,
        *,
        deadline: float,
        answers: Answers = "first",
        service: Service = Service.AGREED,
        type: int = 0,
    ) -> list[Message]:
        """Ask a group and wait for answers (`Message.reply`): the first, a majority, all, or so many.

        Who counts are the other members of the view in which we hear our own call; "all" are those of them that stay.
        Outside of the group nobody knows who they are, so only "first" or a number make sense. `NoAnswer` otherwise.
        """
        check_answers(answers)
        is_member = group in self._hearing.groups
        if not is_member:
            if answers in ("majority", "all"):
                raise NotAMember(f"'{answers}' needs the membership of {group}: join it first")
            answers = 1 if answers == "first" else answers
        done: asyncio.Future[None] = self._loop.create_future()
        call = self._hearing.calls.begin(group, answers, done, open_group=not is_member)
        timer = self._loop.call_at(self._loop.time() + deadline, call.fail, "deadline")
        try:
            content = numbered(call.number, as_bytes(body))
            parcel = self._parcel((group,), (content,), service, types=(type,), confirm=False, flags=CALL)
            due = self._loop.time() + deadline
            async with asyncio.timeout_at(due):  # what became of the call itself is not waited for any longer
                await self._send((parcel,), due)
            await self._sending.wait(done)
        except (NotSent, UnknownFate) as error:
            raise NoAnswer(error.reason, call.collected()) from error
        except TimeoutError:
            raise NoAnswer("deadline", call.collected()) from None
        finally:
            timer.cancel()
            self._hearing.calls.end(call)
            if not done.cancel() and not done.cancelled():
                done.exception()  # that nobody waits for it is no mistake
        return call.collected()

    async def _reply(self, to: Message, body: bytes | memoryview, service: Service) -> None:
        assert to.call_number is not None
        content = numbered(to.call_number, as_bytes(body))
        caller = (to.sender.private_group,)
        parcel = self._parcel(caller, (content,), service, types=(to.type,), confirm=False, flags=ANSWER)
        await self._sending.send_one(parcel, None)

    # --- hearing ---------------------------------------------------------------------------------------------------

    def events(self) -> AsyncIterator[SessionEvent]:
        """Private messages, and what the session says about itself. Once asked for, they must be read."""
        self._hearing.events_wanted = True
        return Events[SessionEvent](self._hearing.private)

    async def receive(self, timeout: float | None = None) -> SessionEvent:
        """The next of these events; `TimeoutError` if none comes in so many seconds."""
        self._hearing.events_wanted = True
        return await receive(Events[SessionEvent](self._hearing.private), timeout)

    def _on_pause(self, paused: bool) -> None:
        self._link.pause(paused)
        if paused and self._loop.time() >= self._warn_at:
            self._warn_at = self._loop.time() + WARN_S
            self._hearing.warn_unread()

    # --- the beginning and the end ---------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Look for the daemon; `ConnectFailed` when there is none."""
        self._link.begin()
        try:
            await self._sending.wait(self._hearing.opened)
        except BaseException:
            self._link.shut(Closed("the session was closed"))
            await self._link.gone()
            if self._link.impossible is not None:
                raise self._link.impossible from None
            raise

    async def close(self) -> None:
        """Close the session: what was sent before is still taken, if the daemon is there. Twice is harmless."""
        if self._closing is None:
            self._closing = self._loop.create_future()
            try:
                if self._link.state is State.OPEN:
                    await self._part()
            finally:
                self._link.shut(Closed("the session was closed"))
                for task in list(self._tasks):
                    task.cancel()
                self._closing.set_result(None)
        elif not self._closing.done():
            await asyncio.shield(self._closing)
        await self._link.gone()

    async def _part(self) -> None:
        """Wait for the daemon to take what was sent and posted before, but not for ever."""
        due = self._loop.time() + self._endpoint.settings.close_within_s
        self._pressure.release()
        try:
            if not self._sending.flush():
                await self._sending.room(due)
        except ClientError as error:
            logger.warning("%s is closed, and not all that was posted was taken: %s", self.name, error)
        await self._link.part(due)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<session of {self.name}: {self._link.state.value}, {len(self._hearing.groups)} groups>"
