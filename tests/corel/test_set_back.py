"""A log with less than it promised: its server is left out and says why, and nobody else ends."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from isotone.core.errors import LocalProtocolError
from isotone.corel import records as r
from isotone.corel.checkpoint import checkpoint_of
from isotone.corel.configuration import Configuration, encode_rule
from isotone.corel.events import ReconfigurationWanted
from isotone.corel.explain import why_no_primary
from isotone.corel.ledger import Ledger
from isotone.corel.promises import is_contradicted, state_of, why_not_count
from isotone.corel.quorum import History, Majority, Primary
from isotone.corel.recover import assess, forced_record
from isotone.corel.repair import Others, rarer_candidates
from isotone.corel.rounds import Outcome, set_back_of
from isotone.corel.wire import State
from tests.corel.cluster import Cluster, joined
from tests.corel.test_identities import meet, primaries
from tests.corel.test_recover import force, ledger_of
from tests.corel.test_rounds import complete, state


def with_an_older_copy(*, behind: str = "c", then: int = 5) -> Cluster:
    """The disks of these went back in time, to before the last messages of the primary that all are in."""
    cluster = joined("a", "b", "c", snapshots=True)
    cluster.append("a", b"1")
    cluster.run()
    copies = {name: list(cluster[name].log) for name in behind}
    for number in range(then):
        cluster.append("a", b"x%d" % number)
        cluster.run()
    for name in behind:
        cluster.crash(name)
        cluster.restart(name, copies[name])
    return cluster


def test_a_log_that_was_set_back_does_not_count_and_the_others_go_on() -> None:
    cluster = with_an_older_copy()
    meet(cluster, "abc")
    assert primaries(cluster) == "ab" and cluster["c"].standing == "waiting"
    cluster.append("c", b"from c")
    cluster.append("b", b"on")
    cluster.run()
    assert cluster["a"].green == cluster["b"].green and cluster["a"].green[-1] == b"on"
    assert cluster["c"].lines == (0, 1, 1), "nothing of it moves"


def test_it_says_what_happened_and_so_do_the_others() -> None:
    cluster = with_an_older_copy(behind="bc")
    meet(cluster, "abc")
    assert primaries(cluster) == ""
    text = why_no_primary(cluster["c"].replica)
    assert "Its log has less than it promised" in text and "add one with a new name" in text
    text = why_no_primary(cluster["a"].replica)
    assert "No quorum: a is here, nobody is away; needed" in text
    assert "b has less than it promised" in text and "c has less than it promised" in text
    assert "It waits for" not in text, "those who could help are here, and do not count"


def test_it_is_replaced_by_a_server_with_a_new_name() -> None:
    cluster = with_an_older_copy()
    cluster.join("x")
    meet(cluster, "abcx")
    cluster.settle()
    cluster.tell("a", ReconfigurationWanted(0, 1, remove="c"))
    cluster.run()
    cluster.tell("a", ReconfigurationWanted(0, 2, add="x"))
    cluster.settle()
    assert cluster["b"].configurations[-1] == ("a", "b", "x") and cluster["x"].green == cluster["a"].green


def test_it_is_noticed_by_who_heard_it_promise_more_also_in_a_later_primary() -> None:
    cluster = with_an_older_copy()
    cluster.settle()
    meet(cluster, "ab", "abc")
    assert primaries(cluster) == "ab" and cluster["c"].standing == "waiting"


def test_where_nobody_remembers_it_adopts_what_the_others_have() -> None:
    """They became a primary without it and were started again: all that it ever promised, they have."""
    cluster = with_an_older_copy()
    meet(cluster, "ab")
    for name in "ab":
        cluster.restart(name)
    meet(cluster, "ab", "abc")
    assert primaries(cluster) == "abc" and cluster["c"].lines == cluster["a"].lines


@pytest.mark.parametrize("other", ["a", "b"])
def test_any_server_of_a_primary_knows_who_attempted_it(other: str) -> None:
    """One alone, after a restart, though nothing was ordered: with c it would form that number a second time."""
    cluster = joined("a", "b", "c", snapshots=True)
    copy = list(cluster["c"].log)
    meet(cluster, "c", "abc")
    assert primaries(cluster) == "abc"
    cluster.crash("c")
    cluster.restart("c", copy)
    cluster.restart(other)
    meet(cluster, f"{other}c")
    assert {other, "c"}.isdisjoint(primaries(cluster)) and cluster["c"].standing == "waiting"
    assert "c has less than it promised" in why_no_primary(cluster[other].replica)


def test_who_is_not_asked_cannot_tell() -> None:
    """What a copy costs: a and c ordered while b was away, and b and c are a quorum. The guide says so."""
    cluster = joined("a", "b", "c", snapshots=True)
    copy = list(cluster["c"].log)
    meet(cluster, "ac")
    cluster.append("a", b"m")
    cluster.run("a", "c")
    assert cluster["a"].green == [b"m"]
    cluster.crash("c")
    cluster.restart("c", copy)
    own, asked = state_of("c", cluster["c"].replica.ledger, {}), cluster["a"].replica
    why = why_not_count(own, state_of("a", asked.ledger, asked.greens.places))
    assert why == "knows that this server promised more than its log has", "whoever compares asks a"
    meet(cluster, "bc")
    assert {"b", "c"} <= set(primaries(cluster)) and cluster["b"].green == []


def test_it_counts_nowhere_from_then_on_also_where_nobody_could_tell() -> None:
    """b was away all the time: c alone knows that a has more, and b and c are two of three."""
    cluster = joined("a", "b", "c", snapshots=True)
    meet(cluster, "ac")
    copy = list(cluster["c"].log)
    cluster.append("a", b"m")
    cluster.run("a", "c")
    assert cluster["a"].green == [b"m"]
    cluster.crash("c")
    cluster.restart("c", copy)
    meet(cluster, "ac")
    assert cluster["c"].standing == "waiting"
    cluster.restart("c")
    meet(cluster, "bc")
    assert (
        primaries(cluster) == ""
        and cluster["c"].standing == "waiting"
        and "less than it promised" in why_no_primary(cluster["b"].replica)
    )
    meet(cluster, "abc")
    assert primaries(cluster) == "ab" and cluster["b"].green == [b"m"]


def test_an_operator_may_choose_it_to_go_on() -> None:
    cluster = with_an_older_copy()
    meet(cluster, "abc")
    for name in "abc":
        cluster.crash(name)
    record = forced_record({"c": cluster["c"].replica.ledger}, ("c",))
    cluster.restart("c", [*cluster["c"].log, record])
    assert not cluster["c"].replica.ledger.set_back
    meet(cluster, "c")
    assert primaries(cluster) == "c" and cluster["c"].green == [b"1"]


def test_an_operator_chooses_it_alone_or_not_at_all() -> None:
    """Beside a it would be found again to have less than it promised, and those who are forced must all meet."""
    cluster = with_an_older_copy()
    cluster.crash("b")
    meet(cluster, "ac")
    assert primaries(cluster) == "" and cluster["c"].standing == "waiting"
    ledgers = {name: ledger_of(cluster, name) for name in "ac"}
    for ask in (assess, forced_record):
        with pytest.raises(LocalProtocolError, match=r"c has less than it promised.*name the other survivors.*c alone"):
            ask(ledgers, ("a", "c"))
    text = assess(ledgers, ("a",)).text()
    assert text.startswith("0 green messages") and "disk of c has less than it promised: what only it had" in text
    force(cluster, "a")
    meet(cluster, "ac")
    assert primaries(cluster) == "a" and cluster["c"].standing == "fenced"


def test_alone_what_it_lost_is_shown_before() -> None:
    cluster = with_an_older_copy()
    cluster.crash("b")
    meet(cluster, "ac")
    losses = assess({name: ledger_of(cluster, name) for name in "abc"}, ("c",))
    assert len(losses.of("green")) == 5 and losses.set_back == ("c",) and not losses.unread
    assert "primary 1 (a, b, c) may have ordered more" in losses.text(), "what only c had is nowhere"
    force(cluster, "c")
    meet(cluster, "c")
    assert primaries(cluster) == "c" and not ledger_of(cluster, "c").set_back


def test_one_that_was_not_found_out_before_a_force_is_left_out_by_the_next() -> None:
    cluster = with_an_older_copy()
    cluster.crash("b")
    force(cluster, "a", "c")
    meet(cluster, "ac")
    assert primaries(cluster) == "" and "Its log has less than it promised" in why_no_primary(cluster["c"].replica)
    with pytest.raises(LocalProtocolError, match="c has less than it promised"):
        force(cluster, "a", "c")
    force(cluster, "a")
    meet(cluster, "a")
    assert primaries(cluster) == "a" and len(cluster["a"].replica.ledger.queue.held) >= 6


def test_a_life_that_was_lived_before_ends_before_it_sends_anything() -> None:
    """c sent a message in its second life, of which its disk knows nothing; the others have an order with it."""
    cluster = joined("a", "b", "c", snapshots=True)
    copy = list(cluster["c"].log)
    cluster.restart("c")
    meet(cluster, "abc")
    cluster.append("c", b"m")
    cluster.run()
    cluster.restart("c", copy)
    cluster.append("c", b"another under the same name")
    meet(cluster, "ab", "abc")
    assert "messages of this life that it never sent" in cluster["c"].stopped and not cluster["c"].up
    cluster.crash("c")
    meet(cluster, "ab")
    cluster.restart("c")
    meet(cluster, "abc")
    assert primaries(cluster) == "ab" and cluster["c"].standing == "waiting" and cluster["a"].green == [b"m"]


def test_a_damaged_record_of_it_is_found_again_and_a_checkpoint_says_it() -> None:
    ledger = joined("a", "b", "c")["a"].replica.ledger
    record = r.encode_record(r.SetBack())
    assert record in set(rarer_candidates(ledger, Others(lambda after: ()), len(record)))
    ledger.apply(r.SetBack())
    found = Ledger.founded(("a", "b", "c"), Majority(("a", "b", "c")))
    for each in checkpoint_of(ledger):
        found.apply(r.decode_record(r.encode_record(each)))
    assert found.set_back


# --- which of the states ---------------------------------------------------------------------------------------------


def caught_up(server: str, *, context: int, green: int) -> State:
    return replace(state(server, green=green), context=context)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([state("a", committed=1, green=5), state("b", committed=1, green=5)], ()),
        ([state("a", committed=1, green=5), state("b", committed=1, green=4)], ("b",)),
        ([state("a", committed=2, green=5), state("b", committed=1, green=4)], ()),
        ([state("a", committed=2, green=4), state("b", committed=1, green=5)], ("a",)),
        ([state("a", committed=3, green=3), state("b", committed=2, green=4), state("c", green=5)], ("a", "b")),
        ([caught_up("x", context=2, green=5), state("a", committed=1, green=4)], ()),
        ([caught_up("x", context=2, green=5), caught_up("c", context=2, green=4)], ()),
        ([caught_up("x", context=2, green=3), state("a", committed=1, green=4)], ("x",)),
    ],
)
def test_who_knows_of_the_last_primary_has_what_is_green(states: list[State], expected: tuple[str, ...]) -> None:
    assert set_back_of(states, states) == expected


def test_one_that_says_its_state_later_is_judged_by_the_same_rule() -> None:
    begun = complete(*(state(each, committed=1, green=5) for each in "abcw"))
    assert begun.take("x", state("x", committed=1, green=4)) is Outcome.WAIT
    assert begun.set_back == ("x",) and begun.parts == ("a", "b", "c", "w")


def test_one_that_says_its_state_later_shows_that_another_was_set_back() -> None:
    begun = complete(*(state(each, committed=1, green=4) for each in "abcw"))
    assert begun.take("x", state("x", committed=1, green=5)) is Outcome.AGAIN
    assert begun.set_back == (), "all find that out in the next round"


# --- promises --------------------------------------------------------------------------------------------------------

LOGS = tuple((name, name.encode()) for name in "abc")
VOTING = Configuration(0, ("a", "b", "c"), encode_rule(Majority(("a", "b", "c"))), (), LOGS)
FIRST, SECOND = Primary(1, ("a", "b", "c")), Primary(2, ("a", "b", "c"))


def of(server: str, *, history: History, attempted: int, green: int = 0, **others: Any) -> State:
    known = replace(state(server, green=green), history=history, attempted=attempted, identity=server.encode())
    return replace(known, configuration=VOTING, **others) if "configuration" not in others else replace(known, **others)


def told(place: int) -> State:
    """One whose last primary did not have c, and that heard c tell its green line."""
    return of("a", history=History(Primary(2, ("a", "b"))), attempted=2, green=9, greens=(("c", place),))


WITNESS = of("a", history=History(SECOND), attempted=2, green=5)
PENDING = of("a", history=History(FIRST, (SECOND,)), attempted=2)
FORCED = of("a", history=History(SECOND, (), True), attempted=2)


@pytest.mark.parametrize(
    ("own", "witness", "expected"),
    [
        (of("c", history=History(SECOND), attempted=2, green=5), WITNESS, False),
        (of("c", history=History(FIRST), attempted=1, green=5), WITNESS, True),  # it never attempted it
        (of("c", history=History(FIRST), attempted=2, green=5), WITNESS, True),  # it never committed to it
        (of("c", history=History(FIRST, (SECOND,)), attempted=2, green=5), WITNESS, False),
        (of("c", history=History(SECOND), attempted=2, green=4), WITNESS, True),  # less than was green in it
        (of("c", history=History(SECOND), attempted=2, green=4), replace(WITNESS, applied=1), False),
        (of("c", history=History(FIRST), attempted=1), replace(WITNESS, configuration=None), False),
        (of("c", history=History(FIRST), attempted=1, identity=b"x"), WITNESS, False),  # that is a stranger
        (of("c", history=History(FIRST), attempted=2), PENDING, False),
        (of("c", history=History(FIRST), attempted=1), PENDING, True),
        (of("c", history=History(FIRST), attempted=1), FORCED, False),
        (of("c", history=History(FIRST), attempted=1, green=4), told(4), False),
        (of("c", history=History(FIRST), attempted=1, green=4), told(5), True),
        (of("a", history=History(FIRST), attempted=1), WITNESS, False),  # itself
    ],
)
def test_a_promise_that_a_log_does_not_keep(own: State, witness: State, expected: bool) -> None:
    assert is_contradicted(own, witness) is expected


def test_who_said_its_state_before_is_not_held_to_what_it_promised_since() -> None:
    before = [of(each, history=History(FIRST), attempted=1) for each in "abc"]
    after = of("x", history=History(SECOND), attempted=0, green=5, context=2)
    assert set_back_of([*before, after], [after]) == () and set_back_of([*before, after], before) == ("a", "b", "c")
