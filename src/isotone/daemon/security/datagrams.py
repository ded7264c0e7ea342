"""Datagrams under guard: what leaves is sealed, what comes is authentic, fresh and from who it says.

A batch stays a batch: one buffer in, one event up; one action down, one action out.

Implements: docs/protocols/guard.md, datagrams.
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.exceptions import InvalidTag

from isotone.core.contract import Action, Address, DatagramsReceived, SendDatagrams
from isotone.core.errors import RemoteProtocolError
from isotone.daemon.security.claims import claimed_daemon
from isotone.daemon.security.events import MembersChanged, Pass
from isotone.daemon.security.handshakes import Established, Handshakes, Refusal
from isotone.daemon.security.keys import Identity, Roster
from isotone.daemon.security.limits import Bucket, Refusals
from isotone.daemon.security.noise import NONCE, Random
from isotone.daemon.security.packets import (
    HEAD,
    ID_MAX,
    KNOCK,
    OVERHEAD_BYTES,
    Confirmed,
    KeyGiven,
    KeyWanted,
    Kind,
    controls,
)
from isotone.daemon.security.sessions import CONTROL_MARK, Opening, Parts, Peer, Session
from isotone.daemon.security.settings import GuardCounters, GuardSettings
from isotone.daemon.security.table import PeerTable
from isotone.evs.membership.messages import MARK

STRANGERS, STRANGERS_PER_SECOND = 16, 8
WANT_AGAIN_US = 20_000
THIRD_AGAIN_US = 50_000
PAIRWISE, GROUP, CONTROL = int(Kind.PAIRWISE), int(Kind.GROUP), int(Kind.CONTROL)


class UnknownKey(Refusal):
    """Nobody whom we know uses this key, or we were not told of it yet."""


class DatagramGuard:
    """The half of the Guard that knows no streams."""

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
        self._settings, self._counters, self._refusals = settings, counters, refusals
        self.handshakes = Handshakes(identity, roster, random)
        self.table = PeerTable(random)
        self._strangers = Bucket(STRANGERS, STRANGERS_PER_SECOND)

    # --- what leaves -----------------------------------------------------------------------------------------------

    def send(self, action: SendDatagrams, at: int, out: list[Action]) -> None:
        """To one address: over the session with who is there, or after a handshake."""
        address = action.destination
        session = self.table.by_address.get(address)
        if session is None:
            self._call(address, at, out, action.datagrams)
            return
        if session.third is not None and at - session.third_at >= THIRD_AGAIN_US:
            session.third_at = at
            out.append(SendDatagrams(address, [[session.third]]))
        self._counters.sealed += len(action.datagrams)
        out.append(SendDatagrams(address, session.sealing.seal(action.datagrams)))
        if session.peer.unanswered_at is None:
            session.peer.unanswered_at = at
        if session.is_due(at, renew_us=self._settings.renew_us, silent_us=self._settings.silent_us):
            self._call(address, at, out)

    def _call(self, address: Address, at: int, out: list[Action], waiting: Sequence[Parts] = ()) -> None:
        for message in self.handshakes.call(address, at, waiting):
            out.append(SendDatagrams(address, [[message]]))

    def multicast(self, datagrams: Sequence[Parts], at: int, out: list[Action]) -> list[Parts]:
        """Sealed once for all: with the ring's key, or the site's if it is an announcement."""
        is_announcement = datagrams[0][0][0] == MARK
        keys = self.table.keys
        key = keys.site if is_announcement else keys.ring
        if key is None:
            self._refuse(at, "", "no ring key", out)
            return []
        if key.is_worn:
            keys.renew()
            self._give_all(out)
            return self.multicast(datagrams, at, out)
        self._counters.sealed += len(datagrams)
        return key.seal(datagrams)

    # --- what comes ------------------------------------------------------------------------------------------------

    def received(self, event: DatagramsReceived, out: list[Action]) -> None:
        """One buffer of datagrams; what is authentic goes up as one buffer again."""
        data, source, at = memoryview(event.data), event.source, event.at
        size = event.segment_size or len(data)
        opened: list[bytes] = []
        place = 0
        while place < len(data):
            kind = data[place]
            try:
                if kind in (PAIRWISE, GROUP):
                    place = self._open_run(event, data, place, opened, out)
                    continue
                packet = data[place : place + size]
                if kind == CONTROL:
                    self._on_control(packet, source, at, out)
                else:
                    self._on_handshake(kind, bytes(packet), source, at, out)
            except UnknownKey:
                self._on_unknown(data[place : place + size], source, at, out)
            except Refusal as refusal:
                self._refuse(at, refusal.peer or str(source), refusal.reason, out)
            place += size
        if opened:
            self._pass_up(event, opened, out)

    def _open_run(
        self, event: DatagramsReceived, data: memoryview, place: int, opened: list[bytes], out: list[Action]
    ) -> int:
        """Open all that follows under one key; returns where something else begins."""
        kind, id, _ = HEAD.unpack_from(data, place) if len(data) - place >= OVERHEAD_BYTES else (0, 0, 0)
        opening = self._key(kind, id, event.source)
        peer, window, decrypt, unpack, nonce = (
            opening.peer,
            opening.window,
            opening.aead.decrypt,
            HEAD.unpack_from,
            NONCE.pack,
        )
        before, size = len(opened), event.segment_size or len(data)
        while len(data) - place >= OVERHEAD_BYTES:
            other_kind, other_id, counter = unpack(data, place)
            if other_id != id or other_kind != kind:
                break
            packet = data[place + HEAD.size : place + size]
            place += size
            if not window.is_fresh(counter):
                self._refuse(event.at, peer.name, "replayed", out)
                continue
            try:
                body = decrypt(nonce(counter), packet, None)
            except InvalidTag:
                self._refuse(event.at, str(event.source), "not authentic", out)
                continue
            window.take(counter)
            if body and body[0] == MARK and not _is_own_claim(body, peer):
                self._refuse(event.at, peer.name, "name of another", out)
                continue
            opened.append(body)
        if len(opened) > before:
            self._heard(opening, len(opened) - before)
        return place

    def _key(self, kind: int, id: int, source: Address) -> Opening:
        """The key under which packets from there may come."""
        if not kind:
            raise Refusal("malformed")
        table = self.table
        opening = (table.keys.openings if kind == GROUP else table.openings).get(id)
        if opening is None:
            raise UnknownKey("unknown key")
        if source not in opening.peer.sources:
            raise Refusal("other address", opening.peer.name)
        if opening.view is not None and table.keys.is_old(opening):
            raise Refusal("old group key", opening.peer.name)
        return opening

    def _heard(self, opening: Opening, count: int) -> None:
        self._counters.opened += count
        opening.peer.unanswered_at = None
        if opening.session is not None:
            opening.session.third = None

    def _pass_up(self, event: DatagramsReceived, opened: list[bytes], out: list[Action]) -> None:
        """In as few events as there are changes of size: one for a buffer of which nothing is missing."""
        first = 0
        for index in range(1, len(opened) + 1):
            size = len(opened[first])
            is_run = index < len(opened) and len(opened[index - 1]) == size and len(opened[index]) <= size
            if not is_run:
                data = opened[first] if index == first + 1 else b"".join(opened[first:index])
                out.append(Pass(DatagramsReceived(event.at, event.source, data, size)))
                first = index

    def _on_unknown(self, packet: memoryview, source: Address, at: int, out: list[Action]) -> None:
        """Under a key that we lack: ask for it, or get to know whoever is there, though not too often."""
        session = self.table.by_address.get(source)
        id = HEAD.unpack_from(packet)[1]
        if session is not None and packet[0] == Kind.GROUP and id <= ID_MAX:
            self._counters.keys_missed += 1
            peer = session.peer
            if peer.wanted_at is None or at - peer.wanted_at >= WANT_AGAIN_US:
                peer.wanted_at = at
                self._tell(session, KeyWanted(id), out)
            return
        self._refuse(at, str(source), "unknown key", out)
        if self._strangers.take(at):
            self._call(source, at, out)

    # --- from Guard to Guard ---------------------------------------------------------------------------------------

    def _on_control(self, packet: memoryview, source: Address, at: int, out: list[Action]) -> None:
        kind, id, counter = HEAD.unpack_from(packet) if len(packet) >= OVERHEAD_BYTES else (0, 0, 0)
        opening = self._key(kind, id, source)
        if not opening.window.is_fresh(counter):
            raise Refusal("replayed", opening.peer.name)
        try:
            body = opening.aead.decrypt(NONCE.pack(counter), packet[HEAD.size :], CONTROL_MARK)
        except InvalidTag:
            raise Refusal("not authentic") from None
        opening.window.take(counter)
        self._heard(opening, 1)
        try:
            message = controls.decode(body)
        except RemoteProtocolError:
            raise Refusal("malformed", opening.peer.name) from None
        session = opening.session
        assert session is not None, "control messages come over pairwise keys"
        match message:
            case KeyGiven():
                problem = self.table.keys.take(opening.peer, message)
                if problem:
                    raise Refusal(problem, opening.peer.name)
            case KeyWanted(id=id):
                given = self.table.keys.wanted(id, opening.peer.daemon)
                if given is not None:  # else we are past it
                    self._tell(session, given, out)
            case Confirmed():
                pass  # that it came says it

    def _tell(self, session: Session, message: KeyGiven | KeyWanted | Confirmed, out: list[Action]) -> None:
        out.append(SendDatagrams(session.address, session.sealing.seal_control(controls.encode(message))))

    def _give_all(self, out: list[Action]) -> None:
        for peer in self.table.peers.values():
            for given in self.table.keys.for_daemon(peer.daemon):
                self._tell(peer.sessions[0], given, out)

    def enter(self, event: MembersChanged, out: list[Action]) -> None:
        """A daemon view begins: its members get the new key."""
        keys = self.table.keys
        keys.enter(event.view, event.members)
        assert keys.ring is not None
        for member in event.members:
            peer = self.table.peers.get(member.name)
            if peer is not None and peer.daemon == member:
                self._tell(peer.sessions[0], keys.ring.given(), out)

    def revise(self, roster: Roster, at: int, out: list[Action]) -> None:
        """Who is not on the roster any more is cut off, and everybody else gets new keys."""
        self.handshakes.roster = roster
        revoked = self.table.revoked(roster)
        for peer, problem in revoked:
            self.table.drop(peer)
            self.table.keys.exclude(peer.name)
            self._refuse(at, peer.name, problem, out)
        if revoked:
            self.table.keys.renew()
            self._give_all(out)

    # --- handshakes ------------------------------------------------------------------------------------------------

    def _on_handshake(self, kind: int, packet: bytes, source: Address, at: int, out: list[Action]) -> None:
        handshakes = self.handshakes
        match kind:
            case Kind.FIRST:
                answers = handshakes.on_first(packet, source, at)
            case Kind.COOKIE:
                answers = handshakes.on_cookie(packet)
            case Kind.SECOND:
                established = handshakes.on_second(packet, at)
                assert established.third is not None
                out.append(SendDatagrams(source, [[established.third]]))
                self._establish(established, source, at, out)
                return
            case Kind.THIRD:
                self._on_third(packet, source, at, out)
                return
            case _:
                raise Refusal("not sealed")
        out.extend(SendDatagrams(source, [[answer]]) for answer in answers)

    def _on_third(self, packet: bytes, source: Address, at: int, out: list[Action]) -> None:
        if len(packet) >= KNOCK.size:
            known = self.table.openings.get(KNOCK.unpack_from(packet)[2])
            if known is not None and known.session is not None and known.session.address == source:
                if at - known.session.third_at >= THIRD_AGAIN_US:
                    known.session.third_at = at
                    self._tell(known.session, Confirmed(), out)  # it did not hear that the first one came
                return
        session = self._establish(self.handshakes.on_third(packet, source, at), source, at, out)
        self._tell(session, Confirmed(), out)

    def _establish(self, established: Established, source: Address, at: int, out: list[Action]) -> Session:
        self._counters.handshakes += 1
        session = self.table.enter(established, source, at)
        for given in self.table.keys.for_daemon(session.daemon):
            self._tell(session, given, out)
        for datagrams in established.waiting:
            self._counters.sealed += len(datagrams)
            out.append(SendDatagrams(established.asked or source, session.sealing.seal(datagrams)))
        return session

    def _refuse(self, at: int, peer: str, reason: str, out: list[Action]) -> None:
        note = self._refusals.count(at, peer, reason)
        if note is not None:
            out.append(note)


def _is_own_claim(body: bytes, peer: Peer) -> bool:
    """Whether a message of the membership names the daemon whose key it came under, if it names any."""
    claimed = claimed_daemon(body)
    return claimed is None or claimed == peer.daemon
