"""A reader that stands still holds senders at another daemon: simulated daemons, clients in processes of their own.

What is kept for the reader stays below the bound and what may be in flight; nothing is lost, and all go on when it
reads, through a change of the daemon view and through the end of the reader's daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from isotone.core import boundary as b4
from isotone.core.contract import Address, Automaton
from isotone.core.services import Service
from isotone.evs.membership import MembershipSettings
from isotone.evs.membership.settings import PATIENT_RING
from isotone.evs.sessions.messages import EndCode
from isotone.evs.sessions.notices import Held
from isotone.evs.sessions.server import ServerSessions
from isotone.evs.sessions.settings import ClientSettings, ServerSettings, SlowPolicy
from isotone.evs.stack import StackSettings
from isotone.evs.transport import TransportSettings
from isotone.sim import Boot, World
from isotone.spec.check import check
from isotone.spec.properties import Boundary
from isotone.testing.daemons import Daemons, address_of
from isotone.trace import events as trace
from tests.evs.sessions.remote import RemoteClient, Say, Want

SECOND = 1_000_000
BODY = 1_000
WAITING, WINDOW = 40_000, 60_000  # of drafts at a daemon, of units of a site
SERVER = ServerSettings(
    window_bytes=10_000,
    buffer_bytes_max=300_000,
    heartbeat_us=10 * SECOND,
    silence_us=60 * SECOND,
    policy=SlowPolicy.BLOCK,
)
CLIENT = ClientSettings(queue_bytes_max=10_000)
ONE_SITE = {"d1": "s", "d2": "s", "d3": "s"}
TWO_SITES = {"d1": "s", "d2": "t", "d3": "t"}


class Scene:
    """The reader stands at d1, senders at d2, and d3 is there to come and go."""

    def __init__(self, site_of: Mapping[str, str], *, pruning: bool, seed: int = 1) -> None:
        self.rows: list[trace.Row] = []
        self.world = World(seed=seed, sink=self.rows.append)
        transport = TransportSettings(ring=PATIENT_RING, waiting_bytes_max=WAITING, site_window_bytes=WINDOW)
        membership = MembershipSettings(transport=transport, waiting_bytes_max=WAITING)
        self.daemons = Daemons(self.world, site_of, StackSettings(membership=membership, pruning=pruning), SERVER)
        self.sites = len(set(site_of.values()))
        self.apps: dict[str, RemoteClient] = {}
        self.said: dict[str, int] = {}
        self.until(self.is_one_view)
        for name, daemon, group in (
            ("slow", "d1", "g"),
            ("alice", "d2", "g"),
            ("bob", "d2", "h"),
            ("carol", "d1", "h"),
        ):
            self.world.add_process(name, self._program(name, daemon), site=site_of[daemon])
            self.until(lambda name=name: self.apps[name].session.is_connected)
            self.world.tell(name, "app", Want(0, b4.Join(group)))
        self.world.run_for(SECOND)

    def _program(self, name: str, daemon: str) -> Callable[[Boot], Mapping[str, Automaton]]:
        def program(boot: Boot) -> Mapping[str, Automaton]:
            app = RemoteClient(name, [Address(address_of(daemon))], boot.choice.derive("session"), CLIENT)
            self.apps[name] = app
            return {"app": app}

        return program

    # --- time ------------------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], bool], within_us: int = 30 * SECOND) -> None:
        end = self.world.now + within_us
        while not condition():
            assert self.world.now < end, "it does not happen"
            self.world.run_for(1_000)

    def is_one_view(self) -> bool:
        return not list(self.daemons.unsettled(quiet=False))

    def flood(self, name: str, group: str, count: int, *, service: Service = Service.AGREED) -> int:
        """Send so many, or until there is no room for a second; how many were taken by the session."""
        sent, stuck, app = 0, 0, self.apps[name]
        while sent < count and stuck < 200:
            if app.session.room > BODY:
                stuck = 0
                self.said[name] = self.said.get(name, 0) + 1
                self.world.tell(name, "app", Say(0, group, b"%8d" % self.said[name] * (BODY // 8), service))
                sent += 1
            else:
                stuck += 1
            self.world.run_for(300 if not stuck else 5_000)
            assert self.kept <= self.most
        return sent

    # --- looking ---------------------------------------------------------------------------------------------------

    def sessions(self, daemon: str) -> ServerSessions:
        sessions = self.daemons.stack(daemon).sessions
        assert sessions is not None
        return sessions

    @property
    def kept(self) -> int:
        """For the reader, at its daemon."""
        return self.sessions("d1").held_bytes if self.world.is_up("d1") else 0

    @property
    def most(self) -> int:
        """The bound, and what is in flight then: units that are not stable, and drafts that wait at the senders'."""
        return SERVER.buffer_bytes_max + self.sites * WINDOW + WAITING + 10 * BODY

    def messages(self, name: str) -> list[object]:
        return [digest for kind, digest in self.apps[name].record.heard if kind == "message"]

    def closed(self, daemon: str) -> list[str]:
        return sorted(self.daemons.stack(daemon).groups.holds.groups)

    def judge(self) -> None:
        """Nothing was refused, and the properties hold."""
        self.world.record("", trace.Ended(False))
        report = check(self.rows, [Boundary.CLIENTS, Boundary.DAEMONS])
        broken = {label: each.violation for label, each in report.verdicts.items() if each.violation is not None}
        assert not broken and not self.world.refused
        for daemon in self.daemons.names:
            if self.world.is_up(daemon):
                assert not self.daemons.stack(daemon).groups.refused


def blocked(site_of: Mapping[str, str], *, pruning: bool, service: Service = Service.AGREED) -> Scene:
    """The reader stands still, and its sender at the other daemon has no room any more."""
    scene = Scene(site_of, pruning=pruning)
    scene.world.pause("slow")
    sent = scene.flood("alice", "g", 2_000, service=service)
    assert sent * BODY < scene.most + SERVER.window_bytes + CLIENT.queue_bytes_max + 20_000
    assert scene.apps["alice"].session.room <= BODY
    assert scene.closed("d2") == scene.closed("d3") == ["#slow#d1", "g"] and scene.closed("d1") == []
    assert scene.sessions("d1").blocking == (scene.apps["slow"].session.client,)
    return scene


def all_go_on(scene: Scene) -> None:
    """The reader reads: it hears everything, and so does the sender, who goes on."""
    scene.world.resume("slow")
    scene.until(lambda: scene.closed("d2") == [] and scene.apps["alice"].session.room > BODY)
    assert scene.flood("alice", "g", 30) == 30
    scene.until(lambda: all(len(scene.messages(name)) == scene.said["alice"] for name in ("slow", "alice")))
    assert scene.messages("slow") == scene.messages("alice") == scene.apps["alice"].record.sent
    assert scene.sessions("d1").counters.ended[EndCode.SLOW] == 0 and scene.sessions("d1").blocking == ()
    assert not any(scene.daemons.stack(name).groups.holds.is_stating for name in ("d1", "d2", "d3"))
    scene.judge()


@pytest.mark.parametrize(
    ("site_of", "pruning", "service"),
    [(ONE_SITE, False, Service.AGREED), (TWO_SITES, True, Service.SAFE), (TWO_SITES, False, Service.FIFO)],
)
def test_a_sender_at_another_daemon_waits_and_goes_on(
    site_of: Mapping[str, str], pruning: bool, service: Service
) -> None:
    scene = blocked(site_of, pruning=pruning, service=service)
    before, kept = len(scene.messages("carol")), scene.kept
    held = [each for each in scene.apps["alice"].notices if isinstance(each, Held)]
    assert held == [Held((scene.apps["slow"].session.client,))]
    assert scene.flood("bob", "h", 50) == 50, "others are not held"
    scene.until(lambda: len(scene.messages("carol")) == before + 50)
    assert scene.kept <= kept + 50 * (BODY + 200)
    all_go_on(scene)


def test_it_lasts_through_changes_of_the_daemon_view() -> None:
    scene = blocked(TWO_SITES, pruning=True)
    for _ in range(2):
        taken = scene.apps["alice"].session.settled
        scene.world.crash("d3")
        scene.until(lambda: scene.daemons.members("d2") == ("d1", "d2") and scene.is_one_view())
        assert scene.flood("alice", "g", 100) == 0 and scene.closed("d2") == ["#slow#d1", "g"]
        scene.world.restart("d3")
        scene.until(lambda: scene.daemons.members("d2") == ("d1", "d2", "d3") and scene.is_one_view())
        assert scene.flood("alice", "g", 100) == 0
        assert scene.closed("d2") == scene.closed("d3") == ["#slow#d1", "g"], "who is new hears of it"
        assert scene.apps["alice"].session.settled == taken
    all_go_on(scene)


def test_it_ends_when_the_daemon_of_the_reader_is_gone_and_begins_again_when_they_meet() -> None:
    """While they are apart the reader holds nobody at the other side; what was sent there it never hears."""
    scene = blocked(ONE_SITE, pruning=False)
    scene.world.partition(["d1", "slow", "carol"], ["d2", "d3", "alice", "bob"])
    scene.until(lambda: scene.daemons.members("d2") == ("d2", "d3") and scene.closed("d2") == [])
    assert scene.flood("alice", "g", 50) == 50
    scene.world.partition()
    scene.until(lambda: scene.daemons.members("d2") == ("d1", "d2", "d3") and scene.is_one_view())
    scene.until(lambda: scene.closed("d2") == ["#slow#d1", "g"])
    scene.flood("alice", "g", 500)
    assert scene.apps["alice"].session.room <= BODY
    scene.world.resume("slow")
    scene.until(lambda: scene.closed("d2") == [] and scene.apps["alice"].session.room > BODY)
    assert scene.flood("alice", "g", 30) == 30
    scene.world.run_for(SECOND)
    assert scene.messages("alice") == scene.apps["alice"].record.sent
    assert scene.messages("slow")[-30:] == scene.apps["alice"].record.sent[-30:]
    scene.judge()


def test_it_ends_when_the_daemon_of_the_reader_crashes() -> None:
    scene = blocked(TWO_SITES, pruning=True)
    scene.world.crash("d1")
    scene.until(lambda: scene.closed("d2") == [] and scene.apps["alice"].session.room > BODY)
    assert scene.flood("alice", "g", 50) == 50
    scene.until(lambda: len(scene.messages("alice")) == scene.said["alice"])
    assert scene.messages("alice") == scene.apps["alice"].record.sent
    scene.judge()


def test_it_ends_when_the_reader_does() -> None:
    scene = blocked(ONE_SITE, pruning=True)
    scene.world.crash("slow")
    scene.until(lambda: scene.closed("d2") == [] and scene.apps["alice"].session.room > BODY)
    scene.judge()


def test_without_a_reader_that_blocks_nothing_is_said() -> None:
    scene = Scene(ONE_SITE, pruning=False)
    stated: list[object] = []
    for name in scene.daemons.names:
        scene.daemons.stack(name).groups.holds.state = stated.append  # type: ignore[assignment,method-assign]
    assert scene.flood("alice", "g", 300) == 300
    scene.until(lambda: len(scene.messages("slow")) == 300)
    assert not stated
