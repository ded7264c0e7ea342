"""The Guard: stands between a daemon and the network, and lets only daemons of the cluster through.

```
 Stack ─ actions ─▶ Outgoing ─▶ Guard ─ sealed datagrams, records ─▶ sockets
 Stack ◀─ events ◀─ Pass ◀───── Guard ◀─ datagrams, streams ◀─────── sockets
```
It keeps no timer: what was not answered is repeated when there is something to send again, and the membership always
has. Randomness is handed in.

Implements: docs/protocols/guard.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.contract import (
    Action,
    Address,
    CloseStream,
    DatagramsReceived,
    DatagramsRefused,
    Event,
    MulticastDatagrams,
    OpenStream,
    SendDatagrams,
    StreamClosed,
    StreamOpened,
    StreamReceived,
    StreamWritable,
    WriteStream,
)
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import DaemonId
from isotone.daemon.security.datagrams import DatagramGuard
from isotone.daemon.security.events import MembersChanged, Outgoing, Pass, RosterChanged
from isotone.daemon.security.keys import Identity, Roster
from isotone.daemon.security.limits import Refusals
from isotone.daemon.security.noise import Random
from isotone.daemon.security.sessions import Parts
from isotone.daemon.security.settings import GuardCounters, GuardSettings
from isotone.daemon.security.streams import StreamGuard
from isotone.evs.membership.messages import MARK


class Guard:
    """The automaton of one daemon's incarnation."""

    def __init__(
        self, identity: Identity, roster: Roster, random: Random, settings: GuardSettings | None = None
    ) -> None:
        settings = settings or GuardSettings()
        refusals = Refusals()
        self.counters = GuardCounters(refused=refusals.counts)
        self._datagrams = DatagramGuard(
            identity, roster, random, settings=settings, counters=self.counters, refusals=refusals
        )
        self._streams = StreamGuard(
            identity, roster, random, settings=settings, counters=self.counters, refusals=refusals
        )

    def peers(self) -> list[tuple[DaemonId, Address]]:
        """Who proved who they are, and where they are."""
        return [(peer.daemon, peer.sessions[0].address) for peer in self._datagrams.table.peers.values()]

    def handle(self, event: Event) -> list[Action]:
        """Take one event from above or from below."""
        out: list[Action] = []
        match event:
            case DatagramsReceived():
                self._datagrams.received(event, out)
            case Outgoing(actions=actions):
                self._on_outgoing(actions, event.at, out)
            case StreamOpened() | StreamReceived() | StreamWritable() | StreamClosed():
                self._streams.take(event, out)
            case MembersChanged():
                self._datagrams.enter(event, out)
            case RosterChanged(roster=roster):
                self._datagrams.revise(roster, event.at, out)
                self._streams.revise(roster, event.at, out)
            case DatagramsRefused():
                out.append(Pass(event))
            case _:
                raise LocalProtocolError(f"{type(event).__name__} is not for the Guard")
        return out

    def _on_outgoing(self, actions: Sequence[Action], at: int, out: list[Action]) -> None:
        shared: Sequence[Parts] | None = None  # what goes to several addresses, and is sealed once for all
        sealed: list[Parts] = []
        for index, action in enumerate(actions):
            match action:
                case SendDatagrams(destination=destination, datagrams=datagrams):
                    if datagrams is not shared:
                        shared = datagrams if _is_fan_out(datagrams, actions, index) else None
                        if shared is not None:
                            sealed = self._datagrams.multicast(datagrams, at, out)
                    if shared is None:
                        self._datagrams.send(action, at, out)
                    elif sealed:
                        out.append(SendDatagrams(destination, sealed))
                case MulticastDatagrams(site=site, datagrams=datagrams):
                    if once := self._datagrams.multicast(datagrams, at, out):
                        out.append(MulticastDatagrams(site, once))
                case OpenStream() | WriteStream() | CloseStream():
                    self._streams.give(action, out)
                case _:
                    raise LocalProtocolError(f"{type(action).__name__} is not for the network")


def _is_fan_out(datagrams: Sequence[Parts], actions: Sequence[Action], index: int) -> bool:
    """Whether the next action sends the very same datagrams to another address: a ring without multicast."""
    following = actions[index + 1] if index + 1 < len(actions) else None
    return isinstance(following, SendDatagrams) and following.datagrams is datagrams and datagrams[0][0][0] != MARK
