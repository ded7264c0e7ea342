"""A client program that reaches its daemon over a byte stream: an application above one session after another.

The application is the same `Clients` that plays embedded ones. Its steps wait here until the session is there and has
room. When a session ends without having been asked to, the program opens the next, and joins again what it was in.

Implements: [Spread 3.2], a client on another machine; [DESIGN 4], the clients of a simulated run.
"""

from __future__ import annotations

from collections import Counter, deque

from isotone.core import boundary as b4
from isotone.core.contract import (
    Action,
    Address,
    CloseStream,
    Event,
    OpenStream,
    SetTimer,
    Started,
    Stopping,
    StreamClosed,
    TimerFired,
)
from isotone.evs.sessions.client_session import ClientSession, Life
from isotone.evs.sessions.notices import Dropped, Ended, Notice, Notify
from isotone.evs.sessions.settings import ClientSettings
from isotone.sim.evs_clients import WAITING_MAX, Clients, StepDue
from isotone.sim.plan import Step
from isotone.sim.process import Boot
from isotone.sim.workload import ConnectStep, DisconnectStep, JoinStep

STREAMS_MAX = 100_000  # of one session
AGAIN = ("open again",)
AGAIN_US = 100_000


class DaemonMoved(Event, frozen=True):
    """From now on the daemon is found at this address."""

    address: Address


class StreamBroken(Event, frozen=True):
    """The stream of the session breaks, and the program finds out at once."""


class RemoteClient:
    """One incarnation of one client program."""

    periodic_timers = ClientSession.periodic_timers

    def __init__(self, boot: Boot, name: str, address: Address, settings: ClientSettings, *, patient: bool) -> None:
        self.clients = Clients(boot.daemon)
        self.notices: Counter[str] = Counter()
        self._node = boot.daemon.name
        self._name = name
        self._address = address
        self._choice = boot.choice
        self._settings = settings
        self._patient = patient  # it says nothing while the stream is broken, so that less is lost with a session
        self._link: ClientSession | None = None  # until it has ended, also when the application is done with it
        self._links = 0
        self._stream = -1
        self._steps: deque[Step] = deque()  # until the session is there and has room
        self._resting = False  # between two sessions

    @property
    def missing(self) -> str:
        """What keeps this client from being where it wants to be, or from having said what it had to say."""
        if self._resting or self._steps:
            return f"has {len(self._steps)} steps to do"
        if self._link is None:
            return ""
        if self._link.life is not Life.OPEN or not self._link.is_connected:
            return f"has a session that {self._link.life.value}"
        return "has said what its daemon did not take" if self._link.settled < self._link.submitted else ""

    def handle(self, event: Event) -> list[Action]:
        """Play steps as far as the session lets them pass; the rest is the session's."""
        out: list[Action] = []
        match event:
            case Started() | Stopping():
                return out
            case StepDue(step=step):
                assert len(self._steps) < WAITING_MAX
                self._steps.append(step)
            case DaemonMoved(address=address):
                self._address = address
            case StreamBroken():
                self._on_broken(event.at, out)
            case TimerFired(key=key) if key == AGAIN:
                self._resting = False
            case _:
                self._hand(event, out)
        while self._steps and self._may_play(self._steps[0]):
            self._play(StepDue(event.at, self._steps.popleft()), out)
        return out

    def _may_play(self, step: Step) -> bool:
        if self._link is None:
            return not self._resting
        session = self.clients.sessions.get(self._name)
        if session is None:
            return False  # the application is done with it, its daemon is not
        if isinstance(step, DisconnectStep):
            return session.connected
        return isinstance(step, ConnectStep) or (self._link.room > 0 and (self._link.is_connected or not self._patient))

    def _play(self, due: StepDue, out: list[Action]) -> None:
        for action in self.clients.handle(due):
            assert isinstance(action, b4.Ask)
            if isinstance(action.request, b4.Connect):
                self._link = self._linked()
            self._hand(b4.Requested(due.at, action.client, action.request), out)

    def _linked(self) -> ClientSession:
        self._links += 1
        return ClientSession(
            self._name,
            [self._address],
            choice=self._choice.derive(f"session {self._links}"),
            settings=self._settings,
            first_stream=self._links * STREAMS_MAX,
        )

    # --- the session -----------------------------------------------------------------------------------------------

    def _hand(self, event: Event, out: list[Action]) -> None:
        """An event for the session; what it says goes to the application, or to the world."""
        for action in self._link.handle(event) if self._link is not None else ():
            match action:
                case b4.Indicate(indication=indication):
                    self._on_indication(event.at, indication)
                case Notify(notice=notice):
                    self._on_notice(notice, out)
                case _:
                    if isinstance(action, OpenStream):
                        self._stream = action.stream
                    out.append(action)

    def _on_indication(self, at: int, indication: b4.Indication) -> None:
        assert self._link is not None
        session = self.clients.sessions[self._name]
        if isinstance(indication, b4.Connected):
            session.id = self._link.client  # that of before was provisional
        elif isinstance(indication, b4.Disconnected):
            joins = [JoinStep(at, self._node, self._name, group) for group in sorted(session.wanted)]
            self._steps.extendleft(reversed([ConnectStep(at, self._node, self._name), *joins]))
            self._resting = True
        asked = self.clients.handle(b4.Indicated(at, (session.id,), indication))
        assert not asked, "an application whose steps wait here asks nothing by itself"

    def _on_notice(self, notice: Notice, out: list[Action]) -> None:
        assert not isinstance(notice, Dropped), "nothing here has a deadline"
        self.notices[type(notice).__name__] += 1
        if isinstance(notice, Ended):
            self.notices[f"Ended {notice.code.name}"] += 1
            self._link = None
            if self._resting:
                out.append(SetTimer(AGAIN, AGAIN_US))

    def _on_broken(self, at: int, out: list[Action]) -> None:
        if self._link is not None and self._link.is_connected:
            out.append(CloseStream(self._stream))
            self._hand(StreamClosed(at, self._stream, "broken"), out)
