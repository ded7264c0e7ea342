"""The journal of a real daemon, replayed: the same stack, the same events, the same actions byte for byte.

Besides the events of the stack a journal holds what the stack was made of (`Composed`, first), what was asked of it
between events (`Numbered`), what those who judge clients answered within one (`Judged`, right behind it), and now and
then how many events were handled and the digest of all actions so far (`Acted`), which the replay compares.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from isotone.core import boundary as b4
from isotone.core.contract import Action, Address, Event
from isotone.core.errors import InputError, RemoteProtocolError
from isotone.core.ids import parse_daemon_id
from isotone.core.patterns import ByPattern
from isotone.evs.membership.events import PeersChanged
from isotone.evs.sessions.admission import Admitted, Denied
from isotone.evs.sessions.notices import ClientsDismissed, GroupsHeld
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.sessions.settings import ServerSettings
from isotone.evs.stack import Stack, StackSettings
from isotone.trace.journal import MAGIC, encode_actions, read_journal, register_events
from isotone.trace.records import frame
from isotone.trace.tree import Names, name_of

STACK_LABEL, NODE_LABEL = "stack", "node"
_NAMES = Names()
_NAMES.register(StackSettings, ServerSettings)


class Composed(Event, frozen=True, gc=False):
    """What a stack was made of."""

    daemon: str
    identity: bytes
    site: str
    address: str
    settings: bytes
    sessions: bytes
    secret: bytes


class Judged(Event, frozen=True, gc=False):
    """What was answered about a client within the event before: a principal, or why not."""

    principal: str
    reason: str


class Numbered(Event, frozen=True, gc=False):
    """Somebody beside the stack took the next number of a session."""

    name: str


class Acted(Event, frozen=True, gc=False):
    """So many events were handled, and this is the digest of all actions."""

    handled: int
    digest: bytes


register_events(Composed, Judged, Numbered, Acted, PeersChanged, ClientsDismissed, GroupsHeld)


class Digest:
    """Of the actions of event after event."""

    def __init__(self) -> None:
        self.handled = 0
        self._hash = blake2b(digest_size=32)

    def add(self, actions: list[Action] | tuple[Action, ...]) -> None:
        """What one event led to."""
        self.handled += 1
        self._hash.update(frame(encode_actions(actions)))

    @property
    def value(self) -> bytes:
        """So far."""
        return self._hash.digest()


class JournalReplay(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay found. ``differs_at``: after so many events the digest was first another."""

    daemon: str
    events: int
    digest: str
    compared: int
    """Events up to the last comparison."""
    differs_at: int | None
    torn: str
    """How the journal ends, if nobody closed it."""

    @property
    def exit_code(self) -> int:
        """0 when all that could be compared is the same."""
        return 1 if self.differs_at is not None else 0


def is_journal(path: Path) -> bool:
    """Whether the file begins as one."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def replay_journal(path: Path) -> JournalReplay:
    """Hand everything to a stack made anew."""
    torn: list[str] = []
    records = read_journal(path, on_torn=torn.append)
    first = next(records, None)
    if first is None or not isinstance(first[1], Composed):
        raise InputError(f"{path}: this journal does not say what its stack was made of")
    replay = _Replay(first[1])
    compared, differs_at = 0, None
    for event in replay.run(event for _, event in records):
        if differs_at is None and event.handled == replay.digest.handled:
            compared = event.handled
            differs_at = None if event.digest == replay.digest.value else event.handled
    return JournalReplay(
        daemon=first[1].daemon,
        events=replay.digest.handled,
        digest=replay.digest.value.hex(),
        compared=compared,
        differs_at=differs_at,
        torn=torn[0] if torn else "",
    )


class _Replay:
    def __init__(self, composed: Composed) -> None:
        self.digest = Digest()
        self._answers: deque[Judged] = deque()
        me = parse_daemon_id(composed.daemon)
        self._sessions = ServerSessions(
            me,
            secret=composed.secret,
            settings=unpack_settings(composed.sessions),
            admit=self._admit,
            permit=self._permit,
        )
        self._stack = Stack(
            me=me,
            identity=composed.identity,
            site=composed.site,
            address=Address(composed.address),
            settings=unpack_settings(composed.settings),
            sessions=self._sessions,
        )

    def run(self, records: Iterator[Event]) -> Iterator[Acted]:
        """Play them; yields the digests on the way, each when all before it is played."""
        waiting: Event | None = None
        for record in records:
            if isinstance(record, Judged):
                self._answers.append(record)
                continue
            self._play(waiting)
            waiting = None
            match record:
                case Numbered(name=name):
                    self._sessions.next_id(name)
                case Acted():
                    yield record
                case _:
                    waiting = record
        self._play(waiting)

    def _play(self, event: Event | None) -> None:
        if event is None:
            return
        try:
            self.digest.add(self._stack.handle(event))
        except RemoteProtocolError:
            self.digest.add(())
        self._answers.clear()

    def _admit(self, name: str, credential: bytes, peer: Address) -> Admitted | Denied:
        del name, credential, peer
        answer = self._next_answer()
        return Denied(answer.reason) if answer.reason else Admitted(answer.principal)

    def _permit(self, principal: str, request: b4.Request) -> str:
        del principal, request
        return self._next_answer().reason

    def _next_answer(self) -> Judged:
        if not self._answers:
            raise InputError("the journal ends within an event, or this is another version of the code")
        return self._answers.popleft()


# --- settings ------------------------------------------------------------------------------------------------------


def pack_settings(settings: msgspec.Struct) -> bytes:
    """Settings as bytes; callables are left out, since the stack puts its own in."""
    return msgspec.msgpack.encode(_plain(settings))


def unpack_settings(data: bytes) -> Any:
    """The inverse."""
    return _made(msgspec.msgpack.decode(data))


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return ["struct", name_of(type(value)), {k: _plain(each) for k, each in fields.items() if not callable(each)}]
    if isinstance(value, Mapping):
        return ["map", [[key, _plain(value[key])] for key in value]]
    if isinstance(value, tuple | list):
        return ["tuple", [_plain(each) for each in value]]
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    return ["enum", name_of(type(value)), value.value]


def _made(tree: Any) -> Any:
    if not isinstance(tree, list):
        return tree
    kind, *rest = tree
    if kind == "struct":
        return _NAMES.named(rest[0])(**{name: _made(each) for name, each in rest[1].items()})
    if kind == "enum":
        return _NAMES.named(rest[0])(rest[1])
    if kind == "map":
        return ByPattern([(key, _made(each)) for key, each in rest[0]])
    return tuple(_made(each) for each in rest[0])
