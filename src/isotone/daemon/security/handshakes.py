"""Handshakes that are under way, as caller and as answerer, and what strangers may cost.

A first message is looked at in this order: its digest, whether the same one was answered already, the bucket. When the
bucket is half empty, callers have to prove their address by a cookie first. Only then are public keys computed with.
Second and third messages name an id that nobody can guess and have a bucket of their own: whoever floods with first
messages does not hold up what is under way.
What does not fit changes nothing: a forged second or third message leaves the handshake as it was.

Implements: docs/protocols/guard.md, handshakes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from isotone.core.contract import Address
from isotone.core.errors import RemoteProtocolError
from isotone.daemon.security.keys import Identity, Roster
from isotone.daemon.security.limits import Bucket
from isotone.daemon.security.noise import Cipher, Handshake, Random
from isotone.daemon.security.packets import (
    ANSWER,
    CHECK_BYTES,
    COOKIE_BYTES,
    HANDSHAKE_BYTES_MAX,
    ID_MAX,
    KNOCK,
    PADDING_BYTES,
    VERSION,
    Checks,
    Introduction,
    Kind,
    introductions,
)
from isotone.daemon.security.sessions import Parts

PENDING_MAX = 256
WAITING_MAX = 16
"""Batches for an address, and datagrams of each, that are kept while a handshake is under way."""
RETRY_US, RETRY_MAX_US = 100_000, 1_000_000
PENDING_US = 5_000_000
BUCKET_SIZE, BUCKET_PER_SECOND = 128, 256


class Refusal(RemoteProtocolError):
    """What came is refused, for a reason that is counted; ``peer`` is who it seems to be of."""

    def __init__(self, reason: str, peer: str = "", text: str = "") -> None:
        super().__init__(text or reason)
        self.reason, self.peer = reason, peer


class Established(msgspec.Struct, frozen=True):
    """Somebody proved who he is."""

    introduction: Introduction
    public: bytes
    local: int
    remote: int
    send: Cipher
    receive: Cipher
    asked: Address | None
    """The address that we called, which may be another one than the answer's."""
    waiting: Sequence[Sequence[Parts]] = ()
    third: bytes | None = None


class Calling:
    """We called an address."""

    def __init__(self, address: Address, id: int, noise: Handshake, at: int) -> None:
        self.address, self.id, self.noise, self.began_at = address, id, noise, at
        self.message = KNOCK.pack(Kind.FIRST, VERSION, id) + noise.write(bytes(PADDING_BYTES))
        self.cookie = b""
        self.sent_at, self.pause_us = at, RETRY_US
        self.waiting: deque[Sequence[Parts]] = deque(maxlen=WAITING_MAX)


class Answering:
    """Somebody called us, and heard our answer."""

    def __init__(self, source: Address, first: bytes, remote: int, local: int, noise: Handshake) -> None:
        self.source, self.first, self.remote, self.local, self.noise = source, first, remote, local, noise
        self.answer = b""


class Handshakes:
    """All of them at one daemon."""

    def __init__(self, identity: Identity, roster: Roster, random: Random) -> None:
        self.roster = roster
        self.calls = 0  # how often a first message left
        self._identity, self._random = identity, random
        self._prologue = b"isotone guard 1\0" + roster.cluster.encode()
        self._checks = Checks(roster.cluster, random(32))
        self._bucket = Bucket(BUCKET_SIZE, BUCKET_PER_SECOND)  # of first messages
        self._finishing = Bucket(BUCKET_SIZE, BUCKET_PER_SECOND)  # of those whose id only the other end knows
        self._calling: dict[Address, Calling] = {}  # oldest first
        self._calls: dict[int, Calling] = {}
        self._answering: dict[int, Answering] = {}  # oldest first
        self._answers: dict[tuple[Address, int], Answering] = {}
        self._introduction = introductions.encode(
            Introduction(identity.me.name, identity.me.incarnation, identity.certificate)
        )

    def fresh_id(self) -> int:
        """One that nobody can guess."""
        return int.from_bytes(self._random(8), "big") & ID_MAX

    def _noise(self, *, initiator: bool) -> Handshake:
        return Handshake(
            initiator=initiator,
            static=self._identity.pair.private,
            ephemeral=self._random(32),
            prologue=self._prologue,
        )

    # --- calling ---------------------------------------------------------------------------------------------------

    def call(self, address: Address, at: int, waiting: Sequence[Parts] = ()) -> list[bytes]:
        """Begin a handshake with whoever is at this address, or repeat what was not answered, if it is time."""
        calling = self._calling.get(address)
        if calling is not None and at - calling.began_at > PENDING_US:
            self._forget_call(calling)
            kept, calling = calling.waiting, None
        else:
            kept = deque(maxlen=WAITING_MAX)
        if calling is None:
            calling = self._begin_call(address, at)
            calling.waiting = kept
        elif at - calling.sent_at < calling.pause_us:
            self._wait(calling, waiting)
            return []
        else:
            calling.sent_at, calling.pause_us = at, min(RETRY_MAX_US, 2 * calling.pause_us)
        self._wait(calling, waiting)
        self.calls += 1
        return [self._knock(calling)]

    def _begin_call(self, address: Address, at: int) -> Calling:
        if len(self._calling) >= PENDING_MAX:
            self._forget_call(next(iter(self._calling.values())))
        calling = Calling(address, self.fresh_id(), self._noise(initiator=True), at)
        self._calling[address] = self._calls[calling.id] = calling
        return calling

    def _wait(self, calling: Calling, waiting: Sequence[Parts]) -> None:
        if waiting:
            calling.waiting.append(waiting[:WAITING_MAX])

    def _knock(self, calling: Calling) -> bytes:
        return self._checks.prove(self._checks.sign(calling.message), calling.cookie)

    def _forget_call(self, calling: Calling) -> None:
        del self._calling[calling.address], self._calls[calling.id]

    def on_cookie(self, message: bytes) -> list[bytes]:
        """The other end is busy, and wants to know that we are where we say."""
        calling = self._calls.get(self._checked(message, KNOCK.size + COOKIE_BYTES)[2])
        if calling is None or len(message) != KNOCK.size + COOKIE_BYTES + CHECK_BYTES:
            raise Refusal("unknown handshake")
        if calling.cookie:
            return []  # one is enough for one call
        calling.cookie = message[KNOCK.size : KNOCK.size + COOKIE_BYTES]
        return [self._knock(calling)]

    def on_second(self, message: bytes, at: int) -> Established:
        """Our call was answered: prove who we are."""
        self._checked(message, ANSWER.size)
        _, _, local, remote = ANSWER.unpack_from(message)
        calling = self._calls.get(local)
        if calling is None:
            raise Refusal("unknown handshake")
        self._pay(self._finishing, at)
        payload = _read(calling.noise, message[ANSWER.size : -CHECK_BYTES])
        self._forget_call(calling)
        try:
            introduction = self._judged(calling.noise, payload)
        except Refusal:
            self._begin_call(calling.address, at).pause_us = RETRY_MAX_US  # somebody else may be there later
            raise
        written = calling.noise.write(self._introduction)
        third = self._checks.sign(KNOCK.pack(Kind.THIRD, VERSION, remote) + written)
        send, receive = calling.noise.split()
        return Established(
            introduction=introduction,
            public=calling.noise.remote,
            local=local,
            remote=remote,
            send=send,
            receive=receive,
            asked=calling.address,
            waiting=tuple(calling.waiting),
            third=third,
        )

    # --- answering -------------------------------------------------------------------------------------------------

    def on_first(self, message: bytes, source: Address, at: int) -> list[bytes]:
        """Somebody calls."""
        _, _, remote = self._checked(message[:-CHECK_BYTES], KNOCK.size)
        known = self._answers.get((source, remote))
        if known is not None and known.first == message[:-CHECK_BYTES]:
            return [known.answer]
        if len(message) < KNOCK.size + PADDING_BYTES:
            raise Refusal("malformed")
        if not self._bucket.take(at, leave=self._bucket.size / 2):
            if not self._checks.is_proven(message, source, at):
                cookie = self._checks.cookie(source, at)
                return [self._checks.sign(KNOCK.pack(Kind.COOKIE, VERSION, remote) + cookie)]
            self._pay(self._bucket, at)
        noise = self._noise(initiator=False)
        _read(noise, message[KNOCK.size : -2 * CHECK_BYTES])
        answering = Answering(source, message[:-CHECK_BYTES], remote, self.fresh_id(), noise)
        try:
            written = noise.write(self._introduction)
        except RemoteProtocolError:
            raise Refusal("malformed") from None  # a public key that is none
        answering.answer = self._checks.sign(ANSWER.pack(Kind.SECOND, VERSION, remote, answering.local) + written)
        self._keep(answering)
        return [answering.answer]

    def _keep(self, answering: Answering) -> None:
        former = self._answers.get((answering.source, answering.remote))
        if former is not None:
            self._forget_answer(former)
        if len(self._answering) >= PENDING_MAX:
            self._forget_answer(next(iter(self._answering.values())))
        self._answering[answering.local] = self._answers[answering.source, answering.remote] = answering

    def _forget_answer(self, answering: Answering) -> None:
        del self._answering[answering.local], self._answers[answering.source, answering.remote]

    def on_third(self, message: bytes, source: Address, at: int) -> Established:
        """The caller proves who he is."""
        answering = self._answering.get(self._checked(message, KNOCK.size)[2])
        if answering is None or answering.source != source:
            raise Refusal("unknown handshake")
        self._pay(self._finishing, at)
        payload = _read(answering.noise, message[KNOCK.size : -CHECK_BYTES])
        self._forget_answer(answering)
        introduction = self._judged(answering.noise, payload)
        send, receive = answering.noise.split()
        return Established(
            introduction=introduction,
            public=answering.noise.remote,
            local=answering.local,
            remote=answering.remote,
            send=send,
            receive=receive,
            asked=None,
        )

    # --- both ------------------------------------------------------------------------------------------------------

    def _checked(self, message: bytes, size: int) -> tuple[int, int, int]:
        """The head of a handshake message whose digest is right."""
        if not size + CHECK_BYTES <= len(message) <= HANDSHAKE_BYTES_MAX:
            raise Refusal("malformed")
        if not self._checks.is_signed(message):
            raise Refusal("wrong check")
        kind, version, id = KNOCK.unpack_from(message)
        if version != VERSION:
            raise Refusal("version")
        return kind, version, id

    def _pay(self, bucket: Bucket, at: int) -> None:
        if not bucket.take(at):
            raise Refusal("too many handshakes")

    def _judged(self, noise: Handshake, payload: bytes) -> Introduction:
        return judged(self.roster, self._identity, noise.remote, payload)


def judged(roster: Roster, identity: Identity, public: bytes, payload: bytes) -> Introduction:
    """Who this is, if the key is that daemon's."""
    try:
        introduction = introductions.decode(payload)
    except RemoteProtocolError:
        raise Refusal("malformed") from None
    problem = roster.problem(introduction.name, public, introduction.certificate)
    if not problem and introduction.name == identity.me.name:
        problem = "our own name"
    if problem:
        raise Refusal(problem, introduction.name)
    return introduction


def _read(noise: Handshake, message: bytes) -> bytes:
    try:
        return noise.read(message)
    except RemoteProtocolError:
        raise Refusal("not authentic") from None
