"""Changes of the set of servers: what is asked, what is refused and why, and what took effect.

Implements: docs/protocols/corel-growth.md. Deviations: D-growth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from isotone.core.contract import Action
from isotone.core.errors import LocalProtocolError
from isotone.corel.configuration import Configuration, changed
from isotone.corel.events import ReconfigurationAnswered, ReconfigurationWanted
from isotone.corel.ledger import Ledger
from isotone.corel.queue import MessageQueue
from isotone.corel.quorum import History, Servers
from isotone.corel.regular import RegularFlow


def may_order(queue: MessageQueue, members: Servers, history: History) -> bool:
    """A quorum of the green configuration, and of every one that is known to come."""
    is_quorum = queue.configuration.holds(members, history)
    return is_quorum and all(each.would_hold(members, history) for each in queue.coming())


@dataclass
class Growth:
    """Takes requests; the message that answers one is ordered as any other."""

    ledger: Ledger
    flow: RegularFlow
    identity_of: Callable[[str], bytes]  # the log of a server that takes part in the view

    def on_wanted(self, event: ReconfigurationWanted) -> list[Action]:
        """Order it, or say why not."""
        try:
            following = self._following(event)
        except LocalProtocolError as error:
            return [ReconfigurationAnswered(event.request, False, str(error))]
        accepted = ReconfigurationAnswered(event.request, True, "", following.rule)
        return [accepted, *self.flow.reconfigure(following)]

    def _following(self, event: ReconfigurationWanted) -> Configuration:
        queue, flow = self.ledger.queue, self.flow
        members = frozenset(flow.members)
        if not flow.is_primary:
            raise LocalProtocolError("there is no primary component here")
        if flow.low:
            raise LocalProtocolError("the disk of this server is nearly full: ask another one")
        if any(True for _ in queue.coming()) or any(each.change is not None for each in flow.outbox.pending):
            raise LocalProtocolError("another reconfiguration is not green yet")
        here = event.add in members
        following = changed(
            queue.configuration,
            add=event.add,
            remove=event.remove,
            rule=event.rule,
            votes=dict(event.votes),
            identity=self.identity_of(event.add) if here else b"",
        )
        if event.add and not here:
            raise LocalProtocolError(f"{event.add} is not here, or has not caught up")
        if not following.would_hold(members, self.ledger.history):
            raise LocalProtocolError("those who are here would be no quorum of the new set")
        return following
