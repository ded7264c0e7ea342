"""The datagrams of one daemon: one UDP socket for all peers, and one more that hears the multicast group.

Several buffers are read in one wake-up; what may be one event with a segment size is one. What the kernel does not take
at once waits in a bounded queue and is then dropped, as a network would. Answers that nobody listens at an address come
by the socket's error queue.

Implements: [Spread 3.5]: unreliable datagrams, and multicast on the LAN where there is one, are all that is needed.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import msgspec

from isotone.core.addresses import split_address
from isotone.core.contract import Address
from isotone.core.errors import MachineError
from isotone.daemon import offload
from isotone.daemon.addresses import AddressBook, SocketAddress, family_of
from isotone.daemon.offload import Control, Parts

READS_MAX = 16  # of full buffers in one wake-up
PACKETS_MAX = 128  # the same of small ones
BUFFER_BYTES = 65_536
WAITING_BYTES_MAX = 4 * 1024 * 1024
REFUSALS_MAX = 64
LARGE_BUFFER_BYTES = 4 * 1024 * 1024
TRAINLESS_MAX = 256
"""If there are more addresses that take no trains, none gets any."""
IP_RECVERR, IPV6_RECVERR = 11, 25
IP_MULTICAST_ALL = 49
"""Whether a socket hears groups that others of its machine joined."""
_ERROR = struct.Struct("=I")

Received = Callable[[Address, bytes, int], None]
Refused = Callable[[Address], None]


class DatagramCounters(msgspec.Struct):
    """What went through the sockets; everything only grows."""

    datagrams_sent: int = 0
    datagrams_received: int = 0
    datagram_bytes_sent: int = 0
    datagram_bytes_received: int = 0
    datagram_writes: int = 0
    datagram_reads: int = 0
    datagrams_dropped: int = 0  # the kernel took no more, and the queue was full
    datagrams_unsent: int = 0  # the kernel refused them
    datagrams_unreachable: int = 0  # to what is no address, or a name that is not known yet
    refusals: int = 0  # answers that nobody listens


class _Runs:
    """What was read in one wake-up: consecutive packets of one sender and one size, of which the last may be shorter.

    At full speed a run has a dozen packets and the token behind them, and is one event instead of as many.
    """

    __slots__ = ("datagrams", "end", "found", "reads")

    def __init__(self) -> None:
        self.found: list[tuple[SocketAddress, int, int, int]] = []  # sender, begin, end, size of each packet
        self.end = self.reads = self.datagrams = 0

    def add(self, source: SocketAddress, size: int, segment: int) -> None:
        """A buffer of packets of this size; empty ones say nothing."""
        self.reads += 1
        self.datagrams += -(-size // segment) if segment else 1
        if not size:
            return
        start, self.end = self.end, self.end + size
        if self.found:
            before, begin, end, width = self.found[-1]
            fits = segment == width or (size == segment < width)
            if fits and before == source and not (end - begin) % width:
                self.found[-1] = (source, begin, self.end, width)
                return
        self.found.append((source, start, self.end, segment))


class Datagrams:
    """The sockets, once bound. ``received`` gets each buffer, which is never used again; then ``drained`` is called."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        *,
        received: Received,
        refused: Refused,
        drained: Callable[[], None] | None = None,
        use_offload: bool = True,
    ) -> None:
        self.counters = DatagramCounters()
        self.sends_trains = use_offload and offload.can_segment(sock)
        self.receives_trains = use_offload and offload.join_received(sock)
        self.book = AddressBook(loop, socket.AddressFamily(sock.family))
        self._loop, self._socket = loop, sock
        self._received, self._refused, self._drained = received, refused, drained
        self._buffer = bytearray(READS_MAX * BUFFER_BYTES)
        self._last_room = (READS_MAX - 1) * BUFFER_BYTES
        self._view = memoryview(self._buffer)
        self._waiting: deque[tuple[SocketAddress, list[Any], Control, int]] = deque()
        self._waiting_bytes = 0
        self._joined_of: Sequence[Parts] = ()  # what was sent last, and how it went
        self._joined: list[tuple[list[bytes | memoryview], int, int]] = []
        self._group_socket: socket.socket | None = None
        self._group: SocketAddress | None = None
        self._trainless: dict[SocketAddress, None] = {}  # where the kernel takes no trains, be it for the way there
        self._closed = False
        is_ipv6 = sock.family == socket.AF_INET6
        hears_errors = (socket.IPPROTO_IPV6, IPV6_RECVERR) if is_ipv6 else (socket.IPPROTO_IP, IP_RECVERR)
        with suppress(OSError):  # then nobody tells of closed ports, and silence has to
            sock.setsockopt(*hears_errors, 1)
        loop.add_reader(sock.fileno(), self._on_readable)

    def join(self, hearing: socket.socket, group: str) -> None:
        """Hear and use a multicast group by the socket that `join_group` made."""
        self._group_socket = hearing
        if self.receives_trains:
            offload.join_received(hearing)
        self._group = split_address(group)
        self._loop.add_reader(hearing.fileno(), self._on_group_readable)

    @property
    def has_group(self) -> bool:
        """Whether one packet reaches the whole LAN."""
        return self._group is not None

    def close(self) -> None:
        """Nothing is sent or heard any more."""
        if self._closed:
            return
        self._closed = True
        for each in (self._socket, self._group_socket):
            if each is not None:
                self._loop.remove_reader(each.fileno())
                self._loop.remove_writer(each.fileno())
                each.close()
        self._waiting.clear()

    # --- sending ---------------------------------------------------------------------------------------------------

    def send(self, destination: Address, datagrams: Sequence[Parts]) -> None:
        """To one address."""
        where = self.book.where(destination)
        if where is None:
            self.counters.datagrams_unreachable += len(datagrams)
        else:
            self._send(where, datagrams)

    def send_to_group(self, datagrams: Sequence[Parts]) -> None:
        """To all on the LAN."""
        assert self._group is not None
        self._send(self._group, datagrams)

    def _send(self, where: SocketAddress, datagrams: Sequence[Parts]) -> None:
        if self._closed:
            return
        if len(datagrams) == 1 or not self.sends_trains or where in self._trainless:
            for datagram in datagrams:
                parts = list(datagram) if len(datagram) <= offload.PARTS_MAX else [b"".join(datagram)]
                self._write(where, parts, [], 1)
            return
        if datagrams is not self._joined_of:  # one member after the other gets the same packets
            self._joined_of, self._joined = datagrams, list(offload.trains(datagrams))
        for parts, size, count in self._joined:
            self._write(where, parts, offload.segment_control(size) if count > 1 else [], count)

    def _write(self, where: SocketAddress, parts: list[Any], control: Control, count: int) -> None:
        if self._waiting:
            self._wait(where, parts, control, count)
            return
        for _ in range(2):  # the first answer may be an error of an earlier packet
            try:
                sent = self._socket.sendmsg(parts, control, 0, where)
            except BlockingIOError:
                self._wait(where, parts, control, count)
                return
            except OSError as error:
                if self._is_of_another(error):
                    continue
                self._unsent(where, parts, control, count, error)
                return
            counters = self.counters
            counters.datagram_writes += 1
            counters.datagrams_sent += count
            counters.datagram_bytes_sent += sent
            return
        self.counters.datagrams_unsent += count

    def _is_of_another(self, error: OSError) -> bool:
        if error.errno not in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH):
            return False
        self._loop.call_soon(self._rearm)  # nobody reads this error any more, but the loop may have seen it
        return True

    def _unsent(self, where: SocketAddress, parts: list[Any], control: Control, count: int, error: OSError) -> None:
        """What the kernel does not want as a train goes packet by packet, now and from now on, to that address."""
        if control and error.errno in (errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.EOPNOTSUPP):
            self._trainless[where] = None
            if len(self._trainless) > TRAINLESS_MAX:
                self.sends_trains = False
                self._trainless.clear()
            (size,) = struct.unpack("H", control[0][2])
            whole = b"".join(parts)
            for begin in range(0, len(whole), size):
                self._write(where, [whole[begin : begin + size]], [], 1)
            return
        self.counters.datagrams_unsent += count

    def _wait(self, where: SocketAddress, parts: list[Any], control: Control, count: int) -> None:
        size = sum(map(len, parts))
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            self.counters.datagrams_dropped += count
            return
        if not self._waiting:
            self._loop.add_writer(self._socket.fileno(), self._on_writable)
        self._waiting.append((where, parts, control, count))
        self._waiting_bytes += size

    def _on_writable(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
        self._loop.remove_writer(self._socket.fileno())
        for each in waiting:
            self._write(*each)

    def read(self) -> None:
        """Hand on what came, without waiting for the loop to say so."""
        self._on_readable()
        if self._group_socket is not None:
            self._on_group_readable()

    # --- receiving -------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if self._closed:
            return
        try:
            if not self._read(self._socket):
                self._rearm()  # woken by an error that somebody else has read
        except OSError:
            self._rearm()

    def _on_group_readable(self) -> None:
        assert self._group_socket is not None
        if not self._closed:
            with suppress(OSError):
                self._read(self._group_socket)

    def _read(self, sock: socket.socket) -> bool:
        """Hand on all that waits, up to a bound, and then say that it was all; whether there was anything."""
        runs = _Runs()
        try:
            while runs.reads < PACKETS_MAX and runs.end <= self._last_room:
                room = self._view[runs.end : runs.end + BUFFER_BYTES]
                size, control, _, source = sock.recvmsg_into([room], offload.RECEIVE_CONTROL_BYTES)
                runs.add(source, size, offload.segment_size(control, size) if control else size)
        except BlockingIOError:
            pass
        finally:
            self._hand_on(runs)
        return runs.reads > 0

    def _hand_on(self, runs: _Runs) -> None:
        counters, text = self.counters, self.book.text
        counters.datagram_reads += runs.reads
        counters.datagrams_received += runs.datagrams
        counters.datagram_bytes_received += runs.end
        for source, start, end, segment in runs.found:
            self._received(text(source), bytes(self._view[start:end]), segment)
        if runs.found and self._drained is not None:
            self._drained()

    def _rearm(self) -> None:
        """Read what went wrong. Some loops stop watching a socket that had an error, so it is watched anew."""
        self._read_errors()
        if not self._closed:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def _read_errors(self) -> None:
        for _ in range(REFUSALS_MAX):
            if self._closed:
                return
            try:
                _, control, _, destination = self._socket.recvmsg(64, 512, socket.MSG_ERRQUEUE)
            except OSError:
                return
            for _, kind, data in control:
                if kind in (IP_RECVERR, IPV6_RECVERR) and _ERROR.unpack_from(data)[0] == errno.ECONNREFUSED:
                    self.counters.refusals += 1
                    self._refused(self.book.text(destination))


# --- sockets -------------------------------------------------------------------------------------------------------


class AddressInUse(MachineError):
    """Another process has it, perhaps not for long."""


def not_bound(what: str, error: OSError | ValueError) -> MachineError:
    """Why a socket is not where the settings want it."""
    kind = AddressInUse if isinstance(error, OSError) and error.errno == errno.EADDRINUSE else MachineError
    return kind(f"{what}: {getattr(error, 'strerror', None) or error}")


def bind_datagrams(
    host: str, port: int, *, receive_bytes: int, send_bytes: int, shares_port: bool = False
) -> socket.socket:
    """A bound socket with buffers as large as the machine allows.

    ``shares_port``: the multicast group is at the same port, and the host stands for all addresses. That two daemons do
    not get the same port is then seen by TCP.
    """
    sock = socket.socket(family_of(host), socket.SOCK_DGRAM)
    sock.setblocking(False)
    try:
        enlarge(sock, socket.SO_RCVBUF, receive_bytes)
        enlarge(sock, socket.SO_SNDBUF, send_bytes)
        if shares_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
        sock.bind((host, port))
    except (OSError, UnicodeError) as error:
        sock.close()
        raise not_bound(f"cannot use UDP {host}:{port}", error) from error
    return sock


def is_loopback(sock: socket.socket) -> bool:
    """Whether whoever can reach this socket is on this machine."""
    return ip_address(sock.getsockname()[0]).is_loopback


def has_large_buffer(sock: socket.socket) -> bool:
    """Whether the packets of a large window have place while nobody reads."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= LARGE_BUFFER_BYTES


def enlarge(sock: socket.socket, option: int, size: int) -> None:
    """Ask for a buffer of this size; the kernel gives what it allows."""
    forced = {socket.SO_RCVBUF: 33, socket.SO_SNDBUF: 32}[option]  # without the limit, for those who may
    try:
        sock.setsockopt(socket.SOL_SOCKET, forced, size)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, option, size)


def join_group(sending: socket.socket, group: str, interface: str, *, port_min: int = 1) -> socket.socket:
    """A socket that hears a multicast group; ``sending`` sends to it from now on, on the same interface."""
    host, port = split_address(group, port_min=port_min)
    hearing = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    hearing.setblocking(False)
    try:
        where = socket.inet_aton(socket.gethostbyname(interface))
        hearing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        hearing.bind((host, port))
        hearing.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(host) + where)
        hearing.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, where)
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    except (OSError, UnicodeError) as error:
        hearing.close()
        raise not_bound(f"cannot use the multicast group {group} on the interface {interface}", error) from error
    return hearing
