"""Records of recoveries that changed the order are found again too, and those of operators, learners and checkpoints.

Each record of each log is taken away in turn; what others know at the end of the run, and what stands before and behind
it, must be enough to find it. What is not found again is named here, kind by kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from zlib import crc32

import pytest

from isotone.core.contract import TimerFired
from isotone.corel import records as r
from isotone.corel.checkpoint import checkpoint_of
from isotone.corel.events import ReconfigurationWanted, SnapshotOffered
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message
from isotone.corel.proposals import PROPOSE
from isotone.corel.quorum import Majority, Primary
from isotone.corel.recover import forced_record
from isotone.corel.repair import Others, candidates_for, rarer_candidates
from tests.corel.cluster import Cluster, identity_of, joined
from tests.corel.test_recover import restore


def lost_in(cluster: Cluster, name: str, peer: str, kinds: Counter[str] | None = None) -> list[str]:
    """Which steps in the log of a server nobody would find again with the help of a peer."""
    founders = cluster.founders
    ledger = Ledger.founded(founders, Majority(founders))
    ledger.ready = name in founders
    steps = [r.decode_record(data) for data in cluster[name].log]
    lost = []
    for number, (step, data) in enumerate(zip(steps, cluster[name].log, strict=True)):
        others = knowledge(cluster, name, peer, steps[number + 1 :])
        found = found_again(ledger, others, data)
        assert found in {None, data}, f"{step} was taken for {r.decode_record(found or b'')}"
        if found is None:
            lost.append(f"{number}: {type(step).__name__}")
        if kinds is not None:
            kinds[type(step).__name__] += 1
        ledger.apply(step)
    return lost


def knowledge(cluster: Cluster, name: str, peer: str, later: Sequence[r.Record]) -> Others:
    ledger = cluster[peer].replica.ledger
    queue, history = ledger.queue, ledger.history

    def messages(after: int) -> Sequence[Message]:
        return queue.between(after, queue.end) if queue.forgotten <= after <= queue.end else ()

    primaries: list[Primary] = [history.last, *history.pending]
    state = ledger.snapshot.state if ledger.snapshot is not None else b""
    forcings = [(ledger.fence, ledger.forced or queue.configuration), (ledger.fence, queue.configuration)]
    return Others(messages, primaries, forcings, later, lambda: state, (identity_of(name, 1),))


def found_again(ledger: Ledger, others: Others, data: bytes) -> bytes | None:
    near = candidates_for(ledger, others.messages(ledger.queue.end), others.primaries)
    for candidate in chain(near, rarer_candidates(ledger, others, len(data))):
        if len(candidate) == len(data) and crc32(candidate) == crc32(data):
            return candidate
    return None


# --- runs -------------------------------------------------------------------------------------------------------------


def adopted() -> Cluster:
    """c was away, and takes over the order of a and b behind messages of its own."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"common")
    cluster.settle()
    apart(cluster, "ab", "c")
    cluster.append("c", b"of c")
    for number in range(5):
        cluster.append("ab"[number % 2], b"without c %d" % number)
        cluster.run()
    together(cluster, "abc")
    return cluster


def in_parcels() -> Cluster:
    """What c lacks does not fit into one parcel."""
    cluster = joined("a", "b", "c", snapshots=True)
    apart(cluster, "ab", "c")
    for number in range(6):
        cluster.append("a", b"%d" % number * 12_000)
        cluster.run()
    together(cluster, "abc")
    return cluster


def merged() -> Cluster:
    """Three servers were alone with messages of their own; by timestamp they stand between each other."""
    cluster = joined("a", "b", "c", snapshots=True)
    apart(cluster, "a", "b", "c")
    for number, name in enumerate("abcabbca"):
        cluster.append(name, b"%s alone %d" % (name.encode(), number))
        cluster.run()
    together(cluster, "abc")
    return cluster


def two_minorities() -> Cluster:
    """Two pairs and one alone: red messages as they came, not as they are ordered in the end."""
    cluster = joined("a", "b", "c", "d", "e", snapshots=True)
    apart(cluster, "ab", "cd", "e")
    for number, name in enumerate("abcdeabdcce"):
        cluster.append(name, b"%s %d" % (name.encode(), number))
        if number % 3 == 2:
            cluster.run()
    cluster.run()
    together(cluster, "ace", "bd")
    cluster.append("b", b"late")
    cluster.run()
    together(cluster, "abcde")
    return cluster


def pending() -> Cluster:
    """Primaries that only some know to be established, one after another."""
    cluster = joined("a", "b", "c", "d", "e", snapshots=True)
    cluster.append("a", b"common")
    cluster.run()
    for parts in (("abcd", "e"), ("abc", "de"), ("abe", "cd")):
        apart(cluster, *parts, run=False)
        while cluster["a"].standing != "commit":
            for name in parts[0]:
                if cluster.waiting(name):
                    cluster.step(name)
        cluster.run("a")
        cluster.append("a", f"in {parts[0]}".encode())
    together(cluster, "abcde")
    return cluster


def forced() -> Cluster:
    """a and b are lost; an operator lets c go on alone with what it has, and another server joins it."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"common")
    cluster.settle()
    apart(cluster, "ab", "c")
    cluster.append("c", b"of c")
    cluster.append("a", b"of a")
    cluster.run()
    for name in "ab":
        cluster.crash(name)
    ledgers = {"c": cluster["c"].replica.ledger}
    cluster["c"].log.append(forced_record(ledgers, ("c",)))
    cluster.restart("c")
    cluster.join("x")
    together(cluster, "cx")
    cluster.append("c", b"alone")
    cluster.settle()
    return cluster


def forced_apart() -> Cluster:
    """a and b go on alone, and x learns from a before they have met: it knows that they must."""
    cluster = joined("a", "b", "c", "d", "e", snapshots=True)
    cluster.append("a", b"common")
    cluster.settle()
    apart(cluster, "abc")
    for name in "abcde":
        cluster.crash(name)
    ledgers = {name: cluster[name].replica.ledger for name in "ab"}
    record = forced_record(ledgers, ("a", "b"))
    for name in "ab":
        cluster[name].log.append(record)
        cluster.restart(name)
    cluster.join("x")
    apart(cluster, "ax")
    cluster.settle()
    assert cluster["x"].replica.ledger.ready and cluster["x"].replica.ledger.history.forced
    together(cluster, "abx")
    cluster.settle()
    return cluster


def grown() -> Cluster:
    """x learns, becomes a server, and is in a primary."""
    cluster = joined("a", "b", "c", snapshots=True)
    for number in range(6):
        cluster.append("abc"[number % 3], b"record %d" % number)
        cluster.run()
    cluster.join("x")
    together(cluster, "abcx")
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    cluster.settle()
    apart(cluster, "abx", "c")
    cluster.append("x", b"of x")
    cluster.settle()
    together(cluster, "abcx")
    return cluster


def checkpointed() -> Cluster:
    """Logs are cut often, and begin with a checkpoint."""
    cluster = joined("a", "b", "c", checkpoint_records=6, snapshots=True)
    for number in range(8):
        cluster.append("abc"[number % 3], b"record %d" % number)
        cluster.settle()
        if number % 3 == 2:
            for name in "abc":
                cluster.tell(name, SnapshotOffered(0, number + 1, b"state %d" % number))
            cluster.settle()
    return cluster


def proposed() -> Cluster:
    """Messages become green by a proposal, in pairs."""
    five = tuple("abcde")
    cluster = joined(*five, quorum=Majority(five), proposals=True, snapshots=True)
    together(cluster, "ab")
    cluster.append("a", b"1")
    cluster.append("b", b"2")
    cluster.run("a", "b")
    cluster.tell("a", TimerFired(0, PROPOSE))
    cluster.run("a", "b")
    for pair in ("bc", "cd", "de", "ae", "abcde"):
        together(cluster, pair)
    return cluster


def apart(cluster: Cluster, *parts: str, run: bool = True) -> None:
    for part in parts:
        cluster.view(*part)
        if run:
            cluster.run(*part)


def together(cluster: Cluster, *parts: str) -> None:
    apart(cluster, *parts)
    for part in parts:
        cluster.run(*part)


STORIES: dict[Callable[[], Cluster], str] = {
    adopted: "Received Arranged Inserted",
    in_parcels: "Received Arranged",
    merged: "Inserted Received",
    two_minorities: "Inserted Received Arranged",
    pending: "Committed Received Arranged Established",
    forced: "Forced Transferred CaughtUp",
    forced_apart: "Forced Transferred CaughtUp",
    grown: "Transferred CaughtUp Committed",
    checkpointed: "Checkpoint Kept KeptPiece CheckpointEnded",
    proposed: "Proposed Applied",
}


@pytest.mark.parametrize("story", STORIES)
def test_every_record_is_found_again(story: Callable[[], Cluster]) -> None:
    cluster = story()
    kinds: Counter[str] = Counter()
    alive = [name for name in cluster.names if cluster[name].up]
    lost = {name: lost_in(cluster, name, next(each for each in alive if each != name), kinds) for name in alive}
    assert set(STORIES[story].split()) <= kinds.keys(), kinds
    beginnings = {name: ["0: Checkpoint"] for name in alive if cluster[name].first > 1}
    assert {name: steps for name, steps in lost.items() if steps} == beginnings, kinds


def test_how_a_restored_log_began_is_found_again() -> None:
    """Not the configuration that the fence made has the identities, but what came of it."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"common")
    cluster.settle()
    restore(cluster, "a", "b")
    together(cluster, "ab")
    kinds: Counter[str] = Counter()
    assert lost_in(cluster, "a", "b", kinds) == ["0: Checkpoint"] and kinds["Founded"] == 1


def test_how_a_log_began_is_found_again_by_a_later_checkpoint() -> None:
    ledger = joined("a", "b", "c").servers["a"].replica.ledger
    later = [r.decode_record(r.encode_record(each)) for each in checkpoint_of(ledger)]
    begun = r.encode_record(r.Founded(ledger.queue.configuration.identities))
    empty = Ledger.founded("abc", Majority(("a", "b", "c")))
    assert found_again(empty, Others(lambda after: (), later=later), begun) == begun


def test_a_checkpoint_behind_what_it_says_again_is_found_by_it() -> None:
    """Only one at the beginning of a log stands for something that is nowhere else."""
    cluster = checkpointed()
    ledger = cluster["a"].replica.ledger
    nobody = Others(lambda after: ())
    for record in checkpoint_of(ledger):
        data = r.encode_record(record)
        assert found_again(ledger, nobody, data) == data


def test_a_snapshot_is_found_again_by_its_pieces() -> None:
    cluster = joined("a", "b", "c", snapshots=True)
    for number in range(4):
        cluster.append("a", b"record %d" % number)
    cluster.settle()
    cluster.tell("b", SnapshotOffered(0, 3, b"state" * 9_000))
    cluster.settle()
    lost = [each.partition(": ")[2] for each in lost_in(cluster, "b", "a")]
    assert lost == ["SnapshotPiece"] * 2  # nobody else has the state; its head follows from them
