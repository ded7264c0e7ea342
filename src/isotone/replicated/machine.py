"""The replicated state machine: records in the one order go in, answers come out, and every replica has the same state.

Everything that decides is in the order: results of commands are kept with their session, so that a command that was
sent twice is applied once; sessions end by the lease clock, which advances when more than half of the servers have
ticked; fences are counted here. No clock, no randomness, and no set is iterated over.

Implements: [COReL 8.1], deterministic state machines; docs/protocols/replicated.md "Sessions" and "Leases".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import msgspec

from isotone.core.errors import InputError
from isotone.replicated.class_state import Classes, ClassState, commands_of
from isotone.replicated.database.procedures import KIND as DATABASE
from isotone.replicated.database.state import Databases, DatabaseState, name_of
from isotone.replicated.dict_state import DictState
from isotone.replicated.lock_state import LockState
from isotone.replicated.outcome import Answer, CommandRefused, Context, Waiting
from isotone.replicated.records import Announced, Called, Closed, DigestWanted, Opened, Removed, Renewed, Ticked, decode
from isotone.replicated.small_states import BarrierState, CommitmentState, CounterState, QueueState, SetState

SNAPSHOT_VERSION = 1
SESSIONS_MAX = 65_536
OBJECTS_MAX = 65_536
RESULTS_MAX = 4_096
"""Requests of one session that may be open or not yet settled."""
LEASE_MAX = 1_000_000
COMPARED_KEPT = 16
DIGEST_BYTES = 8

ObjectState = (
    DictState
    | CounterState
    | SetState
    | QueueState
    | BarrierState
    | CommitmentState
    | LockState
    | ClassState
    | DatabaseState
)
KINDS: dict[str, type[Any]] = {
    "dict": DictState,
    "counter": CounterState,
    "set": SetState,
    "queue": QueueState,
    "barrier": BarrierState,
    "commitment": CommitmentState,
    "lock": LockState,
}
EXPIRED = "the session is over: its lease ran out, or it was closed"


class Session(msgspec.Struct, array_like=True):
    """One client: until when it lives by the lease clock, and what its requests were answered."""

    nonce: str
    lease: int
    renewed: int  # the round of the lease clock when it was last heard of
    settled: int = 1  # requests below were answered, and are forgotten
    results: dict[int, Answer | None] = {}  # of those that came; None while one waits


class MachineState(msgspec.Struct):
    """All of it, as it stands in a snapshot."""

    version: int = SNAPSHOT_VERSION
    position: int = 0
    fences: int = 0
    round: int = 0
    ticked: dict[str, int] = {}  # who has ticked in this round
    sessions: dict[int, Session] = {}
    objects: dict[str, ObjectState] = {}
    announced: dict[str, dict[str, list[str]]] = {}  # of each class, the commands that each server knows
    servers: list[str] = []  # as the last record that names them does
    removed: int = 0  # the position at which a dict was last removed


@dataclass
class Outcome:
    """Of one record."""

    answers: list[Answer] = field(default_factory=list)
    opened: tuple[str, int] | None = None  # a nonce and the session that it got
    expired: list[int] = field(default_factory=list)  # sessions that are over from here on
    new_round: bool = False


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(MachineState)


class Machine:
    """One replica's copy. ``classes`` and ``databases`` are those of this program; ``is_server``: it may not miss a
    command.
    """

    def __init__(
        self, classes: Classes | None = None, databases: Databases | None = None, *, is_server: bool = True
    ) -> None:
        self.state = MachineState()
        self.classes, self.databases = classes or Classes(), databases or Databases()
        self.is_server = is_server
        self.compared: dict[int, dict[str, int]] = {}  # digests where they were asked for; no part of the state
        self.blind: dict[str, None] = {}  # objects of classes that this client does not know

    # --- applying ----------------------------------------------------------------------------------------------------

    def apply(self, position: int, record: bytes) -> Outcome:
        """The next record. `InputError` when this program is too old for it: then this copy is of no use any more."""
        state = self.state
        assert position == state.position + 1, f"position {position} follows {state.position}"
        decoded = decode(record)
        outcome = Outcome()
        context = Context(position, 0, 0, self.classes, self.databases, record, state.fences)
        match decoded:
            case Called() | Removed():
                self._call(context, decoded)
            case Opened():
                outcome.opened = self._open(context, decoded)
            case Renewed(session=session):
                self._hear_of(session)
            case Ticked():
                self._tick(context, decoded, outcome)
            case Closed(session=session) if session in state.sessions:
                self._end(context, session, outcome)
            case DigestWanted():
                self.compared[position] = {}  # its position stands in the state, so the digests are taken below
            case Announced():
                state.announced.setdefault(decoded.name, {})[decoded.server] = list(decoded.commands)
                state.servers = list(decoded.servers)
        state.position, state.fences = position, context.fences
        for answer in context.answers:
            known = state.sessions.get(answer.session)
            if known is not None:
                known.results[answer.request] = answer
        outcome.answers = context.answers
        if position in self.compared:
            self.compared[position] = self.digests()
            for oldest in sorted(self.compared)[:-COMPARED_KEPT]:
                del self.compared[oldest]
        return outcome

    def _hear_of(self, number: int) -> Session | None:
        session = self.state.sessions.get(number)
        if session is not None:
            session.renewed = self.state.round
        return session

    def _open(self, context: Context, opened: Opened) -> tuple[str, int] | None:
        """One of the same client that is sent twice makes a second session, which nobody uses and which runs out."""
        if len(self.state.sessions) >= SESSIONS_MAX:
            return (opened.nonce, 0)
        lease = min(max(opened.lease, 2), LEASE_MAX)
        self.state.sessions[context.position] = Session(opened.nonce, lease, self.state.round)
        return (opened.nonce, context.position)

    def _call(self, context: Context, call: Called | Removed) -> None:
        session = self._hear_of(call.session)
        context.session, context.request = call.session, call.request
        if session is None:
            context.answers.append(Answer(call.session, call.request, None, EXPIRED))
            return
        if call.settled > session.settled:
            session.settled = call.settled
            session.results = {each: answer for each, answer in session.results.items() if each >= call.settled}
        if call.request < session.settled:
            return  # it was answered, and nobody asks any more
        if call.request in session.results:
            known = session.results[call.request]
            if known is not None:
                context.answers.append(known)
            return
        if len(session.results) >= RESULTS_MAX:
            context.answers.append(
                Answer(call.session, call.request, None, f"too many requests are open in one session: {RESULTS_MAX}")
            )
            return
        session.results[call.request] = None
        try:
            value = self._remove(context, call) if isinstance(call, Removed) else self._run(context, call)
        except CommandRefused as refused:
            context.answers.append(Answer(call.session, call.request, None, str(refused)))
            return
        if not isinstance(value, Waiting):
            context.answers.append(Answer(call.session, call.request, value))

    def _run(self, context: Context, call: Called) -> Any:
        """A refused command makes no object. A database stays, since its file has the call."""
        found = self._object(call)
        if isinstance(found, DatabaseState):
            self.state.objects[call.name] = found
        value = found.apply(context, call.method, call.arguments)
        if isinstance(found, LockState) and found.is_free:  # it is as if nobody had asked for it
            self.state.objects.pop(call.name, None)
        else:
            self.state.objects[call.name] = found
        return value

    def _object(self, call: Called) -> Any:
        found = self.state.objects.get(call.name)
        if found is None:
            if len(self.state.objects) >= OBJECTS_MAX:
                raise CommandRefused(f"there are {OBJECTS_MAX} objects already: remove some with remove()")
            found = _new_object(call, self.state.removed)
        _check_kind(found, call)
        if isinstance(found, ClassState | DatabaseState):
            self._check_known(call)
        return found

    def _remove(self, context: Context, call: Removed) -> bool:
        """Whether it was there. What somebody holds or waits for is not removed."""
        found = self.state.objects.get(call.name)
        if found is None:
            return False
        _check_kind(found, call)
        if isinstance(found, CommitmentState) and call.who and not found.finish(call.who):
            return True
        if why := _why_it_stays(found):
            raise CommandRefused(f"{call.name} is not removed: {why}")
        if isinstance(found, DictState):
            found.clear(context)  # those who watch it are told
            self.state.removed = context.position
        del self.state.objects[call.name]
        return True

    def _check_known(self, call: Called) -> None:
        """A command that one server's program does not know is refused by all."""
        if why := self.why_unknown(call.kind, call.method):
            raise CommandRefused(why)
        if call.kind not in self.known:
            self._be_blind(call.name, call.kind)
            raise CommandRefused("this client does not know it")

    def _be_blind(self, name: str, kind: str) -> None:
        """A client goes on without the object; a server cannot."""
        if self.is_server:
            raise InputError(
                f"{name} is an object of {_told(kind)}, which this program does not know: "
                f"name it in isotone.replica(..., {_option(kind)}=[...])"
            )
        self.blind[name] = None

    @property
    def known(self) -> dict[str, tuple[str, ...]]:
        """The commands and procedures of this program, by kind."""
        classes = {kind: commands_of(cls) for kind, cls in self.classes.kinds.items()}
        return classes | {kind: each.names for kind, each in self.databases.kinds.items()}

    def still_open(self, calls: Iterable[Called]) -> list[Called]:
        """Those that would be applied if they were ordered now: of sessions that live, and not answered before."""
        found = []
        for call in calls:
            session = self.state.sessions.get(call.session)
            if session is not None and call.request >= session.settled and call.request not in session.results:
                found.append(call)
        return found

    def why_unknown(self, kind: str, method: str) -> str:
        """Why a command of a class cannot be applied: the program of some server does not know it."""
        known = self.state.announced.get(kind, {})
        lacking = [each for each in self.state.servers if method not in known.get(each, ())]
        if known and not lacking:
            return ""
        return (
            f"the command {method} of {_told(kind)} is not known to the program of "
            f"{', '.join(lacking) or 'any server'}: name it in isotone.replica(..., {_option(kind)}=[...]) there"
        )

    # --- leases ------------------------------------------------------------------------------------------------------

    def _tick(self, context: Context, tick: Ticked, outcome: Outcome) -> None:
        """The clock advances when more than half of the servers say that this round has lasted its time."""
        state = self.state
        if tick.round != state.round or tick.server not in tick.servers:
            return
        state.ticked[tick.server] = context.position
        state.servers = list(tick.servers)
        if 2 * sum(each in state.ticked for each in tick.servers) <= len(tick.servers):
            return
        state.round += 1
        state.ticked = {}
        outcome.new_round = True
        over = [number for number, each in state.sessions.items() if state.round - each.renewed >= each.lease]
        for number in over:
            self._end(context, number, outcome)

    def _end(self, context: Context, number: int, outcome: Outcome) -> None:
        del self.state.sessions[number]
        outcome.expired.append(number)
        for name, each in list(self.state.objects.items()):
            each.release(context, number)
            if isinstance(each, LockState) and each.is_free:
                del self.state.objects[name]

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state with the copies of databases; not while one of them is further than the state."""
        databases = [each for each in self.state.objects.values() if isinstance(each, DatabaseState)]
        self.databases.fill(each for each in databases if each.kind in self.databases.kinds)
        encoded = _encoder.encode(self.state)
        for each in databases:
            each.image = b""
        return encoded

    def restore(self, state: bytes) -> None:
        """Take a snapshot's place."""
        try:
            restored = _decoder.decode(state)
        except msgspec.DecodeError as error:
            raise InputError(f"the snapshot of replicated objects cannot be read: {error}") from error
        if restored.version != SNAPSHOT_VERSION:
            raise InputError(f"the snapshot has version {restored.version}; this program knows {SNAPSHOT_VERSION}")
        databases = {name: each for name, each in restored.objects.items() if isinstance(each, DatabaseState)}
        for name, each in databases.items():
            if each.kind not in self.databases.kinds:
                self._be_blind(name, each.kind)
        self.databases.restore(databases.values())
        self.state = restored

    def digest(self) -> int:
        """Of the whole state, the same at every replica at one position: databases by the digests of their rows."""
        return _digest(self.state)

    def problems(self) -> dict[str, list[str]]:
        """By a scan of each database: what is damaged, or not what procedures made of it."""
        states = {name: each for name, each in self.state.objects.items() if isinstance(each, DatabaseState)}
        known = {name: each for name, each in states.items() if each.kind in self.databases.kinds}
        return {name: found for name, each in known.items() if (found := self.databases.copy_of(each).problems())}

    def digests(self) -> dict[str, int]:
        """Of each object, and of all else under the empty name."""
        objects = {name: _digest(each) for name, each in self.state.objects.items()}
        return objects | {"": _digest(msgspec.structs.replace(self.state, objects={}))}


def kind_of(state: ObjectState) -> str:
    """The kind by which clients name it."""
    if isinstance(state, ClassState | DatabaseState):
        return state.kind
    return str(state.__struct_config__.tag)


def _check_kind(found: ObjectState, call: Called | Removed) -> None:
    if kind_of(found) != call.kind:
        raise CommandRefused(f"{call.name} is a {kind_of(found)}, not a {call.kind}")


def _why_it_stays(found: ObjectState) -> str:
    match found:
        case DatabaseState():
            return "a database stays"
        case LockState():
            return "somebody holds it or waits for it"  # a free one is not there
        case QueueState() if found.takers or any(each.taker for each in found.items.values()):
            return "somebody works on an item or waits for one"
        case BarrierState() if found.arrived:
            return "somebody waits at it"
        case CommitmentState() if not found.decision:
            return "it is not decided; abort() decides it"
    return ""


def _new_object(call: Called, removed: int) -> ObjectState:
    if call.kind == "dict":
        return DictState(forgotten=removed)  # one of that name may have had changes before
    if call.kind in KINDS:
        made: ObjectState = KINDS[call.kind]()
        return made
    if not call.kind.startswith(DATABASE):
        return ClassState(call.kind)
    if call.name != name_of(call.kind):
        raise CommandRefused(f"a database stands under its own name, not under {call.name}")
    return DatabaseState(call.kind)


def _told(kind: str) -> str:
    return f"the database {name_of(kind)}" if kind.startswith(DATABASE) else kind.removeprefix("class:")


def _option(kind: str) -> str:
    return "databases" if kind.startswith(DATABASE) else "classes"


def _digest(state: object) -> int:
    return int.from_bytes(blake2b(_encoder.encode(state), digest_size=DIGEST_BYTES).digest(), "big")
