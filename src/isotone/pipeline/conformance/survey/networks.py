"""In a task: the uses of networks in one run, beside what was sent and received in each.

Stricter than the properties where that is cheaper: what is not plainly right is in doubt, and looked at exactly.

Implements: [Spread 2.21], [Spread 2.22], [Spread 2.23]. Deviations: none.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from isotone.pipeline.conformance.survey.run import NEVER
from isotone.trace.parquet import require_pyarrow

TURNS = ("ninit", "linkfailed", "crash", "gap", "truncated")
"""What begins a use of a network, or ends it."""
FOUND = "run string, id string, is_exercised boolean, is_doubtful boolean, network string, daemons array<string>"
"""One row per property; and one, without an id, per network for an exact look, of all or of what these had."""
IDS = ("2.21", "2.22", "2.23")

Home = tuple[str, int]
Suspect = tuple[str, tuple[str, ...] | None]


class Use(NamedTuple):
    """One network at one record, between these rows."""

    daemon: str
    servers: frozenset[str]
    begin: int
    end: int = NEVER


class Networks:
    """The uses of one run."""

    def __init__(self, turns: list[dict[str, Any]]) -> None:
        self.uses: dict[tuple[Home, str], Use] = {}
        self.servers: dict[str, set[frozenset[str]]] = {}
        self.began: dict[str, list[str]] = {}
        self.exercised: dict[str, None] = {}
        self.doubtful: dict[str, None] = {}  # networks
        self._crashed: set[str] = set()
        self._present: dict[str, tuple[Home, str]] = {}  # by node: what it uses now
        for turn in sorted(turns, key=lambda each: (each["node"], each["incarnation"], each["index"])):
            self._take(turn, (turn["node"], turn["incarnation"]))
        if any(len(began) > 1 for began in self.began.values()):
            self.exercised["2.21"] = None
        for network, sets in self.servers.items():
            if len(sets) > 1:
                self.doubtful[network] = None
        for _, network in self._present.values():
            self._await(network)

    def _take(self, turn: dict[str, Any], home: Home) -> None:
        node, index, network = turn["node"], turn["index"], turn["network"]
        present = self._present.get(node)
        if turn["kind"] == "linkfailed":
            if present is not None and present[1] == network:
                self.exercised["2.23"] = None
                self._end(present, index)
            return
        if present is not None:
            self._end(present, index)
            del self._present[node]
        if turn["kind"] == "crash":
            self._crashed.add(f"{node}#{home[1]}")
        elif turn["kind"] == "ninit":
            servers = frozenset(turn["servers"])
            if (home, network) in self.uses:
                self.doubtful[network] = None
            self.uses[(home, network)] = Use(turn["daemon"], servers, index)
            self.servers.setdefault(network, set()).add(servers)
            self.began.setdefault(network, []).append(turn["daemon"])
            self._present[node] = (home, network)

    def _end(self, place: tuple[Home, str], index: int) -> None:
        use = self.uses[place]
        self.uses[place] = use._replace(end=min(use.end, index))

    def _await(self, network: str) -> None:
        """Who uses it at the end does so with servers that began it too, or crashed."""
        wanted = frozenset[str]().union(*self.servers[network])
        if not wanted <= {*self.began[network], *self._crashed}:
            self.doubtful[network] = None

    def is_within(self, home: Home, network: str, early: int, late: int, peers: list[str]) -> bool:
        """Whether messages of these stand in rows in which that network is used."""
        use = self.uses.get((home, network))
        return use is not None and use.begin < early and late < use.end and use.servers.issuperset(peers)


def judge_networks(table: Any) -> Any:
    """One run."""
    compute = import_module("pyarrow.compute")  # by itself pyarrow does not load it
    run = table.column("run")[0].as_py()

    def some(column: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = table.filter(compute.is_valid(table.column(column))).to_pylist()
        return rows

    networks = Networks(some("kind"))
    suspects: dict[Suspect, None] = {}
    for each in some("early"):
        networks.exercised["2.21"] = None
        home = (each["node"], each["incarnation"])
        if not networks.is_within(home, each["network"], each["early"], each["late"], each["peers"]):
            networks.doubtful[each["network"]] = None
    is_unlike = False
    for each in some("is_alike"):
        network, daemons = each["network"], tuple(each["daemons"])
        is_unlike |= not each["is_alike"]
        if networks.servers.get(network) != {frozenset(daemons)}:
            suspects[(network, daemons)] = None
        elif each["is_some_alike"] and network not in networks.doubtful:
            networks.exercised["2.22"] = None
    doubts = {id for id in IDS if networks.doubtful} | ({"2.22"} if is_unlike or suspects else set())
    suspects.update(dict.fromkeys((network, None) for network in networks.doubtful))
    return _told(run, networks.exercised, doubts, suspects)


def _told(run: str, exercised: dict[str, None], doubts: set[str], suspects: dict[Suspect, None]) -> Any:
    arrow = require_pyarrow()
    rows: list[dict[str, Any]] = [
        {"run": run, "id": id, "is_exercised": id in exercised, "is_doubtful": id in doubts}
        for id in IDS
        if id in exercised or id in doubts
    ]
    rows += [{"run": run, "network": network, "daemons": daemons} for network, daemons in suspects]
    text = arrow.string()
    form = arrow.schema([
        ("run", text), ("id", text), ("is_exercised", arrow.bool_()), ("is_doubtful", arrow.bool_()),
        ("network", text), ("daemons", arrow.list_(text)),
    ])  # fmt: skip
    return arrow.Table.from_pylist(rows, schema=form)
