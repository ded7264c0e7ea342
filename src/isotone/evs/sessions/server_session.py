"""One client's session at its daemon: requests in, parcels out, through any number of streams.

A session takes requests from its stream into an inbox, in order and once, and keeps what it tells the client until that
is acknowledged. Which requests are handed on when, and what becomes of slow readers, is decided in `server`.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

import msgspec

from isotone.core import boundary as b4
from isotone.core.codec.bundle import decode_bundle
from isotone.core.codec.control import ControlMessage
from isotone.core.codec.frame import FrameKind
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import ClientId
from isotone.evs.sessions.backlog import Backlog, Memory, Parcel
from isotone.evs.sessions.credit import Credit
from isotone.evs.sessions.frames import DEADLINE, DEADLINE_FLAG, Arrived, FrameReader, control_frame
from isotone.evs.sessions.messages import (
    CLIENT_CONTROL_BYTES_MAX,
    ClientBeat,
    CreditWanted,
    DroppedTold,
    Farewell,
    Granted,
    Heard,
    HeldTold,
    JoinAsked,
    LeaveAsked,
    PartAsked,
    client_codec,
    server_codec,
)
from isotone.evs.sessions.requests import EXPIRED, NEVER
from isotone.evs.sessions.settings import PINNED_PARTS, ServerSettings


class State(Enum):
    """The life of a session."""

    CONNECTING = "the group service was asked"
    OPEN = "requests and indications pass"
    ENDING = "what was taken is still handed on; then it is over"
    OVER = "the group service knows it no longer; what was told is still written"


class Taken(msgspec.Struct, frozen=True, gc=False):
    """A request in the inbox."""

    request: b4.Request
    cost: int
    expires_at: int = NEVER


class ServerSession:
    """One session."""

    def __init__(
        self,
        client: ClientId,
        *,
        attempt: bytes,
        resumes: bool,
        principal: str,
        version: int,
        settings: ServerSettings,
        memory: Memory,
        window: int,
    ) -> None:
        self.client = client
        self.attempt = attempt  # of the client that opened it
        self.resumes = resumes  # whether it may outlive its stream
        self.principal = principal
        self.version = version
        self.state = State.CONNECTING
        self.stream: int | None = None
        self.backlog = Backlog(memory)
        self.credit = Credit(window)
        self.inbox: deque[Taken] = deque()
        self.taken = 0  # requests
        self.first_expiry = NEVER  # of the inbox; never too late
        self.groups: set[str] = set()  # in which it is a member, as it was told; only looked up, or sorted
        self.heard_at = 0
        self.parked_until = NEVER  # while there is no stream
        self.parting = False  # it asked to disconnect; no request may follow
        self.is_welcome = False  # it was told that it is open
        self.warned = False
        self.blocks = False  # senders to its groups are held
        self.blocks_since = 0  # meaningless while it does not
        self.farewell: Farewell | None = None  # to be written behind everything else
        self.busy = False  # a write is under way
        self.prompt: list[bytes] = []  # frames to be written before all others
        self._waits_for: tuple[ClientId, ...] = ()  # slow readers for which its next send is held
        self._owes_waits = False  # the client does not know that on this stream
        self.dropped_messages = 0
        self._told = (0, 0)  # taken and credit that the client knows
        self._progress, self._progress_at = -1, 0  # towards a large message
        self._sequence = 0  # of the last message that was handed on
        self._ticket = 0  # of the last message that was taken, as the client counts
        self._settings = settings
        self._reader = FrameReader(self._check)

    # --- the stream ------------------------------------------------------------------------------------------------

    def attach(self, stream: int, at: int) -> None:
        """Frames pass on this stream from now on."""
        self.stream, self.heard_at, self.busy, self.parked_until = stream, at, False, NEVER
        self._reader = FrameReader(self._check)
        self.prompt = []
        self._owes_waits = bool(self._waits_for)
        self.backlog.rewind()

    def detach(self, until: int) -> None:
        """There is no stream; the session waits for another one."""
        self.stream, self.parked_until, self.busy = None, until, False
        self._reader = FrameReader(self._check)
        self.backlog.rewind()

    def hoards(self, at: int, patience_us: int) -> bool:
        """Whether credit that all share lies unused for so long: nothing came of what it was given for."""
        credit = self.credit
        progress = credit.received + self._reader.held_bytes
        if not credit.extra or credit.granted - credit.received <= credit.window:
            progress = -1
        if progress < 0 or progress != self._progress:
            self._progress, self._progress_at = progress, at
        return at - self._progress_at >= patience_us

    def read(self, data: memoryview, place: int, at: int) -> int:
        """Take one frame; the place behind it. What a peer must not send changes nothing."""
        frame, behind = self._reader.next(data, place)
        if frame is not None:
            self._take(frame, at)
        return behind

    def _check(self, kind: FrameKind, size: int) -> None:
        """Before the body of a frame is collected."""
        if kind is FrameKind.BUNDLE:
            self._check_request(size)
        elif size > CLIENT_CONTROL_BYTES_MAX:
            raise RemoteProtocolError(f"a control message of {size} bytes")

    def _check_request(self, size: int) -> None:
        if self.parting:
            raise RemoteProtocolError("a request behind the last")
        self.credit.check(size)

    def _take(self, frame: Arrived, at: int) -> None:
        if frame.kind is FrameKind.BUNDLE:
            self._take_bundle(frame, at)
            return
        match client_codec.decode(frame.body):
            case JoinAsked(group=group):
                self._take_request(b4.Join(group), frame.size)
            case LeaveAsked(group=group):
                self._take_request(b4.Leave(group), frame.size)
            case PartAsked():
                self._take_request(b4.Disconnect(), frame.size)
                self.parting = True
            case Heard(count=count):
                self.backlog.acknowledge(count)
            case CreditWanted(cost=cost):
                self._want(cost)
            case ClientBeat():
                self._told = (-1, -1)  # answer, whatever it knows
            case other:
                raise RemoteProtocolError(f"{type(other).__name__} within a session")

    def _want(self, cost: int) -> None:
        if cost > min(self._settings.large_frame_bytes_max, self._settings.large_bytes_max):
            raise RemoteProtocolError(f"credit of {cost} bytes wanted")
        self.credit.asked = cost

    def _take_request(self, request: b4.Request, size: int) -> None:
        self._check_request(size)
        self.credit.received += size
        self.taken += 1
        self.inbox.append(Taken(request, size))

    def _take_bundle(self, frame: Arrived, at: int) -> None:
        body, expires_at = frame.body, NEVER
        if frame.flags & DEADLINE_FLAG:
            if len(body) < DEADLINE.size:
                raise RemoteProtocolError("half a deadline")
            expires_at = min(NEVER, at + DEADLINE.unpack_from(body)[0])
            body = body[DEADLINE.size :]
        if PINNED_PARTS * len(body) < memoryview(body.obj).nbytes:
            body = memoryview(bytes(body))  # do not keep a large buffer for a small request
        bundle, stamp = decode_bundle(body, payload_max=self._settings.message_bytes_max)
        if stamp is not None or bundle.sender != self.client or bundle.first_sequence <= self._ticket:
            raise RemoteProtocolError(f"a bundle of {bundle.sender} from {bundle.first_sequence} on, stamp {stamp}")
        self._settings.check_bundle(bundle)
        self._ticket = bundle.last_sequence
        self.credit.received += frame.size
        self.taken += 1
        self.first_expiry = min(self.first_expiry, expires_at)
        self.inbox.append(Taken(b4.Send(bundle), frame.size, expires_at))

    # --- requests --------------------------------------------------------------------------------------------------

    def hand_on(self) -> tuple[b4.Request, int]:
        """Take the next request, a send with its place in the session; and what the pool of credit gets back."""
        taken = self.inbox.popleft()
        request = taken.request
        if isinstance(request, b4.Send):
            bundle = request.bundle
            if bundle.first_sequence != self._sequence + 1:
                request = b4.Send(msgspec.structs.replace(bundle, first_sequence=self._sequence + 1))
            self._sequence += bundle.count
        return request, self.credit.hand_on(taken.cost)

    def drop(self, reason: str) -> int:
        """The next request, a send, is not handed on and its client hears why; what the pool of credit gets back."""
        taken = self.inbox.popleft()
        assert isinstance(taken.request, b4.Send)
        bundle = taken.request.bundle
        self.dropped_messages += bundle.count
        self.tell(DroppedTold(bundle.first_sequence, bundle.count, reason))
        return self.credit.hand_on(taken.cost)

    def expire(self, at: int) -> int:
        """Drop what is due, wherever it stands in the inbox; what the pool of credit gets back."""
        if at < self.first_expiry:
            return 0
        back, kept = 0, deque[Taken]()
        while self.inbox:
            if at >= self.inbox[0].expires_at:
                back += self.drop(EXPIRED)
            else:
                kept.append(self.inbox.popleft())
        self.inbox = kept
        self.first_expiry = min((taken.expires_at for taken in kept), default=NEVER)
        return back

    # --- telling ---------------------------------------------------------------------------------------------------

    def tell(self, message: ControlMessage) -> None:
        """One more counted frame, for this client alone."""
        frame = control_frame(server_codec.encode(message))
        self.backlog.push(Parcel((frame,), len(frame)))

    def wait_for(self, readers: tuple[ClientId, ...]) -> bool:
        """Its next send is held for these readers, or for none; whether that is news. Only the newest is told."""
        if readers == self._waits_for:
            return False
        self._waits_for, self._owes_waits = readers, True
        return True

    @property
    def owes_grant(self) -> bool:
        """Whether the client does not know all that was taken and granted."""
        return self._told != (self.taken, self.credit.granted) and self.is_welcome

    def write(self) -> list[bytes | memoryview]:
        """The next write, or nothing; ends with the farewell when all before it is written."""
        out: list[bytes | memoryview] = []
        if self.prompt:
            out += self.prompt
            self.prompt = []
        if self.owes_grant:
            out.append(self.grant())
        if self._owes_waits:
            self._owes_waits = False
            out.append(control_frame(server_codec.encode(HeldTold(tuple(map(str, self._waits_for))))))
        self.backlog.write(self._settings.write_bytes_max, out)
        if self.farewell and self.backlog.is_written:
            out.append(control_frame(server_codec.encode(self.farewell)))
        return out

    def grant(self) -> bytes:
        """What was taken and granted, as a frame."""
        return control_frame(server_codec.encode(Granted(*self.knows())))

    def knows(self) -> tuple[int, int]:
        """Taken and credit, told in another way than by `Granted`."""
        self._told = (self.taken, self.credit.granted)
        return self._told
