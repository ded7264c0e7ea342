"""What crosses boundary B4, as entries of the trace: pure functions that every shell calls.

The shell records what a client really asked and what it was really told, so the record never depends on the word of
the service that is judged by it. The simulator calls this for every row, hence the caches: texts of ids and digests
are functions of values that never change.

Implements: [Spread 2.2.1], the external signature of EVS-C.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from isotone.core import boundary as b4
from isotone.core.bundles import Bundle
from isotone.core.ids import ClientId, DaemonId
from isotone.trace.events import (
    Connected,
    Delivered,
    Disconnected,
    Entry,
    JoinRequested,
    LeaveRequested,
    SelfLeft,
    Sent,
    SignalDelivered,
    ViewDelivered,
)

# Bounds of the caches. Digests are XXH3: on 64 KiB it takes 1 us where BLAKE2b took 70 us on the same machine, and
# nobody is kept from making two messages with one digest who could not write the record himself.
_TEXTS_MAX = 65536
_DIGESTS_MAX = 256

client_text = lru_cache(_TEXTS_MAX)(ClientId.__str__)
daemon_text = lru_cache(_TEXTS_MAX)(DaemonId.__str__)


@lru_cache(_TEXTS_MAX // 16)
def client_texts(clients: tuple[ClientId, ...]) -> tuple[str, ...]:
    """The text forms of several clients, in their order."""
    return tuple([client_text(client) for client in clients])


def message_digest(type: int, body: bytes | memoryview) -> int:
    """The 64 bits by which a trace knows a message: over its 16-bit type and its bytes."""
    return xxh3_64_intdigest(body, type)


def bundle_digests(bundle: Bundle) -> tuple[int, ...]:
    """One digest per message of the bundle."""
    payload, lengths, types = bundle.payload, bundle.lengths, bundle.types
    if len(lengths) == 1:
        return (xxh3_64_intdigest(payload, types[0]),)
    held = _held_digests(xxh3_128_digest(payload), lengths, types)
    if not held:
        held.append(_digests(bytes(payload), lengths, types))
    return held[0]


# One payload is sent once and delivered at many nodes, in a simulation all of them, in a daemon at least that of its
# sender: its messages are looked at once. For 1,024 messages of 64 bytes that is 15 us instead of 150.
@lru_cache(_DIGESTS_MAX)
def _held_digests(whole: bytes, lengths: tuple[int, ...], types: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The digests of a payload with these 128 bits, or nothing yet."""
    del whole, lengths, types
    return []


def _digests(payload: bytes, lengths: tuple[int, ...], types: tuple[int, ...]) -> tuple[int, ...]:
    bodies = [payload[end - length : end] for length, end in zip(lengths, accumulate(lengths))]
    if any(types):
        return tuple(map(xxh3_64_intdigest, bodies, types))
    return tuple(map(xxh3_64_intdigest, bodies))  # 0 is the default


def entry_of_request(client: ClientId, request: b4.Request) -> Entry | None:
    """What a client asked, or nothing where only the answer is an event: a session begins when it hears so."""
    match request:
        case b4.Send():
            bundle = request.bundle
            return Sent(
                client_text(client),
                bundle.first_sequence,
                bundle.service,
                bundle.groups,
                bundle.lengths,
                bundle_digests(bundle),
            )
        case b4.Join():
            return JoinRequested(client_text(client), request.group)
        case b4.Leave():
            return LeaveRequested(client_text(client), request.group)
        case b4.Disconnect():
            return Disconnected(client_text(client))
        case b4.Connect():
            return None


def entry_of_indication(receivers: tuple[ClientId, ...], indication: b4.Indication) -> Entry | None:
    """What these clients were told, as one entry; what concerns one session alone must have one receiver."""
    match indication:
        case b4.Message():
            return _delivered(receivers, indication)
        case b4.View():
            return _view_delivered(receivers, indication)
        case b4.Transitional():
            return SignalDelivered(client_texts(receivers), indication.group, indication.view)
        case b4.SelfLeave():
            return SelfLeft(_only(receivers), indication.group)
        case b4.Connected():
            return Connected(_only(receivers))
        case b4.Disconnected():
            return Disconnected(_only(receivers), indication.reason)
        case b4.Refused():
            return None


def entries_of_indication(receivers: tuple[ClientId, ...], indication: b4.Indication) -> list[Entry]:
    """The same for any number of receivers: what concerns one session alone becomes one entry for each."""
    if isinstance(indication, b4.Message):
        return [_delivered(receivers, indication)]
    single = isinstance(indication, b4.SelfLeave | b4.Connected | b4.Disconnected)
    sets = [(receiver,) for receiver in receivers] if single else [receivers]
    entries = [entry_of_indication(each, indication) for each in sets]
    return [entry for entry in entries if entry is not None]


def _delivered(receivers: tuple[ClientId, ...], message: b4.Message) -> Delivered:
    bundle, stamp = message.bundle, message.stamp
    return Delivered(
        client_texts(receivers),
        client_text(bundle.sender),
        bundle.first_sequence,
        bundle.service,
        bundle.groups,
        bundle.lengths,
        bundle_digests(bundle),
        stamp.lamport,
        daemon_text(stamp.daemon),
    )


def _view_delivered(receivers: tuple[ClientId, ...], indication: b4.View) -> ViewDelivered:
    view = indication.view
    return ViewDelivered(
        client_texts(receivers),
        view.group,
        view.id,
        client_texts(view.members),
        client_texts(view.transitional),
        view.cause.value,
        "" if view.subject is None else client_text(view.subject),
    )


def _only(receivers: tuple[ClientId, ...]) -> str:
    (receiver,) = receivers
    return client_text(receiver)
