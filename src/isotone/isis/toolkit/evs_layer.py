"""The toolkit's layer on a view-synchronous group: all processes of a system are members of one, and their messages
ride AGREED in it; groups of the toolkit are a table that all of them keep.

The process acts in a primary view only: elsewhere it hears nothing, and what it sends waits. A process whose session
ends, or that a primary view has gone on without, is over.

Views and events of a group are the same wherever they are heard, also by who fails: a flush of a group is SAFE. What
comes behind the signal that the view ends is kept until the next primary view, since others may not hear it.

Implements: [ISIS 3], on [Spread 2.2.3.2]. Deviations: D-no-labels (AGREED is one order for all, so an ABCAST has no
label); D-one-group (broadcasts and private messages reach the daemons of all sites).
"""

from __future__ import annotations

from collections import deque

import msgspec

from isotone.core import boundary as b4
from isotone.core.bundles import BUNDLE_BYTES_MAX, Bundle, bundle_of
from isotone.core.contract import (
    Action,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Put,
    SetTimer,
    Started,
    Stop,
    Stopping,
    TimerFired,
)
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service
from isotone.core.views import GroupView
from isotone.evs.sessions.synchrony import (
    FLUSH,
    SYNCHRONOUS,
    AskFlush,
    EndMembership,
    FlushAllowed,
    SynchronousMember,
    TellFlushed,
)
from isotone.isis.names import process_id, site_id
from isotone.isis.settings import RECONNECT_US, IsisSettings, check_sites
from isotone.isis.toolkit import evs_wire as w
from isotone.isis.toolkit.evs_groups import Groups
from isotone.isis.toolkit.evs_primary import Attempt, Decision, decide
from isotone.isis.toolkit.layer import (
    CastWanted,
    EnterWanted,
    ExitWanted,
    Heard,
    LayerAsked,
    Operational,
    Order,
    Over,
    Secured,
    SecureWanted,
    TellWanted,
    Told,
)
from isotone.isis.toolkit.wire import cut, encode

PROCESS = "tools"
GROUP_PREFIX = "$tool/"
CELL = "primary"
RECONNECT = ("toolkit", "reconnect")
FORMING = "a primary view is about to form"
_ATTEMPT = msgspec.msgpack.Decoder(Attempt)


class EvsLayer:
    """One process in the view-synchronous group of its system."""

    periodic_timers: tuple[str, ...] = ()
    has_labels = False

    def __init__(self, daemon: DaemonId, settings: IsisSettings) -> None:
        check_sites(settings)
        self.settings = settings
        self.group = GROUP_PREFIX + settings.system
        self.groups = Groups()
        self._daemon = daemon
        self.client: ClientId | None = None  # the session
        self._opened = 0
        self._sent = 0
        self._member: SynchronousMember | None = None
        self._view: GroupView | None = None  # installed
        self._signalled = False  # it ends: what is SAFE now may be so for some only
        self._here: tuple[str, ...] = ()  # sites of it
        self._hellos: dict[str, w.Hello] = {}
        self._decision: Decision | None = None
        self._attempts: set[str] = set()
        self._parts: list[bytes] = []  # of the table
        self._acting = False  # the view is primary
        self._lack = "it has no session with a daemon yet"  # why it is not
        self._attempt = Attempt()  # as on disk
        self._took_part = False  # in it, in this life
        self._established = 0
        self._together: frozenset[ClientId] = frozenset()  # who came along since then
        self._late: list[tuple[str, w.Message]] = []  # heard behind a signal: it counts if this process goes on
        self._pending: deque[w.Message] = deque()
        self._outgoing: list[bytes] = []
        self._unsecured: list[int] = []  # tokens that nothing was sent for
        self._securing: list[int] = []  # tokens whose message is under way
        self._ticket = 0
        self._out: list[Action] = []

    @property
    def trouble(self) -> str:
        """Why the process does not act now."""
        return "" if self._acting else self._lack

    @property
    def has_session(self) -> bool:
        """Whether a daemon serves it."""
        return self._member is not None

    def handle(self, event: Event) -> list[Action]:
        """Take one event."""
        self._take(event)
        self._send_pending()
        self._post(Service.AGREED)
        out, self._out = self._out, []
        return out

    def _take(self, event: Event) -> None:
        match event:
            case Started(storage=storage):
                if CELL in storage.cells:
                    self._attempt = _ATTEMPT.decode(storage.cells[CELL])
                self._connect()
            case Stopping():
                if self.client is not None:
                    self._out.append(b4.Ask(self.client, b4.Disconnect()))
            case PersistFailed(reason=reason):
                self._out.append(Stop(f"cannot save which primary view it takes part in: {reason}"))
            case b4.Indicated(receivers=receivers, indication=indication):
                if self.client is not None and receivers[0].name == self.client.name:
                    self._on_indication(receivers[0], indication, event.at)
            case TimerFired(key=key):
                if key == RECONNECT and self.client is None:
                    self._connect()
            case _ if isinstance(event, LayerAsked):
                self._ask(event)
            case _:
                assert isinstance(event, Persisted), f"the layer does not know {event!r}"

    def _ask(self, asked: LayerAsked) -> None:
        match asked:
            case EnterWanted(group=group):
                self._pending.append(w.Enter(group))
            case ExitWanted(group=group):
                self._pending.append(w.Exit(group))
            case CastWanted(group=group, order=order, body=body, label=label):
                if label:
                    raise LocalProtocolError(
                        f"an ABCAST on view-synchronous groups has no label ({label!r}): all of them have one order; "
                        "labels need ISIS kernels"
                    )
                self._pending.append(w.Instant(group, body) if order is Order.EVENT else w.Cast(group, body))
            case TellWanted(to=to, body=body):
                self._pending.append(w.Private(to, body))
            case SecureWanted(token=token):
                if self._established:
                    self._unsecured.append(token)
                else:
                    self._out.append(Secured(token))  # a process that has not begun has heard nothing

    # --- B4 --------------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self._opened += 1
        self._sent = 0
        self.client = ClientId(self._daemon, self.settings.site, self._opened)
        self._out.append(b4.Ask(self.client, b4.Connect()))

    def _on_indication(self, receiver: ClientId, indication: b4.Indication, at: int) -> None:
        match indication:
            case b4.Connected():
                self.client = receiver
                self._member = SynchronousMember(receiver, self.group)
                self._out.append(b4.Ask(receiver, b4.Join(self.group)))
            case b4.Disconnected(reason=reason):
                if receiver == self.client:
                    self._end(f"its session with the daemon ended: {reason}")
                    self.client, self._member, self._view = None, None, None
                    self._out.append(SetTimer(RECONNECT, RECONNECT_US))
            case b4.Refused(reason=reason):
                self._lack = f"the daemon refused it: {reason}"
            case _:
                if receiver == self.client:
                    self._react(b4.Indicated(at, (receiver,), indication))

    def _react(self, event: Event) -> None:
        """Let the member have it, and do what it says."""
        assert self._member is not None
        for action in self._member.handle(event):
            match action:
                case AskFlush():
                    self._post(Service.AGREED)
                    self._react(FlushAllowed(event.at))
                case TellFlushed(body=body):
                    self._send((body,), Service.AGREED, FLUSH)
                case EndMembership():
                    assert self.client is not None
                    self._out.append(b4.Ask(self.client, b4.Disconnect()))
                    self._on_indication(self.client, b4.Disconnected("too much waits for a view"), event.at)
                    return
                case b4.Indicate(indication=b4.View(view=view)):
                    self._on_view(view)
                case b4.Indicate(indication=b4.Message(bundle=bundle)):
                    self._on_bundle(bundle)
                case b4.Indicate(indication=b4.Transitional()):
                    self._signalled = True
                case b4.Indicate():
                    pass
                case _:
                    self._out.append(action)

    # --- sending ---------------------------------------------------------------------------------------------------

    @property
    def _may_send(self) -> bool:
        return self._member is not None and self._member.may_send

    def _say(self, message: w.Message) -> None:
        """In the present view; when it is about to end it makes no difference any more."""
        if self._may_send:
            self._outgoing.append(encode(message))

    def _send_pending(self) -> None:
        if not self._acting or not self._may_send:
            return
        flushes, self.groups.flushes = self.groups.flushes, []
        if flushes:
            self._post(Service.AGREED)
            self._outgoing = [encode(told) for told in flushes]
            self._post(Service.SAFE)
        while self._pending:
            first = self._pending[0]
            if isinstance(first, w.Cast) and self.groups.is_blocked(first.group):
                return
            self._outgoing.append(encode(self._pending.popleft()))
        if self._unsecured and not self._securing:
            self._securing, self._unsecured = self._unsecured, []
            self._post(Service.AGREED)
            self._outgoing.append(encode(w.Secure()))
            self._post(Service.SAFE)

    def _post(self, service: Service) -> None:
        """As few bundles as hold it."""
        waiting, self._outgoing = self._outgoing, []
        while waiting:
            size = count = 0
            for body in waiting:
                size += len(body)
                if count and size > BUNDLE_BYTES_MAX // 2:
                    break
                count += 1
            assert self._member is not None
            self._out.append(self._member.sent(self._sent + 1, count))
            self._send(tuple(waiting[:count]), service, SYNCHRONOUS)
            waiting = waiting[count:]

    def _send(self, bodies: tuple[bytes, ...], service: Service, flags: int) -> None:
        assert self.client is not None
        bundle = bundle_of(self.client, self._sent + 1, service, (self.group,), bodies, flags=flags)
        self._sent += len(bodies)
        self._out.append(b4.Ask(self.client, b4.Send(bundle)))

    # --- views -----------------------------------------------------------------------------------------------------

    def _on_view(self, view: GroupView) -> None:
        self._view, self._acting, self._signalled = view, False, False
        self._hellos, self._decision, self._attempts, self._parts = {}, None, set(), []
        names = [member.name for member in view.members if member.name in self.settings.sites]
        self._here = tuple(dict.fromkeys(names))
        self._together &= frozenset(view.transitional)
        self._lack = self._lack_of(names)
        together = tuple(sorted(member.name for member in self._together if member.name in self._here))
        attempt = self._attempt
        self._say(w.Hello(self._established, together, attempt.number, attempt.base, self._took_part))

    def _lack_of(self, names: list[str]) -> str:
        """Why the view cannot be primary, as far as its members say."""
        if len(names) != len(self._here):
            twice = next(name for name in names if names.count(name) > 1)
            return f"site {twice!r} is there twice"
        if len(names) < self.settings.majority:
            there, least = ", ".join(names), self.settings.majority
            return f"only {there} of {len(self.settings.sites)} sites can be reached, and a primary view has {least}"
        return FORMING

    def _on_hello(self, site: str, hello: w.Hello) -> None:
        self._hellos[site] = hello
        if len(self._hellos) < len(self._here) or self._lack != FORMING:
            return
        self._decision = decide(self._hellos)
        self._attempt, self._took_part = self._decision.attempt, True
        self._ticket += 1
        self._out.append(Persist(self._ticket, (Put(CELL, encode(self._attempt)),)))
        if self._decision.survivors[:1] == (self.settings.site,):
            for part in cut(self.groups.behind(self._late).encoded()):
                self._say(w.TablePart(part))
        self._say(w.Attempted(self._attempt.number))

    def _on_attempted(self, site: str) -> None:
        self._attempts.add(site)
        if len(self._attempts) == len(self._here):
            self._establish()

    def _establish(self) -> None:
        assert self._decision is not None and self._view is not None
        number, survivors = self._decision.attempt.number, self._decision.survivors
        if self.settings.site in survivors:
            late, self._late = self._late, []
            for sender, message in late:
                self._hear(sender, message)
        else:
            self._end(f"primary view {number} has gone on without it")
            if survivors:
                self.groups.load(b"".join(self._parts))
        self._acting, self._established, self._took_part = True, number, True
        self._together = frozenset(self._view.members)
        known = {site: process for site, process in self.groups.table.processes.items() if site in survivors}
        processes = {site: known.get(site, process_id(site_id(site, number), PROCESS)) for site in sorted(self._here)}
        self.groups.me = processes[self.settings.site]
        self._out.append(Operational(self.groups.me, self._here))
        self.groups.enter_primary(number, processes, known.values())
        self._take_heard()
        self._unsecured, self._securing = self._securing + self._unsecured, []  # what was SAFE late is not sure

    def _end(self, reason: str) -> None:
        """The process is over, if it ever began."""
        if self._established:
            self._out.append(Over(reason))
        self._lack = reason
        self._acting, self._established, self._took_part = False, 0, False
        self._together, self.groups = frozenset(), Groups()
        self._pending.clear()
        self._outgoing, self._unsecured, self._securing, self._late = [], [], [], []

    # --- messages --------------------------------------------------------------------------------------------------

    def _on_bundle(self, bundle: Bundle) -> None:
        site = bundle.sender.name
        if not bundle.flags & SYNCHRONOUS or site not in self._here:
            return
        for body in bundle.bodies():
            match w.decode(body):
                case w.Hello() as hello:
                    self._on_hello(site, hello)
                case w.TablePart(data=data):
                    self._parts.append(data)
                case w.Attempted():
                    self._on_attempted(site)
                case message:
                    assert self._acting, f"{site} acts in a view that is not primary here"
                    sender = self.groups.table.processes[site]
                    if self._signalled:
                        self._late.append((sender, message))
                    else:
                        self._hear(sender, message)

    def _hear(self, sender: str, message: w.Message) -> None:
        groups = self.groups
        match message:
            case w.Cast(group=group, body=body):
                if groups.is_member(group):
                    self._out.append(Heard(group, sender, body))
            case w.Private(to=to, body=body):
                if to == groups.me:
                    self._out.append(Told(sender, body))
            case w.Secure():
                if sender == groups.me and self._acting:
                    self._out += [Secured(token) for token in self._securing]
                    self._securing = []
            case w.GroupFlushed() | w.Enter() | w.Exit() | w.Instant():
                groups.hear(sender, message)
        self._take_heard()

    def _take_heard(self) -> None:
        self._out += self.groups.heard
        self.groups.heard = []
