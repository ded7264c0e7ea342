"""Which unit may be delivered now: the walk in total order, and the weak services that go ahead of it.

Implements: [Spread 5.1, Figures 5.1 and 5.2] with the four delivery rules; weak incorporated order [Spread 2.2.3.2].
Deviations: D-merge instead of one sorted list, each site has its own queue in sequence order, which is also order of
time, and the walk merges their heads: no sorting, no search, constant work per unit; D-previous and D-causal as in
`units`.

A cut, which is a join, leave or kill, is passed when everybody has received it, and with it every unit of a daemon that
had not. These go ahead of it wherever they are; who stamps behind it names it, and such units wait until it is passed.
So below AGREED everything stands on the same side of each cut at all daemons, and no unit waits where there is no cut.

Metadata of an AGREED or SAFE unit is passed when it is stable, as if it were SAFE: then everybody who is owed its
content has it. Otherwise the content could be lost with its source, and who passed it would be ahead of a hole.

Memory: a unit is kept until it is walked and stable. The bytes kept are bounded by the flow windows of all sites.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from isotone.core.services import Service
from isotone.evs.ordering.lines import Lines, SiteLine
from isotone.evs.ordering.units import BEFORE_ALL, Position, Unit, UnitKind

WEAK = (Service.RELIABLE, Service.FIFO, Service.CAUSAL)


@dataclass
class SiteStream:
    """The units of one site on their way from arrival to oblivion."""

    line: SiteLine
    ahead: dict[int, Unit] = field(default_factory=dict)  # arrived beyond a hole
    queue: deque[Unit] = field(default_factory=deque)  # contiguous, not yet walked
    kept: deque[Unit] = field(default_factory=deque)  # walked, not yet stable
    walked: int = 0  # every sequence up to here was walked, hence delivered
    early: set[int] = field(default_factory=set)  # delivered before the walk came to them
    overtook: set[int] = field(default_factory=set)  # of these: RELIABLE, ahead of an earlier unit of their session
    weak_delivered: int = 0  # every weak unit up to this sequence was delivered

    def has_delivered(self, sequence: int) -> bool:
        return sequence <= self.walked or sequence in self.early

    def is_complete(self, sequence: int) -> bool:
        """Whether this unit and all before it of its session were delivered."""
        return self.has_delivered(sequence) and sequence not in self.overtook

    def has_received(self, sequence: int) -> bool:
        return sequence <= self.line.contiguous or sequence in self.ahead

    @property
    def known(self) -> int:
        """The highest sequence that is known to exist."""
        return max(self.line.promised, *self.ahead) if self.ahead else self.line.promised

    def units(self) -> Iterator[Unit]:
        """All that is kept here, for recovery."""
        yield from self.kept
        yield from self.queue
        yield from self.ahead.values()

    def settled(self, agreed: int) -> int:
        """The highest sequence at or below the agreed line."""
        last = self.walked
        for unit in self.queue:
            if unit.lamport > agreed:
                break
            last = unit.sequence
        return last


@dataclass
class Delivery:
    """Takes units, returns those that became deliverable, in order."""

    lines: Lines
    last_agreed: Position = BEFORE_ALL  # position of the last AGREED or SAFE unit delivered
    last_cut: Position = BEFORE_ALL  # of the last cut delivered
    cut_past: Position = BEFORE_ALL  # of the last cut behind which something in the past of this daemon stands
    agreed_past: Position = BEFORE_ALL  # the highest agreed position in the causal past of this daemon
    weak_past: list[int] = field(default_factory=list)  # per site the highest weak sequence in that past
    kept_bytes: int = 0  # of all units held here
    unreliable_late: int = 0
    contradicting: int = 0  # units whose time does not fit their sequence
    _streams: list[SiteStream] = field(default_factory=list)
    _after: dict[tuple[int, int], list[Unit]] = field(default_factory=dict)  # FIFO and CAUSAL behind one unit
    _causal: list[Unit] = field(default_factory=list)  # CAUSAL that wait for their past
    _behind: dict[Position, list[Unit]] = field(default_factory=dict)  # below AGREED, that wait for this cut
    _ready: deque[Unit] = field(default_factory=deque)  # what waited for a unit that is complete now
    _releasing: bool = False
    _walked_at: tuple[int, int] = (-1, -1)  # the lines when `lines_moved` walked last; `take` walks by itself
    _unreliable: dict[int, int] = field(default_factory=dict)  # daemon to the time of its last UNRELIABLE delivered

    def __post_init__(self) -> None:
        self._streams = [SiteStream(line) for line in self.lines.sites]
        self.weak_past = [0] * len(self._streams)

    @property
    def streams(self) -> Sequence[SiteStream]:
        """By site, for recovery."""
        return self._streams

    def take(self, units: list[Unit]) -> list[Unit]:
        """Units arrived, in any order, perhaps again; return what can be delivered now."""
        out: list[Unit] = []
        for unit in units:
            if unit.sequence == 0:
                self._take_unreliable(unit, out)
            elif not self._streams[unit.site].has_received(unit.sequence):
                self._take_reliable(unit, out)
        self._walk(out)
        return out

    def fill(self, unit: Unit) -> list[Unit]:
        """Content that this site is owed after all: it takes the place of its metadata, or comes before it."""
        stream = self._streams[unit.site]
        if not stream.has_received(unit.sequence):
            return self.take([unit])
        place = unit.sequence - stream.queue[0].sequence if stream.queue else -1
        if unit.sequence in stream.ahead and stream.ahead[unit.sequence].kind is UnitKind.PRUNED:
            stream.ahead[unit.sequence] = unit
        elif 0 <= place < len(stream.queue) and stream.queue[place].kind is UnitKind.PRUNED:
            stream.queue[place] = unit
        else:
            return []  # it was here, or it was passed: then it was not owed
        self.kept_bytes += len(unit.body)
        stream.line.filled(unit.sequence)
        return self.lines_moved()

    def has_received(self, unit: Unit) -> bool:
        """Whether this reliable unit came before."""
        return self._streams[unit.site].has_received(unit.sequence)

    def lines_moved(self) -> list[Unit]:
        """A promise or a report came: return what can be delivered now, and forget what is stable."""
        out: list[Unit] = []
        lines = (self.lines.agreed, self.lines.stable)
        if lines != self._walked_at:  # asked after every event, and mostly nothing moved
            self._walked_at = lines
            self._walk(out)
        self._forget_stable()
        return out

    def missing(self, site: int) -> list[int]:
        """The sequences of a site that are known to exist but have not arrived, for `explain` and recovery."""
        stream = self._streams[site]
        top = max(stream.ahead, default=stream.line.contiguous)
        return [each for each in range(stream.line.contiguous + 1, top) if each not in stream.ahead]

    def undelivered(self) -> list[Unit]:
        """What has arrived and waits, in order of position; for recovery and `explain`."""
        waiting = [unit for stream in self._streams for unit in (*stream.queue, *stream.ahead.values())]
        pending = [unit for unit in waiting if not self._streams[unit.site].has_delivered(unit.sequence)]
        return sorted(pending, key=lambda unit: unit.position)

    # --- arrival ---------------------------------------------------------------------------------------------------

    def _take_unreliable(self, unit: Unit, out: list[Unit]) -> None:
        if unit.lamport <= max(self._unreliable.get(unit.daemon, 0), self.last_agreed[0]):
            self.unreliable_late += 1
            return
        self._unreliable[unit.daemon] = unit.lamport
        out.append(unit)
        self._note_past(unit)

    def _take_reliable(self, unit: Unit, out: list[Unit]) -> None:
        stream = self._streams[unit.site]
        self.kept_bytes += len(unit.body)
        following: Unit | None = unit
        if stream.ahead or unit.sequence != stream.line.contiguous + 1:
            stream.ahead[unit.sequence] = unit
            following = stream.ahead.pop(stream.line.contiguous + 1, None)
        while following is not None:
            if not stream.line.follows(following.lamport):
                self.contradicting += 1  # dropped: no correct daemon stamps it, and who waits for it loses patience
                self.kept_bytes -= len(following.body)
                return
            if following.kind is UnitKind.PRUNED and following.service.is_agreed:
                stream.line.bare(following.sequence, following.lamport)
            if stream.line.advance(following.sequence, following.lamport):
                self.lines.reported()
            stream.queue.append(following)
            following = stream.ahead.pop(stream.line.contiguous + 1, None) if stream.ahead else None
        if unit.service in WEAK:
            self._try_early(unit, out)
        if self._causal:
            self._retry_causal(out)

    def _try_early(self, unit: Unit, out: list[Unit]) -> None:
        """Rules three and four: RELIABLE at once, FIFO behind its session, CAUSAL behind its past as well; all behind
        the cuts that their daemons knew."""
        if unit.behind > self.last_cut:
            self._behind.setdefault(unit.behind, []).append(unit)
            return
        stream = self._streams[unit.site]
        behind = unit.previous and not stream.is_complete(unit.previous)
        if behind:
            self._after.setdefault((unit.site, unit.previous), []).append(unit)
        if unit.service is Service.RELIABLE:
            self._deliver_early(unit, out, overtaking=bool(behind))
        elif behind:
            return
        elif unit.service is Service.CAUSAL and not self._past_is_delivered(unit):
            self._causal.append(unit)
        else:
            self._deliver_early(unit, out, overtaking=False)

    def _deliver_early(self, unit: Unit, out: list[Unit], *, overtaking: bool) -> None:
        stream = self._streams[unit.site]
        if not stream.has_delivered(unit.sequence):
            stream.early.add(unit.sequence)
            out.append(unit)
            self._note_past(unit)
        if overtaking:
            stream.overtook.add(unit.sequence)
        else:
            stream.overtook.discard(unit.sequence)
            self._release(unit, out)

    def _note_past(self, unit: Unit) -> None:
        """A unit below AGREED was delivered: it and its past are in the past of all that is sent here from now on."""
        past = self.weak_past
        for site, sequence in enumerate(unit.weak_before):
            past[site] = max(past[site], sequence)
        past[unit.site] = max(past[unit.site], unit.sequence)
        self.agreed_past = max(self.agreed_past, unit.agreed_before)
        self.cut_past = max(self.cut_past, unit.behind)

    def _release(self, unit: Unit, out: list[Unit]) -> None:
        """This unit is complete: the next of its session, which waited for that, may be too."""
        self._ready.extend(self._after.pop((unit.site, unit.sequence), ()))
        if self._releasing:
            return  # by a unit before it in the same session: sessions are longer than a stack is deep
        self._releasing = True
        while self._ready:
            self._try_early(self._ready.popleft(), out)
        self._releasing = False

    # --- causal ----------------------------------------------------------------------------------------------------

    def _past_is_delivered(self, unit: Unit) -> bool:
        if self.last_agreed < unit.agreed_before:
            return False
        return all(
            self._weak_through(stream, sequence, unit.behind)
            for stream, sequence in zip(self._streams, unit.weak_before)
            if sequence
        )

    def _weak_through(self, stream: SiteStream, sequence: int, behind: Position) -> bool:
        """Whether every weak unit of the stream up to the sequence was received and delivered.

        What stands behind a later cut than this one is not in the past of what stands behind this one.
        """
        if stream.weak_delivered < sequence:
            self._advance_weak(stream)
        if stream.weak_delivered >= sequence or not self._behind:
            return stream.weak_delivered >= sequence
        queue, walked = stream.queue, stream.walked
        if stream.line.contiguous < sequence:
            return False
        between = (queue[each - walked - 1] for each in range(stream.weak_delivered + 1, sequence + 1))
        missing = (unit for unit in between if unit.service in WEAK and unit.sequence not in stream.early)
        return all(unit.behind > behind for unit in missing)

    def _advance_weak(self, stream: SiteStream) -> None:
        """From where it stands: the queue is dense, and as long as a wide-area round trip."""
        queue, reached = stream.queue, max(stream.weak_delivered, stream.walked)
        while queue and reached < queue[-1].sequence:
            unit = queue[reached + 1 - queue[0].sequence]
            if unit.service in WEAK and unit.sequence not in stream.early:
                break
            reached = unit.sequence
        stream.weak_delivered = reached

    def _retry_causal(self, out: list[Unit]) -> None:
        progress = True
        while progress and self._causal:
            waiting, self._causal = self._causal, []
            before = len(out)
            for unit in waiting:
                if self._past_is_delivered(unit):
                    self._deliver_early(unit, out, overtaking=False)
                else:
                    self._causal.append(unit)
            progress = len(out) > before

    # --- the walk in total order -----------------------------------------------------------------------------------

    def _walk(self, out: list[Unit]) -> None:
        """Rules one and two: all below the agreed line in order; SAFE and metadata wait until they are stable."""
        agreed, stable = self.lines.agreed, self.lines.stable
        moved = False
        lone = self._streams[0] if len(self._streams) == 1 else None
        while (stream := lone or self._lowest()) is not None and stream.queue:
            unit = stream.queue[0]
            if unit.lamport > agreed or (unit.lamport > stable and unit.waits_for_all):
                break
            if unit.is_cut and self._causal:
                self._retry_causal(out)  # whoever does not stand behind it
            stream.queue.popleft()
            moved = True
            self._pass(stream, unit, out)
        if moved and self._causal:
            self._retry_causal(out)

    def _lowest(self) -> SiteStream | None:
        """The stream whose head is first in the total order."""
        best: SiteStream | None = None
        for stream in self._streams:
            if stream.queue and (best is None or stream.queue[0].position < best.queue[0].position):
                best = stream
        return best

    def _pass(self, stream: SiteStream, unit: Unit, out: list[Unit]) -> None:
        stream.walked = unit.sequence
        stream.kept.append(unit)
        if unit.service.is_agreed:
            self.last_agreed = unit.position
            self.agreed_past = max(self.agreed_past, unit.position)
        stream.overtook.discard(unit.sequence)
        if unit.sequence in stream.early:
            stream.early.discard(unit.sequence)
        else:
            out.append(unit)
            if unit.service in WEAK:
                self._note_past(unit)
        if self._after:
            self._release(unit, out)
        if unit.is_cut:
            self.last_cut = unit.position
            for waiting in self._behind.pop(unit.position, ()):
                self._try_early(waiting, out)

    def _forget_stable(self) -> None:
        stable = self.lines.stable
        for stream in self._streams:
            while stream.kept and stream.kept[0].lamport <= stable:
                self.kept_bytes -= len(stream.kept.popleft().body)
