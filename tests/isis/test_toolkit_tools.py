"""The tools of the toolkit: the same tests on a layer by hand, on ISIS kernels and in a view-synchronous group."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from isotone.core.contract import Event
from isotone.core.errors import LocalProtocolError
from isotone.isis.toolkit.callers import Answered
from isotone.isis.toolkit.data import Data
from isotone.isis.toolkit.layer import CastWanted, Heard, Order, TellWanted
from isotone.isis.toolkit.locks import LockHeld, Locks
from isotone.isis.toolkit.member import MemberIsReady, Phase
from isotone.isis.toolkit.objects import Change, apply_changes, differences
from isotone.isis.toolkit.process import CallWanted, CloseWanted, GroupKind, OpenWanted, ToolUsed
from isotone.isis.toolkit.programs import SYSTEM_GROUP, Programs, StartCopy, StopCopy, system_tools
from isotone.isis.toolkit.requests import Requests, coordinator_for
from isotone.isis.toolkit.wire import Complete, Request, decode_body
from tests.isis.nets import NETS, SITES, HandNet, Net, SimulatedNet, call

A, B, C = (f"{name}.1/tools" for name in SITES)


@pytest.fixture(params=NETS)
def made(request: pytest.FixtureRequest) -> Net:
    """Nobody is in a group."""
    return NETS[request.param]()


@pytest.fixture
def net(made: Net) -> Net:
    """All three are in one group."""
    for me in made.names:
        made.tell(me, OpenWanted(0, "counter"))
    return made


@pytest.fixture
def system(made: Net) -> Net:
    """All three are in the system's group."""
    for me in made.names:
        made.tell(me, OpenWanted(0, SYSTEM_GROUP))
    return made


def three() -> HandNet:
    net = HandNet(*SITES)
    for me in net.names:
        net.tell(me, OpenWanted(0, "counter"))
    return net


def result(answer: Answered) -> object:
    return msgspec.msgpack.decode(answer.result)


def test_an_operation_is_answered_and_changes_all_components(net: Net) -> None:
    a, b, c = net.names
    net.tell(b, CallWanted(0, 1, "counter", call("add", "x", 3)))
    net.tell(c, CallWanted(0, 1, "counter", call("read")))
    assert [result(each) for each in (*net.answers(b), *net.answers(c))] == [3, 3]
    assert [net.tool(me, "counter", "object").state() for me in (a, b, c)] == [{"by": {"x": 3}, "total": 3}] * 3


def test_an_operation_that_raises_changes_nothing(net: Net) -> None:
    a, b, _ = net.names
    net.tell(a, CallWanted(0, 1, "counter", call("add", "x", -3)), CallWanted(0, 2, "counter", call("_secret")))
    second, first = net.answers(a)  # the other one waits for the lock
    assert first.failed and result(first) == "ValueError: nothing less than 0"
    assert second.failed and "no operation '_secret'" in str(result(second))
    assert net.tool(b, "counter", "object").state() == {"by": {}, "total": 0}


def test_a_cohort_takes_over_what_its_coordinator_left() -> None:
    net = three()
    layer = net.layers[B]
    net.said[B] += net.toolkits[B].handle(CallWanted(0, 1, "counter", call("add", "x", 1)))
    request = layer.asked.pop()
    assert isinstance(request, CastWanted)
    for me in (A, B, C):  # everybody has the request, and the coordinator says nothing any more
        net.heard(me, Heard("counter", B, request.body))
    net.toolkits[C].callers.call("counter", call("read"), 9)  # somebody else asks behind it
    net.crash(B)
    assert [result(each) for each in net.answers(C)] in ([0], [1])
    assert net.tool(A, "counter", "object").state()["total"] == 1
    assert net.tool(C, "counter", "object").state()["total"] == 1


def test_a_request_that_is_repeated_is_answered_again_and_done_once() -> None:
    net = three()
    net.tell(A, CallWanted(0, 1, "counter", call("add", "x", 1)))
    (done,) = net.answers(A)
    assert not done.failed
    requests = net.tool(B, "counter", "requests")
    assert [kept[0] for kept in requests.state()[1]] == [f"{A}#1@counter"]
    callers = net.toolkits[A].callers
    callers.call("counter", call("add", "x", 1), 2, f"{A}#1@counter")  # the same id
    net.tell(A, CallWanted(0, 3, "counter", call("read")))
    assert [result(each) for each in net.answers(A)] == [1, 1, 1]


def test_results_that_are_settled_are_forgotten(net: Net) -> None:
    a, _, c = net.names
    net.tell(a, CallWanted(0, 1, "counter", call("add", "x", 1)))
    net.tell(a, CallWanted(0, 2, "counter", call("add", "x", 1)))
    kept = net.tool(c, "counter", "requests").state()[1]
    assert [each[0] for each in kept] == [f"{a}#2@counter"]


def test_an_operation_awaits_another_object(net: Net) -> None:
    _, b, c = net.names
    net.tell(c, OpenWanted(0, "other"))
    net.tell(b, CallWanted(0, 1, "counter", call("add_both", 5)))
    assert [result(each) for each in net.answers(b)] == [5]
    assert net.tool(c, "other", "object").state()["by"] == {"friend": 5}
    assert net.tool(c, "other", "requests").state()[1] == []  # settled


@pytest.mark.parametrize("size", [0, 20_000])
def test_who_joins_has_the_state(made: Net, size: int) -> None:
    net, (a, b, _) = made, made.names
    net.tell(a, OpenWanted(0, "counter"), CallWanted(0, 1, "counter", call("add", "x" * size, 4)))
    net.tell(b, OpenWanted(0, "counter"))
    assert [each.how for each in net.said[b] if isinstance(each, MemberIsReady)] == ["transferred"]
    assert net.tool(b, "counter", "object").state()["total"] == 4
    assert net.member(a, "counter").full == net.member(b, "counter").full == {a, b}


def test_a_cohort_resumes_a_transfer_whose_coordinator_fails() -> None:
    net = three()
    net.start("d")
    new = "d.1/tools"
    net.tell(A, CallWanted(0, 1, "counter", call("add", "x" * 400_000, 4)))
    net.said[new] += net.toolkits[new].handle(OpenWanted(0, "counter"))
    sent: list[int] = []
    passed: list[tuple[str, Event]] = []
    while len(sent) < 12:  # by hand, until twelve parts are there
        me = next(me for me in net.layers if net.layers[me].asked)
        event = net.layers[me].asked.pop(0)
        passed.append((me, event))
        net._move(me, event)
        sent = [0] * len(net.member(new, "counter")._receiver.parts)  # type: ignore[union-attr]
    assert net.member(new, "counter").phase is Phase.LOADING
    net.crash(A)
    assert net.member(new, "counter").is_ready
    resent = net.tool(new, "counter", "object").state()
    assert resent["total"] == 4 and net.member(B, "counter").full == {B, C, new}


SIMULATED = [each for each in NETS if each != "hand"]


def simulated(stack: str) -> SimulatedNet:
    """All three are in one group."""
    net = SimulatedNet(stack)
    for me in net.names:
        net.tell(me, OpenWanted(0, "counter"))
    return net


@pytest.mark.parametrize("stack", SIMULATED)
def test_an_action_outlives_its_coordinator(stack: str) -> None:
    """It is crashed when the others have the request, and again when its caller has not heard that it was done."""
    net = simulated(stack)
    a, b, c = net.names
    requests = net.tool(a, "counter", "requests")
    assert isinstance(requests, Requests)
    net.begin(b, CallWanted(0, 1, "counter", call("add", "x", 1)))  # the caller is its own coordinator
    net.until(lambda: bool(requests.pending))
    net.crash(b)
    assert [net.tool(me, "counter", "object").state()["total"] for me in (a, c)] == [1, 1]
    outside = "d"  # its nearest member is c
    net.world.tell(outside, net.LABEL, CallWanted(0, 1, "counter", call("add", "y", 1)))
    net.until(lambda: any(kept.coordinator == c for kept in requests.results.values()))
    net.crash(c)
    heard = [each for each in net.application(outside).said if isinstance(each, Answered)]
    assert [result(each) for each in heard] == [2]
    assert net.tool(a, "counter", "object").state() == {"by": {"x": 1, "y": 1}, "total": 2}


@pytest.mark.parametrize("stack", SIMULATED)
def test_a_transfer_outlives_its_coordinator(stack: str) -> None:
    net = SimulatedNet(stack)
    a, b, c = net.names
    for me in (a, b):
        net.tell(me, OpenWanted(0, "counter"))
    for place in range(15):
        net.begin(a, CallWanted(0, place, "counter", call("add", f"{place}" * 16_000, 1)))
    net.run()
    net.begin(c, OpenWanted(0, "counter"))

    def has_some() -> bool:
        member = net.toolkits[c].members.get("counter")
        return member is not None and member._receiver is not None and bool(member._receiver.parts)

    net.until(has_some)
    assert not net.member(c, "counter").is_ready
    net.crash(a)
    assert [each.how for each in net.said[c] if isinstance(each, MemberIsReady)] == ["transferred"]
    assert net.tool(c, "counter", "object").state()["total"] == 15
    assert net.member(b, "counter").full == {b, c}


@pytest.mark.parametrize("stack", SIMULATED)
def test_who_leaves_asks_nothing_more_for_its_operation(stack: str) -> None:
    """The other object does not answer yet, and then a cohort asks for the same; or it has answered, and all that is
    left to do is to let it forget that."""
    net = SimulatedNet(stack)
    a, b, c = net.names
    net.tell(c, OpenWanted(0, "other"))
    other = net.tool(c, "other", "requests")
    assert isinstance(other, Requests)
    for total in (5, 10):
        for me in (b, a):
            net.tell(me, OpenWanted(0, "counter"))
        busy = ("other", "locks", ("object", "somebody"))
        if total == 5:
            net.tell(c, ToolUsed(0, *busy[:2], "ask", (*busy[2], True)))
        net.begin(b, CallWanted(0, total, "counter", call("add_both", 5)))
        net.until(lambda: bool(other.pending or other.results))
        if total == 10:
            net.until(lambda: len(net.toolkits[b].callers.open) <= 1)
        net.tell(b, CloseWanted(0, "counter"))
        if total == 5:
            net.tell(c, ToolUsed(0, *busy[:2], "free", busy[2]))
        net.run(100)
        assert [result(each) for each in net.answers(b)][-1] == total and not net.toolkits[b].callers.open
        assert net.tool(c, "other", "object").state()["by"] == {"friend": total} and other.state()[:2] == [[], []]
        assert net.tool(a, "counter", "object").state()["total"] == total


def test_members_that_all_kept_the_state_go_on_with_what_is_under_way() -> None:
    """Both have it, and nobody has heard so when the only other member fails; one awaits another object."""
    net = HandNet(*SITES, "d")
    net.tell("d.1/tools", OpenWanted(0, "other"))
    held_back: list[tuple[str, CastWanted]] = []

    def pump() -> None:
        while me := next((me for me in net.layers if net.layers[me].asked), ""):
            event = net.layers[me].asked.pop(0)
            body = decode_body(event.body) if isinstance(event, CastWanted) else None
            if isinstance(event, CastWanted) and isinstance(body, Request) and event.group == "other":
                held_back.append((me, event))
            elif not isinstance(body, Complete):
                net._move(me, event)

    for me in (A, B, C):
        net.said[me] += net.toolkits[me].handle(OpenWanted(0, "counter"))
        pump()
    net.said[C] += net.toolkits[C].handle(CallWanted(0, 1, "counter", call("add_both", 5)))
    pump()
    net.crash(A)
    assert [net.said[me][-1] for me in (B, C)] == [MemberIsReady("counter", "kept")] * 2
    for me, event in held_back:
        net._move(me, event)
    net.run()
    net.tell(B, CallWanted(0, 1, "counter", call("read")))
    assert [result(each) for each in (*net.answers(C), *net.answers(B))] == [5, 5]


def test_members_without_the_state_form_the_group_with_the_best_checkpoint() -> None:
    net = HandNet(*SITES, quorum=2)
    net.tell(A, OpenWanted(0, "counter"))
    assert net.member(A, "counter").phase is Phase.FORMING  # one is too few
    net.tell(B, OpenWanted(0, "counter"))
    net.tell(A, CallWanted(0, 1, "counter", call("add", "x", 4)))
    ask(net, A, "x", "one", writes=False)
    ask(net, A, "y", "one", writes=True)
    net.tell(A, ToolUsed(0, "counter", "", "checkpoint"))
    saved = net.toolkits[B]._checkpoints
    again = HandNet(quorum=2)
    for name in "ac":
        again.start(name)
    again.toolkits[A]._checkpoints.update(saved)
    again.numbers = 100
    again.tell(C, OpenWanted(0, "counter"))
    again.tell(A, OpenWanted(0, "counter"))
    assert not any(queue or readers for _, queue, readers, _ in again.tool(C, "counter", "locks").state())
    assert [again.tool(me, "counter", "object").state()["total"] for me in (A, C)] == [4, 4]
    assert again.member(A, "counter").era == again.member(C, "counter").era != net.member(A, "counter").era


def test_a_property_changes_everywhere(net: Net) -> None:
    a, b, c = net.names
    net.tell(a, ToolUsed(0, "counter", "", "set_property", ("colour", b"red")))
    assert [net.member(me, "counter").properties for me in (a, b, c)] == [{"colour": b"red"}] * 3


# --- locks -----------------------------------------------------------------------------------------------------------


def held(net: Net, me: str) -> list[tuple[str, str]]:
    return [(each.item, each.owner) for each in net.said[me] if isinstance(each, LockHeld)]


def ask(net: Net, me: str, item: str, owner: str, *, writes: bool) -> None:
    net.tell(me, ToolUsed(0, "counter", "locks", "ask", (item, owner, writes)))


def free(net: Net, me: str, item: str, owner: str) -> None:
    net.tell(me, ToolUsed(0, "counter", "locks", "free", (item, owner)))


def test_readers_share_and_writers_wait(net: Net) -> None:
    a, b, c = net.names
    ask(net, a, "x", "one", writes=False)
    ask(net, b, "x", "two", writes=False)
    ask(net, c, "x", "three", writes=True)
    assert held(net, a) == [("x", "one")] and held(net, b) == [("x", "two")] and held(net, c) == []
    ask(net, a, "x", "four", writes=False)  # behind the writer
    free(net, a, "x", "one")
    assert held(net, c) == []
    free(net, b, "x", "two")
    assert held(net, c) == [("x", "three")] and held(net, a) == [("x", "one")]
    free(net, c, "x", "three")
    assert held(net, a) == [("x", "one"), ("x", "four")]


def test_locks_of_a_process_that_fails_are_free(net: Net) -> None:
    a, b, c = net.names
    ask(net, a, "x", "one", writes=False)
    ask(net, b, "y", "two", writes=True)
    ask(net, c, "x", "three", writes=True)
    ask(net, c, "y", "three", writes=True)
    assert held(net, c) == []
    net.crash(a)
    net.crash(b)
    assert held(net, c) == [("x", "three"), ("y", "three")]


@pytest.mark.parametrize("stack", NETS)
def test_a_writer_that_gives_up_is_in_nobodys_way(stack: str) -> None:
    """Its request is not ordered yet, or it waits, or what it was granted is late when it asks again."""
    net = NETS[stack]()
    for me in net.names:
        net.tell(me, OpenWanted(0, "counter"))
    a, b, c = net.names
    asks = ToolUsed(0, "counter", "locks", "ask", ("x", "one", True))
    for event in (asks, ToolUsed(0, "counter", "locks", "free", ("x", "one"))):
        if isinstance(net, SimulatedNet):
            net.begin(b, event)
        else:
            net.said[b] += net.toolkits[b].handle(event)
    ask(net, a, "x", "two", writes=True)
    ask(net, c, "x", "three", writes=True)
    free(net, c, "x", "three")
    ask(net, b, "x", "four", writes=True)
    assert held(net, a) == [("x", "two")] and not held(net, b)
    free(net, a, "x", "two")
    assert held(net, b) == [("x", "four")]
    ask(net, c, "x", "five", writes=True)
    free(net, c, "x", "five")
    locks = net.tool(c, "counter", "locks")
    assert isinstance(locks, Locks) and locks.place_of("x") == 3 and not held(net, c)


def test_a_grant_of_an_earlier_turn_does_not_count() -> None:
    net = three()
    ask(net, A, "x", "reader", writes=False)
    net.said[B] += net.toolkits[B].handle(ToolUsed(0, "counter", "locks", "ask", ("x", "one", True)))
    late: list[TellWanted] = []
    for _ in range(20):
        for me in net.layers:
            for event in [net.layers[me].asked.pop(0)] if net.layers[me].asked else []:
                if isinstance(event, TellWanted) and me == C:
                    late.append(event)
                else:
                    net._move(me, event)
    free(net, B, "x", "one")
    assert len(late) == 1
    net._move(C, late[0])
    free(net, A, "x", "reader")
    net.said[C] += net.toolkits[C].handle(ToolUsed(0, "counter", "locks", "ask", ("x", "other", False)))
    registers = net.layers[C].asked.pop()
    assert isinstance(registers, CastWanted)
    net.heard(C, Heard("counter", C, registers.body))  # and nobody else has it yet
    ask(net, B, "x", "one", writes=True)
    assert held(net, C) == [("x", "other")] and not held(net, B)
    net.heard(A, Heard("counter", C, registers.body))
    net.heard(B, Heard("counter", C, registers.body))
    free(net, C, "x", "other")
    assert held(net, B) == [("x", "one")]


def test_labels_are_locked_in_their_order(net: Net) -> None:
    a, b, _ = net.names
    ask(net, a, "y", "one", writes=True)
    with pytest.raises(LocalProtocolError, match="order of their names"):
        ask(net, a, "x", "one", writes=True)
    ask(net, b, "y", "two", writes=False)
    ask(net, b, "z", "two", writes=False)
    with pytest.raises(LocalProtocolError, match="gives that lock back"):
        ask(net, b, "z", "two", writes=True)
    locks = net.tool(a, "counter", "locks")
    assert isinstance(locks, Locks) and locks.place_of("y") == 0


# --- data ------------------------------------------------------------------------------------------------------------


def kinds_with_data(group: str) -> GroupKind:
    return GroupKind(lambda member: (Data(member),))


@pytest.mark.parametrize("stack", NETS)
def test_an_update_is_seen_at_once_where_it_is_made(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Net, "kinds", lambda self, group: kinds_with_data(group))
    net = NETS[stack]()
    a, b, c = net.names
    for me in (a, b):
        net.tell(me, OpenWanted(0, "items"))
    data = net.tool(a, "items", "data")
    assert isinstance(data, Data)
    data.put("x", b"1")
    data.put("x", b"2")
    assert data.get("x") == b"2" and data.get("y") is None
    net.tell(a, ToolUsed(0, "items", "data", "put", ("y", b"3")))
    net.tell(c, OpenWanted(0, "items"))
    for me in (a, b, c):
        found = net.tool(me, "items", "data")
        assert isinstance(found, Data) and (found.get("x"), found.get("y")) == (b"2", b"3")
        assert found.state() == [("x", b"2"), ("y", b"3")] and not any(found._own.values())


# --- programs --------------------------------------------------------------------------------------------------------


def running(net: Net) -> dict[str, list[str]]:
    """Programs by process, as it was told."""
    found: dict[str, list[str]] = {}
    for me in net.toolkits:
        here = found.setdefault(me, [])
        for each in net.said[me]:
            if isinstance(each, StartCopy):
                here.append(each.program)
            elif isinstance(each, StopCopy):
                here.remove(each.program)
    return found


def want(net: Net, program: str, copies: int) -> None:
    net.tell(net.names[0], ToolUsed(0, SYSTEM_GROUP, "programs", "want", (program, copies)))


def test_copies_are_spread_and_begin_elsewhere_when_one_fails(system: Net) -> None:
    net, (a, b, c) = system, system.names
    want(net, "p", 2)
    want(net, "q", 1)
    assert running(net) == {a: ["p"], b: ["p"], c: ["q"]}
    net.crash(b)
    assert running(net) == {a: ["p"], c: ["q", "p"]}
    net.tell(c, ToolUsed(0, SYSTEM_GROUP, "programs", "tell_ended", ("q",)))
    assert running(net) == {a: ["p", "q"], c: ["q", "p"]}  # the one at c had ended by itself
    want(net, "p", 0)
    assert running(net)[a] == ["q"]


def test_an_object_moves_with_its_state(system: Net) -> None:
    net, (a, b, c) = system, system.names
    want(net, "counter", 1)
    net.tell(c, CallWanted(0, 1, "counter", call("add", "x", 2)))
    net.tell(a, ToolUsed(0, SYSTEM_GROUP, "programs", "move", ("counter", a, c)))
    assert net.member(c, "counter").applied.members == (c,) and "counter" not in net.toolkits[a].members
    assert net.tool(c, "counter", "object").state()["total"] == 2
    programs = net.tool(b, SYSTEM_GROUP, "programs")
    assert isinstance(programs, Programs) and programs.placed == {"counter": [c]} and not programs.moves


@pytest.mark.parametrize("stack", NETS)
def test_a_program_without_a_state_moves(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Net, "kinds", lambda self, group: GroupKind(system_tools) if group == SYSTEM_GROUP else None)
    net = NETS[stack]()
    a, b, c = net.names
    for me in net.names:
        net.tell(me, OpenWanted(0, SYSTEM_GROUP))
    want(net, "p", 1)
    net.tell(b, ToolUsed(0, SYSTEM_GROUP, "programs", "move", ("p", a, c)))
    assert running(net) == {a: [], b: [], c: ["p"]}
    programs = net.tool(b, SYSTEM_GROUP, "programs")
    assert isinstance(programs, Programs) and not programs.moves


def test_a_move_ends_when_the_group_of_the_system_is_ready_again() -> None:
    """The copy is ready at its target while that forms the system's group anew."""
    net = HandNet(*SITES)
    for me in net.names:
        net.tell(me, OpenWanted(0, SYSTEM_GROUP))
    want(net, "counter", 1)
    toolkit = net.toolkits[C]
    net.said[A] += net.toolkits[A].handle(ToolUsed(0, SYSTEM_GROUP, "programs", "move", ("counter", A, C)))
    while "counter" not in toolkit.members:
        me = next(me for me in net.layers if net.layers[me].asked)
        net._move(me, net.layers[me].asked.pop(0))
    member = toolkit.members[SYSTEM_GROUP]
    member.phase = Phase.FORMING
    net.run()
    programs = net.tool(A, SYSTEM_GROUP, "programs")
    assert isinstance(programs, Programs) and programs.moves and toolkit.members["counter"].is_ready
    member.phase = Phase.READY
    toolkit.out.say(MemberIsReady(SYSTEM_GROUP, "kept"))
    net.said[C] += toolkit._settle([])
    net.run()
    assert programs.placed == {"counter": [C]} and not programs.moves


def test_a_name_stands_for_the_first_group_that_took_it(system: Net) -> None:
    net, (a, b, c) = system, system.names
    net.tell(b, ToolUsed(0, SYSTEM_GROUP, "switchboard", "bind", ("shop", "counter")))
    net.tell(a, ToolUsed(0, SYSTEM_GROUP, "switchboard", "bind", ("shop", "another")))
    assert [net.toolkits[me].group_of("shop") for me in (a, b, c)] == ["counter"] * 3
    net.tell(a, ToolUsed(0, SYSTEM_GROUP, "switchboard", "bind", ("shop", "")))
    assert net.toolkits[c].group_of("shop") == "shop"


def test_a_group_that_is_left_can_be_entered_again(net: Net) -> None:
    _, b, _ = net.names
    net.tell(b, CloseWanted(0, "counter"))
    assert "counter" not in net.toolkits[b].members
    net.tell(b, OpenWanted(0, "counter"))
    assert net.member(b, "counter").is_ready


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2, "b": 3}, [Change("a", 2), Change("b", 3)]),
        ({"a": 1}, {}, [Change("a", deleted=True)]),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, [Change("a", put=[("y", 3)], gone=["x"])]),
    ],
)
def test_changes(before: dict[str, object], after: dict[str, object], changes: list[Change]) -> None:
    assert differences(before, after) == changes
    apply_changes(before, changes)
    assert before == after


@pytest.mark.parametrize(
    ("caller", "members", "chosen"), [("a", "abc", "a"), ("c", "ab", "b"), ("b", "ca", "c"), ("x", "cb", "b")]
)
def test_the_coordinator_is_the_nearest_member_and_of_two_the_older(caller: str, members: str, chosen: str) -> None:
    named: Callable[[str], str] = lambda name: f"{name}.1/tools"  # noqa: E731
    assert coordinator_for(named(caller), tuple(map(named, members)), SITES) == named(chosen)


def test_orders_are_named() -> None:
    assert {each.value for each in Order} == {"unordered", "causal", "total", "event"}
