"""What crosses boundary B4, as entries of the trace: pure functions that every shell calls.

The shell records what a client really asked and what it was really told, so the record never depends on the word of
the service that is judged by it. The simulator calls this for every row, hence the caches: texts of ids and digests
are functions of values that never change.

Implements: [Spread 2.2.1], the external signature of EVS-C.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

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

# Bounds of the caches: ids are small; a digest's key holds a payload of up to 64 KiB, so few of those are kept.
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
    hashed = _hash_of_type(type).copy()
    hashed.update(body)
    return int.from_bytes(hashed.digest(), "big")


def bundle_digests(bundle: Bundle) -> tuple[int, ...]:
    """One digest per message of the bundle."""
    if type(bundle.payload) is bytes:
        return _digests_of_bytes(bundle.payload, bundle.lengths, bundle.types)
    return _digests(bundle.payload, bundle.lengths, bundle.types)


def _digests(payload: bytes | memoryview, lengths: tuple[int, ...], types: tuple[int, ...]) -> tuple[int, ...]:
    if len(lengths) == 1:
        return (message_digest(types[0], payload),)
    whole, begin, digests = memoryview(payload), 0, []
    for length, type in zip(lengths, types):
        end = begin + length
        digests.append(message_digest(type, whole[begin:end]))
        begin = end
    return tuple(digests)


# In a simulation one payload is sent once and delivered at many nodes. Bytes cannot change, so their digest cannot.
_digests_of_bytes = lru_cache(_DIGESTS_MAX)(_digests)


@lru_cache(_TEXTS_MAX)
def _hash_of_type(type: int) -> blake2b:
    return blake2b(type.to_bytes(2, "big"), digest_size=8)


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
