"""Site views: which incarnations of which sites are operational, the same sequence at all of them.

The oldest operational site is the view manager. It proposes an extension of the sequence, and commits it when all sites
of its last view have saved it. A site that takes over first asks a majority what was proposed before it.

Implements: [ISIS 4.2] with footnote 3 (a majority of the configured sites), cold start.
Deviations: D-ballot (the paper's argument needs that a new manager took part in every extension that may be committed.
With partitions, and sites that recover with what they saved, that is not so; so managers have ballots, participants
save their answers on disk, and steps (4) and (5) begin by interrogating a majority), D-life (*you are dead* follows
from the view itself: of each site it has the last incarnation that was operational. It is said when a view without the
site is committed, and not when it is proposed: another manager's proposal may take its place).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from isotone.isis import wire as w
from isotone.isis.names import life_of, name_of, site_id
from isotone.isis.settings import HISTORY_MAX, IsisSettings
from isotone.isis.wire import NO_BALLOT, NO_VIEW, Ballot, SiteView, ViewBody


class Saved(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a site has on disk."""

    life: int = 0
    committed: tuple[SiteView, ...] = ()
    promised: Ballot = NO_BALLOT
    saved: Ballot = NO_BALLOT
    extension: tuple[SiteView, ...] = ()


@dataclass
class Heard:
    """The last hello of a site."""

    at: int
    site: str
    live: bool
    number: int


@dataclass
class SiteViews:
    """The site view layer, through all incarnations of its site."""

    settings: IsisSettings
    life: int = 0
    committed: tuple[SiteView, ...] = ()  # the last ones, dense numbers
    promised: Ballot = NO_BALLOT  # no manager with a smaller one is answered
    saved: Ballot = NO_BALLOT  # under which the extension was saved
    extension: tuple[SiteView, ...] = ()  # proposed and not known to be committed
    read_locks: int = 0
    dirty: bool = False  # something is not yet on disk
    doomed: str = ""  # why this incarnation is dead
    installed: list[SiteView] = field(default_factory=list)  # committed views, not yet taken by the kernel
    said: list[tuple[str, ViewBody]] = field(default_factory=list)  # to the site of this name
    neighbours: dict[int, SiteView] = field(default_factory=dict)  # of other clusters: the last one known, by place
    _heard: dict[str, Heard] = field(default_factory=dict)
    _ballot: Ballot | None = None  # of this manager
    _promises: dict[str, w.Promise] = field(default_factory=dict)
    _leads: bool = False  # a majority has answered
    _acknowledged: dict[str, int] = field(default_factory=dict)  # by site: the extension up to which number
    _granted: dict[str, int] = field(default_factory=dict)  # when a site last granted the write-lock
    _locked_until: int = 0
    _lock_asked: int = 0  # when
    _rest_until: int = 0  # after another manager was in the way

    # --- looking ---------------------------------------------------------------------------------------------------

    @property
    def me(self) -> str:
        """This incarnation."""
        return site_id(self.settings.site, self.life)

    @property
    def view(self) -> SiteView:
        """The last committed one."""
        return self.committed[-1] if self.committed else NO_VIEW

    @property
    def last(self) -> SiteView:
        """The last proposed one."""
        return self.extension[-1] if self.extension else self.view

    @property
    def live(self) -> bool:
        """Whether this incarnation is operational."""
        return self.me in self.view.members

    def is_dead(self, site: str) -> bool:
        """Whether this incarnation was operational once and is not any more, or is about to be declared so."""
        return site not in self.last.members and life_of(site) <= self.last.life(name_of(site))

    def is_declared_dead(self, site: str) -> bool:
        """Whether a committed view says so."""
        return site not in self.view.members and life_of(site) <= self.view.life(name_of(site))

    def may_read_lock(self, at: int) -> bool:
        """Whether no write-lock stands."""
        return at >= self._locked_until

    def state(self) -> Saved:
        """For the disk."""
        return Saved(self.life, self.committed, self.promised, self.saved, self.extension)

    def load(self, found: Saved) -> None:
        """From the disk."""
        self.life, self.committed = found.life, found.committed
        self.promised, self.saved, self.extension = found.promised, found.saved, found.extension

    def recover(self) -> None:
        """Begin another incarnation."""
        self.life += 1
        self.dirty, self.doomed = True, ""
        self.read_locks, self._locked_until = 0, 0
        self._resign(0)

    # --- evidence --------------------------------------------------------------------------------------------------

    def on_hello(self, source: str, hello: w.Hello, at: int) -> None:
        """It is there; one that missed a commit gets it."""
        self._heard[name_of(source)] = Heard(at, source, hello.live, hello.number)
        if self.live and source in self.view.members and hello.number < self.view.number:
            self.say(source, w.Commit(self.committed))
        self._give_way(hello.promised, at)

    def on_absence(self, present: set[str], at: int) -> None:
        """The group view at B4 is without these: evidence, as half of the time to suspect them."""
        for name, heard in self._heard.items():
            if name not in present:
                heard.at = min(heard.at, at - self.settings.suspect_us // 2)

    def _is_here(self, name: str, at: int) -> bool:
        heard = self._heard.get(name)
        return heard is not None and at - heard.at <= self.settings.suspect_us

    def _suspects(self, site: str, at: int) -> bool:
        """No hello for long, or one of a later incarnation."""
        if site == self.me:
            return False
        name = name_of(site)
        return not self._is_here(name, at) or self._heard[name].site != site

    def _here(self, at: int) -> list[str]:
        return [name for name in self.settings.sites if name == self.settings.site or self._is_here(name, at)]

    def say(self, site: str, body: ViewBody) -> None:
        """To a site, whatever its incarnation; answers of one's own are handled by `_own`."""
        self.said.append((name_of(site) if "." in site else site, body))

    # --- the manager -----------------------------------------------------------------------------------------------

    def tick(self, at: int) -> None:
        """Say hello; take over, propose or repeat, where this site is the manager."""
        known = self._known()
        for name in self.settings.sites:
            if name != self.settings.site:
                self.say(name, w.Hello(self.live, self.view.number, self.promised, known))
        for name in self.settings.everywhere if self.live else ():
            if name not in self.settings.sites:
                self.say(name, w.Neighbours(known))
        if not self._manages(at):
            self._resign(self._rest_until)
        elif self._ballot is None:
            if at >= self._rest_until and self._has_work(at):
                self._interrogate(at)
        elif not self._leads:
            self._repeat_interrogation(at)
        else:
            self._propose(at)

    def _known(self) -> tuple[SiteView, ...]:
        """The site views of all clusters; where there is only one, none."""
        mine = self.settings.cluster
        places = range(len(self.settings.clusters))
        return tuple(self.view if place == mine else self.neighbours.get(place, NO_VIEW) for place in places)

    def _manages(self, at: int) -> bool:
        """The oldest site that is not suspected; or, where nobody is operational, the first by name."""
        if self.live:
            older = self.view.members[: self.view.members.index(self.me)]
            return all(self._suspects(site, at) for site in older)
        here = self._here(at)
        operational = any(self._heard[name].live for name in here if name != self.settings.site)
        return not operational and len(here) >= self.settings.majority and min(here) == self.settings.site

    def _has_work(self, at: int) -> bool:
        """Also where a manager may have proposed something that this site has not seen: others act on it."""
        unseen = self.promised > self.saved
        return unseen or bool(self.extension) or not self.live or self._next_members(at) != self.last.members

    def _next_members(self, at: int) -> tuple[str, ...]:
        """The last view without the failed, with the recovered; itself where that is no majority."""
        staying = [site for site in self.last.members if not self._suspects(site, at)]
        recovered = [
            self._heard[name].site if name != self.settings.site else self.me
            for name in self._here(at)
            if self._is_new(name)
        ]
        members = (*staying, *sorted(set(recovered) - set(staying)))
        return members if len(members) >= self.settings.majority else self.last.members

    def _is_new(self, name: str) -> bool:
        """Whether its present incarnation was never in a view."""
        site = self.me if name == self.settings.site else self._heard[name].site
        return life_of(site) > self.last.life(name)

    def _interrogate(self, at: int) -> None:
        self._ballot = (self.promised[0] + 1, self.settings.site)
        self.promised, self.dirty = self._ballot, True
        self._promises = {self.settings.site: self._promise(self._ballot)}
        self._repeat_interrogation(at)

    def _repeat_interrogation(self, at: int) -> None:
        assert self._ballot is not None
        for name in self._here(at):
            if name not in self._promises:
                self.say(name, w.Interrogate(self._ballot))
        self._take_over(at)

    def on_promise(self, source: str, promise: w.Promise, at: int) -> None:
        """An answer to the interrogation."""
        if promise.ballot == self._ballot and not self._leads:
            self._promises[name_of(source)] = promise
            self._take_over(at)

    def _take_over(self, at: int) -> None:
        """Steps (4) and (5): go on with what the last manager may have committed."""
        if len(self._promises) < self.settings.majority:
            return
        assert self._ballot is not None
        promises = [self._promises[name] for name in sorted(self._promises)]
        for promise in promises:
            self.learn(promise.committed)
        best = max(promises, key=lambda promise: (promise.saved, _last_number(promise.extension)))
        self.extension = tuple(each for each in best.extension if each.number > self.view.number)
        self.saved, self.dirty = self._ballot, True
        self._leads, self._acknowledged = True, {}
        self._check_alive()
        if not self.doomed:
            self._propose(at)

    def _propose(self, at: int) -> None:
        """Step (1)."""
        members = self._with_lock(self._next_members(at), at)
        if members != self.last.members:
            lives = dict(self.last.lives) | {name_of(site): life_of(site) for site in members}
            view = SiteView(self.last.number + 1, members, tuple(sorted(lives.items())))
            self.extension = (*self.extension, view)
            self.dirty = True
        assert self._ballot is not None  # also without an extension: others may have saved one that nobody goes on with
        self._acknowledged[self.me] = self.last.number
        for site in self.last.members:
            if self._acknowledged.get(site, -1) < self.last.number:
                self.say(site, w.Proposal(self._ballot, self.committed, self.extension))
        self._commit_if_all()

    def _with_lock(self, members: tuple[str, ...], at: int) -> tuple[str, ...]:
        """Whoever recovers comes in only under a write-lock of all who stay; failures need none.

        Where too few stay for a majority nobody asks: their protocols wait for the failed, and hold read-locks.
        """
        if set(members) <= set(self.last.members) or not self.live:
            return members
        assert self._ballot is not None
        staying = [site for site in members if site in self.last.members and site in self.view.members]
        self._grant(self.me, at)
        if at - self._lock_asked >= self.settings.tick_us // 2:
            self._lock_asked = at
            for site in staying:
                if site != self.me:
                    self.say(site, w.LockAsked(self._ballot))
        fresh = at - self.settings.tick_us * 3 // 2
        shrunk = tuple(site for site in members if site in self.last.members)
        granted = all(self._granted.get(site, -1) >= fresh for site in staying)
        return members if granted or len(shrunk) < self.settings.majority else shrunk

    def _grant(self, site: str, at: int) -> bool:
        self._locked_until = at + 2 * self.settings.tick_us  # no new read-lock, so that there comes an end
        if self.read_locks:
            return False
        if site == self.me:
            self._granted[site] = at
        return True

    def on_lock_asked(self, source: str, asked: w.LockAsked, at: int) -> None:
        """A write-lock, unless a protocol here holds a read-lock."""
        if self._grant(source, at):
            self.say(source, w.LockGranted(asked.ballot))

    def on_lock_granted(self, source: str, granted: w.LockGranted, at: int) -> None:
        """The site of this manager may bring others in."""
        if granted.ballot == self._ballot:
            self._granted[source] = at
            if self._leads:
                self._propose(at)

    def on_acknowledged(self, source: str, acknowledged: w.Acknowledged) -> None:
        """Step (3a)."""
        if self._leads and acknowledged.ballot == self._ballot:
            self._acknowledged[source] = acknowledged.number
            self._commit_if_all()

    def _commit_if_all(self) -> None:
        if not self.extension or not self._leads:
            return
        if all(self._acknowledged.get(site, -1) >= self.last.number for site in self.last.members):
            self.learn((*self.committed, *self.extension))
            for site in self.view.members:
                if site != self.me:
                    self.say(site, w.Commit(self.committed))

    def on_negative(self, source: str, refused: w.NegativelyAcknowledged, at: int) -> None:
        """Step (3b): another manager was there; what it proposed is learnt by asking anew."""
        self.learn(refused.committed)
        self._give_way(refused.ballot, at)

    def _give_way(self, ballot: Ballot, at: int) -> None:
        """Somebody has promised to answer no smaller ballot than this one."""
        if self._ballot is not None and ballot > self._ballot:
            self.promised = max(self.promised, ballot)
            self.dirty = True
            place = self.settings.sites.index(self.settings.site) + 1
            self._resign(at + place * self.settings.tick_us)

    def _resign(self, rest_until: int) -> None:
        self._ballot, self._leads, self._promises, self._acknowledged = None, False, {}, {}
        self._rest_until = rest_until

    # --- the participant -------------------------------------------------------------------------------------------

    def _promise(self, ballot: Ballot) -> w.Promise:
        return w.Promise(ballot, self.committed, self.saved, self.extension)

    def _refusal(self) -> w.NegativelyAcknowledged:
        return w.NegativelyAcknowledged(self.promised, self.committed, self.extension)

    def on_interrogate(self, source: str, asked: w.Interrogate) -> None:
        """Of a new manager; while this site is operational, only another operational one may be that."""
        heard = self._heard.get(name_of(source))
        if self.live and source not in self.view.members and (heard is None or not heard.live):
            return
        if asked.ballot < self.promised:
            self.say(source, self._refusal())
            return
        self.promised, self.dirty = asked.ballot, True
        self.say(source, self._promise(asked.ballot))

    def on_proposal(self, source: str, proposal: w.Proposal) -> None:
        """Step (2)."""
        self.learn(proposal.committed)
        if proposal.ballot < self.promised:
            self.say(source, self._refusal())
            return
        self.promised = self.saved = proposal.ballot
        self.extension = tuple(each for each in proposal.extension if each.number > self.view.number)
        self.dirty = True
        self._check_alive()
        if not self.doomed:
            self.say(source, w.Acknowledged(proposal.ballot, self.last.number))

    def learn(self, committed: tuple[SiteView, ...]) -> None:
        """These views are committed: go through those that are new, in their order."""
        for view in committed:
            if view.number <= self.view.number:
                continue
            if self.live and view.number != self.view.number + 1:
                self.doomed = f"missed the site views before {view.number}"
                return
            history = self.committed if view.number == self.view.number + 1 else ()
            self.committed = (*history, view)[-HISTORY_MAX:]
            self.extension = tuple(each for each in self.extension if each.number > view.number)
            self.dirty = True
            if self.me in view.members:
                self.installed.append(view)
            elif life_of(self.me) <= view.life(self.settings.site):
                self.doomed = f"site view {view.number} is without it"
                return

    def _check_alive(self) -> None:
        if self.is_dead(self.me):
            self.doomed = f"proposed site view {self.last.number} is without it"

    def on_dead(self, dead: w.Dead) -> None:
        """*You are dead*, says somebody in a later view."""
        if dead.number > self.view.number:
            self.doomed = f"site view {dead.number} is without it"


def _last_number(extension: tuple[SiteView, ...]) -> int:
    """Under one ballot an extension only grows: the longest has all that may be committed."""
    return extension[-1].number if extension else 0
