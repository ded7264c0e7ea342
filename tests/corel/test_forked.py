"""Two primaries of one number: an older copy of a disk made a second one. Nobody goes on before an operator chose."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from isotone.core.errors import LocalProtocolError
from isotone.corel.explain import why_no_primary
from isotone.corel.quorum import History, Primary, doubled
from isotone.corel.recover import assess
from isotone.corel.wire import State
from tests.corel.cluster import Cluster, joined
from tests.corel.test_identities import meet, primaries
from tests.corel.test_recover import force, ledger_of
from tests.corel.test_rounds import complete, state


def with_two_orders(of_b: int, of_a: int) -> Cluster:
    """b and c became primary 2; c goes back to before that, and becomes primary 2 with a. All have met then."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"1")
    cluster.settle()
    copy = list(cluster["c"].log)
    meet(cluster, "bc")
    for number in range(of_b):
        cluster.append("b", b"of b %d" % number)
        cluster.run("b", "c")
    cluster.crash("b")
    cluster.restart("c", copy)
    meet(cluster, "ac")
    for number in range(of_a):
        cluster.append("a", b"of a %d" % number)
        cluster.run("a", "c")
    assert primaries(cluster) == "ac"
    cluster.restart("b")
    meet(cluster, "abc")
    return cluster


@pytest.mark.parametrize(("of_b", "of_a"), [(3, 1), (1, 3), (2, 2)])
def test_whoever_ordered_more_nobody_is_blamed_and_nobody_goes_on(of_b: int, of_a: int) -> None:
    cluster = with_two_orders(of_b, of_a)
    lines = [cluster[name].lines for name in "abc"]
    meet(cluster, "ab", "bc", "abc")
    assert primaries(cluster) == "" and [cluster[name].standing for name in "abc"] == ["waiting"] * 3
    for name in "abc":
        assert "primary 2 was formed twice, by a c and by b c" in why_no_primary(cluster[name].replica)
        assert not cluster[name].replica.ledger.set_back and not cluster[name].stopped
    assert [cluster[name].lines for name in "abc"] == lines, "nothing of what is in doubt moves"


def test_each_side_that_meets_nobody_of_the_other_goes_on() -> None:
    cluster = with_two_orders(2, 2)
    meet(cluster, "ac")
    assert primaries(cluster) == "ac"


def test_an_operator_chooses_one_side_and_sees_what_the_other_had() -> None:
    cluster = with_two_orders(2, 3)
    ledgers = {name: ledger_of(cluster, name) for name in "abc"}
    for both in (("a", "b"), ("a", "b", "c")):
        with pytest.raises(LocalProtocolError, match="primary 2 was formed twice"):
            assess(ledgers, both)
    assert [each.place for each in assess(ledgers, ("a", "c")).messages] == [2, 3]
    force(cluster, "a", "c")
    meet(cluster, "abc")
    assert primaries(cluster) == "ac" and cluster["b"].standing == "fenced"
    cluster.append("a", b"on")
    cluster.run()
    assert cluster["c"].green[-1] == b"on"


# --- which of the states ---------------------------------------------------------------------------------------------


def knowing(server: str, *formed: Primary, committed: int = 0, forced: bool = False) -> State:
    return replace(state(server, committed=committed), history=History(formed[0], formed[1:], forced))


ZERO = Primary(0, tuple("abcwx"))
TWO, OTHER_TWO = Primary(2, ("a", "b", "c")), Primary(2, ("c", "w", "x"))


def test_who_knows_of_neither_does_not_go_on_either() -> None:
    """b and c may be those who were set back, and have ordered with a."""
    begun = complete(state("x"), knowing("a", TWO), state("b"), state("c"), knowing("w", ZERO, OTHER_TWO))
    assert begun.parts == begun.set_back == () and sorted(begun.apart) == ["a", "b", "c", "w", "x"]
    assert "formed twice, by a b c and by c w x" in begun.apart["b"]


def test_who_is_known_to_be_set_back_accuses_nobody() -> None:
    begun = complete(knowing("a", TWO), state("b"), replace(knowing("w", OTHER_TWO), set_back=True), state("c"))
    assert begun.parts == ("a", "b", "c") and begun.set_back == ("w",) and not begun.apart


def test_who_says_its_state_later_is_apart_alone() -> None:
    begun = complete(*(knowing(each, TWO) for each in "abcw"))
    begun.take("x", knowing("x", OTHER_TWO))
    assert begun.parts == ("a", "b", "c", "w") and list(begun.apart) == ["x"]


@pytest.mark.parametrize(
    "histories",
    [
        [History(Primary(0, ("a", "b"))), History(Primary(0, ("b", "c")))],
        [History(TWO), History(Primary(1, ("a", "b")), (TWO,))],
        [History(TWO), History(Primary(2, ("c", "w", "x")), (), True)],
        [History(Primary(3, ("c", "w", "x"))), History(ZERO, (TWO,))],
    ],
    ids=["founders", "one knows more", "chosen by force", "a later one"],
)
def test_what_is_no_second_primary(histories: list[History]) -> None:
    assert doubled(histories) == {}


def test_a_number_that_was_only_attempted_may_be_used_again() -> None:
    """a attempts primary 2 with b, who never hears of it, and is cut off; b and c become primary 2, and all go on."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.view("a", "b")
    cluster.run("a")
    assert cluster["a"].replica.ledger.attempted == 2 and cluster["b"].replica.ledger.attempted == 1
    meet(cluster, "bc")
    assert cluster["b"].replica.ledger.history.last == Primary(2, ("b", "c"))
    meet(cluster, "abc")
    assert primaries(cluster) == "abc" and not cluster.report().violations
