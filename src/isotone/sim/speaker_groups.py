"""Groups in what speakers say, for runs with pruning: who is a member where, and whether anybody lacks what he is owed.

A body says for which group it is, or that its speaker joins or leaves one. Everybody takes joins and leaves in the
agreed order, tells his transport which sites have members, and must find content in every AGREED and SAFE unit for a
group of which his own site has a member.

Implements: [Spread 3.4.2], the receiving side as far as the transport needs it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum

from isotone.core.contract import Event
from isotone.evs.ordering.pruning import Peeked
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.overlay.interest import InterestChanged
from isotone.evs.transport.events import InterestStated
from isotone.evs.transport.view import TransportView

_HEAD = struct.Struct(">QHBB")  # first sequence, how many messages, what happens to the membership, bytes of the group


class Change(IntEnum):
    """What a bundle does to its speaker's membership besides being a bundle."""

    NONE = 0
    JOIN = 1
    LEAVE = 2


@dataclass(frozen=True)
class Spoken:
    """A body, read."""

    first: int
    lengths: tuple[int, ...]
    bodies: list[bytes]
    group: str
    change: Change


def pack(first: int, lengths: tuple[int, ...], group: str = "", change: Change = Change.NONE) -> bytes:
    """What stands before the messages of a bundle."""
    name = group.encode()
    return _HEAD.pack(first, len(lengths), change, len(name)) + struct.pack(f">{len(lengths)}I", *lengths) + name


def unpack(body: bytes | memoryview) -> Spoken:
    """The inverse of `pack` with the messages behind it."""
    first, count, change, size = _HEAD.unpack_from(body)
    lengths = struct.unpack_from(f">{count}I", body, _HEAD.size)
    at = _HEAD.size + 4 * count + size
    group = bytes(body[at - size : at]).decode()
    bodies = []
    for length in lengths:
        bodies.append(bytes(body[at : at + length]))
        at += length
    return Spoken(first, lengths, bodies, group, Change(change))


@dataclass
class Contents:
    """What the run knows and a site without members does not: the content of every unit that may be pruned."""

    _units: dict[tuple[int, int], Unit] = field(default_factory=dict)  # by site and sequence

    def peek(self, unit: Unit) -> Peeked:
        """For the transport; the gateway of the source looks before it prunes, so nothing is missing here."""
        if unit.kind is UnitKind.PRUNED:
            return Peeked()
        if unit.sequence:
            self._units[unit.site, unit.sequence] = unit
        spoken = unpack(unit.body)
        if spoken.change is not Change.NONE:
            return Peeked(None, (spoken.group,) if spoken.change is Change.JOIN else ())
        return Peeked((spoken.group,) if spoken.group else None)

    def whole(self, unit: Unit) -> Unit:
        """The unit with its content."""
        return self._units[unit.site, unit.sequence] if unit.kind is UnitKind.PRUNED else unit


@dataclass
class Members:
    """Who is in which group, as one speaker knows it from the agreed order."""

    view: TransportView
    me: str
    _members: dict[str, dict[int, None]] = field(default_factory=dict)  # group to daemons
    pruned: int = 0  # units that came without content

    def stated(self, at: int) -> list[Event]:
        """At first nobody is a member of anything."""
        return [InterestStated(at, site.name, ()) for site in self.view.topology.sites]

    def deliver(self, unit: Unit, whole: Unit, at: int) -> list[Event]:
        """A unit is delivered here: what the transport has to hear of it."""
        spoken = unpack(whole.body)
        if unit.kind is UnitKind.PRUNED:
            self.pruned += 1
            owed = unit.service.is_agreed and self._at_site(spoken.group, self.view.site_of(self.me).daemons)
            assert not owed, f"{self.me} lacks content of {unit.position} for {spoken.group}"
        if spoken.change is Change.NONE:
            return []
        return self._changed(spoken, unit.daemon, at)

    def _changed(self, spoken: Spoken, daemon: int, at: int) -> list[Event]:
        members = self._members.setdefault(spoken.group, {})
        site = self.view.site_of(self.view.members[daemon].name)
        before = self._at_site(spoken.group, site.daemons)
        if spoken.change is Change.JOIN:
            members[daemon] = None
        else:
            members.pop(daemon, None)
        after = self._at_site(spoken.group, site.daemons)
        return [InterestChanged(at, site.name, spoken.group, after)] if before != after else []

    def _at_site(self, group: str, daemons: tuple[str, ...]) -> bool:
        return any(self.view.members[each].name in daemons for each in self._members.get(group, ()))
