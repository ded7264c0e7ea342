"""A dumb second version of the checkers: one message at a time, by the words of docs/protocols/checking.md.

No streaming, no sharing, no care for speed. It knows EVS-C and EVS-S on traces without lost rows. Names are short: p
and q are processes, m messages, g groups, e event ids.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from isotone.core.ids import NO_DAEMON_VIEW
from isotone.core.services import Service
from isotone.trace import events as trace
from isotone.trace.events import Row

LOWEST = (-1, ("", 0))
END = 1 << 60


class Stay:
    def __init__(self, p: Proc, g: str, e: Any, row: Any, *, regular: bool, previous: Any) -> None:
        self.p, self.g, self.e, self.at = p, g, e, e[2]
        self.id, self.members, self.transitional = row.view, tuple(row.members), tuple(row.transitional)
        self.regular, self.previous = regular, previous  # the id of the previous view, or None
        self.signal: Any = None
        self.had: list[tuple[Any, Any, Any, bool]] = []  # (message, event, stamp, after the signal)
        self.left, self.left_e, self.next = "open", None, None
        self.membership = 0
        self.alive = not p.ended

    @property
    def left_at(self) -> int:
        return self.left_e[2] if self.left_e else END

    def set(self, ref: Reference, low: Service, after: bool | None = None) -> dict[Any, Any]:
        return {m: e for m, e, _, late in self.had if ref.service[m] >= low and after in (None, late)}


class Proc:
    def __init__(self, text: str, node: str, incarnation: int, daemons: bool) -> None:
        self.text, self.node, self.incarnation = text, node, incarnation
        parts = text.split("#")
        self.name = parts[0] if daemons else f"#{parts[1]}#{parts[2]}"
        home = (parts[0], int(parts[1])) if daemons else (parts[2], int(parts[3]))
        self.ghost = home != (node, incarnation)
        self.ended = False
        self.stays: dict[str, Stay] = {}
        self.all: list[Stay] = []
        self.by: dict[Any, Any] = {}  # message: event of the first delivery
        self.log: list[tuple[Any, ...]] = []  # what it did, for orders
        self.joining: dict[str, Any] = {}
        self.leaving: dict[str, int] = defaultdict(int)  # groups, and how often it asked to leave and did not yet
        self.memberships = 0
        self.asked: dict[str, int] = {}  # groups it asked to leave, at


class Reference:
    """Verdict states and witnesses; ids without the boundary."""

    def __init__(self, rows: Iterable[Row], *, daemons: bool) -> None:
        self.daemons = daemons
        self.rows = list(rows)
        self.found: dict[str, tuple[Any, ...]] = {}
        self.exercised: set[str] = set()
        self.crashed: set[tuple[str, int]] = set()  # node and incarnation
        self.procs: dict[tuple[str, int, str], Proc] = {}
        self.service: dict[Any, Service] = {}
        self.groups: dict[Any, tuple[str, ...]] = {}
        self.bundle: dict[Any, Any] = {}  # message: (sender, first) of the bundle
        self.sent: dict[Any, Any] = {}  # message: event of the send
        self.sent_in: dict[Any, dict[str, Any]] = {}  # message: group: id of the sender's view
        self.deliveries: list[tuple[Any, ...]] = []  # (event, p, message, stamp)
        self.stamps: dict[Any, dict[Any, Any]] = defaultdict(dict)  # bundle: stamp: first event
        self.settled, self.components = self._run()
        self.circular = False

    def _run(self) -> tuple[bool, Any]:
        components, quiet = None, None
        for row in self.rows:
            if isinstance(row.entry, trace.Stabilised):
                components, quiet = row.entry.components, None
            elif isinstance(row.entry, trace.Ended):
                quiet = row.entry.quiet
        return components is not None and quiet is True, components

    def accuse(self, id: str, *events: Any) -> None:
        self.exercised.add(id)
        witness = tuple(sorted(set(events)))
        if id not in self.found or witness < self.found[id]:
            self.found[id] = witness

    # --- reading -----------------------------------------------------------------------------------------------------

    def judge(self) -> Reference:
        by_node: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows:
            by_node[row.node].append(row)
        for rows in by_node.values():
            self._sends(rows)
        for rows in by_node.values():
            self._walk(rows)
        for proc in self.procs.values():
            self._orders(proc)
        self._circles(by_node)
        self._stamps()
        self._causal()
        self._pairs()
        self._views()
        self._returns()
        if self.settled:
            self._liveness()
        return self

    def _kind(self, row: Row) -> str:
        return type(row.entry).__name__.removeprefix("Daemon")

    def _mine(self, row: Row) -> bool:
        shared = (trace.Crashed, trace.Recovered)
        daemon = type(row.entry).__name__.startswith("Daemon")
        return isinstance(row.entry, shared) or daemon is self.daemons

    def proc(self, row: Row, text: str) -> Proc:
        key = (row.node, row.incarnation, text)
        if key not in self.procs:
            self.procs[key] = Proc(text, row.node, row.incarnation, self.daemons)
        return self.procs[key]

    def _sends(self, rows: list[Row]) -> None:
        over: set[Any] = set()  # ends, of sessions and of incarnations
        high: dict[str, int] = {}  # sequences of daemons grow
        for row in rows:
            entry: Any = row.entry
            if isinstance(entry, trace.Crashed):
                over.add((row.node, row.incarnation))
            elif isinstance(entry, trace.Disconnected):
                over.add((row.node, row.incarnation, entry.client))
            if not self._mine(row) or self._kind(row) != "Sent":
                continue
            text = entry.daemon if self.daemons else entry.client
            home = (row.node, row.incarnation)
            if self.proc(row, text).ghost or home in over or (*home, text) in over:
                continue
            ms = [(text, entry.first_sequence + i) for i in range(len(entry.lengths))]
            if any(m in self.sent for m in ms) or (self.daemons and entry.first_sequence <= high.get(text, 0)):
                continue
            if not self.daemons and entry.first_sequence != high.get(text, 0) + 1:
                continue  # refused
            high[text] = entry.first_sequence + len(entry.lengths) - 1
            for m, length, digest in zip(ms, entry.lengths, entry.digests):
                self.sent[m] = (row.node, row.incarnation, row.index)
                self.service[m] = entry.service
                self.groups[m] = ("",) if self.daemons else entry.groups
                self.bundle[m] = (text, entry.first_sequence)
                self.content = getattr(self, "content", {})
                self.content[m] = (entry.service, self.groups[m], length, digest)

    def _walk(self, rows: list[Row]) -> None:
        names: dict[tuple[str, str], Any] = {}
        for row in rows:
            e = (row.node, row.incarnation, row.index)
            if isinstance(row.entry, trace.Crashed):
                self.crashed.add((row.node, row.incarnation))
                for p in [p for p in self.procs.values() if p.node == row.node and not p.ended]:
                    if p.incarnation == row.incarnation:
                        self._end(p, e)
            if self._mine(row):
                self._event(row, e, names)

    def _event(self, row: Row, e: Any, names: dict[tuple[str, str], Any]) -> None:
        entry: Any = row.entry
        kind = self._kind(row)
        if kind == "Sent":
            p = self.proc(row, entry.daemon if self.daemons else entry.client)
            m = (p.text, entry.first_sequence)
            if self.sent.get(m) == e:
                for i in range(len(entry.lengths)):
                    within = {g: p.stays[g].id for g in self.groups[m] if g in p.stays and not p.leaving[g]}
                    self.sent_in[(p.text, entry.first_sequence + i)] = within
                p.log.append(("send", e, m, {g: p.stays[g] for g in self.groups[m] if g in p.stays}))
        elif kind == "Delivered":
            self._delivered(row, e, entry)
        elif kind == "ViewDelivered":
            g = "" if self.daemons else entry.group
            for text in (entry.daemon,) if self.daemons else entry.receivers:
                self._install(self.proc(row, text), g, entry, e, names)
        elif kind == "SignalDelivered":
            g = "" if self.daemons else entry.group
            for text in (entry.daemon,) if self.daemons else entry.receivers:
                self._signal(self.proc(row, text), g, entry, e)
        elif kind == "SelfLeft":
            p = self.proc(row, entry.client)
            p.asked[entry.group] = e[2]
            p.leaving[entry.group] = max(0, p.leaving[entry.group] - 1)
            if entry.group in p.stays:
                stay = p.stays.pop(entry.group)
                stay.left, stay.left_e = "left", e
        elif kind == "Disconnected":
            self._end(self.proc(row, entry.client), e)
        elif kind == "JoinRequested":
            p = self.proc(row, entry.client)
            if not entry.group.startswith("#") and (entry.group not in p.stays or p.leaving[entry.group]):
                p.joining.setdefault(entry.group, e)
        elif kind == "LeaveRequested":
            p = self.proc(row, entry.client)
            if entry.group in p.stays or entry.group in p.joining:
                p.leaving[entry.group] += 1
            p.joining.pop(entry.group, None)
            p.asked[entry.group] = e[2]
        elif kind == "Connected":
            self.proc(row, entry.client)
        elif kind == "Recovered" and self.daemons:
            self.proc(row, entry.daemon).joining[""] = e

    def _end(self, p: Proc, e: Any) -> None:
        for stay in p.stays.values():
            stay.left, stay.left_e = "ended", e
        p.stays = {}
        p.ended = True
        p.joining, p.leaving = {}, defaultdict(int)
        p.log.append(("end", e))

    def _delivered(self, row: Row, e: Any, entry: Any) -> None:
        receivers = (entry.daemon,) if self.daemons else entry.receivers
        groups = ("",) if self.daemons else entry.groups
        name, _, incarnation = entry.stamper.rpartition("#")
        stamp = (entry.lamport, (name, int(incarnation)))
        self.exercised.update(("2.1", "2.5", "2.6"))
        ms = []
        for i, (length, digest) in enumerate(zip(entry.lengths, entry.digests)):
            m: Any = (entry.sender, entry.first_sequence + i)
            if m in self.sent and self.sent[m][0] == e[0] and self.sent[m] > e:
                self.accuse("2.6", self.sent[m], e)  # and is a message of its own
                m = (*m, "early")
                self.service.setdefault(m, entry.service)
                self.groups.setdefault(m, groups)
                self.bundle.setdefault(m, ("unsent", entry.sender, entry.first_sequence))
                ms.append(m)
                continue
            ms.append(m)
            if m not in self.sent:
                self.accuse("2.6", e)
                self.service.setdefault(m, entry.service)
                self.groups.setdefault(m, groups)
                self.bundle.setdefault(m, ("unsent", entry.sender, entry.first_sequence))
            elif self.content[m] != (entry.service, groups, length, digest):
                self.accuse("2.6", self.sent[m], e)
        for b in {self.bundle[m] for m in ms if self.service[m] >= Service.RELIABLE}:
            known = self.stamps[b].get(stamp)
            self.stamps[b][stamp] = min(e, known) if known else e
            self.reliable_rows = getattr(self, "reliable_rows", 0) + 1
        for text in receivers:
            p = self.proc(row, text)
            fresh = []
            for m in ms:
                self._inside(p, m, e)
                if m in p.by:
                    self.accuse("2.5", p.by[m], e)
                else:
                    p.by[m] = e
                    fresh.append(m)
            self._place(p, fresh, e, stamp)

    def _inside(self, p: Proc, m: Any, e: Any) -> None:
        private = "" if self.daemons else p.name
        if not any(g in p.stays for g in self.groups[m]) and (self.daemons or private not in self.groups[m] or p.ended):
            self.accuse("2.1", e)

    def _place(self, p: Proc, fresh: list[Any], e: Any, stamp: Any) -> None:
        if not fresh:
            return
        p.log.append(("deliver", e, fresh, stamp))
        for m in fresh:
            if self.service[m] is Service.UNRELIABLE:
                continue
            for g in self.groups[m]:
                if g in p.stays:
                    stay = p.stays[g]
                    stay.had.append((m, e, stamp, stay.signal is not None))
                    self.deliveries.append((e, stay, m, g, stay.signal is not None))

    def _install(self, p: Proc, g: str, entry: Any, e: Any, names: dict[tuple[str, str], Any]) -> None:
        regular = not (p.ghost or p.ended)
        self.exercised.add("2.2")
        if p.text not in entry.members:
            self.accuse("2.2", e)
            regular = False
        highest = names.get((p.name, g))
        if highest and not p.ghost:
            self.exercised.add("2.3")
            if highest[0] >= entry.view:
                self.accuse("2.3", highest[1], e)
                regular = False
        if not p.ghost and (highest is None or entry.view > highest[0]):
            names[(p.name, g)] = (entry.view, e)
        old = p.stays.get(g)
        stay = Stay(p, g, e, entry, regular=regular, previous=old.id if old else None)
        if old:
            self.exercised.add("2.4.2")
            if not set(entry.transitional) <= set(old.members) & set(entry.members):
                self.accuse("2.4.2", e)
            old.left, old.left_e, old.next = "moved", e, stay
            stay.membership = old.membership
        else:
            self.exercised.add("2.4.1")
            if tuple(entry.transitional) != (p.text,):
                self.accuse("2.4.1", e)
            p.memberships += 1
            stay.membership = p.memberships
            p.asked.pop(g, None)
        p.stays[g] = stay
        p.all.append(stay)
        if not p.leaving[g]:
            p.joining.pop(g, None)

    def _signal(self, p: Proc, g: str, entry: Any, e: Any) -> None:
        self.exercised.add("2.1")
        stay = p.stays.get(g)
        if stay is None:
            self.accuse("2.1", e)
            return
        if stay.id != entry.view:
            self.accuse("2.1", e)
        self.exercised.add("2.8.1")
        if stay.signal is not None:
            self.accuse("2.8.1", stay.signal, e)
        else:
            stay.signal = e

    # --- orders ------------------------------------------------------------------------------------------------------

    def _orders(self, p: Proc) -> None:
        fifo: dict[str, tuple[int, Any]] = {}
        lows: dict[str, int] = {}
        agreed = (LOWEST, None)
        high = (LOWEST, None)
        for what in p.log:
            if what[0] == "send" and self.service[what[2]] >= Service.RELIABLE:
                for stamp, e in self.stamps.get(self.bundle[what[2]], {}).items():
                    if stamp <= high[0]:
                        self.accuse("D2.7", high[1], what[1], e)
            if what[0] != "deliver":
                continue
            _, e, ms, stamp = what
            for m in ms:
                sender, sequence = m[:2]
                service = self.service[m]
                if service is Service.UNRELIABLE:
                    continue
                sent = m in self.sent
                if sent and sender in fifo and fifo[sender][0] > sequence:
                    self.accuse("2.11.2", fifo[sender][1], e)
                if agreed[1]:
                    self.exercised.add("2.13.2") if agreed[1] != e else None
                    if stamp < agreed[0]:
                        self.accuse("2.13.2", agreed[1], e)
                if sent and service >= Service.FIFO:
                    if lows.get(sender, END) < sequence:
                        self.exercised.add("2.11.2")
                    if sequence > fifo.get(sender, (0, None))[0]:
                        fifo[sender] = (sequence, e)
                if sent:
                    lows[sender] = min(lows.get(sender, END), sequence)
                if service >= Service.AGREED and stamp > agreed[0]:
                    agreed = (stamp, e)
                if stamp > high[0]:
                    high = (stamp, e)

    def _stamps(self) -> None:
        if getattr(self, "reliable_rows", 0) > 1:
            self.exercised.add("D2.7")
        for stamps in self.stamps.values():
            for one, other in itertools.combinations(stamps.values(), 2):
                self.accuse("D2.7", one, other)
        flat = [(b, stamp, e) for b, stamps in self.stamps.items() for stamp, e in stamps.items()]
        for (b, s, e), (c, t, f) in itertools.combinations(flat, 2):
            if b == c:
                continue
            one, other = (x[1] if x[0] == "unsent" else x[0] for x in (b, c))
            unknown = one == other and "unsent" in (b[0], c[0])
            if s == t and not unknown:
                self.accuse("D2.7", e, f)
            if b[0] == c[0] and b[0] != "unsent" and (b[1] < c[1]) is not (s < t):
                self.accuse("D2.7", e, f)

    def _causal(self) -> None:
        """Causal pasts by repeated passes until nothing changes."""
        pasts: dict[Any, dict[str, int]] = defaultdict(dict)  # by send event
        for _ in range(len(self.procs) + 2):
            changed = False
            for p in self.procs.values():
                known: dict[str, int] = {}
                for what in p.log:
                    if what[0] == "deliver":
                        for m in what[2]:
                            for x, s in () if m not in self.sent else (*pasts[self.sent.get(m)].items(), m[:2]):
                                known[x] = max(s, known.get(x, 0))
                    elif what[0] == "send" and known != pasts[what[1]]:
                        pasts[what[1]] = dict(known)
                        changed = True
            if not changed:
                break
        self.pasts = pasts
        for p in self.procs.values():
            self._causal_at(p, pasts)

    def _circles(self, by_node: dict[str, list[Row]]) -> None:
        """Whether the rows cannot be put into an order with the sends of other nodes before deliveries."""
        sends = {}
        for row in self.rows:
            if isinstance(row.entry, trace.Sent | trace.DaemonSent):
                entry: Any = row.entry
                sender = entry.client if isinstance(entry, trace.Sent) else entry.daemon
                for i in range(len(entry.lengths)):
                    sends.setdefault((sender, entry.first_sequence + i), (row.node, row.incarnation, row.index))
        done: set[Any] = set()
        left = {node: list(rows) for node, rows in by_node.items()}
        moved = True
        while moved:
            moved = False
            for node, rows in left.items():
                while rows:
                    entry = rows[0].entry
                    if isinstance(entry, trace.Delivered | trace.DaemonDelivered):
                        ms = [(entry.sender, entry.first_sequence + i) for i in range(len(entry.lengths))]
                        if any(m in sends and sends[m][0] != node and sends[m] not in done for m in ms):
                            break
                    done.add((node, rows[0].incarnation, rows[0].index))
                    rows.pop(0)
                    moved = True
        self.circular = any(left.values())

    def _causal_at(self, p: Proc, pasts: dict[Any, dict[str, int]]) -> None:
        floor: dict[str, tuple[int, Any]] = {}
        had: list[Any] = []
        for what in p.log:
            if what[0] != "deliver":
                continue
            _, e, ms, _ = what
            for m in ms:
                service = self.service[m]
                if service is Service.UNRELIABLE or m not in self.sent:
                    continue
                if m[1] <= floor.get(m[0], (0, None))[0]:
                    self.accuse("2.12.2", floor[m[0]][1], e)
                if service < Service.CAUSAL:
                    had.append(m)
                    continue
                past = dict(pasts[self.sent.get(m)])
                past[m[0]] = max(past.get(m[0], 0), m[1] - 1)
                if any(s <= past.get(x, 0) for x, s, *_ in had):
                    self.exercised.add("2.12.2")
                had.append(m)
                past[m[0]] = max(past[m[0]], m[1])
                for x, s in past.items():
                    if s > floor.get(x, (0, None))[0]:
                        floor[x] = (s, e)

    def _pairs(self) -> None:
        by: dict[Any, dict[Any, Any]] = defaultdict(dict)
        for p in self.procs.values():
            for m, e in p.by.items():
                if self.service[m] >= Service.AGREED:
                    by[m][p] = e
        kinds: dict[Any, Any] = {}
        for who in by.values():
            kinds[tuple(sorted((e, p.text) for p, e in who.items()))] = who
        for one, other in itertools.combinations(kinds.values(), 2):
            common = [p for p in one if p in other and one[p] != other[p]]
            for p, q in itertools.combinations(common, 2):
                if (one[p] < other[p]) is not (one[q] < other[q]):
                    self.accuse("2.13.2", one[p], other[p], one[q], other[q])

    # --- views -------------------------------------------------------------------------------------------------------

    def _views(self) -> None:
        stays = [stay for p in self.procs.values() for stay in p.all]
        ids: dict[Any, list[Stay]] = defaultdict(list)
        for stay in stays:
            ids[(stay.g, stay.id)].append(stay)
        for same in ids.values():
            if len(same) > 1:
                self.exercised.add("2.20")
            for one, other in itertools.combinations(same, 2):
                if sorted(one.members) != sorted(other.members):
                    self.accuse("2.20", one.e, other.e)
        views: dict[Any, list[Stay]] = defaultdict(list)
        for stay in stays:
            if stay.regular:
                views[(stay.g, stay.id, stay.members)].append(stay)
        self._same_view()
        for view in views.values():
            self._arrival(view)
            self._departure(view)
            self._holes(view)
            self._safe(view)

    def _same_view(self) -> None:
        places: dict[Any, list[tuple[Any, Any, Any]]] = defaultdict(list)
        for e, stay, m, g, late in self.deliveries:
            if self.service[m] >= Service.RELIABLE:
                if self.daemons or not late:
                    places[(m, g)].append((e, stay.id, stay.p))
                sane = self.daemons or self.service[m] >= Service.AGREED
                if sane and g in self.sent_in.get(m, {}):
                    id = "2.19.1" if self.daemons else "2.9.1"
                    self.exercised.add(id)
                    if stay.id < self.sent_in[m][g]:
                        self.accuse(id, self.sent[m], e)
        for found in places.values():
            if len({p for _, _, p in found}) > 1:
                self.exercised.add("2.18")
            for (e, v, _), (f, w, _) in itertools.combinations(found, 2):
                if v != w:
                    self.accuse("2.18", e, f)

    def _arrival(self, view: list[Stay]) -> None:
        if len(view) > 1 or any(stay.previous is not None for stay in view):
            self.exercised.add("2.4.3")
        for one, other in itertools.product(view, view):
            same = one.previous is not None and one.previous == other.previous
            if one is other and one.previous is None:
                continue
            if (other.p.text in one.transitional) is not same:
                self.accuse("2.4.3", one.e, other.e)
            if same and one is not other:
                self.exercised.add("2.4.4")
                if set(one.transitional) != set(other.transitional):
                    self.accuse("2.4.4", one.e, other.e)

    def _departure(self, view: list[Stay]) -> None:
        for one, other in itertools.permutations(view, 2):
            if one.left != "moved" or other.left != "moved" or one.next.id != other.next.id:
                continue
            theirs = other.set(self, Service.RELIABLE)
            for m, e in one.set(self, Service.RELIABLE).items():
                self.exercised.add("2.7")
                if m not in theirs:
                    self.accuse("2.7", e, one.left_e, other.left_e)
            if one.signal is not None:
                self._signals(one, other)

    def _signals(self, one: Stay, other: Stay) -> None:
        self.exercised.add("2.8.2")
        moves = (one.left_e, other.left_e)
        if other.signal is None:
            self.accuse("2.8.2", one.signal, *moves)
            return
        whole = other.set(self, Service.AGREED)
        for after in (False, True):
            theirs = other.set(self, Service.AGREED, after)
            for m, e in one.set(self, Service.AGREED, after).items():
                if m not in theirs:
                    more = [whole[m]] if m in whole else []
                    self.accuse("2.8.2", e, *more, one.signal, other.signal, *moves)

    def _highest(self, stay: Stay, after: bool) -> tuple[Any, Any]:
        best = (LOWEST, None)
        for m, e, stamp, late in stay.had:
            if self.service[m] >= Service.AGREED and late is after and stamp > best[0]:
                best = (stamp, e)
        return best

    def _holes(self, view: list[Stay]) -> None:
        for stay in view:
            if stay.left == "open" and not self.settled:
                continue
            before, after = self._highest(stay, False), self._highest(stay, True)
            for other in view:
                for m, e, stamp, _ in other.had:
                    if other is stay or self.service[m] < Service.RELIABLE:
                        continue
                    missing = m not in stay.p.by or stay.p.by[m][2] > stay.left_at
                    if stamp < before[0]:
                        self.exercised.add("2.13.3")
                        if missing:
                            self.accuse("2.13.3", before[1], e)
                    if stay.left == "moved" and m[0] in stay.next.transitional and stamp < after[0]:
                        self.exercised.add("2.13.4")
                        if missing:
                            self.accuse("2.13.4", stay.signal, after[1], stay.left_e, e)

    def _safe(self, view: list[Stay]) -> None:
        for stay, text in itertools.product(view, view[0].members):
            if text == stay.p.text:
                continue
            for m, e in stay.set(self, Service.SAFE, False).items():
                state, rows = (self._owes if self.daemons else self._owes_anywhere)(view, text, m)
                if state is not None:
                    self.exercised.add("2.14.2")
                if state is False:
                    self.accuse("2.14.2", e, *rows)
            if stay.left == "moved" and text in stay.next.transitional:
                for m, e in stay.set(self, Service.SAFE, True).items():
                    state, rows = (self._owes if self.daemons else self._owes_anywhere)(view, text, m)
                    if state is not None:
                        self.exercised.add("2.14.3")
                    if state is False:
                        self.accuse("2.14.3", stay.signal, e, stay.left_e, *rows)

    def _owes_anywhere(self, view: list[Stay], text: str, m: Any) -> tuple[bool | None, list[Any]]:
        p = next((p for p in self.procs.values() if p.text == text and not p.ghost), None)
        if p is None or (all(stay.p is not p for stay in view) and self._is_disputed(view[0], p)):
            return self._owes(view, text, m)
        mine, v = [stay for stay in p.all if stay.g == view[0].g and stay.alive], view[0].id
        whole = [stay for stay in mine if stay.id.next_daemon_view == NO_DAEMON_VIEW]  # made before the signal
        steps = [stay.e for stay in whole if stay.id.daemon_view > v.daemon_view]
        for stay in [stay for stay in mine if stay.left == "left" and stay.id >= v]:
            highest = max(self._apart(each.id) for each in mine if each.membership == stay.membership)
            steps += [stay.left_e] if highest >= self._apart(v) else []
        if m in p.by and (not steps or p.by[m] < min(steps)):
            return True, []
        if steps:
            return False, [min(steps)]
        return (False if self.settled and not p.ended else None), []

    def _is_disputed(self, view: Stay, p: Proc) -> bool:
        return any(
            (stay.g, stay.id) == (view.g, view.id) and sorted(stay.members) != sorted(view.members)
            for q in self.procs.values()
            for stay in q.all
            if (q.node, q.incarnation) == (p.node, p.incarnation)
        )

    def _owes(self, view: list[Stay], text: str, m: Any) -> tuple[bool | None, list[Any]]:
        p = next((p for p in self.procs.values() if p.text == text and not p.ghost), None)
        if p is None:
            parts = text.split("#")
            home = (parts[0], int(parts[1])) if self.daemons else (parts[2], int(parts[3]))
            last = [row for row in self.rows if row.node == home[0]]
            left_over = any(row.incarnation == home[1] for row in last) and home not in self.crashed
            over = bool(last) and last[-1].incarnation >= home[1] and not left_over
            return (False if self.settled and not over else None), []
        for stay in view:
            if stay.p is p:
                if m in p.by and p.by[m][2] < stay.left_at:
                    return True, []
                if stay.left == "ended" or (stay.left == "open" and not self.settled):
                    return None, []
                return False, [stay.e]
        regular = [stay for stay in p.all if stay.g == view[0].g and stay.regular]
        if self._is_disputed(view[0], p):
            return None, []
        if any(stay.id > view[0].id for stay in regular):
            return False, []
        return (False if self.settled and not p.ended else None), []

    def _returns(self) -> None:
        id = "2.19.2" if self.daemons else "2.9.2"
        by_name: dict[tuple[str, str], list[Proc]] = defaultdict(list)
        for p in self.procs.values():
            if not p.ghost:
                by_name[(p.node, p.name)].append(p)
        for procs in by_name.values():
            for old in procs:
                self._return(id, old, procs)

    def _return(self, id: str, old: Proc, procs: list[Proc]) -> None:
        ends = [what[1] for what in old.log if what[0] == "end"]
        if not ends:
            return
        latest: dict[str, Any] = {}
        for e, stay, m, g, _ in self.deliveries:
            if m[0] == old.text and m in self.sent:
                best, place = latest.get(g), self._apart(stay.id)
                if best is None or place > best[0] or (place == best[0] and e < best[1]):
                    latest[g] = (place, e, self.sent.get(m))
        for g, (view, e, sent) in latest.items():
            back = sorted(
                (stay.e, stay.id)
                for p in procs
                if p is not old
                for stay in p.all
                if stay.g == g and stay.previous is None and stay.e > ends[0]
            )
            if back:
                self.exercised.add(id)
                if view >= self._apart(back[0][1]):
                    self.accuse(id, e, back[0][0], sent)

    def _apart(self, id: Any) -> Any:
        """Without the way out of the daemon view."""
        return id if self.daemons else (id.daemon_view, id.stamp)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _liveness(self) -> None:
        active = any(
            p.all or (p.joining and not self.daemons) or any(what[0] != "end" for what in p.log)
            for p in self.procs.values()
        )
        alive = [p for p in self.procs.values() if not p.ended and not p.ghost]
        for p in alive if active else ():
            for what in p.log:
                if what[0] == "send" and self.service[what[2]] >= Service.RELIABLE:
                    self._own(p, what)
        for component in self.components if active else ():
            groups: dict[str, list[Proc]] = defaultdict(list)
            for p in alive:
                for g in (*p.stays, *p.joining) if p.node in component else ():
                    groups[g].append(p)
            silent = self.daemons and set(component) - {p.node for p in self.procs.values()}
            for g, procs in groups.items():
                self._precision(g, procs, bool(silent))

    def _own(self, p: Proc, what: Any) -> None:
        _, e, _, stays = what
        ms = [m for m, sent in self.sent.items() if sent == e]
        for g, stay in stays.items():
            now = p.stays.get(g)
            if now is None or now.membership != stay.membership or p.asked.get(g, -1) > e[2]:
                continue
            self.exercised.add("2.15")
            if any(m not in p.by for m in ms):
                self.accuse("2.15", e)
            if now is stay:
                self.exercised.add("2.17")
                for text in stay.members:
                    q = next((q for q in self.procs.values() if q.text == text and not q.ghost), None)
                    if q is None or any(m not in q.by for m in ms):
                        self.accuse("2.17", e)

    def _precision(self, g: str, procs: list[Proc], silent: bool) -> None:
        self.exercised.add("2.16")
        texts = {p.text for p in procs}
        good = []
        for p in procs:
            if g not in p.stays:
                self.accuse("2.16", p.joining[g])
            elif silent or set(p.stays[g].members) != texts:
                self.accuse("2.16", p.stays[g].e)
            else:
                good.append(p.stays[g])
        for one, other in itertools.combinations(good, 2):
            if one.id != other.id:
                self.accuse("2.16", one.e, other.e)
