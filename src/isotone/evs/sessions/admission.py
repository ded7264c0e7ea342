"""Who may open a session, and who may go on with one: names, credentials, session keys, and those who left.

A session key is a keyed digest of the session's id: only who was told it can resume the session. Of sessions that ended
the reason is kept for a while, so that a client that comes back hears it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from itertools import islice

import msgspec

from isotone.core.contract import Address
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import ClientId, DaemonId, parse_client_id
from isotone.core.names import check_client_name
from isotone.evs.sessions.messages import KEY_BYTES, EndCode, Farewell, Hello, Resume
from isotone.evs.sessions.server_session import ServerSession, State

DEPARTED_MAX = 1024
SECRET_BYTES_MIN = 16


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """The credential is good; it stands for this principal."""

    principal: str = ""


class Denied(msgspec.Struct, frozen=True, gc=False):
    """The credential is not accepted, or does not allow this; of whom it is, if anybody's."""

    reason: str
    principal: str = ""


Admit = Callable[[str, bytes, Address], Admitted | Denied]
"""From a client's name, its credential and where it comes from to whether it may open a session."""


def admit_all(name: str, credential: bytes, peer: Address) -> Admitted | Denied:
    """Everybody may, and nobody has a principal."""
    del name, credential, peer
    return Admitted()


class Admission:
    """Decides about newcomers; holds the names in use and the sessions by id."""

    def __init__(self, daemon: DaemonId, secret: bytes, admit: Admit, sessions_max: int) -> None:
        assert len(secret) >= SECRET_BYTES_MIN, "a secret that nobody can guess"
        self.sessions: dict[ClientId, ServerSession] = {}
        self.last_session = 0
        self._names: dict[str, ServerSession] = {}
        self._departed: OrderedDict[ClientId, Farewell] = OrderedDict()
        self._daemon = daemon
        self._secret = secret
        self._admit = admit
        self._sessions_max = sessions_max

    def next_id(self, name: str) -> ClientId:
        """The id of the next session under this name; the session's number is higher than any before."""
        self.last_session += 1
        return ClientId(self._daemon, name, self.last_session)

    def key_of(self, client: ClientId) -> bytes:
        """What a client must know to resume this session."""
        return blake2b(str(client).encode(), digest_size=KEY_BYTES, key=self._secret[:64]).digest()

    def enter(self, session: ServerSession) -> None:
        """A session begins."""
        self.sessions[session.client] = self._names[session.client.name] = session

    def free_name(self, session: ServerSession) -> None:
        """The group service knows the session no longer: its name may be used again."""
        if self._names.get(session.client.name) is session:
            del self._names[session.client.name]

    def remove(self, session: ServerSession) -> None:
        """A session is over and done with."""
        self.free_name(session)
        del self.sessions[session.client]

    def remember(self, client: ClientId, farewell: Farewell) -> None:
        """If the client comes back, this is what it hears."""
        self._departed[client] = farewell
        if len(self._departed) > DEPARTED_MAX:
            self._departed.popitem(last=False)

    def departed(self, count: int) -> list[tuple[ClientId, Farewell]]:
        """The last so many who went, the latest first; bounded by what is remembered."""
        return list(islice(reversed(self._departed.items()), count))

    # --- decisions -------------------------------------------------------------------------------------------------

    def judge_hello(self, hello: Hello, peer: Address) -> tuple[Farewell | Admitted, ServerSession | None]:
        """Whether there will be a session, and which one of the same name makes place for it."""
        try:
            check_client_name(hello.name)
        except LocalProtocolError as error:
            return Farewell(EndCode.REFUSED, str(error)), None
        admitted = self._admit(hello.name, hello.credential, peer)
        if isinstance(admitted, Denied):
            return Farewell(EndCode.REFUSED, admitted.reason), None
        holder = self._names.get(hello.name)
        if holder is not None:
            is_parked = holder.state is State.OPEN and holder.stream is None and not holder.inbox
            is_same = hello.attempt == holder.attempt  # it never heard the welcome
            if not (is_parked or is_same) or holder.principal != admitted.principal:
                return Farewell(EndCode.REFUSED, f"the name {hello.name} is in use"), None
        elif len(self.sessions) >= self._sessions_max:
            return Farewell(EndCode.FULL, f"the daemon has {len(self.sessions)} sessions, and no more"), None
        return admitted, holder

    def judge_resume(self, resume: Resume, version: int) -> Farewell | ServerSession:
        """The session to go on with, or why not."""
        client = parse_client_id(resume.client)
        if client.daemon.name != self._daemon.name:
            return Farewell(EndCode.ELSEWHERE, f"this is {self._daemon.name}, not {client.daemon.name}")
        if client.daemon != self._daemon:
            return Farewell(EndCode.GONE, "the daemon was restarted")
        session = self.sessions.get(client)
        if _digest(resume.key) != _digest(self.key_of(client)) or session is None:
            known = _digest(resume.key) == _digest(self.key_of(client)) and self._departed.get(client)
            return known or Farewell(EndCode.GONE, "there is no such session")
        if not session.resumes:
            return Farewell(EndCode.GONE, "the session ends with its stream")
        if session.state is State.ENDING:
            return self._departed.get(client) or Farewell(EndCode.GONE, "the session is ending")
        if session.state is State.CONNECTING or session.version != version:
            return Farewell(EndCode.GONE, f"the session speaks version {session.version}, not {version}")
        return session


def _digest(key: bytes) -> bytes:
    """Compared instead of the key itself, so that the time it takes tells nothing about the key."""
    return blake2b(key).digest()
