"""Requests of clients: taken into the daemon's queue, or refused with a reason; never an error of the oracle.

A session ends with the request to disconnect; its kill follows all that the session sent. Requests of different
clients may overtake each other in the queue; those under one name never do, so that a client that comes back stands
behind its former self [Spread 2.9.2].
"""

from __future__ import annotations

from isotone.core import names
from isotone.core.boundary import (
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Indicate,
    Join,
    Leave,
    Request,
    Send,
    refusal,
)
from isotone.core.bundles import BUNDLE_BYTES_MAX, GROUPS_MAX, MESSAGES_MAX, Bundle
from isotone.core.contract import Action
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import ClientId
from isotone.spec.oracle.model import DATA, JOIN, KILL, LEAVE, Daemon, World

_KNOWN_MAX = 10_000


class Desk:
    """Takes requests for the daemons of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: set[tuple[str, ...]] = set()  # tuples of group names that were found good; only looked up

    def take(self, daemon: Daemon, client: ClientId, request: Request) -> list[Action]:
        """Take one request of a client of this living daemon."""
        if type(request) is Send:
            reason = self._send(daemon, client, request.bundle)
        else:
            reason = self._other(daemon, client, request)
        out: list[Action] = []
        if reason:
            out.append(Indicate((client,), refusal(request, reason)))
        elif type(request) is Connect:
            out.append(Indicate((client,), Connected()))
        elif type(request) is Disconnect:
            out.append(Indicate((client,), Disconnected("asked for")))
        if daemon.pending and daemon.view is not None:
            self._world.arm(daemon, out)
        return out

    # Each of these changes the session and returns "", or changes nothing and says why.

    def _send(self, daemon: Daemon, client: ClientId, bundle: Bundle) -> str:
        expected = daemon.next_sequence.get(client)
        if expected is None:
            return "not connected"
        if bundle.first_sequence != expected:
            return f"the next sequence is {expected}, not {bundle.first_sequence}"
        reason = self._fault_of(client, bundle)
        if reason or self._is_full(daemon):
            return reason or "the daemon is busy"
        daemon.next_sequence[client] = expected + len(bundle.lengths)
        self._queue(daemon, DATA, client, bundle)
        return ""

    def _fault_of(self, client: ClientId, bundle: Bundle) -> str:
        """What is wrong with the bundle itself."""
        if bundle.groups not in self._known:
            reason = _fault_of_groups(bundle.groups)
            if reason:
                return reason
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known.add(bundle.groups)
        if bundle.sender != client:
            return "sent in another's name"
        size = len(bundle.payload)
        if not 1 <= len(bundle.lengths) <= MESSAGES_MAX or len(bundle.types) != len(bundle.lengths):
            return f"a bundle has 1 to {MESSAGES_MAX} messages, each with a length and a type"
        if size > BUNDLE_BYTES_MAX or sum(bundle.lengths) != size:
            return f"a bundle's lengths add up to its size, at most {BUNDLE_BYTES_MAX} bytes"
        return ""

    def _other(self, daemon: Daemon, client: ClientId, request: Request) -> str:
        if type(request) is Connect:
            return _connect(daemon, client)
        wanted = daemon.wanted.get(client)
        if wanted is None:
            return "not connected"
        if type(request) is Disconnect:
            del daemon.wanted[client], daemon.next_sequence[client]
            daemon.groups.disconnect(client)
            self._queue(daemon, KILL, client, "")
            return ""
        assert isinstance(request, Join | Leave)
        return self._change(daemon, client, request, wanted)

    def _change(self, daemon: Daemon, client: ClientId, request: Join | Leave, wanted: list[str]) -> str:
        group = request.group
        reason = _fault_of_groups((group,))
        if reason or names.is_private_group(group):
            return reason or "a private group has its client alone"
        if self._is_full(daemon):
            return "the daemon is busy"
        if isinstance(request, Join):
            if group in wanted:
                return "joined already"
            wanted.append(group)
            self._queue(daemon, JOIN, client, group)
        else:
            if group not in wanted:
                return "not a member"
            wanted.remove(group)
            self._queue(daemon, LEAVE, client, group)
        return ""

    def _is_full(self, daemon: Daemon) -> bool:
        return len(daemon.pending) >= self._world.settings.pending_max

    def _queue(self, daemon: Daemon, kind: int, client: ClientId, payload: str | Bundle) -> None:
        serial = daemon.view.serial if daemon.view else -1
        pending, place = daemon.pending, len(daemon.pending)
        choice = self._world.choice
        while place and pending[place - 1][1].name != client.name and choice.chance(0.3):
            place -= 1  # a request of another client is overtaken
        pending.insert(place, (kind, client, payload, serial))


def _connect(daemon: Daemon, client: ClientId) -> str:
    try:
        names.check_client_name(client.name)
    except LocalProtocolError as error:
        return str(error)
    if client.name in daemon.groups.open:
        return "the name is in use"
    if client.session <= daemon.last_session.get(client.name, -1):
        return "a session's number is higher than the last under its name"
    daemon.last_session[client.name] = client.session
    daemon.next_sequence[client] = 1
    daemon.wanted[client] = []
    daemon.groups.connect(client)
    return ""


def _fault_of_groups(groups: tuple[str, ...]) -> str:
    if not 1 <= len(groups) <= GROUPS_MAX or len(set(groups)) != len(groups):
        return f"a bundle goes to 1 to {GROUPS_MAX} different groups"
    try:
        for group in groups:
            names.check_group_name(group)
    except LocalProtocolError as error:
        return str(error)
    return ""
