"""Parts of a replica, each alone."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from isotone.core import boundary as b4
from isotone.core.ids import ClientId, DaemonId
from isotone.core.names import CLIENT_NAME_MAX
from isotone.core.services import Service
from isotone.corel import records as r
from isotone.corel.configuration import carried
from isotone.corel.events import ReconfigurationWanted
from isotone.corel.exchange import Plan
from isotone.corel.explain import why_no_primary
from isotone.corel.journal import RECEIVED_BYTES_MAX, Journal
from isotone.corel.learning import Learner
from isotone.corel.ledger import Ledger
from isotone.corel.lending import Lending
from isotone.corel.message import Message, Origin
from isotone.corel.quorum import History, Majority, Primary, Weighted
from isotone.corel.recover import assess
from isotone.corel.recovery import PARCEL_BYTES_MAX, Recovery
from isotone.corel.regular import RegularFlow
from isotone.corel.repair import candidates_for
from isotone.corel.rounds import Outcome, Round
from isotone.corel.session import Session
from isotone.corel.settings import ReplicaSettings
from isotone.corel.snapshot import Snapshot
from isotone.corel.teaching import PARCELS_MAX, Teacher
from isotone.corel.telling import state_digest
from isotone.corel.wire import Fetch, Fetched, Priority, State
from isotone.trace import corel as trace
from tests.corel.cluster import Cluster, joined
from tests.corel.test_growth import with_learner
from tests.corel.test_recover import ledger_of, lost_quorum
from tests.corel.test_recovery import with_backlog


def message(counter: int, size: int = 1) -> Message:
    return Message(Origin("a", 1), counter, counter, (bytes(size),))


def test_messages_of_one_colour_become_one_record_and_none_is_lost() -> None:
    journal = Journal(Ledger.founded(("a",), Majority(("a",))), 100)
    for counter, yellow in ((1, True), (2, True), (3, False), (4, False)):
        journal.gather(r.Received((message(counter),), yellow))
    found = [record for record in journal._gathered if isinstance(record, r.Received)]
    assert [([each.counter for each in record.messages], record.yellow) for record in found] == [
        ([1, 2], True),
        ([3, 4], False),
    ]


def test_no_record_of_received_messages_grows_without_bound() -> None:
    """While a write takes long, much more may come than one record may hold."""
    journal = Journal(Ledger.founded(("a",), Majority(("a",))), 100)
    size = RECEIVED_BYTES_MAX // 4
    for counter in range(1, 41):
        journal.gather(r.Received((message(counter, size),), True))
    journal.gather(r.Received((message(41, 3 * RECEIVED_BYTES_MAX),), True))  # larger than that alone
    journal.gather(r.Received((message(42),), True))
    found = [record for record in journal._gathered if isinstance(record, r.Received)]
    assert [each.counter for record in found for each in record.messages] == list(range(1, 43))
    assert all(sum(each.size for each in record.messages) <= RECEIVED_BYTES_MAX for record in found[:-2])
    assert [len(record.messages) for record in found[-2:]] == [1, 1] and len(found) < 20


@pytest.mark.parametrize("wanted", [1, 2, PARCELS_MAX, PARCELS_MAX + 5])
def test_a_teacher_sends_as_many_parcels_as_are_asked_for_and_a_few_at_most(wanted: int) -> None:
    green = [message(counter, PARCEL_BYTES_MAX - 100) for counter in range(1, 60)]
    queue = SimpleNamespace(
        green=len(green), forgotten=0, walk=lambda start, stop: iter(green[start:stop]), configuration=None
    )
    ledger = SimpleNamespace(
        queue=queue,
        ready=True,
        fence=0,
        forced=None,
        known_context=0,
        level=(0, 0),
        applied=0,
        context_applied=0,
        base=0,
        committed=0,
        context=0,
        history=None,
    )
    session = SimpleNamespace(answer=lambda sender, said: said)
    teacher = Teacher(cast(Ledger, ledger), cast(Session, session), cast(Lending, None))
    fetch = Fetch("x", 3, 0, 0, wanted, 0)
    sent = cast(list[Fetched], teacher.on_fetch(ClientId(DaemonId("d", 1), "x", 1), fetch))
    count = min(wanted, PARCELS_MAX)
    assert [each.after for each in sent] == list(range(3, 3 + count))
    assert [each.last for each in sent] == [False] * (count - 1) + [True]


LINES = {
    "ranges": (),
    "set_back": False,
    "committed": 0,
    "applied": 0,
    "context": 0,
    "context_applied": 0,
    "identity": b"",
    "coming": (),
    "yellow": 5,
    "attempted": 0,
    "history": History(Primary(0, ("a",))),
}


def state(server: str, *, ready: bool = True, fence: int = 0) -> State:
    told = SimpleNamespace(
        server=server, ready=ready, fence=fence, known=frozenset(), configuration=None, green=5, forgotten=0, **LINES
    )
    return cast(State, told)


def test_who_comes_to_a_round_late_takes_part_when_it_is_ready_and_knows_of_the_fence() -> None:
    for late, outcome in (
        (state("x"), Outcome.WAIT),
        (state("x", fence=3), Outcome.AGAIN),
        (state("x", fence=4), Outcome.AGAIN),
        (state("x", ready=False, fence=3), Outcome.WAIT),
        (state("x", ready=False), Outcome.WAIT),
    ):
        begun = Round(frozenset("ax"))
        assert begun.take("a", state("a", fence=3)) is Outcome.COMPLETE
        assert begun.take("x", late) is outcome


def test_a_new_server_has_one_vote_unless_it_is_said_otherwise() -> None:
    rule = Weighted({"a": 3, "b": 2})
    assert carried(rule, ("a", "b", "c"), {}) == Weighted({"a": 3, "b": 2, "c": 1})
    assert carried(rule, ("b", "c"), {"c": 5}) == Weighted({"b": 2, "c": 5})


def test_digests_of_states_have_64_bits_and_tell_states_apart() -> None:
    digests = {state_digest(b"%d" % number) for number in range(100)}
    assert len(digests) == 100 and max(digests) < 1 << 64


def test_an_order_is_proposed_soon_where_no_primary_makes_one() -> None:
    five = tuple("abcde")
    cluster = Cluster(*five, quorum=Majority(five), proposals=True)
    for members, armed in (("ab", True), ("abc", False)):
        cluster.view(*members)
        cluster.run(*members)
        cluster.append("a", b"record")
        cluster.run(*members)
        assert cluster["a"].replica.proposals._armed is armed
        cluster["a"].replica.proposals._armed = False


def test_messages_of_a_session_are_numbered_without_holes() -> None:
    session = Session(DaemonId("d", 1), "a", "group")
    for _ in range(2):
        session.connect()
        asked = [session._send(Service.AGREED, "group", b"body").request for _ in range(3)]
        assert [each.bundle.first_sequence for each in asked if isinstance(each, b4.Send)] == [1, 2, 3]


def test_of_priority_messages_only_what_is_not_here_is_taken() -> None:
    ledger = Ledger.founded(("a", "b"), Majority(("a", "b")))
    ledger.apply(r.Received((message(1),), True))
    plan = cast(Plan, SimpleNamespace(ordered=0, chosen="a", yellow=9))
    recovery = Recovery("b", "view", plan, ledger)
    recovery.on_priority("a", Priority("view", 1, (message(1), message(2))))
    assert recovery.writes == [r.Received((message(2),), yellow=False)]


def test_lines_that_a_damaged_record_may_have_moved() -> None:
    ledger = Ledger.founded(("a",), Majority(("a",)))
    ledger.apply(r.Received(tuple(map(message, range(1, 6))), True))
    ledger.apply(r.Greened(3))
    found = list(map(r.decode_record, candidates_for(ledger, ())))
    assert [each.place for each in found if isinstance(each, r.Greened)] == [4, 5]
    assert [each.place for each in found if isinstance(each, r.Forgotten)] == [1, 2, 3]


def test_what_one_survivor_has_is_not_lost() -> None:
    cluster = lost_quorum()
    ledgers = {name: ledger_of(cluster, name) for name in "abc"}
    assert assess(ledgers, ("a", "c")).messages == ()
    assert len(assess(ledgers, ("c",)).messages) == 4


def test_a_message_is_lost_in_its_best_colour() -> None:
    red, yellow, survivor = (Ledger.founded(("a", "b", "c"), Majority(("a", "b", "c"))) for _ in range(3))
    red.apply(r.Received((message(1),), False))
    yellow.apply(r.Received((Message(Origin("b", 1), 1, 1, (b"",)), message(1)), True))
    survivor.apply(r.Lived(1, b"c"))
    losses = assess({"a": red, "b": yellow, "c": survivor}, ("c",))
    assert [(each.colour, each.place) for each in losses.messages] == [("yellow", 1), ("yellow", 2)]


def test_outside_of_a_primary_nothing_is_acknowledged() -> None:
    for is_primary, acknowledged in ((True, 7), (False, 0)):
        flow = cast(RegularFlow, SimpleNamespace(is_primary=is_primary, _written_yellow=7, _written_green=3))
        RegularFlow._told(flow)
        assert flow.acknowledged == acknowledged


def test_an_order_is_told_when_it_is_arranged_and_not_with_every_parcel() -> None:
    cluster = with_backlog(members="abc")
    cluster.view("a", "d", "e")
    cluster.run("a", "d", "e")
    told = [row.entry for row in cluster.rows if row.node == "e" and isinstance(row.entry, trace.QueueArranged)]
    assert 1 <= len(told) <= 2 and told[0].yellow > 0


def test_a_parcel_may_be_full_to_the_byte() -> None:
    half = PARCEL_BYTES_MAX // 2
    body = half - message(1, 0).size
    recovery = Recovery("a", "view", cast(Plan, None), cast(Ledger, None))
    for more, count in ((0, 2), (1, 1)):
        both = [message(1, body), message(2, body + more)]
        assert both[0].size == half
        recovery._red, recovery._missing = deque(both), {each.name: "a" for each in both}
        assert len(recovery._next_parcel()) == count


def test_a_reconfiguration_that_holds_up_the_order_is_named_with_its_place() -> None:
    cluster = with_learner()
    cluster.tell("a", ReconfigurationWanted(0, 1, add="x"))
    cluster.view("a", "b")
    cluster.run("a", "b")
    replica = cluster["a"].replica
    queue = replica.ledger.queue
    place = next(at for at, each in enumerate(queue.held, queue.forgotten + 1) if each.change is not None)
    assert f"A reconfiguration stands at place {place}," in why_no_primary(replica)


@pytest.mark.parametrize(("context", "caught_up"), [(1, False), (2, True), (3, True)])
def test_who_has_all_that_a_teacher_has_caught_up_unless_it_knows_more(context: int, caught_up: bool) -> None:
    ledger = Ledger.founded(("a",), Majority(("a",)))
    ledger.context = 2
    settings = cast(ReplicaSettings, SimpleNamespace(server="x", transfer_bytes_per_s=1))
    learner = Learner(settings, Journal(ledger, 100), cast(Session, SimpleNamespace(servers=())))
    said = Fetched(0, (), 0, context, 0, ledger.history, 0, None, True)
    assert learner._on_fetched(said)[1] is caught_up


@pytest.mark.parametrize(("fence", "forgotten"), [(1, 0), (0, 6)])
def test_a_state_is_lent_only_while_its_server_stands_where_it_stood(fence: int, forgotten: int) -> None:
    queue = SimpleNamespace(forgotten=0, walk=lambda first, last: ())
    ledger, session = SimpleNamespace(fence=0, snapshot=None, queue=queue), SimpleNamespace(present={"x"}, servers=())
    lending = Lending(cast(Ledger, ledger), cast(Session, session))
    lending.lend("x", cast(Snapshot, SimpleNamespace(head=SimpleNamespace(place=5), state=b"state")))
    assert lending.limit(9) == 5
    ledger.fence, queue.forgotten = fence, forgotten
    assert lending.limit(9) == 9
    assert lending.limit(8) == 8, "nobody fetches it any more"


@pytest.mark.parametrize("records", [(), (b"",) * 400, (bytes(300),) * 9, (bytes(70_000), b"x")])
def test_a_message_is_no_larger_than_it_says(records: tuple[bytes, ...]) -> None:
    large = Message(Origin("a" * CLIENT_NAME_MAX, 2**62), 2**62, 2**62, records)
    assert len(msgspec.msgpack.encode(large)) <= large.size


def test_a_green_line_that_is_known_is_not_told_again() -> None:
    cluster = joined("a", "b")
    cluster.append("a", b"1")
    cluster.settle()
    assert cluster["b"].green == [b"1"]
    told = [action for action in cluster["b"].replica.flow.settle() if isinstance(action, b4.Ask)]
    assert told == []
