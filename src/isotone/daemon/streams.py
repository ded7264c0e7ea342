"""All byte streams of one daemon: listeners, streams that others opened (numbers below 0) and that we opened (from 0).

Every write is answered by `StreamWritable` once it was taken: by the kernel, or, if it is little, by the stream until
the end of the wake-up. Bytes that wait are bounded by what writers may write without that answer. There is a bound on
accepted streams; the next caller is turned away.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from isotone.core.addresses import UNIX, join_address
from isotone.core.contract import Address, Event, StreamClosed, StreamOpened, StreamReceived, StreamWritable
from isotone.core.errors import LocalProtocolError
from isotone.daemon.addresses import AddressBook, SocketAddress, family_of
from isotone.daemon.sockets import enlarge, not_bound
from isotone.daemon.stream import AnyStream, Stream
from isotone.daemon.tls import Certificate, TlsOwner, TlsStream, why_refused

ACCEPTS_MAX = 64  # in one wake-up
BACKLOG = 1024
CONNECT_SECONDS = 10.0
SILENCE_MS = 30_000
UNIX_BUFFER_BYTES = 1024 * 1024
"""Room for several bundles; that of TCP grows by itself."""
RECEIVE_BYTES = 1024 * 1024
"""Of a listener: what a program sent before it ended is lost if it is not here yet when it does."""
RECEIVE_LIMIT = Path("/proc/sys/net/core/rmem_max")
WRITTEN_BYTES_MAX = 64 * 1024 * 1024
"""An automaton that writes so much without waiting for `StreamWritable` is wrong."""
ACCEPT_AGAIN_SECONDS = 0.5
HANDSHAKES_MAX = 256

Tell = Callable[[Event], None]


class StreamCounters(msgspec.Struct):
    """What happened to streams; everything only grows."""

    streams_accepted: int = 0
    streams_opened: int = 0
    streams_closed: int = 0
    streams_turned_away: int = 0
    stream_bytes_received: int = 0
    stream_bytes_written: int = 0


class Streams(TlsOwner):
    """``tell`` gets every event; ``now`` reads the daemon's clock."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        book: AddressBook,
        *,
        tell: Tell,
        now: Callable[[], int],
        streams_max: int,
        handshakes_max: int = HANDSHAKES_MAX,
    ) -> None:
        self.handshakes_max = handshakes_max  # of TLS, at a time; the oldest makes place for one more
        self.counters = StreamCounters()
        self.by_number: dict[int, AnyStream] = {}
        self.is_cut: Callable[[Address], bool] | None = None  # by the faults that somebody set
        self.on_certificate: Callable[[Address, Certificate], object] | None = None
        self.on_gone: Callable[[Address], object] | None = None
        self.on_tls_refused: Callable[[str, str, Address], object] | None = None  # reason, text, who
        self._loop, self._book, self._tell, self._now = loop, book, tell, now
        self._streams_max = streams_max
        self._connecting: dict[int, tuple[socket.socket, asyncio.TimerHandle | None]] = {}
        self._listeners: list[tuple[socket.socket, Address, str]] = []
        self._contexts: dict[str, ssl.SSLContext] = {}  # of doors where TLS is spoken
        self._handshakes: dict[TlsStream, None] = {}  # and those that were refused and are not gone yet
        self._last_accepted = 0
        self._gathering: dict[AnyStream, None] = {}  # to be flushed

    # --- listening -------------------------------------------------------------------------------------------------

    def listen(self, sock: socket.socket, address: Address, door: str) -> None:
        """Accept who calls there; ``door`` says for whom that is."""
        self._listeners.append((sock, address, door))
        self._loop.add_reader(sock.fileno(), self._on_call, sock, address, door)

    def listen_tls(self, sock: socket.socket, address: Address, door: str, context: ssl.SSLContext) -> None:
        """The same for clients that speak TLS."""
        self._contexts[door] = context
        self.listen(sock, address, door)

    def stop_listening(self) -> None:
        """Nobody new."""
        for stream in self._handshakes:
            stream.abort()
        self._handshakes.clear()
        for sock, address, _ in self._listeners:
            self._loop.remove_reader(sock.fileno())
            sock.close()
            if address.startswith(UNIX):
                Path(address.removeprefix(UNIX)).unlink(missing_ok=True)
        self._listeners.clear()

    def close(self) -> None:
        """All at once, without a word."""
        self.stop_listening()
        for sock, handle in self._connecting.values():
            self._give_up(sock, handle)
        self._connecting.clear()
        for stream in list(self.by_number.values()):
            stream.abort()
        self.by_number.clear()

    def _on_call(self, listener: socket.socket, address: Address, door: str) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                sock, source = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptors, no memory: look again a little later
                self._loop.remove_reader(listener.fileno())
                self._loop.call_later(ACCEPT_AGAIN_SECONDS, self._accept_again, listener, address, door)
                return
            if len(self.by_number) + len(self._handshakes) >= self._streams_max:
                self.counters.streams_turned_away += 1
                sock.close()
                continue
            peer = address if address.startswith(UNIX) else self._book.text(source)
            if door in self._contexts:
                self._shake_hands(sock, peer, door)
                continue
            self._last_accepted -= 1
            self.counters.streams_accepted += 1
            self._begin(sock, self._last_accepted, peer, door)

    def _shake_hands(self, sock: socket.socket, peer: Address, door: str) -> None:
        tune(sock)
        if len(self._handshakes) >= self.handshakes_max:
            oldest = next(iter(self._handshakes))
            oldest.abort()
            del self._handshakes[oldest]
            self.counters.streams_turned_away += 1
        stream = TlsStream(self._loop, sock, self, peer=peer, door=door, context=self._contexts[door])
        self._handshakes[stream] = None
        stream.begin()

    def entered(self, stream: TlsStream) -> bool:
        """A client came through the handshake of TLS; False when there is no place for it."""
        self._handshakes.pop(stream, None)
        if len(self.by_number) >= self._streams_max or not self._listeners:
            self.counters.streams_turned_away += 1
            return False
        self._last_accepted -= 1
        self.counters.streams_accepted += 1
        stream.number = self._last_accepted
        if stream.certificate and self.on_certificate is not None:
            self.on_certificate(stream.peer, stream.certificate)
        self.by_number[stream.number] = stream
        self._tell(StreamOpened(self._now(), stream.number, stream.peer, accepted=True))
        return True

    def turned_away(self, stream: TlsStream, error: Exception) -> None:
        """A caller did not come through it."""
        self.counters.streams_turned_away += 1
        if self.on_tls_refused is not None:
            self.on_tls_refused(*why_refused(error), stream.peer)

    def _accept_again(self, listener: socket.socket, address: Address, door: str) -> None:
        if (listener, address, door) in self._listeners:
            self._loop.add_reader(listener.fileno(), self._on_call, listener, address, door)

    def _begin(self, sock: socket.socket, number: int, peer: Address, door: str) -> None:
        tune(sock)
        stream = self.by_number[number] = Stream(self._loop, sock, number, peer, self)
        stream.door = door
        self._tell(StreamOpened(self._now(), number, peer, number < 0))
        if self.is_cut is not None and self.is_cut(peer):
            stream.pause()
        if self.by_number.get(number) is stream:
            stream.begin()

    # --- what automata ask -----------------------------------------------------------------------------------------

    def open(self, number: int, destination: Address) -> None:
        """Connect to an address."""
        if number < 0 or number in self.by_number or number in self._connecting:
            raise LocalProtocolError(f"stream {number} is in use, or not for automata to choose")
        where = self._book.where(destination)
        if where is None or (self.is_cut is not None and self.is_cut(destination)):
            self._loop.call_soon(self._refused, number, "no such address" if where is None else "cut by a fault")
            self._connecting[number] = (socket.socket(), None)
            return
        sock = socket.socket(self._book.family, socket.SOCK_STREAM)
        sock.setblocking(False)
        handle = self._loop.call_later(CONNECT_SECONDS, self._refused, number, "connect timed out")
        self._connecting[number] = (sock, handle)
        self._connect(sock, number, destination, where)

    def _connect(self, sock: socket.socket, number: int, destination: Address, where: SocketAddress) -> None:
        try:
            sock.connect(where)
        except BlockingIOError:
            pass
        except OSError as error:
            self._loop.call_soon(self._refused, number, error.strerror or str(error))
            return
        self._loop.add_writer(sock.fileno(), self._on_connected, number, destination)

    def _on_connected(self, number: int, destination: Address) -> None:
        sock, handle = self._connecting.pop(number)
        self._loop.remove_writer(sock.fileno())
        if handle is not None:
            handle.cancel()
        problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            sock.close()
            self._tell(StreamClosed(self._now(), number, os.strerror(problem)))
            return
        self.counters.streams_opened += 1
        self._begin(sock, number, destination, "")

    def _refused(self, number: int, reason: str) -> None:
        if number in self._connecting:
            self._give_up(*self._connecting.pop(number))
            self._tell(StreamClosed(self._now(), number, reason))

    def _give_up(self, sock: socket.socket, handle: asyncio.TimerHandle | None) -> None:
        if handle is not None:
            handle.cancel()
        self._loop.remove_writer(sock.fileno())
        sock.close()

    def write(self, number: int, data: Sequence[bytes | memoryview]) -> None:
        """Write; a stream that is gone swallows it, since its end may not have been heard yet."""
        stream = self.by_number.get(number)
        if stream is None:
            return
        self._written(stream, data, stream.write(data))

    def gather(self, number: int, data: Sequence[bytes | memoryview]) -> None:
        """The same, but what is little may wait for `flush`."""
        stream = self.by_number.get(number)
        if stream is not None:
            self._gathering[stream] = None
            self._written(stream, data, stream.gather(data))

    def flush(self) -> None:
        """Hand to the kernel what was gathered."""
        gathering, self._gathering = self._gathering, {}
        for stream in gathering:
            stream.flush()

    @property
    def gathering(self) -> int:
        """How many streams wait for that."""
        return len(self._gathering)

    def _written(self, stream: AnyStream, data: Sequence[bytes | memoryview], taken: bool) -> None:
        number = stream.number
        self.counters.stream_bytes_written += sum(map(len, data))
        if taken:
            self._tell(StreamWritable(self._now(), number))
        elif stream.waiting_bytes > WRITTEN_BYTES_MAX:
            raise LocalProtocolError(f"stream {number}: {WRITTEN_BYTES_MAX} bytes written without waiting")

    def close_stream(self, number: int) -> None:
        """Close after what was written arrived."""
        stream = self.by_number.get(number)
        if stream is not None:
            stream.close()
        elif number in self._connecting:
            self._loop.call_soon(self._refused, number, "closed")

    @property
    def waiting_bytes(self) -> int:
        """Written, and not taken by the kernel yet."""
        return sum(stream.waiting_bytes for stream in self.by_number.values())

    # --- what streams tell -----------------------------------------------------------------------------------------

    def received(self, stream: AnyStream, data: bytes) -> None:
        """Bytes came."""
        self.counters.stream_bytes_received += len(data)
        self._tell(StreamReceived(self._now(), stream.number, data))

    def writable(self, stream: AnyStream) -> None:
        """All was taken."""
        self._tell(StreamWritable(self._now(), stream.number))

    def ended(self, stream: AnyStream, reason: str) -> None:
        """It is gone."""
        if isinstance(stream, TlsStream):
            self._handshakes.pop(stream, None)
        if self.by_number.get(stream.number) is stream:  # one that never entered has no number
            del self.by_number[stream.number]
            self.counters.streams_closed += 1
            self._tell(StreamClosed(self._now(), stream.number, reason))
            if self.on_gone is not None:
                self.on_gone(stream.peer)


# --- sockets -------------------------------------------------------------------------------------------------------


def tune(sock: socket.socket) -> None:
    """No delay for small writes; a peer that answers nothing at all is given up."""
    sock.setblocking(False)
    if sock.family == socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNIX_BUFFER_BYTES)
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MS)


def bind_tcp(host: str, port: int) -> tuple[socket.socket, Address]:
    """A listener, and the address that it got."""
    sock = socket.socket(family_of(host), socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if _may_receive(RECEIVE_BYTES):
            enlarge(sock, socket.SO_RCVBUF, RECEIVE_BYTES)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        sock.close()
        raise not_bound(f"cannot listen on {join_address(host, port)}", error) from error
    return sock, join_address(host, sock.getsockname()[1])


def _may_receive(size: int) -> bool:
    """Whether a buffer of this size can be had. A smaller one would be worse: it would not grow by itself any more."""
    if os.geteuid() == 0:
        return True
    try:
        return int(RECEIVE_LIMIT.read_text(encoding="ascii")) >= size
    except (OSError, ValueError):
        return False


def bind_unix(path: Path, mode: int | None = None) -> tuple[socket.socket, Address]:
    """A listener at a path; what an earlier process left there is removed, what a living one has is not.

    ``mode``: who may connect; without it, that is up to the umask.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        if path.exists() and not path.is_socket():
            raise FileExistsError("there is something else, which is no socket")
        if path.is_socket() and not _is_answered(path):
            path.unlink(missing_ok=True)
        sock.bind(str(path))
        if mode is not None:
            path.chmod(mode)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise not_bound(f"cannot listen on {path}", error) from error
    return sock, Address(f"{UNIX}{path}")


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
