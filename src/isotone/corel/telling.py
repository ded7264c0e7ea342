"""What a server tells: entries of the trace and deliveries to the application, made from its ledger."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from isotone.core.contract import Action, Record
from isotone.corel.events import ConfigurationChanged, DeliverGreen, DeliverRed
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message
from isotone.corel.proposal import Level
from isotone.trace import corel as trace


def names(messages: list[Message] | tuple[Message, ...]) -> tuple[str, ...]:
    """As a trace has them."""
    return tuple(map(str, messages))


def digest(message: Message) -> int:
    """64 bits over the records."""
    return _digest(message.records)


@lru_cache(maxsize=4096)
def _digest(records: tuple[bytes, ...]) -> int:
    state = blake2b(digest_size=8)
    for record in records:
        state.update(len(record).to_bytes(4, "big"))
        state.update(record)
    return int.from_bytes(state.digest(), "big")


def started(server: str, ledger: Ledger, identity: bytes) -> Record:
    """What was found on disk; ``identity``: of a log that begins now."""
    queue, proposal = ledger.queue, ledger.proposal
    return Record(
        trace.ReplicaStarted(
            server,
            ledger.life,
            ledger.committed,
            ledger.attempted,
            queue.green,
            queue.yellow,
            names(queue.between(queue.green, queue.end)),
            queue.configuration.servers,
            ledger.vouches,
            proposal.number if proposal is not None and server in proposal.accepted else 0,
            ledger.fence,
            (identity or ledger.identity).hex(),
            queue.configuration.rule_as_json(),
        )
    )


def initiated(server: str, message: Message) -> Record:
    """A message is sent for the first time."""
    entry = trace.Initiated(server, str(message), message.lamport, len(message.records), digest(message))
    return Record(entry)


def received(server: str, message: Message, *, yellow: bool) -> list[Action]:
    """A message is on disk; the application does not tell red from yellow [COReL 5.5]."""
    kind = trace.Yellowed if yellow else trace.Reddened
    return [Record(kind(server, (str(message),))), DeliverRed((message,))]


def arranged(server: str, ledger: Ledger, *, committed: int | None = None) -> Record:
    """Lines and order after a step of the recovery; ``committed``: as it was before this step."""
    queue = ledger.queue
    return Record(
        trace.QueueArranged(
            server,
            ledger.committed if committed is None else committed,
            queue.green,
            queue.yellow,
            names(queue.between(queue.green, queue.end)),
            ledger.vouches,
        )
    )


def greened(
    server: str, ledger: Ledger, before: int, records_before: int, *, level: Level | None = None, proposal: int = 0
) -> list[Action]:
    """What became green since the line stood at ``before``; ``level``: that of the server that it was learned from."""
    queue = ledger.queue
    if queue.green == before:
        return []
    messages = tuple(queue.between(before, queue.green))
    digests = tuple(map(digest, messages))
    number, proposal = (ledger.known_context, proposal) if level is None else level
    entry = trace.Greened(server, number, before + 1, names(messages), digests, proposal)
    return [Record(entry), DeliverGreen(records_before + 1, messages), *reconfigured(server, ledger)]


def reconfigured(server: str, ledger: Ledger) -> list[Action]:
    """Configurations that took effect and were not told yet."""
    actions: list[Action] = []
    for place, configuration in ledger.queue.taken:
        number, servers, rule = configuration.number, configuration.servers, configuration.rule
        entry = trace.Reconfigured(server, place, number, servers, configuration.rule_as_json())
        told = ConfigurationChanged(number, servers, configuration.describe(), rule)
        actions += [Record(entry), told]
    ledger.queue.taken.clear()
    return actions


def state_digest(state: bytes, meaning: int = 0) -> int:
    """64 bits over an application's state: its own digest of what that means, or one of the bytes."""
    return meaning or int.from_bytes(blake2b(state, digest_size=8).digest(), "big")
