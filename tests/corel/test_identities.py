"""A server counts by its log: an empty disk under an old name does not."""

from __future__ import annotations

import msgspec
import pytest

from isotone.core.errors import LocalProtocolError
from isotone.corel import records as r
from isotone.corel.events import ReconfigurationWanted
from isotone.corel.explain import why_no_primary
from isotone.corel.identities import log_identity
from isotone.corel.ledger import Ledger
from isotone.corel.quorum import Majority
from isotone.corel.recover import forced_record
from tests.corel.cluster import Cluster, identity_of, joined


def primaries(cluster: Cluster) -> str:
    return "".join(name for name in cluster.names if cluster[name].up and cluster[name].replica.flow.is_primary)


def meet(cluster: Cluster, *parts: str) -> None:
    for part in parts:
        cluster.view(*part)
        cluster.run(*part)


def without_c() -> Cluster:
    """a and b ordered m while c was away."""
    cluster = joined("a", "b", "c")
    meet(cluster, "ab")
    cluster.append("a", b"m")
    cluster.run("a", "b")
    assert cluster["a"].green == cluster["b"].green == [b"m"]
    return cluster


def test_an_empty_disk_under_an_old_name_does_not_vote() -> None:
    """b and c are two of three, and neither has m."""
    cluster = without_c()
    cluster.lose_disk("b")
    cluster.append("c", b"other")
    meet(cluster, "bc")
    assert primaries(cluster) == "a" and cluster["c"].green == [] and cluster["b"].standing == "stranger"
    meet(cluster, "abc")
    assert primaries(cluster) == "ac" and cluster["b"].standing == "stranger"
    assert cluster["a"].green == cluster["c"].green == [b"m", b"other"] and cluster["b"].green == []
    assert not cluster.report().violations


def test_it_says_what_happened_and_so_do_the_others() -> None:
    cluster = without_c()
    cluster.lose_disk("b")
    meet(cluster, "bc")
    text = why_no_primary(cluster["b"].replica)
    assert "not the log that the others know under this name" in text and "add one with a new name" in text
    text = why_no_primary(cluster["c"].replica)
    assert "No quorum: c is here, a is not" in text and "b is here without its log and does not count" in text


def test_it_is_replaced_by_a_server_with_a_new_name() -> None:
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"m")
    cluster.settle()
    cluster.lose_disk("b")
    cluster.join("x")
    meet(cluster, "abcx")
    cluster.settle()
    cluster.tell("a", ReconfigurationWanted(0, 1, remove="b"))
    cluster.run()
    cluster.tell("a", ReconfigurationWanted(0, 2, add="x"))
    cluster.settle()
    assert cluster["c"].configurations[-1] == ("a", "c", "x") and cluster["x"].green == [b"m"]
    meet(cluster, "abcx")
    assert cluster["b"].standing == "stranger", "also under a name that was removed"
    meet(cluster, "ax")
    assert cluster["x"].replica.flow.is_primary and not cluster.report().violations


def test_a_server_that_was_added_is_known_by_its_log_too() -> None:
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.join("x")
    meet(cluster, "abcx")
    cluster.settle()
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    cluster.settle()
    cluster.lose_disk("x")
    meet(cluster, "abx")
    assert cluster["x"].standing == "stranger" and primaries(cluster) == "c"  # which does not know that it is alone
    meet(cluster, "abc")
    assert primaries(cluster) == "abc"


def test_a_learner_with_an_empty_disk_learns_again_under_other_names_of_messages() -> None:
    """What it sent before lives on at a alone, red: the same name would stand for two messages."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.join("x")
    meet(cluster, "abcx")
    cluster.settle()
    meet(cluster, "ax")
    cluster.append("x", b"before")
    cluster.run("a", "x")
    cluster.lose_disk("x")
    meet(cluster, "bcx")
    cluster.settle()
    cluster.append("x", b"after")
    cluster.settle()
    meet(cluster, "abcx")
    cluster.settle()
    assert cluster["a"].green == cluster["x"].green == [b"after", b"before"] and not cluster.report().violations


def test_a_log_begins_when_all_founders_have_met() -> None:
    cluster = Cluster("a", "b", "c", met=False)
    meet(cluster, "ab")
    cluster.append("a", b"m")
    cluster.run("a", "b")
    assert cluster["a"].standing == "waiting" and cluster["a"].red == [] and primaries(cluster) == ""
    assert why_no_primary(cluster["a"].replica) == "A log begins when all its servers have met once; missing: c."
    cluster.lose_disk("b")  # it has promised nothing yet
    meet(cluster, "abc")
    assert primaries(cluster) == "abc" and cluster["c"].green == [b"m"]
    identities = dict(cluster["c"].replica.ledger.queue.configuration.identities)
    assert identities == {"a": identity_of("a", 1), "b": identity_of("b", 2), "c": identity_of("c", 1)}


def test_whoever_was_cut_off_when_all_met_learns_it_from_the_others() -> None:
    cluster = Cluster("a", "b", "c", met=False)
    cluster.view("a", "b", "c")
    cluster.run("a")  # it alone has heard all states
    cluster.step("b", 2)
    meet(cluster, "bc")
    assert primaries(cluster) == ""
    meet(cluster, "ab")
    assert primaries(cluster) == "ab"
    cluster.lose_disk("a")
    meet(cluster, "ac", "abc")
    assert cluster["a"].standing == "stranger" and primaries(cluster) == "bc"


def test_a_crash_before_the_first_write_is_as_if_it_had_never_started() -> None:
    cluster = Cluster("a", "b", met=False)
    cluster.lose_disk("b")
    meet(cluster, "ab")
    assert primaries(cluster) == "ab"
    cluster.restart("b")
    meet(cluster, "ab")
    assert primaries(cluster) == "ab", "the same log in another incarnation"


def test_the_identity_survives_a_checkpoint() -> None:
    cluster = Cluster("a", "b", "c", met=False, checkpoint_records=4)
    meet(cluster, "abc")
    for number in range(12):
        cluster.append("abc"[number % 3], b"%d" % number)
        cluster.settle()
    assert cluster["a"].first > 3
    cluster.restart("a")
    meet(cluster, "abc")
    assert primaries(cluster) == "abc" and cluster["a"].replica.ledger.identity == identity_of("a", 1)


def test_two_logs_of_the_same_names_do_not_mix() -> None:
    """Somebody began another log with the same founders; a server of that one comes among these."""
    cluster, other = without_c(), joined("a", "b", "c")
    cluster.crash("b")
    alien = other["b"].log[:]
    first = r.decode_record(alien[0])
    assert isinstance(first, r.Lived)
    alien[0] = r.encode_record(r.Lived(first.life, b"alien"))
    known = tuple((name, b"alien") for name in "abc")
    alien = [
        r.encode_record(r.Founded(known)) if isinstance(r.decode_record(each), r.Founded) else each for each in alien
    ]
    cluster._boot("b", 2, alien)
    meet(cluster, "abc")
    assert primaries(cluster) == "ac" and cluster["b"].standing in {"waiting", "stranger"}
    assert "begun apart" in why_no_primary(cluster["b"].replica) or cluster["b"].standing == "stranger"


def ledger_of(cluster: Cluster, name: str) -> Ledger:
    ledger = Ledger.founded(cluster.founders, Majority(cluster.founders))
    for data in cluster[name].log:
        ledger.apply(r.decode_record(data))
    return ledger


def test_a_forced_set_has_identities_too() -> None:
    cluster = without_c()
    for name in "abc":
        cluster.crash(name)
    record = forced_record({name: ledger_of(cluster, name) for name in "ab"}, ("a", "b"))
    forced = r.decode_record(record)
    assert isinstance(forced, r.Forced)
    assert dict(forced.configuration.identities) == {name: identity_of(name, 1) for name in "abc"}
    for name in "ab":
        cluster[name].log.append(record)
        cluster.restart(name)
    meet(cluster, "ab")
    assert primaries(cluster) == "ab"
    cluster.lose_disk("b")
    cluster.lose_disk("c")
    meet(cluster, "abc")
    assert primaries(cluster) == "" and cluster["b"].standing == cluster["c"].standing == "stranger"


def test_survivors_of_a_log_that_never_began_begin_it() -> None:
    cluster = Cluster("a", "b", "c", met=False)
    for name in "abc":
        cluster.crash(name)
    record = forced_record({name: ledger_of(cluster, name) for name in "ab"}, ("a", "b"))
    for name in "ab":
        cluster[name].log.append(record)
        cluster.restart(name)
    meet(cluster, "ab")
    assert primaries(cluster) == "ab"


def test_a_survivor_without_an_identity_starts_once_first() -> None:
    """The log of b is known: if that were forgotten, b could lose its disk before they meet, and begin with another."""
    cluster = without_c()
    ledgers = {name: ledger_of(cluster, name) for name in "ab"}
    a = ledgers["a"]
    a.identity = b""
    for ledger in ledgers.values():
        known = ledger.queue.configuration
        identities = tuple(pair for pair in known.identities if pair[0] == "b")
        ledger.queue.configuration = msgspec.structs.replace(known, identities=identities)
    with pytest.raises(LocalProtocolError, match="a has no identity yet: start it once"):
        forced_record(ledgers, ("a", "b"))
    a.identity = identity_of("a", 1)
    forced = r.decode_record(forced_record(ledgers, ("a", "b")))
    assert isinstance(forced, r.Forced)
    assert forced.configuration.identities == (("a", identity_of("a", 1)), ("b", identity_of("b", 1)))


@pytest.mark.parametrize(("store", "incarnation"), [(b"1", 2), (b"2", 1)])
def test_another_store_or_a_log_that_was_removed_alone_is_another_log(store: bytes, incarnation: int) -> None:
    assert log_identity(store, incarnation) != log_identity(b"1", 1) == log_identity(b"1", 1)
    assert len(log_identity(store, incarnation)) == 16
