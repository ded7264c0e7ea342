"""Repair of a damaged log: a damaged record is found again among those that could have stood there.

Servers do not have equal logs, so no peer has the record. But its checksum survives, what stands before it is known,
and a peer has the messages that follow there: so all records that could follow are made, and the one with the checksum
is it. Nothing else is ever written; if none has it, the server must be replaced by one with a new name.

Implements: docs/protocols/corel.md, Durability. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from isotone.core import boundary as b4
from isotone.core.contract import Action, Event, SetTimer, Started, Stop, Stopping, StoredLog, TimerFired
from isotone.core.ids import DaemonId
from isotone.corel import records as r
from isotone.corel.events import RepairRecord, RepairTried
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message
from isotone.corel.quorum import Primary
from isotone.corel.session import Session
from isotone.corel.settings import ReplicaSettings
from isotone.corel.wire import CATCHING_CODEC, Fetch, Fetched, FetchRefused

ASK = "ask"
ASK_US = 500_000
ASKED_MAX = 40
PARCELS = 32
NUMBERS_MAX = 256  # so many attempts may have failed in a row
SUBSETS_MAX = 10  # servers whose subsets are tried as a primary
REPLACE = "remove this server, and add one with a new name"


def candidates_for(ledger: Ledger, messages: Sequence[Message]) -> Iterator[bytes]:
    """Every record that may follow in this state, if the messages behind the queue's end are these."""
    return map(r.encode_record, _candidates(ledger, messages))


def _candidates(ledger: Ledger, messages: Sequence[Message]) -> Iterator[r.Record]:
    queue = ledger.queue
    for count in range(1, len(messages) + 1):
        yield r.Received(tuple(messages[:count]), True)
        yield r.Received(tuple(messages[:count]), False)
        yield r.Transferred(tuple(messages[:count]))
    yield from (r.Greened(place) for place in range(queue.green + 1, queue.yellow + 1))
    yield from (r.Forgotten(place) for place in range(queue.forgotten + 1, queue.green + 1))
    yield r.Lived(ledger.life + 1)
    yield from (r.Attempted(ledger.attempted + step) for step in range(1, NUMBERS_MAX))
    yield from (r.Established(primary) for primary in ledger.history.pending)
    servers = queue.configuration.servers[:SUBSETS_MAX]
    for size in range(1, len(servers) + 1):
        for members in combinations(servers, size):
            yield r.Committed(Primary(ledger.attempted, members))


class Repairer:
    """Runs instead of a replica on a log with damaged records, and does not vote: it is in no view."""

    def __init__(self, settings: ReplicaSettings, daemon: DaemonId) -> None:
        self.settings = settings.check()
        self.session = Session(daemon, settings.server, settings.group)
        self.ledger = Ledger.founded(settings.servers, settings.quorum)
        self.ledger.ready = settings.server in settings.servers
        self._log = StoredLog(1, ())
        self._repaired: dict[int, bytes] = {}
        self._messages: list[Message] = []
        self._tried: tuple[bytes, ...] = ()
        self._asked = 0
        self._refusal = "no server answers"

    def handle(self, event: Event) -> list[Action]:
        """Take one event, change state, say what to do."""
        match event:
            case Started(storage=storage):
                self._log = storage.logs.get(LOG, StoredLog(1, ()))
                return [self.session.connect()] if self._go_on() else [Stop("nothing is damaged")]
            case b4.Indicated(receivers=receivers, indication=indication):
                return self._on_indication(receivers, indication)
            case TimerFired():
                return self._ask()
            case RepairTried(chosen=chosen):
                return self._on_tried(chosen)
            case Stopping():
                return [self.session.ask(b4.Disconnect())] if self.session.client is not None else []
        return []

    @property
    def _number(self) -> int:
        """The first damaged record that is not repaired; 0 if there is none."""
        return next((number for number in self._log.damaged if number not in self._repaired), 0)

    def _go_on(self) -> bool:
        """Read up to the next damaged record; False if there is none."""
        self.ledger = Ledger.founded(self.settings.servers, self.settings.quorum)
        self.ledger.ready = self.settings.server in self.settings.servers
        stop = self._number
        for number, data in enumerate(self._log.records, self._log.first):
            if number == stop:
                return True
            self.ledger.apply(r.decode_record(self._repaired.get(number, data)))
        return False

    def _on_indication(self, receivers: tuple[object, ...], indication: b4.Indication) -> list[Action]:
        match indication:
            case b4.Connected():
                self.session.client = receivers[0]  # type: ignore[assignment]  # receivers are clients
                return self._ask()
            case b4.Message(bundle=bundle):
                return [action for body in bundle.bodies() for action in self._on_message(bytes(body))]
            case b4.Disconnected(reason=reason) | b4.Refused(reason=reason):
                return [Stop(f"cannot reach the others: {reason}")]
        return []

    def _ask(self) -> list[Action]:
        self._asked += 1
        if self._asked > ASKED_MAX:
            return [Stop(f"record {self._number} cannot be repaired: {self._refusal}; {REPLACE}")]
        self._messages = []
        ledger = self.ledger
        fetch = Fetch(self.settings.server, ledger.queue.end, 0, 0, PARCELS, ledger.fence)
        return [self.session.call(fetch), SetTimer(ASK, ASK_US)]

    def _on_message(self, body: bytes) -> list[Action]:
        match CATCHING_CODEC.decode(body):
            case Fetched(after=after, messages=messages, last=last):
                if self._tried or after != self.ledger.queue.end + len(self._messages):
                    return []
                self._messages += messages
                return self._offer() if last else []
            case FetchRefused(reason=reason):
                self._refusal = reason
        return []

    def _offer(self) -> list[Action]:
        self._tried = tuple(candidates_for(self.ledger, self._messages))
        return [RepairRecord(LOG, self._number, self._tried)]

    def _on_tried(self, chosen: int) -> list[Action]:
        if chosen < 0:
            reason = f"none of {len(self._tried)} records that could stand there has its checksum"
            return [Stop(f"record {self._number} cannot be repaired: {reason}; {REPLACE}")]
        self._repaired[self._number] = self._tried[chosen]
        self._tried, self._asked = (), 0
        return (
            self._ask() if self._go_on() else [Stop(f"repaired: {len(self._repaired)} records; start the server again")]
        )
