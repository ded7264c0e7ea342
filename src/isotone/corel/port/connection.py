"""One client at a server's port: what it asked and was not answered yet, and what may be said to it now.

Entries and large answers are made one after another, each when what was written before was taken: of a client that does
not read one frame waits here. Small answers are written at once; who leaves too much of them unread is sent away.
"""

from __future__ import annotations

from collections import deque

from isotone.core.contract import Action, Address, WriteStream
from isotone.core.errors import RemoteProtocolError
from isotone.corel.port import wire
from isotone.corel.port.events import NextWanted, WorkUnwanted, WorkWanted
from isotone.corel.port.offers import OfferRoom, Offers

AHEAD_BYTES = 64 * 1024
"""Something large is written only while less than this is on its way to the system."""
UNREAD_BYTES_MAX = 16 * 1024 * 1024
"""Small answers that one client has not read."""
OPEN_APPENDS_MAX = 4_096
OPEN_BYTES_MAX = 16 * 1024 * 1024
REQUESTS_MAX = 256
CREDIT_BYTES_MAX = 16 * 1024 * 1024
"""Of one follower: who gives more gives this much."""
LARGE_QUESTIONS = ("messages", "snapshot")


class Following:
    """A request to follow the log, with the bytes that its client allows."""

    __slots__ = ("credit", "frame", "is_asked", "wanted")

    def __init__(self, wanted: wire.Wanted) -> None:
        self.wanted = wanted
        self.credit = 0
        self.is_asked = False  # the log looks for the next frame
        self.frame: wire.Fed | None = None  # that was found, and has no room yet
        self.take(max(1, wanted.credit))

    def take(self, size: int) -> None:
        """The client used so much, or allows it."""
        self.credit = min(self.credit + size, CREDIT_BYTES_MAX)

    def sent(self, frame: wire.Fed) -> None:
        """Note that this frame is written, and take its size from the credit."""
        self.frame = None
        self.credit -= frame.size
        if isinstance(self.wanted, wire.Follow) and isinstance(frame, wire.Entries):
            self.wanted = wire.Follow(self.wanted.request, frame.first + len(frame.records), self.wanted.credit)


class Connection:
    """Of one client; what it says and wants goes into ``out``."""

    def __init__(self, stream: int, peer: Address, room: OfferRoom) -> None:
        self.stream, self.peer = stream, peer
        self.frames: wire.Frames[wire.ClientFrame] = wire.Frames(wire.CLIENT_FRAMES, wire.HELLO_BYTES_MAX)
        self.hello: wire.Hello | None = None  # of one that may use the log
        self.offers = Offers(room)
        self.open_appends: dict[int, int] = {}  # by request their size
        self._open_bytes = 0
        self._requests: dict[int, None] = {}  # that the log works on, or shall
        self._large: deque[wire.ReadRange | wire.Question] = deque()
        self._making = 0  # the large one that is being made
        self._following: dict[int, Following] = {}
        self._written = 0  # bytes since all that was written was taken
        self._unread = 0  # of them in small answers

    # --- appends -----------------------------------------------------------------------------------------------------

    def open(self, frame: wire.AppendMany) -> None:
        """Records came; who has more open than it was told breaks a rule."""
        for request, record in enumerate(frame.records, frame.request):
            if request in self.open_appends:
                raise RemoteProtocolError(f"request {request} is open already")
            self.open_appends[request] = len(record)
            self._open_bytes += len(record)
        is_alone = len(self.open_appends) == 1
        if len(self.open_appends) > OPEN_APPENDS_MAX or (self._open_bytes > OPEN_BYTES_MAX and not is_alone):
            raise RemoteProtocolError(f"more than {OPEN_APPENDS_MAX} appends or {OPEN_BYTES_MAX} bytes are open")

    def answered(self, request: int) -> bool:
        """An append is; whether it was open."""
        size = self.open_appends.pop(request, None)
        self._open_bytes -= size or 0
        return size is not None

    # --- other requests ----------------------------------------------------------------------------------------------

    def begin(self, request: int) -> bool:
        """Another request; False if there are too many."""
        if request in self._requests or request in self._following:
            raise RemoteProtocolError(f"request {request} is open already")
        if len(self._requests) + len(self._following) >= REQUESTS_MAX:
            return False
        self._requests[request] = None
        return True

    def work(self, frame: wire.ReadRange | wire.WaitFor | wire.Question | wire.Reconfigure, out: list[Action]) -> None:
        """Have it answered; what may be large when its turn comes."""
        match frame:
            case wire.ReadRange():
                self._large.append(frame)
            case wire.Question(what=what) if what in LARGE_QUESTIONS:
                self._large.append(frame)
            case _:
                out.append(WorkWanted(self.stream, frame))
        self.go_on(out)

    def done(self, request: int, answer: wire.Said, out: list[Action]) -> None:
        """A request is answered. Of one who follows: nothing more comes."""
        self.offers.written(request)
        if request not in self._requests and request not in self._following:
            return
        self._requests.pop(request, None)
        self._following.pop(request, None)
        if request == self._making:
            self._making = 0
            self._write(answer, out)
        else:
            self.say(answer, out)
        self.go_on(out)

    def follow(self, wanted: wire.Wanted, out: list[Action]) -> None:
        """From here on, as far as credit goes."""
        del self._requests[wanted.request]
        self._following[wanted.request] = Following(wanted)
        self.go_on(out)

    def taken(self, request: int, size: int, out: list[Action]) -> None:
        """Who follows used so much."""
        if (following := self._following.get(request)) is not None:
            following.take(size)
            self.go_on(out)

    def found(self, request: int, frame: wire.Fed, out: list[Action]) -> None:
        """The next frame for one who follows."""
        if (following := self._following.get(request)) is not None:
            following.frame, following.is_asked = frame, False
            self.go_on(out)

    def cancel(self, request: int, out: list[Action]) -> None:
        """Nobody waits for it any more."""
        if request in self._requests or request in self._following:
            self._requests.pop(request, None)
            self._following.pop(request, None)
            self._large = deque(each for each in self._large if each.request != request)
            if request == self._making:
                self._making = 0
            self.offers.written(request)
            out.append(WorkUnwanted(self.stream, request))
            self.go_on(out)

    def end(self, out: list[Action]) -> None:
        """Forget what the client asked for: its stream is closed."""
        self.offers.end()
        out += [WorkUnwanted(self.stream, request) for request in (*self._requests, *self._following)]
        self._requests.clear()
        self._following.clear()

    # --- writing -----------------------------------------------------------------------------------------------------

    def writable(self, out: list[Action]) -> None:
        """All that was written was taken."""
        self._written = self._unread = 0
        self.go_on(out)

    def tell(self, frame: wire.Said, out: list[Action]) -> None:
        """Write the last frame of this connection."""
        self._write(frame, out)

    def say(self, frame: wire.Said, out: list[Action]) -> None:
        """Something small, at once."""
        self._unread += self._write(frame, out)
        if self._unread > UNREAD_BYTES_MAX:
            raise RemoteProtocolError(f"more than {UNREAD_BYTES_MAX} bytes of answers are not read")

    def go_on(self, out: list[Action]) -> None:
        """Write what waits, and have more of it made, as far as there is room."""
        for request, following in list(self._following.items()):
            if not self._has_room:
                return
            if following.frame is not None:
                frame = following.frame
                following.sent(frame)
                self._write(frame, out)
                self._following[request] = self._following.pop(request)  # the others come first next time
            if following.credit > 0 and not following.is_asked and following.frame is None and self._has_room:
                following.is_asked = True
                out.append(NextWanted(self.stream, following.wanted))
        if self._large and not self._making and self._has_room:
            frame_wanted = self._large.popleft()
            self._making = frame_wanted.request
            out.append(WorkWanted(self.stream, frame_wanted))

    @property
    def _has_room(self) -> bool:
        return self._written < AHEAD_BYTES

    def _write(self, frame: wire.Said, out: list[Action]) -> int:
        data = wire.framed(frame)
        self._written += len(data)
        out.append(WriteStream(self.stream, (data,)))
        return len(data)
