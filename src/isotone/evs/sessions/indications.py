"""Indications of boundary B4 on the wire: encoded once for all receivers of a daemon, decoded at each client.

A message is a stamped bundle, all others are control messages. `Connected` and `Disconnected` are not here: they are
the beginning and the end of a session, `Welcome` and `Farewell`.
"""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.codec.bundle import decode_bundle, encode_bundle
from isotone.core.codec.control import ControlMessage
from isotone.core.codec.wire import Buffer
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import SEQUENCE_MAX, ClientId, parse_client_id, parse_daemon_id, parse_group_view_id
from isotone.core.names import check_client_name, check_daemon_name
from isotone.core.views import Cause, GroupView
from isotone.evs.sessions.frames import Parts, bundle_frame, control_frame
from isotone.evs.sessions.messages import (
    RefusedTold,
    SelfLeaveTold,
    TransitionalTold,
    ViewTold,
    server_codec,
    shortened,
)

_CAUSES = {cause.value: cause for cause in Cause}
NOBODY = -1


def encode_indication(indication: b4.Indication, message_bytes_max: int) -> tuple[Parts, int]:
    """The frame as a vector of buffers, and its size."""
    if isinstance(indication, b4.Message):
        return bundle_frame(encode_bundle(indication.bundle, indication.stamp, payload_max=message_bytes_max))
    frame = control_frame(server_codec.encode(_told(indication)))
    return (frame,), len(frame)


def _told(indication: b4.Indication) -> ControlMessage:
    match indication:
        case b4.View(view=view):
            return _view_told(view)
        case b4.Transitional(group=group, view=view_id):
            return TransitionalTold(group, str(view_id))
        case b4.SelfLeave(group=group):
            return SelfLeaveTold(group)
        case b4.Refused(request=request, reason=reason, group=group):
            return RefusedTold(request, shortened(reason), group)
    raise AssertionError(f"{indication!r} has no frame of its own")


def _view_told(view: GroupView) -> ViewTold:
    places: dict[ClientId, int] = {}
    everybody = [view.members, view.transitional, *view.together, () if view.subject is None else (view.subject,)]
    for client in (client for some in everybody for client in some):
        places.setdefault(client, len(places))
    daemons = {client.daemon: None for client in places}
    numbers = {daemon: number for number, daemon in enumerate(daemons)}
    return ViewTold(
        group=view.group,
        id=str(view.id),
        daemons=tuple(map(str, daemons)),
        clients=tuple((numbers[client.daemon], client.name, client.session) for client in places),
        members=tuple(places[client] for client in view.members),
        transitional=tuple(places[client] for client in view.transitional),
        cause=view.cause.value,
        subject=NOBODY if view.subject is None else places[view.subject],
        together=tuple(tuple(places[client] for client in some) for some in view.together),
    )


def decode_message(body: Buffer, payload_max: int) -> b4.Message:
    """A message from the body of a frame."""
    bundle, stamp = decode_bundle(body, payload_max=payload_max)
    if stamp is None:
        raise RemoteProtocolError("a message without a stamp")
    return b4.Message(bundle, stamp)


def decode_told(told: ControlMessage) -> b4.Indication | None:
    """The indication in a control message, if it is one."""
    match told:
        case ViewTold():
            return b4.View(_view(told))
        case TransitionalTold(group=group, view=view):
            return b4.Transitional(group, parse_group_view_id(view))
        case SelfLeaveTold(group=group):
            return b4.SelfLeave(group)
        case RefusedTold(request=request, reason=reason, group=group):
            return b4.Refused(request, reason, group)
    return None


def read_client_id(text: str) -> ClientId:
    """A client's id that can be used: its names keep the rules, its numbers the bounds."""
    client = parse_client_id(text)
    try:
        check_client_name(client.name)
        check_daemon_name(client.daemon.name)
    except LocalProtocolError as error:
        raise RemoteProtocolError(str(error)) from error
    if max(client.session, client.daemon.incarnation) > SEQUENCE_MAX:
        raise RemoteProtocolError(f"a number of {client} is out of range")
    return client


def _view(told: ViewTold) -> GroupView:
    daemons = [parse_daemon_id(daemon) for daemon in told.daemons]
    cause = _CAUSES.get(told.cause)
    try:
        clients = [ClientId(daemons[place], name, session) for place, name, session in told.clients]
        together = tuple(tuple(clients[place] for place in some) for some in told.together)
        members = tuple(clients[place] for place in told.members)
        transitional = tuple(clients[place] for place in told.transitional)
        subject = None if told.subject == NOBODY else clients[told.subject]
    except IndexError as error:
        raise RemoteProtocolError("a view that names a client or daemon behind its table") from error
    if cause is None or told.subject < NOBODY:
        raise RemoteProtocolError(f"a view with the cause {told.cause!r} and the subject {told.subject}")
    return GroupView(told.group, parse_group_view_id(told.id), members, transitional, cause, subject, together)
