"""Three ISIS sites whose frames a test carries by hand, and site view managers without their kernels."""

from __future__ import annotations

from isotone.core.contract import Action
from isotone.isis import events as e
from isotone.isis import wire as w
from isotone.isis.life import Life
from isotone.isis.settings import IsisSettings
from isotone.isis.site_views import SiteViews

NAMES = ("a", "b", "c")
SITES = ("a.1", "b.1", "c.1")
LIVES = (("a", 1), ("b", 1), ("c", 1))
A, C, G = e.Primitive.ABCAST, e.Primitive.CBCAST, e.Primitive.GBCAST


class Cluster:
    """Operational sites whose frames are carried when the test says so."""

    def __init__(self, *, sites: tuple[str, ...] = SITES, members: tuple[str, ...] = SITES) -> None:
        names = tuple(site[0] for site in sites)
        self.known = tuple((name, 1) for name in names)
        self.lives = {site: Life(IsisSettings(site[0], names), site) for site in sites}
        self.heard: dict[str, list[Action]] = {site: [] for site in sites}
        self.cut: set[tuple[str, str]] = set()  # nothing goes this way now
        self.carried: list[tuple[str, str, object]] = []  # from, to, what
        self.enter(w.SiteView(1, sites, self.known))
        for site in members:
            self.ask(site, e.JoinWanted(0, "p", "g"))
            self.run()
        self.carried.clear()

    def enter(self, view: w.SiteView) -> None:
        for site in view.members:
            self.lives[site].enter_view(view)
            self.lives[site].settle(transmit=True)
        self.run()

    def fail(self, *failed: str, cut: set[tuple[str, str]] | None = None) -> None:
        """The survivors install a site view without these."""
        for site in failed:
            del self.lives[site]
        self.cut = cut or set()
        number = next(iter(self.lives.values())).site.view.number + 1
        self.enter(w.SiteView(number, tuple(self.lives), self.known))

    def ask(self, site: str, event: e.JoinWanted | e.BroadcastWanted | e.FlushWanted | e.AnswerGiven) -> None:
        self.lives[site].ask(event)
        self.lives[site].settle(transmit=True)

    def cast(self, site: str, primitive: e.Primitive, body: bytes, **more: object) -> None:
        self.ask(site, e.BroadcastWanted(0, "p", "g", primitive, body, **more))  # type: ignore[arg-type]

    def step(self) -> bool:
        """One round: every site sends what it may, and hears it."""
        moved = False
        for source, life in list(self.lives.items()):
            channels = life.site.channels
            held = {peer: channels.peers.pop(peer) for peer in list(channels.peers) if (source, peer) in self.cut}
            frames = channels.pump()
            channels.peers.update(held)
            for frame in frames:
                if (target := self.lives.get(frame.target)) is not None:
                    self.carried.append((source, frame.target, frame.body))
                    target.site.channels.receive(frame)
                    target.settle(transmit=True)
                    moved = True
            self.heard[source] += life.take()
        return moved

    def run(self) -> None:
        while self.step():
            pass

    def mend(self) -> None:
        """Everything goes through again."""
        self.cut = set()
        self.run()

    def sent(self, kind: type, source: str = "") -> list[tuple[str, object]]:
        """What of a kind was carried: to whom, and what."""
        return [(to, body) for who, to, body in self.carried if isinstance(body, kind) and source in ("", who)]

    def bodies(self, site: str) -> list[bytes]:
        return [each.body for each in self.heard[site] if isinstance(each, e.Deliver)]

    def story(self, site: str) -> list[object]:
        """Messages, and who failed, in their order."""
        told: list[object] = []
        for each in self.heard[site]:
            if isinstance(each, e.Deliver):
                told.append(each.body)
            elif isinstance(each, e.DeliverView) and each.failed:
                told.append(each.failed)
        return told

    def collect(self) -> None:
        """A round of garbage collection at every site."""
        for life in self.lives.values():
            life.collect()
            life.settle(transmit=True)
        self.run()


def views(
    name: str, *, names: tuple[str, ...] = NAMES, committed: w.SiteView | None = None, life: int = 1
) -> SiteViews:
    """The site views of one site; its settings name these sites."""
    found = SiteViews(IsisSettings(name, names), life=life)
    lives = tuple((each, 1) for each in names)
    found.committed = (committed or w.SiteView(1, tuple(f"{each}.1" for each in names), lives),)
    return found


def said(sender: SiteViews, kind: type) -> list[tuple[str, object]]:
    return [(target, body) for target, body in sender.said if isinstance(body, kind)]


def hello(receiver: SiteViews, site: str, at: int, *, live: bool = True, number: int = 1) -> None:
    receiver.on_hello(site, w.Hello(live, number), at)


def tell(site: SiteViews, source: str, body: w.ViewBody, at: int) -> None:
    """One message of the view management arrives."""
    match body:
        case w.Hello():
            site.on_hello(source, body, at)
        case w.Interrogate():
            site.on_interrogate(source, body)
        case w.Promise():
            site.on_promise(source, body, at)
        case w.Proposal():
            site.on_proposal(source, body)
        case w.Acknowledged():
            site.on_acknowledged(source, body)
        case w.NegativelyAcknowledged():
            site.on_negative(source, body, at)
        case w.Commit(committed=committed):
            site.learn(committed)
        case w.LockAsked():
            site.on_lock_asked(source, body, at)
        case w.LockGranted():
            site.on_lock_granted(source, body, at)


def carry(sites: dict[str, SiteViews], at: int, *, lost: tuple[tuple[str, type], ...] = ()) -> None:
    """Until nobody says anything; ``lost``: to whom what kind never comes."""
    moved = True
    while moved:
        moved = False
        for name in list(sites):
            speaker = sites[name]
            words, speaker.said = speaker.said, []
            for target, body in words:
                if target in sites and (target, type(body)) not in lost:
                    tell(sites[target], speaker.me, body, at)
                    moved = True


def manage(sites: dict[str, SiteViews], at: int, *, lost: tuple[tuple[str, type], ...] = ()) -> None:
    """Ticks at all of them, and what follows, until nothing changes any more."""
    for _ in range(8):
        at += 60_000
        for site in sites.values():
            site.tick(at)
        carry(sites, at, lost=lost)


def gone_through(site: SiteViews) -> list[tuple[str, ...]]:
    """The site views that it has installed."""
    return [view.members for view in site.installed]
