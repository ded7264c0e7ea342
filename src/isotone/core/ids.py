"""Identities: daemons, clients, messages, stamps and views.

Every id is immutable, hashable and totally ordered, and has one text form that parses back. Names exclude ``#`` and
``!`` (see `isotone.core.names`), so these two separate the parts: a daemon ``d1#3``, a client ``#alice#d1#3#17``, a
daemon view ``7!d1#3``, a group view ``7!d1#3`` or ``7!d1#3!9!d2#1!120!d1#3``.

Deviations: Dv view ids, because [Spread 2.2.5] concedes that two components may deliver one id with different members
and a group that empties repeats its ids; ours name the daemon view, the next one while in transition, and the stamp of
the join, leave or kill.
"""

from __future__ import annotations

import msgspec

from isotone.core.errors import RemoteProtocolError

SEQUENCE_MAX = 2**63 - 1


class DaemonId(msgspec.Struct, frozen=True, order=True, gc=False, forbid_unknown_fields=True):
    """One start of one daemon: its stable name, and the incarnation number that each start raises."""

    name: str
    incarnation: int

    def __str__(self) -> str:
        return f"{self.name}#{self.incarnation}"


class ClientId(msgspec.Struct, frozen=True, order=True, gc=False, forbid_unknown_fields=True):
    """One connection of one client: the same private name at the same daemon gets a higher session next time."""

    daemon: DaemonId
    name: str
    session: int

    def __str__(self) -> str:
        return f"#{self.name}#{self.daemon.name}#{self.daemon.incarnation}#{self.session}"

    @property
    def private_group(self) -> str:
        """The name under which this client alone can be reached, as in Spread: ``#name#daemon``."""
        return f"#{self.name}#{self.daemon.name}"


class MessageId(msgspec.Struct, frozen=True, order=True, gc=False, forbid_unknown_fields=True):
    """A message for all time: who sent it, and the place in that session's dense sequence, from 1."""

    sender: ClientId
    sequence: int

    def __str__(self) -> str:
        return f"{self.sender}:{self.sequence}"


class Stamp(msgspec.Struct, frozen=True, order=True, gc=False, forbid_unknown_fields=True):
    """The place of a bundle in the total order: Lamport time, then the stamping daemon. Unique for all time."""

    lamport: int
    daemon: DaemonId

    def __str__(self) -> str:
        return f"{self.lamport}!{self.daemon}"


class DaemonViewId(msgspec.Struct, frozen=True, order=True, gc=False, forbid_unknown_fields=True):
    """A daemon view: an epoch above all that any member has seen, and the daemon that formed it."""

    epoch: int
    coordinator: DaemonId

    def __str__(self) -> str:
        return f"{self.epoch}!{self.coordinator}"


NO_DAEMON = DaemonId("", 0)
NO_STAMP = Stamp(0, NO_DAEMON)
NO_DAEMON_VIEW = DaemonViewId(0, NO_DAEMON)


class GroupViewId(msgspec.Struct, frozen=True, order=True, gc=False, forbid_unknown_fields=True):
    """A view of a group: unique, never reused, increasing at every member.

    ``next_daemon_view`` is set while the daemon is in transition to it; ``stamp`` is that of the join, leave or kill
    that made the view, or `NO_STAMP` when the network did.
    """

    daemon_view: DaemonViewId
    next_daemon_view: DaemonViewId = NO_DAEMON_VIEW
    stamp: Stamp = NO_STAMP

    def __str__(self) -> str:
        if self.next_daemon_view == NO_DAEMON_VIEW and self.stamp == NO_STAMP:
            return str(self.daemon_view)
        return f"{self.daemon_view}!{self.next_daemon_view}!{self.stamp}"


def parse_daemon_id(text: str) -> DaemonId:
    """The inverse of ``str(DaemonId)``."""
    name, _, incarnation = text.rpartition("#")
    return DaemonId(name, _natural(incarnation, text))


def parse_client_id(text: str) -> ClientId:
    """The inverse of ``str(ClientId)``."""
    parts = text.split("#")
    if len(parts) != 5 or parts[0]:
        raise RemoteProtocolError(f"not a client id: {text!r}")
    return ClientId(DaemonId(parts[2], _natural(parts[3], text)), parts[1], _natural(parts[4], text))


def parse_daemon_view_id(text: str) -> DaemonViewId:
    """The inverse of ``str(DaemonViewId)``."""
    epoch, separator, coordinator = text.partition("!")
    if not separator:
        raise RemoteProtocolError(f"not a daemon view id: {text!r}")
    return DaemonViewId(_natural(epoch, text), parse_daemon_id(coordinator))


def parse_group_view_id(text: str) -> GroupViewId:
    """The inverse of ``str(GroupViewId)``."""
    parts = text.split("!")
    if len(parts) == 2:
        return GroupViewId(parse_daemon_view_id(text))
    if len(parts) != 6:
        raise RemoteProtocolError(f"not a group view id: {text!r}")
    return GroupViewId(
        DaemonViewId(_natural(parts[0], text), parse_daemon_id(parts[1])),
        DaemonViewId(_natural(parts[2], text), parse_daemon_id(parts[3])),
        Stamp(_natural(parts[4], text), parse_daemon_id(parts[5])),
    )


def _natural(digits: str, whole: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        raise RemoteProtocolError(f"not an id: {whole!r}")
    return int(digits)
