"""What the seed draws for the servers of a run: founders and learners, the rule, snapshots, proposals, bad disks.

Implements: [DESIGN 4], the system side of a simulated run.
"""

from __future__ import annotations

import msgspec

from isotone.core.choice import Choice
from isotone.corel.quorum import AllOf, DynamicVoting, History, Majority, Monarch, Primary, Rule, is_dynamic
from isotone.corel.settings import ReplicaSettings
from isotone.sim.corel_rules import draw_quorum
from isotone.sim.evs_system import ORACLE
from isotone.sim.full_system import FULL

GROUP = "corel"
LABEL = "corel"  # of the server, among the automata of a process
GOSSIP_MIN = 5  # so many founders that no pair of them is a majority
SNIPED, FULL_GOSSIP, HANGING = 0.15, 0.7, 0.25
RAIDED, LARGE = 0.3, 0.3
LARGE_BYTES = 300_000  # of a state that takes more than one request
FULL_FOUNDERS_MAX = 3
LOSING, LOST_MAX, LOST_IN_RAID, SET_BACK = 0.35, 2, 0.4, 0.5


class Terms(msgspec.Struct, frozen=True):
    """Of one run."""

    founders: tuple[str, ...]
    quorum: Rule
    checkpoint_records: int
    snapshot_every: int  # 0: messages are forgotten as soon as they are white
    snapshot_bytes: int
    proposals: bool
    gossip: bool  # whether pairs meet, and for a while no more
    full_disk: str  # the server whose disk has no room, if any
    hanging: bool = False  # whether disks that are hit hang, rather than take long
    lost: tuple[str, ...] = ()  # founders whose disks are lost for good; the rest is a quorum, or there is a raid
    set_back: bool = False  # whether older copies take the place of these disks, where the others can tell
    sniper: bool = False  # whether one that knows more is parted from one that knows less, at once
    raid: bool = False  # whether a quorum is lost for good, and an operator forces a primary of the rest

    def settings(self, server: str) -> ReplicaSettings:
        """Of one server."""
        return ReplicaSettings(
            server=server,
            servers=self.founders,
            group=GROUP,
            quorum=self.quorum,
            checkpoint_records=self.checkpoint_records,
            snapshots=bool(self.snapshot_every),
            proposals=self.proposals,
        )


def draw_terms(seed: int, names: tuple[str, ...], stack: str = ORACLE) -> Terms:
    """The same for the same seed, names and stack."""
    choice = Choice(f"corel/{seed}").derive("settings")
    learners = min(choice.pick((0, 1, 2, 2)), max(0, len(names) - 2))
    founders = names[: len(names) - learners]
    quorum = draw_quorum(choice.derive("quorum"), founders)
    grows = learners > 0 or choice.chance(0.5)
    proposals = choice.chance(0.5)
    gossip = proposals and len(founders) >= GOSSIP_MIN and choice.chance(0.7)
    if gossip and choice.chance(0.7):
        quorum = Majority(founders)
    terms = Terms(
        founders=founders,
        quorum=quorum,
        checkpoint_records=choice.pick((8, 64, 4_096)),
        snapshot_every=choice.pick((3, 20, 20)) if grows else 0,
        snapshot_bytes=choice.pick((16, 16, 90_000)),
        proposals=proposals,
        gossip=gossip,
        full_disk=choice.pick(names) if choice.chance(0.1) else "",
        hanging=choice.derive("hanging").chance(HANGING),
    )
    terms = _losing(terms, choice.derive("lost"))
    if stack == FULL:
        return _slower(terms, choice.derive("full"))
    return _raided(_sniped(terms, choice.derive("sniper")), names, choice.derive("raid"))


def _losing(terms: Terms, choice: Choice) -> Terms:
    """As many disks as the rule says that a cluster survives; under dynamic voting that depends on who is where."""
    if is_dynamic(terms.quorum) or not choice.chance(LOSING):
        return terms
    lost: set[str] = set()
    for name in choice.sample(terms.founders, min(LOST_MAX, len(terms.founders))):
        rest = frozenset(terms.founders) - lost - {name}
        if terms.quorum.holds(rest, History(Primary(0, terms.founders))):
            lost.add(name)
    set_back = choice.derive("set back").chance(SET_BACK)
    return msgspec.structs.replace(terms, lost=tuple(sorted(lost)), set_back=set_back)


def _sniped(terms: Terms, choice: Choice) -> Terms:
    """Some runs are for what one server knows and another does not; half of these vote dynamically."""
    if terms.gossip or not choice.chance(SNIPED):
        return terms
    quorum = DynamicVoting(1) if choice.chance(0.5) else Majority(terms.founders)
    return msgspec.structs.replace(terms, sniper=True, quorum=quorum, lost=())


def _raided(terms: Terms, names: tuple[str, ...], choice: Choice) -> Terms:
    """Some states are large; and where a server can come later, some runs lose a quorum, and disks under any rule."""
    if terms.snapshot_every and not terms.full_disk and choice.chance(LARGE):
        terms = msgspec.structs.replace(terms, snapshot_bytes=LARGE_BYTES)
    comes_later = len(terms.founders) < len(names) and not (terms.gossip or terms.sniper)
    if not (comes_later and choice.chance(RAIDED)):
        return terms
    lost = terms.lost
    if choice.chance(LOST_IN_RAID):
        lost = tuple(sorted(choice.sample(terms.founders, min(LOST_MAX, len(terms.founders) - 1))))
    return msgspec.structs.replace(terms, raid=True, lost=lost, set_back=False)


def _slower(terms: Terms, choice: Choice) -> Terms:
    """Few pairs meet in a run over our own daemons: for proposals to come to an end, few servers must all agree."""
    if not terms.proposals or len(terms.founders) < FULL_FOUNDERS_MAX or not choice.chance(FULL_GOSSIP):
        return msgspec.structs.replace(terms, gossip=False)
    founders = terms.founders[:FULL_FOUNDERS_MAX]
    quorum = AllOf(tuple(Monarch(each) for each in founders))
    return msgspec.structs.replace(
        terms,
        founders=founders,
        quorum=quorum,
        lost=(),  # all of them must agree
        gossip=True,
        snapshot_every=terms.snapshot_every or 20,
    )
