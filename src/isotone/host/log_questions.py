"""What can be asked of a replica through its port, beside the log itself.

| question | argument | answer |
|---|---|---|
| `status` | | a `ReplicaStatus` |
| `end` | | the last green position |
| `snapshot` | a position and an offset | of the newest its position, digest, size and a piece; or nothing |
| `explain` | nothing, or the name of a message | why there is no primary component, or why it is not green |
| `messages` | a place and a count | the messages behind it, with all that a server keeps of them |
| `primaries` | | the last primary component known here, and those that may have come after it |
| `forcing` | | the fence known here, the configuration that it made, and that of the green prefix |
| `digests` | a position | of replicated objects: their digests where a comparison was asked for, what a scan finds |
| `state` | | what it would say of itself and of the others in a view |
"""

from __future__ import annotations

import msgspec

from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.corel.port import wire
from isotone.corel.promises import state_of
from isotone.corel.wire import CODEC
from isotone.host.replica_log import ReplicaLog
from isotone.host.replica_status import status_of

MESSAGES_BYTES_MAX = 4 * 1024 * 1024


async def answer(log: ReplicaLog, what: str, argument: str) -> object:
    """The answer, as plain data; `RemoteProtocolError` for a question that nobody knows."""
    match what:
        case "status":
            return msgspec.to_builtins(status_of(log))
        case "end":
            return await log.end()
        case "explain":
            return log.why_not_green(argument) if argument else log.why_no_primary()
        case "messages":
            return _messages(log, *_numbers(argument))
        case "primaries":
            history = log.replica.ledger.history
            return [msgspec.msgpack.encode(each) for each in (history.last, *history.pending)]
        case "forcing":
            ledger = log.replica.ledger
            green = ledger.queue.configuration
            return [ledger.fence, *map(msgspec.msgpack.encode, (ledger.forced or green, green))]
        case "state":
            return CODEC.encode(state_of(log.replica.settings.server, log.replica.ledger, log.replica.greens.places))
        case "snapshot":
            return _piece(log, *_numbers(argument))
    if (ask := log.questions.get(what)) is not None:
        return await ask(argument)
    raise RemoteProtocolError(f"nobody knows the question {what!r}")


def _piece(log: ReplicaLog, position: int, offset: int) -> list[object] | None:
    """Of another position than the newest has, nobody wants what follows: then it is the first piece."""
    snapshot = log.replica.ledger.snapshot
    if snapshot is None:
        return None
    head, begin = snapshot.head, offset if position == snapshot.head.position else 0
    return [head.position, head.digest, head.size, snapshot.state[begin : begin + wire.PIECE_BYTES_MAX]]


def _messages(log: ReplicaLog, after: int, count: int) -> list[bytes]:
    """As this server has them; what it forgot it cannot tell."""
    queue = log.replica.ledger.queue
    if not queue.forgotten <= after <= queue.end:
        raise LocalProtocolError(f"places {queue.forgotten + 1} to {queue.end} are here, no {after + 1}")
    told: list[bytes] = []
    size = 0
    for message in queue.between(after, min(queue.end, after + count)):
        told.append(msgspec.msgpack.encode(message))
        size += len(told[-1])
        if size > MESSAGES_BYTES_MAX:
            break
    return told


def _numbers(argument: str) -> tuple[int, int]:
    """Two of them, with a space between."""
    words = argument.split()
    if len(words) != 2 or not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
        raise RemoteProtocolError(f"two numbers are expected, not {argument!r}")
    return int(words[0]), int(words[1])
