"""One membership in the hands of a test, which plays all other daemons by datagrams."""

from __future__ import annotations

import msgspec

from isotone.core.contract import (
    Action,
    Address,
    DatagramsReceived,
    MulticastDatagrams,
    SendDatagrams,
    SetTimer,
    Started,
    TimerFired,
    TimerKey,
)
from isotone.core.ids import DaemonId, DaemonViewId
from isotone.evs.membership import Membership, MembershipSettings
from isotone.evs.membership.messages import (
    Alive,
    Answer,
    Card,
    Datagram,
    Envelope,
    Join,
    Probe,
    ViewName,
    contact,
    view_name,
)

NOWHERE = ViewName(0, "", 0)
SITE = "s"


def identity(name: str) -> bytes:
    return name.encode().ljust(16, b".")


def card(name: str = "x", incarnation: int = 1, **changes: object) -> Card:
    made = Card(
        name=name,
        incarnation=incarnation,
        identity=identity(name),
        site=SITE,
        address=f"{name}.1",
        low=1,
        high=1,
        count=1,
        epoch=0,
        attached=None,
        installed=False,
        accepted=NOWHERE,
        progress=0,
        cut=(),
        distances=(),
    )
    return msgspec.structs.replace(made, **changes)


def in_view(name: str, coordinator: str, epoch: int = 1, **changes: object) -> Card:
    """The card of a daemon in an installed daemon view."""
    view = view_name(DaemonViewId(epoch, DaemonId(coordinator, 1)))
    made = card(name, attached=view, accepted=view, installed=True, epoch=epoch)
    return msgspec.structs.replace(made, **changes)


class Solo:
    """The daemon m of site s, started at time 0; ``first_wait_us`` keeps it without a daemon view."""

    def __init__(self, **settings: object) -> None:
        self.settings = MembershipSettings(**settings)  # type: ignore[arg-type]
        self.membership = Membership(
            me=DaemonId("m", 1), identity=identity("m"), site=SITE, address=Address("m.1"), settings=self.settings
        )
        self.node = self.membership.node
        self.at = 0
        self.envelope = Envelope(self.settings.cluster)
        self.sent: list[tuple[str, Datagram]] = []
        self.timers: dict[TimerKey, int] = {}  # when they fire
        self.actions = self.give(Started(0))

    def give(self, event: object) -> list[Action]:
        self.sent = []
        self.actions = self.membership.handle(event)  # type: ignore[arg-type]
        for action in self.actions:
            if isinstance(action, SendDatagrams | MulticastDatagrams):
                where = str(action.destination) if isinstance(action, SendDatagrams) else f"all of {action.site}"
                for parts in action.datagrams:
                    if (message := self._opened(b"".join(parts))) is not None:
                        self.sent.append((where, message))
            elif isinstance(action, SetTimer):
                self.timers[action.key] = self.at + action.after_us
        return self.actions

    def _opened(self, data: bytes) -> Datagram | None:
        return self.envelope.open(memoryview(data)) if data[0] == 0xD0 else None

    def hear(self, message: Datagram, source: str = "") -> list[Action]:
        data = b"".join(self.envelope.seal(message))
        return self.give(DatagramsReceived(self.at, Address(source or f"{message.card.name}.1"), data, len(data)))

    def fire(self, key: TimerKey) -> list[Action]:
        """The timer, when it is due."""
        self.at = self.timers.pop(key)
        return self.give(TimerFired(self.at, key))

    def meet(self, told: Card) -> list[Action]:
        """Hear of a daemon and have it answer: from then on it is reached."""
        self.hear(Alive(told))
        nonces = [each.nonce for where, each in self.sent if isinstance(each, Probe) and where == told.address]
        self.hear(Answer(told, nonces[-1]))
        assert self.node.watch.reaches(told.name)
        return self.actions

    def join(self, told: Card, *proposed: str, of_segment: bool = True) -> list[Action]:
        """This daemon gathers, and would take these."""
        own = contact(told.daemon, told.site, Address(told.address))
        return self.hear(Join(told, (own,), proposed, of_segment))

    def sent_to(self, kind: type[Datagram]) -> list[str]:
        return [where for where, message in self.sent if isinstance(message, kind)]
