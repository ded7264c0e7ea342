"""Who proved who they are: peers by name, sessions by address, keys by id."""

from __future__ import annotations

from isotone.core.contract import Address
from isotone.daemon.security.group_keys import GroupKeys
from isotone.daemon.security.handshakes import Established
from isotone.daemon.security.keys import Roster
from isotone.daemon.security.noise import Random
from isotone.daemon.security.sessions import Opening, Peer, Session

SESSIONS_MAX = 3
"""With one peer: both ends may call at once, and the one before is still in use while packets are under way."""


class PeerTable:
    """Everything here is of daemons whose key is on the roster."""

    def __init__(self, random: Random) -> None:
        self.keys = GroupKeys(random)
        self.peers: dict[str, Peer] = {}
        self.by_address: dict[Address, Session] = {}
        self.openings: dict[int, Opening] = {}  # of sessions

    def enter(self, established: Established, source: Address, at: int) -> Session:
        """A handshake succeeded. A new incarnation takes the place of the one before."""
        daemon = established.introduction.daemon
        peer = self.peers.get(daemon.name)
        if peer is not None and peer.daemon != daemon:
            self.drop(peer)
            peer = None
        if peer is None:
            peer = self.peers[daemon.name] = Peer(daemon)
        session = Session(
            daemon=daemon,
            public=established.public,
            certificate=established.introduction.certificate,
            address=source,
            local=established.local,
            remote=established.remote,
            at=at,
        )
        session.third = established.third
        self.openings[session.local] = session.take_keys(established.send, established.receive, peer)
        peer.sessions.insert(0, session)
        while len(peer.sessions) > SESSIONS_MAX:
            self._forget(peer.sessions.pop(), peer)
        peer.sources[source] = None
        self.by_address[source] = session
        if established.asked is not None:
            self.by_address[established.asked] = session
        return session

    def _forget(self, session: Session, peer: Peer) -> None:
        del self.openings[session.local]
        newest = peer.sessions[0] if peer.sessions else None
        for address in [address for address, each in self.by_address.items() if each is session]:
            if newest is not None and newest.address == address:
                self.by_address[address] = newest
            else:
                del self.by_address[address]
        if all(each.address != session.address for each in peer.sessions):
            peer.sources.pop(session.address, None)

    def drop(self, peer: Peer) -> None:
        """Nothing of it is accepted any more, and nothing is sent to it."""
        del self.peers[peer.name]
        self.keys.forget(peer)
        while peer.sessions:
            self._forget(peer.sessions.pop(), peer)

    def revoked(self, roster: Roster) -> list[tuple[Peer, str]]:
        """Who is not on this roster any more, and why."""
        found = []
        for peer in self.peers.values():
            session = peer.sessions[0]
            problem = roster.problem(peer.name, session.public, session.certificate)
            if problem:
                found.append((peer, problem))
        return found
