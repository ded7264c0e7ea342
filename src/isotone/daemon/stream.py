"""One byte stream over a socket that never blocks: vectored writes, and a close that loses nothing.

After `close` what was written is flushed, the peer is told that nothing follows, and what it still sends is read and
dropped until it closes too or the patience is over: a socket that is closed with unread bytes would reset the stream
and could take the last words with it.

A peer that ended without reading all that it was told resets the stream, and the next write fails; what it sent before
is here all the same. So a write error only ends the writing: what came is read to its end, and then the stream ends.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from isotone.core.contract import Address

READ_BYTES = 256 * 1024
READS_MAX = 4  # of one stream in one wake-up
VECTOR_MAX = 512
LINGER_SECONDS = 2.0
FLUSH_SECONDS = 10.0
GATHERED_BYTES_MAX = 16 * 1024
"""Small writes of one wake-up go to the kernel in one call: an answer and what it leads to wake the peer once."""


class AnyStream(Protocol):
    """What all streams have in common."""

    number: int
    peer: Address
    door: str

    @property
    def waiting_bytes(self) -> int:
        """Written, and not taken by the kernel yet."""
        ...

    def begin(self) -> None:
        """Read from now on."""

    def write(self, data: Sequence[bytes | memoryview]) -> bool:
        """Write; says whether all was taken at once."""
        ...

    def gather(self, data: Sequence[bytes | memoryview]) -> bool:
        """The same, but a little may wait for `flush`, which has to follow."""
        ...

    def flush(self) -> None:
        """Write what was gathered."""

    def close(self) -> None:
        """After what was written is flushed."""

    def pause(self) -> None:
        """Stand still, as far as that is possible."""

    def resume(self) -> None:
        """Go on."""

    def pause_reading(self) -> None:
        """Read nothing for now."""

    def resume_reading(self) -> None:
        """Read again."""

    def abort(self) -> None:
        """At once, without a word."""


class StreamOwner:
    """What a stream tells; each may close it."""

    def received(self, stream: AnyStream, data: bytes) -> None:
        """Bytes came."""

    def writable(self, stream: AnyStream) -> None:
        """All was taken."""

    def ended(self, stream: AnyStream, reason: str) -> None:
        """It is gone."""

    @classmethod
    def deaf(cls) -> StreamOwner:
        """One who does not care any more."""
        return StreamOwner()


class Stream:
    """``owner`` hears what happens; see `StreamOwner`."""

    __slots__ = (
        "_broken",
        "_closing",
        "_deaf",
        "_done",
        "_handle",
        "_loop",
        "_out",
        "_owes_word",
        "_owner",
        "_paused",
        "_reading",
        "_reads_more",
        "_socket",
        "_waiting_bytes",
        "_writing",
        "door",
        "number",
        "peer",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, number: int, peer: Address, owner: StreamOwner
    ) -> None:
        self.number, self.peer = number, peer
        self.door = ""  # of the listener; empty for those that we opened
        self._waiting_bytes = 0  # invariant: of _out
        self._loop, self._socket, self._owner = loop, sock, owner
        self._out: deque[memoryview] = deque()
        self._writing = False  # the loop tells when the socket takes more
        self._reading = False
        self._reads_more = False  # there was more than one wake-up reads
        self._paused = False
        self._deaf = False  # the owner wants to hear nothing for now
        self._closing = False
        self._broken = ""  # why nothing can be written any more; what is written then counts as taken
        self._done = False
        self._owes_word = False  # a write was not taken, and the owner has not heard that it is now
        self._handle: asyncio.TimerHandle | None = None

    @property
    def waiting_bytes(self) -> int:
        """Written, and not taken by the kernel yet."""
        return self._waiting_bytes

    # --- what the owner asks ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Read from now on."""
        self._read_on()

    def write(self, data: Sequence[bytes | memoryview]) -> bool:
        """Write; says whether all was taken at once."""
        if self._closing or self._done:
            return False
        if self._broken:
            return True  # nobody is to wait for it
        self._take(data)
        self.flush()
        self._owes_word = bool(self._out) and not self._done
        return not self._out and not self._done

    def gather(self, data: Sequence[bytes | memoryview]) -> bool:
        """The same, but a little may wait for `flush`, which has to follow; it counts as taken."""
        if self._writing or self._paused or self._closing or self._done or self._broken:
            return self.write(data)
        self._take(data)
        return self._waiting_bytes <= GATHERED_BYTES_MAX or self.write(())

    def _take(self, data: Sequence[bytes | memoryview]) -> None:
        for part in data:
            view = memoryview(part)
            if view.nbytes:
                self._out.append(view.cast("B") if view.format != "B" else view)
                self._waiting_bytes += view.nbytes

    def flush(self) -> None:
        """Write what was gathered."""
        if self._out and not (self._writing or self._paused or self._done):
            self._flush()

    def close(self) -> None:
        """After what was written is flushed."""
        if self._closing or self._done:
            return
        self._closing = True
        if self._out:
            self._handle = self._loop.call_later(FLUSH_SECONDS, self.end, "closed before all was taken")
        else:
            self._say_end()

    def pause(self) -> None:
        """Neither read nor write, as if the network stood still."""
        if not self._paused and not self._done:
            self._paused = True
            self._unwatch()

    def resume(self) -> None:
        """Go on."""
        if self._paused and not self._done:
            self._paused = False
            self._read_on()
            if self._out:
                self._on_writable()

    def pause_reading(self) -> None:
        """Read nothing for now; writes go on."""
        self._deaf = True
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket.fileno())

    def resume_reading(self) -> None:
        """Read again."""
        self._deaf = False
        self._read_on()

    def end(self, reason: str) -> None:
        """At once, and tell the owner."""
        if not self._done:
            self.abort()
            self._owner.ended(self, reason)

    def abort(self) -> None:
        """At once, without a word."""
        self._done = True
        self._unwatch()
        if self._handle is not None:
            self._handle.cancel()
        self._socket.close()
        self._out.clear()
        self._waiting_bytes = 0

    # --- what the loop tells ---------------------------------------------------------------------------------------

    def _read_on(self) -> None:
        if not (self._reading or self._paused or self._done or (self._deaf and not self._closing)):
            self._reading = True
            self._loop.add_reader(self._socket.fileno(), self._on_readable)
            if self._broken:
                self._read_soon()

    def _unwatch(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._socket.fileno())
        if self._writing:
            self._loop.remove_writer(self._socket.fileno())
        self._reading = self._writing = False

    def _on_readable(self) -> None:
        """Read until nothing is left: some loops do not tell again of a stream that was reset behind its last bytes."""
        for _ in range(READS_MAX):
            try:
                data = self._socket.recv(READ_BYTES)
            except (BlockingIOError, InterruptedError):
                if self._broken:
                    self.end(self._broken)
                return
            except OSError as error:
                self.end(self._broken or error.strerror or str(error))
                return
            if not data:
                self.end(self._broken or ("closed" if self._closing else "closed by peer"))
                return
            if not self._closing:
                self._owner.received(self, data)
            if not self._reading:
                return
        self._read_soon()

    def _read_soon(self) -> None:
        if not self._reads_more:
            self._reads_more = True
            self._loop.call_soon(self._read_more)

    def _read_more(self) -> None:
        self._reads_more = False
        if self._reading:
            self._on_readable()

    def _on_writable(self) -> None:
        self._flush()
        if not self._out:
            self._tell_taken()

    def _flush(self) -> None:
        out = self._out
        try:
            while out:
                vector = [out[place] for place in range(min(len(out), VECTOR_MAX))]
                self._written(self._socket.sendmsg(vector))
        except (BlockingIOError, InterruptedError):
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._socket.fileno(), self._on_writable)
            return
        except OSError as error:
            self._break(error.strerror or str(error))
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._socket.fileno())
        if self._broken:
            return
        if self._closing:
            self._say_end()

    def _break(self, reason: str) -> None:
        """Nothing can be written any more: forget what waits, read what came, and end."""
        self._broken = reason
        self._out.clear()
        self._waiting_bytes = 0
        if self._closing:
            self._loop.call_soon(self.end, reason)
            return
        self._loop.call_soon(self._tell_taken)
        if self._reading:
            self._read_soon()

    def _tell_taken(self) -> None:
        if self._owes_word and not (self._closing or self._done):
            self._owes_word = False
            self._owner.writable(self)

    def _written(self, size: int) -> None:
        self._waiting_bytes -= size
        out = self._out
        while size:
            first = out.popleft()
            if first.nbytes > size:
                out.appendleft(first[size:])
                return
            size -= first.nbytes

    def _say_end(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._loop.call_soon(self.end, "closed")
            return
        self._handle = self._loop.call_later(LINGER_SECONDS, self.end, "closed")
        self._read_on()
