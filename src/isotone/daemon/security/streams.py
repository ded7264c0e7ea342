"""Streams under guard: a Noise handshake, then records with a length in front, each sealed with the next counter.

The end that opens writes ``ISON`` and the first message. The daemon hears of a stream only when both ends have proved
who they are, and the name in its greeting has to be the one that was proved. Of what others open, streams that begin
otherwise are clients': they go up as they are; ``ISOT`` in clear is refused.

Implements: docs/protocols/guard.md, streams; the Noise Protocol Framework, 11.3 (rekey).
"""

from __future__ import annotations

from isotone.core.contract import (
    Action,
    CloseStream,
    OpenStream,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    WriteStream,
)
from isotone.core.errors import RemoteProtocolError
from isotone.daemon.security.events import Pass
from isotone.daemon.security.handshakes import Refusal, judged
from isotone.daemon.security.keys import Identity, Roster
from isotone.daemon.security.limits import Bucket, Refusals
from isotone.daemon.security.noise import Cipher, Handshake, Random
from isotone.daemon.security.packets import Introduction, introductions
from isotone.daemon.security.records import HANDSHAKE_BYTES_MAX, MAGIC, Reader, sealed_records, with_length
from isotone.daemon.security.settings import GuardCounters, GuardSettings
from isotone.evs.links.tcp import read_hello
from isotone.evs.links.tcp.wire import MAGIC as CLEAR_MAGIC

STREAMS_BUCKET, STREAMS_PER_SECOND = 64, 64

StreamEvent = StreamOpened | StreamReceived | StreamWritable | StreamClosed


class _Stream:
    """One stream: on its way to be trusted, or trusted, or a client's (``is_clear``)."""

    def __init__(self, *, accepted: bool, at: int) -> None:
        self.accepted = accepted
        self.began_at = at
        self.opened: StreamOpened | None = None
        self.noise: Handshake | None = None
        self.reader = Reader()
        self.send: Cipher | None = None
        self.peer: Introduction | None = None
        self.public = b""
        self.is_clear = False
        self.greeting: bytes | None = b""  # of an accepted stream, until the name in it is checked
        self.is_writing = False  # the daemon waits for its write to be taken

    @property
    def is_trusted(self) -> bool:
        return self.send is not None


class StreamGuard:
    """The half of the Guard that knows streams."""

    def __init__(
        self,
        identity: Identity,
        roster: Roster,
        random: Random,
        *,
        settings: GuardSettings,
        counters: GuardCounters,
        refusals: Refusals,
    ) -> None:
        self._identity, self._roster, self._random = identity, roster, random
        self._settings, self._counters, self._refusals = settings, counters, refusals
        self._prologue = b"isotone stream 1\0" + roster.cluster.encode()
        self._bucket = Bucket(STREAMS_BUCKET, STREAMS_PER_SECOND)
        self._streams: dict[int, _Stream] = {}
        self._newcomers: dict[int, None] = {}  # accepted and not yet known; oldest first
        self._introduction = introductions.encode(
            Introduction(identity.me.name, identity.me.incarnation, identity.certificate)
        )

    # --- from above ------------------------------------------------------------------------------------------------

    def give(self, action: OpenStream | WriteStream | CloseStream, out: list[Action]) -> None:
        """What the daemon does with a stream."""
        stream = self._streams.get(action.stream)
        match action:
            case OpenStream():
                self._streams[action.stream] = _Stream(accepted=False, at=0)
                out.append(action)
            case WriteStream(data=data):
                if stream is None or stream.is_clear:
                    out.append(action)
                elif stream.send is not None:
                    stream.is_writing = True
                    out.append(WriteStream(action.stream, sealed_records(stream.send, data)))
            case CloseStream():
                self._newcomers.pop(action.stream, None)
                if stream is not None and not stream.is_clear and not stream.is_trusted:
                    stream.noise = None  # nothing of it goes up any more but its end
                out.append(action)

    # --- from below ------------------------------------------------------------------------------------------------

    def take(self, event: StreamEvent, out: list[Action]) -> None:
        """An event of a stream."""
        if isinstance(event, StreamOpened):
            self._on_opened(event, out)
            return
        stream = self._streams.get(event.stream)
        if stream is None:
            return  # we closed it
        if isinstance(event, StreamClosed):
            self._on_closed(event, stream, out)
        elif isinstance(event, StreamWritable):
            if stream.is_clear or stream.is_writing:
                stream.is_writing = False
                out.append(Pass(event))
        elif stream.is_clear:
            out.append(Pass(event))
        else:
            try:
                self._on_received(event, stream, out)
            except Refusal as refusal:
                self._refuse(event.stream, stream, refusal, event.at, out)

    def _on_opened(self, event: StreamOpened, out: list[Action]) -> None:
        if event.accepted:
            self._make_place(event.at, out)
            stream = self._streams[event.stream] = _Stream(accepted=True, at=event.at)
            self._newcomers[event.stream] = None
        else:
            stream = self._streams.setdefault(event.stream, _Stream(accepted=False, at=event.at))
            stream.noise = self._noise(initiator=True)
            out.append(WriteStream(event.stream, [MAGIC + with_length(stream.noise.write())]))
        stream.opened = event

    def _make_place(self, at: int, out: list[Action]) -> None:
        """Who takes too long to say who he is goes, and so does the oldest when there are too many."""
        for number in list(self._newcomers):
            stream = self._streams[number]
            is_late = at - stream.began_at > self._settings.stream_us
            if not is_late and len(self._newcomers) < self._settings.streams_max:
                return
            self._refuse(number, stream, Refusal("handshake not finished"), at, out)

    def _noise(self, *, initiator: bool) -> Handshake:
        return Handshake(
            initiator=initiator,
            static=self._identity.pair.private,
            ephemeral=self._random(32),
            prologue=self._prologue,
        )

    def _on_closed(self, event: StreamClosed, stream: _Stream, out: list[Action]) -> None:
        del self._streams[event.stream]
        self._newcomers.pop(event.stream, None)
        if stream.is_clear or stream.is_trusted or not stream.accepted:
            out.append(Pass(event))

    def _on_received(self, event: StreamReceived, stream: _Stream, out: list[Action]) -> None:
        reader = stream.reader
        reader.add(event.data)
        if stream.accepted and not reader.is_begun and not self._begin(event, stream, out):
            return
        if not stream.is_trusted:
            self._shake_hands(event, stream, out)
        if stream.is_trusted:
            opened = reader.opened()
            if opened and stream.accepted and stream.greeting is not None:
                self._check_greeting(stream, opened)
            if opened:
                out.append(Pass(StreamReceived(event.at, event.stream, opened)))

    def _begin(self, event: StreamReceived, stream: _Stream, out: list[Action]) -> bool:
        """Whose stream it is, by its first bytes; whether it is one of ours."""
        begun = stream.reader.peek(len(MAGIC))
        if len(begun) < len(MAGIC):
            return False
        if begun == CLEAR_MAGIC:
            raise Refusal("not sealed")
        if begun != MAGIC:
            stream.is_clear = True
            self._newcomers.pop(event.stream, None)
            assert stream.opened is not None
            out.append(Pass(stream.opened))
            out.append(Pass(StreamReceived(event.at, event.stream, stream.reader.rest())))
            return False
        if not self._bucket.take(event.at):
            raise Refusal("too many handshakes")
        stream.reader.begin(len(MAGIC))
        stream.noise = self._noise(initiator=False)
        return True

    def _shake_hands(self, event: StreamReceived, stream: _Stream, out: list[Action]) -> None:
        noise = stream.noise
        while noise is not None and not noise.finished:
            message = stream.reader.message(HANDSHAKE_BYTES_MAX)
            if message is None:
                return
            try:
                payload = noise.read(message)
                if noise.step > 1:
                    stream.peer = judged(self._roster, self._identity, noise.remote, payload)
                if not noise.finished:
                    last = noise.write(self._introduction)
                    out.append(WriteStream(event.stream, [with_length(last)]))
            except Refusal:
                raise
            except RemoteProtocolError:
                raise Refusal("not authentic") from None
        if noise is not None:
            self._trust(event, stream, noise, out)

    def _trust(self, event: StreamReceived, stream: _Stream, noise: Handshake, out: list[Action]) -> None:
        stream.send, receive = noise.split()
        stream.public, stream.noise = noise.remote, None
        stream.reader.cipher = receive
        self._newcomers.pop(event.stream, None)
        self._counters.streams += 1
        assert stream.opened is not None
        out.append(Pass(StreamOpened(event.at, event.stream, stream.opened.peer, stream.accepted)))

    def _check_greeting(self, stream: _Stream, opened: bytes) -> None:
        """An accepted stream greets with the name of the daemon that opened it."""
        assert stream.greeting is not None and stream.peer is not None
        stream.greeting += opened[:512]
        try:
            found = read_hello(stream.greeting)
        except RemoteProtocolError:
            stream.greeting = None  # the daemon will say what is wrong with it
            return
        if found is not None:
            stream.greeting = None
            if found[0].name != stream.peer.name:
                raise Refusal("name of another", stream.peer.name)

    # --- ends ------------------------------------------------------------------------------------------------------

    def revise(self, roster: Roster, at: int, out: list[Action]) -> None:
        """Streams of daemons that are not on the roster any more end."""
        self._roster = roster
        for number, stream in list(self._streams.items()):
            if stream.peer is not None and stream.is_trusted:
                problem = roster.problem(stream.peer.name, stream.public, stream.peer.certificate)
                if problem:
                    self._refuse(number, stream, Refusal(problem, stream.peer.name), at, out)

    def _refuse(self, number: int, stream: _Stream, refusal: Refusal, at: int, out: list[Action]) -> None:
        """Close it; the daemon hears of it only if it had heard of the stream."""
        peer = refusal.peer or (str(stream.opened.peer) if stream.opened is not None else "")
        note = self._refusals.count(at, peer, refusal.reason)
        if note is not None:
            out.append(note)
        del self._streams[number]
        self._newcomers.pop(number, None)
        out.append(CloseStream(number))
        if stream.is_trusted or not stream.accepted:
            out.append(Pass(StreamClosed(at, number, refusal.reason)))
