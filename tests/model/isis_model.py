"""ABCAST and the view management of ISIS, explored with the real automata: three sites, of which one may crash.

A step takes one message from one site to another: in the order of its channel for ABCAST, any message that is under way
for site views. A crash loses what its site has under way; then each of the others installs the next site view when it
pleases (ABCAST), or hears no more of it (site views).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from isotone.isis import events as e
from isotone.isis import wire as w
from isotone.isis.life import Life
from isotone.isis.settings import IsisSettings
from isotone.isis.site_views import Saved, SiteViews
from isotone.sim.canonical import branch, canonical

NAMES = ("a", "b", "c")
SITES = ("a.1", "b.1", "c.1")
LIVES = (("a", 1), ("b", 1), ("c", 1))
WHOLE = w.SiteView(1, SITES, LIVES)


# --- ABCAST -----------------------------------------------------------------------------------------------------------


@dataclass
class Broadcasting:
    """Sites, and what each has delivered; also of the one that crashed."""

    lives: dict[str, Life] = field(default_factory=dict)
    stories: dict[str, tuple[bytes, ...]] = field(default_factory=dict)

    def carry(self, source: str, target: str) -> None:
        """The first message of a channel is there, and its sender knows that."""
        channels = self.lives[source].site.channels
        _, body, token = channels.peers[target].queue.popleft()
        if token is not None:
            channels.sent.append((target, token))
        self.lives[target].site.channels.inbox.append((source, body))
        self.settle(target)
        self.settle(source)

    def settle(self, site: str) -> None:
        """Let a site finish what it can."""
        life = self.lives[site]
        life.settle(transmit=True)
        told = tuple(each.body for each in life.take() if isinstance(each, e.Deliver))
        self.stories[site] = self.stories.get(site, ()) + told

    def under_way(self) -> list[tuple[str, str]]:
        """Channels with a message that its receiver may take."""
        return [
            (source, target)
            for source, life in self.lives.items()
            for target, channel in life.site.channels.peers.items()
            if channel.queue and target in self.lives
            if self.lives[target].site.view.number >= life.site.view.number
        ]


class AbcastModel:
    """Two ABCASTs of one label begin at once, at ``senders``; ``crashes``: who may crash."""

    def __init__(self, senders: tuple[str, ...], crashes: tuple[str, ...], *, uniform: bool) -> None:
        self.senders, self.crashes, self.uniform = senders, crashes, uniform

    def initial(self) -> Iterable[Broadcasting]:
        """One group with a process at each site, and both broadcasts begun."""
        state = Broadcasting({site: Life(IsisSettings(site[0], NAMES), site) for site in SITES})
        for site in SITES:
            state.lives[site].enter_view(WHOLE)
            state.settle(site)
        for site in SITES:
            state.lives[site].ask(e.JoinWanted(0, "p", "g"))
            state.settle(site)
            while channels := state.under_way():
                state.carry(*channels[0])
        for sender in self.senders:
            wanted = e.BroadcastWanted(0, "p", "g", e.Primitive.ABCAST, sender.encode(), "q", 0, self.uniform)
            state.lives[sender].ask(wanted)
            state.settle(sender)
        yield state

    def steps(self, state: Broadcasting) -> Iterator[tuple[str, Broadcasting]]:
        """A message arrives, a site crashes, a survivor learns of it."""
        for source, target in state.under_way():
            following = branch(state)
            following.carry(source, target)
            yield f"{source} to {target}", following
        if len(state.lives) == len(SITES):
            for site in self.crashes:
                following = branch(state)
                del following.lives[site]
                yield f"{site} crashes", following
            return
        view = w.SiteView(2, tuple(state.lives), LIVES)
        for site, life in state.lives.items():
            if life.site.view.number == 1:
                following = branch(state)
                following.lives[site].enter_view(view)
                following.settle(site)
                yield f"{site} learns of it", following

    def identity(self, state: Broadcasting) -> bytes:
        """All that will matter."""
        return canonical(state)

    def problem(self, state: Broadcasting) -> str | None:
        """Two processes have one order: all with the extra phase, otherwise those that stay."""
        bound = state.stories if self.uniform else {site: state.stories[site] for site in state.lives}
        for one, first in bound.items():
            for other, second in bound.items():
                both = [body for body in first if body in second]
                if both != [body for body in second if body in first]:
                    return f"{one} delivered {first}, {other} {second}"
        return None

    def may_end(self, state: Broadcasting) -> bool:
        """All who stay delivered the same, and what the senders among them sent."""
        stories = {tuple(state.stories[site]) for site in state.lives}
        wanted = {sender.encode() for sender in self.senders if sender in state.lives}
        return len(stories) == 1 and wanted <= set(stories.pop())


# --- site views -------------------------------------------------------------------------------------------------------


@dataclass
class Managing:
    """Sites, their disks, messages under way, and the site views that each has gone through."""

    sites: dict[str, SiteViews]
    way: list[tuple[str, str, w.ViewBody]] = field(default_factory=list)
    history: dict[int, tuple[str, ...]] = field(default_factory=dict)
    wrong: str = ""
    suspects: int = 0  # a site may be suspected without reason so often
    crashed: str = ""

    def take_out(self, name: str) -> None:
        """What a site says is under way; what it installed is compared with the others."""
        site = self.sites[name]
        for target, body in site.said:
            known = any(each == (name, target, body) for each in self.way)
            if not isinstance(body, w.Hello | w.LockAsked | w.LockGranted | w.Dead) and not known:
                self.way.append((name, target, body))
        site.said = []
        for view in site.installed:
            if self.history.setdefault(view.number, view.members) != view.members:
                self.wrong = f"site view {view.number} is {self.history[view.number]} and {view.members}"
        site.installed, site.dirty = [], False


class SiteViewModel:
    """Three sites in a site view; one may be suspected, one may crash and come back with what it saved."""

    def __init__(self, *, crashes: tuple[str, ...] = ("a",), restarts: bool = True, suspects: int = 1) -> None:
        self.crashes, self.restarts, self.suspects = crashes, restarts, suspects

    def initial(self) -> Iterable[Managing]:
        """All are operational."""
        sites = {}
        for name in NAMES:
            sites[name] = SiteViews(IsisSettings(name, NAMES), life=1)
            sites[name].committed = (WHOLE,)
        yield Managing(sites, suspects=self.suspects)

    def steps(self, state: Managing) -> Iterator[tuple[str, Managing]]:
        """A message arrives, a manager does its part, a site crashes or comes back."""
        for place, (source, target, body) in enumerate(state.way):
            following = branch(state)
            del following.way[place]
            if target in following.sites and not following.sites[target].doomed:
                self._hear(following, source, target, body)
                yield f"{type(body).__name__} of {source} at {target}", following
        for name, site in state.sites.items():
            if not site.doomed:
                yield from self._manage(state, name)
        yield from self._crash(state)

    def _hear(self, state: Managing, source: str, target: str, body: w.ViewBody) -> None:
        site = state.sites[target]
        sender = state.sites[source].me if source in state.sites else f"{source}.1"
        match body:
            case w.Interrogate():
                site.on_interrogate(sender, body)
            case w.Promise():
                site.on_promise(sender, body, 0)
            case w.Proposal():
                site.on_proposal(sender, body)
            case w.Acknowledged():
                site.on_acknowledged(sender, body)
            case w.NegativelyAcknowledged():
                site.on_negative(sender, body, 0)
            case w.Commit(committed=committed):
                site.learn(committed)
        state.take_out(target)

    def _manage(self, state: Managing, name: str) -> Iterator[tuple[str, Managing]]:
        """A tick at a site, which hears of all that are up but perhaps of one."""
        unheard = [state.crashed] if state.crashed else []
        choices = [unheard] + ([[*unheard, each] for each in NAMES if each != name] if state.suspects else [])
        for silent in choices:
            following = branch(state)
            following.suspects -= len(silent) > len(unheard)
            site = following.sites[name]
            before = canonical(site)
            for other, views in following.sites.items():
                if other != name and other not in silent and not views.doomed:
                    site.on_hello(views.me, w.Hello(views.live, views.view.number, views.promised), 10_000_000)
            site.tick(10_000_000)
            following.take_out(name)
            site._heard.clear()
            site._rest_until = site._lock_asked = site._locked_until = 0
            site._granted.clear()
            if canonical(site) != before or len(following.way) != len(state.way):
                yield f"{name} ticks without {', '.join(silent) or 'nobody'}", following

    def _crash(self, state: Managing) -> Iterator[tuple[str, Managing]]:
        for name in self.crashes if not state.crashed else ():
            following = branch(state)
            saved = following.sites.pop(name).state()
            following.way = [each for each in following.way if name not in each[:2]]
            following.crashed = name
            if self.restarts:
                again = SiteViews(IsisSettings(name, NAMES))
                again.load(Saved(saved.life, saved.committed, saved.promised, saved.saved, saved.extension))
                again.recover()
                again.dirty = False
                following.sites[name] = again
                following.crashed = "nobody"
            yield f"{name} crashes", following

    def identity(self, state: Managing) -> bytes:
        """Messages under way are a set."""
        way = sorted(canonical(each) for each in state.way)
        return canonical((state.sites, way, state.history, state.wrong, state.suspects, state.crashed))

    def problem(self, state: Managing) -> str | None:
        """One sequence of site views, each with a majority."""
        small = [members for members in state.history.values() if 2 * len(members) <= len(NAMES)]
        return state.wrong or (f"site view {small[0]} has no majority" if small else None)

    def may_end(self, state: Managing) -> bool:
        """Whoever is killed waits for its kernel, which the model leaves out."""
        return True
