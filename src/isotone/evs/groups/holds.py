"""Slow readers hold senders at other daemons too: what each daemon says about its own, and which groups that closes.

A daemon names the readers for which senders shall wait, all of them, in one FIFO unit that goes ahead of the total
order; the next such unit replaces it. Everybody knows the groups of a reader already, so the groups are not sent, and
joins and leaves of a reader that is held count at once. Here stands what others said; what they said is never said on.

A daemon's word lasts as long as it comes along: those who move on together have delivered the same of it. In the next
daemon view it is repeated for those who are new there. A statement waits until the one before was delivered here, so
there is one on the way, however often readers change.

Implements: [Spread 3.5], flow control towards clients. Deviations: D-slow the thesis disconnects who does not read;
here senders may wait instead: docs/protocols/session.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service
from isotone.core.views import DaemonView
from isotone.evs.groups.actions import Submit
from isotone.evs.groups.messages import CODEC, READERS_MAX, HoldMessage, decode_message
from isotone.evs.groups.roster import Roster
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import Unit, UnitKind

HOLD_SESSION = "#"  # under which statements are sent; no client has such a name
NO_GROUPS: frozenset[str] = frozenset()


class Holds:
    """What was said in this daemon view about slow readers, by this daemon and by the others."""

    def __init__(self, roster: Roster) -> None:
        self.is_used = False  # whether anybody ever was slow, here or elsewhere: else there is nothing to look at
        self._roster = roster
        self._readers: dict[DaemonId, tuple[ClientId, ...]] = {}  # of others, never empty
        self._groups = NO_GROUPS
        self._is_stale = False  # ``_groups`` is to be found anew
        self._is_alone = True
        self._said: tuple[ClientId, ...] = ()  # of this daemon, last
        self._is_under_way = False  # it was not delivered here so far
        self._repeats = False  # it is to be said again, though it is the same

    @property
    def groups(self) -> frozenset[str]:
        """To which senders here shall send nothing for now; the same object until it changes."""
        if self._is_stale:
            self._is_stale = False
            groups = self._find()
            if groups != self._groups:
                self._groups = groups
        return self._groups

    @property
    def readers(self) -> tuple[ClientId, ...]:
        """Of other daemons, for whom senders here wait."""
        return tuple(reader for daemon in sorted(self._readers) for reader in self._readers[daemon])

    @property
    def is_stating(self) -> bool:
        """Whether others hold senders by our word, as far as we know: then it is still to be taken back."""
        return bool(self._said) or self._is_under_way

    # --- our own readers -------------------------------------------------------------------------------------------

    def state(self, readers: Sequence[ClientId]) -> list[Submit]:
        """These readers here, the longest slow first, want nothing sent for now: say so if it is news to others."""
        now = tuple(readers[:READERS_MAX])
        self.is_used = self.is_used or bool(now)
        if self._is_under_way or (now == self._said and not self._repeats):
            return []
        self._repeats = False
        if self._is_alone:
            self._said = ()
            return []
        self._said, self._is_under_way = now, True
        body = CODEC.encode(HoldMessage(tuple((reader.name, reader.session) for reader in now)))
        return [Submit((Draft(HOLD_SESSION, UnitKind.GROUPS, Service.FIFO, body),))]

    # --- the word of others ----------------------------------------------------------------------------------------

    def take(self, unit: Unit, daemon: DaemonId) -> None:
        """A statement is delivered: the daemon's latest."""
        message = decode_message(unit.body)
        if not isinstance(message, HoldMessage):
            raise RemoteProtocolError("a change of groups outside the total order")
        if daemon == self._roster.me:
            self._is_under_way = False
            return
        self.is_used = True
        self._readers.pop(daemon, None)
        if message.readers:
            self._readers[daemon] = tuple(ClientId(daemon, name, session) for name, session in message.readers)
        self._is_stale = True

    def move_on(self, view: DaemonView) -> None:
        """The next daemon view: the word of those who came along lasts, and ours is said again.

        Unless it is under way: what was not stamped goes along to the next daemon view by itself.
        """
        along = frozenset(view.transitional)
        self._readers = {daemon: readers for daemon, readers in self._readers.items() if daemon in along}
        self._is_stale = self._is_stale or bool(self._readers or self._groups)
        self._is_alone = len(view.members) == 1
        self._repeats = bool(self._said) and not self._is_under_way

    def changed(self, client: ClientId) -> None:
        """The client is in other groups than before."""
        if client in self._readers.get(client.daemon, ()):
            self._is_stale = True

    def merged(self) -> None:
        """All groups may have other members."""
        self._is_stale = self._is_stale or bool(self._readers)

    def _find(self) -> frozenset[str]:
        found: set[str] = set()
        for reader in self.readers:
            found.add(reader.private_group)
            found.update(self._roster.groups_of(reader))
        return frozenset(found)
