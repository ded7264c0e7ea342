"""The toolkit's layer on an ISIS kernel: each broadcast is the kernel's own; private messages are CBCASTs to a group
of one member, which takes along what precedes them.

Implements: [ISIS 3]. Deviations: none.
"""

from __future__ import annotations

from collections import deque

import msgspec

from isotone.core.contract import Action, Event, SetTimer, TimerFired
from isotone.core.ids import DaemonId
from isotone.isis import events as e
from isotone.isis.kernel import COLLECT, TICK, Kernel
from isotone.isis.names import process_id, site_of
from isotone.isis.settings import IsisSettings
from isotone.isis.toolkit.layer import (
    CastWanted,
    EnterWanted,
    Exited,
    ExitWanted,
    Heard,
    Operational,
    Order,
    Over,
    Secured,
    SecureWanted,
    TellWanted,
    Told,
    Viewed,
)

PROCESS = "tools"
PRIVATE_PREFIX = "@"
RETRY = ("toolkit", "retry")
RETRY_US = 20_000
PRIMITIVES = {
    Order.UNORDERED: e.Primitive.CBCAST,
    Order.CAUSAL: e.Primitive.CBCAST,
    Order.TOTAL: e.Primitive.ABCAST,
    Order.EVENT: e.Primitive.GBCAST,
}


class KernelLayer:
    """One kernel with one process."""

    periodic_timers: tuple[str, ...] = (TICK, COLLECT)
    has_labels = True

    def __init__(self, daemon: DaemonId, settings: IsisSettings) -> None:
        self.kernel = Kernel(daemon, settings)
        self._me = ""  # while the process is there
        self._sites: tuple[str, ...] = ()
        self._private = False  # the group for private messages is there
        self._pending: deque[e.BroadcastWanted] = deque()  # the first was refused
        self._unbegun: dict[int, str] = {}  # the groups of broadcasts that wait in the kernel, by token
        self._leaving: set[str] = set()  # groups that are left when all that was sent there has begun
        self._token = 0

    @property
    def trouble(self) -> str:
        """Whether the site is in a site view; in a minority it stays in its last one, and waits."""
        return "" if self.kernel.life is not None else "it is in no site view"

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        actions = self._take(event)
        for group in sorted(self._leaving):
            if group not in self._unbegun.values():
                self._leaving.discard(group)
                actions += self._heard(self.kernel.handle(e.LeaveWanted(event.at, PROCESS, group)), event.at)
        return actions

    def _take(self, event: Event) -> list[Action]:
        match event:
            case EnterWanted(at=at, group=group):
                return self._heard(self.kernel.handle(e.JoinWanted(at, PROCESS, group)), at)
            case ExitWanted(group=group):
                self._leaving.add(group)
                return self._send_pending(event.at)
            case CastWanted(at=at, group=group, order=order, body=body):
                number = -1 if order is Order.UNORDERED else 0
                label = event.label if order is Order.TOTAL else ""
                return self._send(e.BroadcastWanted(at, PROCESS, group, PRIMITIVES[order], body, label, number))
            case TellWanted(at=at, to=to, body=body):
                group = PRIVATE_PREFIX + to
                return self._send(e.BroadcastWanted(at, PROCESS, group, e.Primitive.CBCAST, body))
            case SecureWanted(at=at, token=token):
                return self._heard(self.kernel.handle(e.FlushWanted(at, token)), at)
            case TimerFired(at=at, key=key) if key == RETRY:
                return self._send_pending(at)
        return self._heard(self.kernel.handle(event), event.at)

    def _send(self, wanted: e.BroadcastWanted) -> list[Action]:
        self._pending.append(wanted)
        return self._send_pending(wanted.at) if len(self._pending) == 1 else []

    def _send_pending(self, at: int) -> list[Action]:
        """All in their order, up to the first that the kernel refuses because too much is under way."""
        out: list[Action] = []
        while self._pending:
            self._token += 1
            token, wanted = self._token, self._pending[0]
            self._unbegun[token] = wanted.group
            actions = self.kernel.handle(msgspec.structs.replace(wanted, at=at, token=token))
            refused = any(
                isinstance(each, e.BroadcastDone) and each.token == token and each.problem for each in actions
            )
            if refused and self._must_send(wanted.group):
                out += [*self._heard(actions, at), SetTimer(RETRY, RETRY_US)]
                break
            if self._pending:
                self._pending.popleft()
            out += self._heard(actions, at)
        return out

    def _must_send(self, group: str) -> bool:
        """Whether a refused message is owed: to a group with members, or to a process that is up."""
        life = self.kernel.life
        if life is None:
            return False
        if group.startswith(PRIVATE_PREFIX):
            return life.site.is_up(site_of(group.removeprefix(PRIVATE_PREFIX)))
        return group in life.site.groups

    def _heard(self, actions: list[Action], at: int) -> list[Action]:
        """Translate what the kernel says to its process; what is asked in return stands behind all of it."""
        out: list[Action] = []
        enters = False
        for action in actions:
            match action:
                case e.SiteViewChanged(view=view):
                    enters = self._enter_site_view(view.members, out) or enters
                case e.SiteDied(reason=reason):
                    self._me, self._private = "", False
                    self._pending.clear()
                    self._unbegun.clear()
                    self._leaving.clear()
                    out.append(Over(reason))
                case e.DeliverView(view=view):
                    if view.name != PRIVATE_PREFIX + self._me:
                        out.append(Viewed(view.name, view.number, view.members))
                    elif not self._private:
                        self._private = True
                        out.append(Operational(self._me, self._sites))
                case e.Deliver(group=group, sender=sender, body=body):
                    private = group.startswith(PRIVATE_PREFIX)
                    out.append(Told(sender, body) if private else Heard(group, sender, body))
                case e.Left(group=group):
                    out.append(Exited(group))
                case e.BroadcastDone(token=token):
                    self._unbegun.pop(token, None)
                case e.FlushDone(token=token):
                    out.append(Secured(token))
                case e.AnswerHeard() | e.CallOpened():
                    pass
                case _:
                    out.append(action)
        if enters:
            asked = e.JoinWanted(at, PROCESS, PRIVATE_PREFIX + self._me)
            out += self._heard(self.kernel.handle(asked), at)
        return out

    def _enter_site_view(self, sites: tuple[str, ...], out: list[Action]) -> bool:
        """Whether the process begins with it."""
        self._sites = sites
        if self._private:
            out.append(Operational(self._me, sites))
        begins = not self._me
        self._me = process_id(self.kernel.me, PROCESS)
        return begins
