"""What a client asked and its daemon did not take yet: bundles in the making, credit, and what is sent again.

Messages that wait while the stream is busy are packed with those before them if they have service, groups, flags and
deadline in common, up to the size of a bundle; one that finds the stream free goes alone and at once. What was written
is kept until the daemon says that it took it; after a resume the rest is written again. Requests keep their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from isotone.core.bundles import MESSAGES_MAX, Bundle
from isotone.core.codec.bundle import ENTRY_BYTES, encode_bundle
from isotone.core.codec.bundle import HEAD as BUNDLE_HEAD
from isotone.core.codec.control import ControlMessage
from isotone.core.codec.frame import FRAME
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import ClientId
from isotone.core.services import Service
from isotone.evs.sessions.frames import DEADLINE, HEAD_BYTES, Parts, bundle_frame, control_frame
from isotone.evs.sessions.messages import client_codec
from isotone.evs.sessions.settings import ClientSettings

NEVER = 1 << 62
EXPIRED = "deadline"


class Run:
    """Consecutive messages that will be one bundle."""

    __slots__ = (
        "cost",
        "expires_at",
        "first",
        "flags",
        "groups",
        "is_paid",
        "lengths",
        "payloads",
        "service",
        "size",
        "types",
    )

    def __init__(self, first: int, service: Service, groups: tuple[str, ...], flags: int, expires_at: int) -> None:
        self.first = first  # ticket
        self.service = service
        self.groups = groups
        self.flags = flags
        self.expires_at = expires_at
        self.lengths: list[int] = []
        self.types: list[int] = []
        self.payloads: list[bytes | memoryview] = []
        self.size = 0  # of the payloads
        self.cost = 0  # of the whole frame
        self.is_paid = False  # credit was asked for it: it is sent, whatever its deadline

    def is_like(self, service: Service, groups: tuple[str, ...], flags: int, expires_at: int) -> bool:
        """Whether messages of this kind may be added."""
        mine = (self.service, self.groups, self.flags, self.expires_at)
        return not self.is_paid and mine == (service, groups, flags, expires_at)


class Written(msgspec.Struct, frozen=True, gc=False):
    """A request on the stream; ``first`` is the ticket of its first message, 0 if it has none."""

    parts: Parts
    cost: int
    first: int = 0
    expires_at: int = NEVER


class Requests:
    """The queue of one session. Tickets number all messages that were accepted, from 1."""

    def __init__(self, settings: ClientSettings) -> None:
        self.submitted = 0  # tickets given
        self.settled = 0  # every message up to this ticket was taken by the daemon, or dropped
        self.queued_bytes = 0
        self.first_expiry = NEVER  # of what waits; never too late
        self.window = NEVER  # as the daemon says
        self._settings = settings
        self._client: ClientId | None = None
        self._credit = 0  # bytes that may be sent in all
        self._spent = 0  # bytes that were sent, on the present stream or taken from an earlier one
        self._spent_taken = 0  # of them, what was taken
        self._taken = 0  # requests that the daemon has
        self._queue: deque[Run | bytes] = deque()
        self._written: deque[Written] = deque()  # not taken yet
        self._again: deque[Written] = deque()  # written on an earlier stream; before all of the queue
        self._asked = 0  # credit that was asked for beyond the window

    # --- accepting -------------------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """Bytes of messages that may be submitted now; above 0, one message of any size."""
        return max(0, self._settings.queue_bytes_max - self.queued_bytes)

    @property
    def untaken(self) -> int:
        """Messages of which it is not known that they were taken or dropped."""
        return self.submitted - self.settled

    @property
    def unwritten(self) -> int:
        """The first ticket that never left this process, on any stream."""
        return next((each.first for each in self._queue if isinstance(each, Run)), self.submitted + 1)

    def open(self, client: ClientId, credit: int, window: int) -> None:
        """The session begins."""
        self._client, self._credit, self.window = client, credit, window

    def add_control(self, message: ControlMessage, *, always: bool = False) -> None:
        """A join, a leave, or the end; for the end there is always room."""
        if not always:
            self.check_room()
        frame = control_frame(client_codec.encode(message))
        self._queue.append(frame)
        self.queued_bytes += len(frame)

    def add_messages(
        self,
        service: Service,
        groups: tuple[str, ...],
        payload: bytes | memoryview,
        lengths: Sequence[int],
        types: Sequence[int],
        *,
        flags: int = 0,
        expires_at: int = NEVER,
    ) -> None:
        """Messages of one kind, which go into one bundle, or into that before them."""
        assert self._client is not None and len(lengths) == len(types)
        last = self._queue[-1] if self._queue else None
        if not isinstance(last, Run) or not (
            last.is_like(service, groups, flags, expires_at) and self._fits(last, len(payload), len(lengths))
        ):
            last = Run(self.submitted + 1, service, groups, flags, expires_at)
            names = len(self._client.name) + len(self._client.daemon.name) + sum(map(len, groups)) + 1 + len(groups)
            last.cost = HEAD_BYTES + BUNDLE_HEAD.size + names + (DEADLINE.size if expires_at < NEVER else 0)
            self._queue.append(last)
            self.queued_bytes += last.cost
        added = len(payload) + ENTRY_BYTES * len(lengths)
        last.lengths += lengths
        last.types += types
        last.payloads.append(payload)
        last.size += len(payload)
        last.cost += added
        self.first_expiry = min(self.first_expiry, expires_at)
        self.queued_bytes += added
        self.submitted += len(lengths)

    def check_room(self) -> None:
        """Refuse what would be too much."""
        if not self.room:
            waiting, bound = self.queued_bytes, self._settings.queue_bytes_max
            raise LocalProtocolError(
                f"no room: {waiting} bytes wait for the daemon, the bound is {bound}; look at `room` before sending"
            )

    def _fits(self, run: Run, size: int, count: int) -> bool:
        """Whether so many messages of so many bytes have place in a bundle in the making."""
        cost = run.cost + size + ENTRY_BYTES * count
        settings = self._settings
        fits = run.size + size <= settings.bundle_bytes_max and cost <= min(self.window, settings.packed_bytes_max)
        return fits and len(run.lengths) + count <= MESSAGES_MAX

    # --- deadlines -------------------------------------------------------------------------------------------------

    def expire(self, at: int) -> list[tuple[int, int]]:
        """Drop what waited too long; first ticket and count of each."""
        dropped: list[tuple[int, int]] = []
        kept: deque[Run | bytes] = deque()
        for each in self._queue:
            if isinstance(each, Run) and each.expires_at <= at and not each.is_paid:
                dropped.append((each.first, len(each.lengths)))
                self.queued_bytes -= each.cost
            else:
                kept.append(each)
        self._queue = kept
        waiting = [each.expires_at for each in kept if isinstance(each, Run) and not each.is_paid]
        self.first_expiry = min(waiting, default=NEVER)
        self._settle()
        return dropped

    # --- writing ---------------------------------------------------------------------------------------------------

    def write(self, at: int, out: list[bytes | memoryview]) -> None:
        """Add what credit allows to a write, until it is full; what was written before a resume first."""
        size = 0
        while self._again and size < self._settings.write_bytes_max:
            request = _with_deadline(self._again.popleft(), at)
            size += self._put(request, out)
        while self._queue and not self._again and size < self._settings.write_bytes_max:
            head = self._queue[0]
            cost = head.cost if isinstance(head, Run) else len(head)
            if self._spent + cost > self._credit:
                return
            self._queue.popleft()
            self.queued_bytes -= cost
            size += self._put(self._frame(head, at), out)

    def _put(self, request: Written, out: list[bytes | memoryview]) -> int:
        out += request.parts
        self._spent += request.cost
        self._written.append(request)
        return request.cost

    def _frame(self, head: Run | bytes, at: int) -> Written:
        if not isinstance(head, Run):
            return Written((head,), len(head))
        assert self._client is not None
        payload = head.payloads[0] if len(head.payloads) == 1 else b"".join(head.payloads)
        bundle = Bundle(
            self._client,
            head.first,
            head.service,
            head.groups,
            tuple(head.lengths),
            tuple(head.types),
            payload,
            head.flags,
        )
        left = None if head.expires_at == NEVER else max(0, head.expires_at - at)
        parts, cost = bundle_frame(encode_bundle(bundle, None, payload_max=self._settings.message_bytes_max), left)
        assert cost == head.cost, f"a frame of {cost} bytes that was to have {head.cost}"
        return Written(parts, cost, head.first, head.expires_at)

    def want_credit(self) -> int:
        """What the next request costs, if credit must be asked for it; once for each request and stream."""
        head = self._queue[0] if self._queue and not self._again else None
        if not isinstance(head, Run) or head.cost <= self.window or self._spent + head.cost <= self._credit:
            return 0
        if self._asked == head.first:
            return 0
        self._asked, head.is_paid = head.first, True
        return head.cost

    # --- what the daemon says --------------------------------------------------------------------------------------

    def granted(self, taken: int, credit: int) -> None:
        """So many requests were taken in all, so many bytes may be sent."""
        if not self._taken <= taken <= self._taken + len(self._written) or credit < self._credit:
            raise RemoteProtocolError(f"{taken} requests taken and {credit} bytes of credit")
        self._credit = credit
        while self._taken < taken:
            self._spent_taken += self._written.popleft().cost
            self._taken += 1
        self._settle()

    def resumed(self, taken: int, credit: int) -> None:
        """On a new stream: what was not taken is written again."""
        self._written.extend(self._again)
        self._again.clear()
        self.granted(taken, credit)
        self._again, self._written = self._written, self._again
        self._spent = self._spent_taken
        self._asked = 0

    def _settle(self) -> None:
        """The tickets below the first message that is still with us are settled."""
        for kept in (self._written, self._again, self._queue):
            for each in kept:
                if not isinstance(each, bytes) and each.first:
                    self.settled = each.first - 1
                    return
        self.settled = self.submitted


def _with_deadline(request: Written, at: int) -> Written:
    """The same frame with what is left of its deadline."""
    if request.expires_at == NEVER:
        return request
    left = DEADLINE.pack(max(0, request.expires_at - at))
    head = request.parts[0]
    patched = bytes(head[: FRAME.size]) + left + bytes(head[FRAME.size + DEADLINE.size :])
    return msgspec.structs.replace(request, parts=(patched, *request.parts[1:]))
