"""The delivery queue of a site's processes: messages and views in the order in which they are handed over.

A message whose group has grown since it was addressed is rejected: all its destinations have the same view when they
come to it, so all do [ISIS 3.6].

Implements: [ISIS 3.6], [ISIS 4.3]. Deviations: D-grown (only a view with new members rejects; the failure of a member
leaves the addresses good).
"""

from __future__ import annotations

from hashlib import blake2b

from isotone.isis.events import Deliver, DeliverView, Left, Primitive
from isotone.isis.incarnation import Site
from isotone.isis.names import origin_of, site_of
from isotone.isis.wire import AbcastStart, Answer, Causal, GroupView, Verdict
from isotone.trace.isis import BroadcastDelivered, BroadcastRejected, GroupLeft, GroupViewInstalled


def digest_of(body: bytes) -> int:
    """64 bits over a body, as the trace has it."""
    return int.from_bytes(blake2b(body, digest_size=8).digest(), "big")


def deliver(site: Site, message: AbcastStart | Causal) -> None:
    """Hand a message to those of its destinations here that are members, or reject it."""
    id, origin, group, destinations = message.id, message.origin, message.group, message.destinations
    primitive = Primitive.ABCAST if isinstance(message, AbcastStart) else Primitive.CBCAST
    view, body = site.groups.get(group), message.body
    if view is not None and not set(view.members) <= set(destinations):
        site.record(BroadcastRejected(site.me, id))
        if message.outside:
            site.send(site_of(origin), Verdict(id, False, view))
        return
    if message.outside:
        site.send(site_of(origin), Verdict(id, True, view or GroupView(group, 0, ())))
    members = view.members if view is not None else ()
    local = tuple(each for each in site.local(destinations) if each in members)
    for process in local:
        digest = digest_of(body)
        site.record(BroadcastDelivered(process, id, origin, primitive.value, group, digest, site.view.number))
    if local:
        site.out.append(Deliver(local, group, id, origin, primitive, body, message.call))
    for process in site.local(destinations) if message.call else ():
        if process in local:
            site.calls[id, process] = None
        else:
            site.send(site_of(origin), Answer(id, process, b"", failed=True))


def install(site: Site, view: GroupView, id: str, failed: tuple[str, ...] = ()) -> None:
    """A new view of a group, for the members here; a local process that is not in it any more has left."""
    before = site.groups.get(view.name)
    gone = site.local(before.members) if before is not None else ()
    local = site.local(view.members)
    if local:
        site.groups[view.name] = view
    else:
        site.groups.pop(view.name, None)
    for process in gone:
        if process not in local:
            site.record(GroupLeft(process, view.name))
            fail_calls(site, process)
            site.out.append(Left(process, view.name))
    for process in local:
        site.record(GroupViewInstalled(process, view.name, view.number, view.members, id, failed))
    if local:
        site.out.append(DeliverView(local, view, failed))


def fail_calls(site: Site, process: str) -> None:
    """A process that is gone answers no call any more: its site replies for it."""
    for id, each in list(site.calls):
        if each == process:
            del site.calls[id, each]
            site.send(origin_of(id), Answer(id, process, b"", failed=True))
