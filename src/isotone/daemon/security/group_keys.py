"""Keys of what is multicast: each daemon has its own, so that no two senders ever use one nonce.

There are two of them. The *ring key* belongs to one daemon view, forming or installed: only its members get it, and
the next daemon view has another one, so who is excluded reads nothing that comes later. The *site key* is for
announcements, by which daemons find each other before they share a view: every daemon of the cluster gets it, and it is
renewed when one is revoked. Keys travel over the pairwise sessions; who lacks one asks for it.

Implements: docs/protocols/guard.md, group keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from isotone.core.ids import NO_DAEMON_VIEW, DaemonId, DaemonViewId
from isotone.daemon.security.noise import Random
from isotone.daemon.security.packets import ID_MAX, KeyGiven, Kind
from isotone.daemon.security.sessions import RENEW_AFTER, Opening, Parts, Peer, Sealing

RING_KEYS_MAX = 4
"""Of one sender: attempts to form a daemon view follow each other quickly."""
SITE_KEYS_MAX = 2


class SenderKey:
    """One key of ours."""

    def __init__(self, random: Random, view: DaemonViewId, members: Sequence[DaemonId] | None) -> None:
        self.view = view
        self._key = random(32)
        self._members = None if members is None else frozenset(members)  # only looked up; None: everybody
        id = int.from_bytes(random(8), "big") & ID_MAX
        self._sealing = Sealing(Kind.GROUP, id, ChaCha20Poly1305(self._key))

    @property
    def id(self) -> int:
        """Under which others know it."""
        return self._sealing.id

    @property
    def is_worn(self) -> bool:
        """Whether it sealed so much that it is time for another."""
        return self._sealing.counter > RENEW_AFTER

    def is_for(self, daemon: DaemonId) -> bool:
        """Whether this daemon may have it."""
        return self._members is None or daemon in self._members

    def seal(self, datagrams: Sequence[Parts]) -> list[Parts]:
        """For all who have it."""
        return self._sealing.seal(datagrams)

    def given(self) -> KeyGiven:
        """The key as it is handed over: what was sealed before is not for the receiver."""
        view, coordinator = self.view, self.view.coordinator
        return KeyGiven(
            self.id, self._key, self._sealing.counter, view.epoch, coordinator.name, coordinator.incarnation
        )


class GroupKeys:
    """Ours, and those of others by id."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.view = NO_DAEMON_VIEW  # the highest that was entered here
        self.ring: SenderKey | None = None
        self.site = SenderKey(random, NO_DAEMON_VIEW, None)
        self.openings: dict[int, Opening] = {}
        self._members: tuple[DaemonId, ...] = ()

    # --- ours ------------------------------------------------------------------------------------------------------

    def enter(self, view: DaemonViewId, members: tuple[DaemonId, ...]) -> None:
        """A daemon view begins: a new key for its ring."""
        self.view, self._members = max(self.view, view), members
        self.ring = SenderKey(self._random, view, members)

    def renew(self) -> None:
        """Somebody who had our keys must not have the next ones."""
        self.site = SenderKey(self._random, NO_DAEMON_VIEW, None)
        if self.ring is not None:
            self.ring = SenderKey(self._random, self.ring.view, self._members)

    def exclude(self, name: str) -> None:
        """A member is revoked: it gets no key of this daemon view any more."""
        self._members = tuple(member for member in self._members if member.name != name)

    @property
    def members(self) -> tuple[DaemonId, ...]:
        """Who gets the ring's key."""
        return self._members

    def for_daemon(self, daemon: DaemonId) -> list[KeyGiven]:
        """All keys of ours that it may have."""
        return [key.given() for key in (self.site, self.ring) if key is not None and key.is_for(daemon)]

    def wanted(self, id: int, daemon: DaemonId) -> KeyGiven | None:
        """The key that it asks for, if it may have it."""
        for key in (self.ring, self.site):
            if key is not None and key.id == id and key.is_for(daemon):
                return key.given()
        return None

    # --- theirs ----------------------------------------------------------------------------------------------------

    def take(self, peer: Peer, given: KeyGiven) -> str:
        """A peer hands over its key; why not, if it is not taken. One that we have keeps its window."""
        if given.id in self.openings:
            return "" if self.openings[given.id].peer is peer else "key id of another"
        is_ring = given.epoch > 0
        if is_ring and given.view < self.view:
            return "old group key"
        opening = Opening(
            id=given.id,
            aead=ChaCha20Poly1305(given.key),
            peer=peer,
            view=given.view if is_ring else None,
            first=given.first,
        )
        keys, keys_max = (peer.ring_keys, RING_KEYS_MAX) if is_ring else (peer.site_keys, SITE_KEYS_MAX)
        keys.append(opening)
        if len(keys) > keys_max:
            del self.openings[keys.pop(0).id]
        self.openings[given.id] = opening
        return ""

    def is_old(self, opening: Opening) -> bool:
        """Whether it is the key of a daemon view before the one in which we are."""
        return opening.view is not None and opening.view < self.view

    def forget(self, peer: Peer) -> None:
        """All keys of a peer."""
        for opening in (*peer.ring_keys, *peer.site_keys):
            del self.openings[opening.id]
        peer.ring_keys.clear()
        peer.site_keys.clear()
