"""The tools of the toolkit on a layer by hand: one total order, delivered at once to every process that is a member."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from isotone.core.contract import Action, Event
from isotone.core.errors import LocalProtocolError
from isotone.isis.toolkit.callers import Answered
from isotone.isis.toolkit.layer import (
    CastWanted,
    EnterWanted,
    Exited,
    ExitWanted,
    Heard,
    Operational,
    Order,
    Secured,
    SecureWanted,
    TellWanted,
    Told,
    Viewed,
)
from isotone.isis.toolkit.locks import LockHeld, Locks
from isotone.isis.toolkit.member import Member, MemberIsReady, Phase, Tool
from isotone.isis.toolkit.objects import (
    Change,
    OperationCall,
    apply_changes,
    component_tools,
    differences,
    nested,
    reads,
)
from isotone.isis.toolkit.process import CallWanted, CloseWanted, GroupKind, OpenWanted, Toolkit, ToolUsed
from isotone.isis.toolkit.programs import SYSTEM_GROUP, Programs, StartCopy, StopCopy, system_tools
from isotone.isis.toolkit.requests import coordinator_for
from isotone.isis.toolkit.wire import encode

SITES = ("a", "b", "c")


class Counter:
    """A counter with a friend."""

    total: int

    def __init__(self) -> None:
        self.total = 0
        self.by: dict[str, int] = {}

    def add(self, name: str, more: int) -> int:
        self.total += more
        self.by[name] = self.by.get(name, 0) + more
        if more < 0:
            raise ValueError("nothing less than 0")
        return self.total

    @reads
    def read(self) -> int:
        return self.total

    async def add_both(self, more: int) -> int:
        self.total += more
        there: int = await nested("other").add("friend", more)
        return there


@dataclass
class ByHand:
    """The layer of one process; the network moves what it is asked."""

    asked: list[Event] = field(default_factory=list)
    periodic_timers: tuple[str, ...] = ()

    def handle(self, event: Event) -> list[Action]:
        self.asked.append(event)
        return []


class Net:
    """Processes on layers by hand."""

    def __init__(self, *names: str, quorum: int = 1) -> None:
        self.groups: dict[str, tuple[str, ...]] = {}
        self.numbers = 0
        self.said: dict[str, list[Action]] = {}
        self.toolkits: dict[str, Toolkit] = {}
        self.layers: dict[str, ByHand] = {}
        self.quorum = quorum
        for name in names:
            self.start(name)

    def kinds(self, group: str) -> GroupKind | None:
        if group == SYSTEM_GROUP:
            return GroupKind(system_tools)
        return GroupKind(component_tools(Counter, SITES), self.quorum)

    def start(self, name: str) -> Toolkit:
        layer = ByHand()
        toolkit = Toolkit(layer, self.kinds)
        me = f"{name}.1/tools"
        self.layers[me], self.toolkits[me], self.said[me] = layer, toolkit, []
        toolkit.out.me = me
        return toolkit

    def tell(self, me: str, *events: Event) -> None:
        for event in events:
            self.said[me] += self.toolkits[me].handle(event)
        self.run()

    def heard(self, me: str, *actions: Action) -> None:
        toolkit = self.toolkits[me]
        for action in actions:
            assert isinstance(action, Heard | Viewed | Told | Exited | Operational | Secured)
            toolkit._hear(action)
            self.said[me] += toolkit._settle([])

    def run(self) -> None:
        """Until nothing is asked."""
        moved = True
        while moved:
            moved = False
            for me in list(self.layers):
                asked, self.layers[me].asked = self.layers[me].asked, []
                for event in asked:
                    moved = True
                    self._move(me, event)

    def _move(self, me: str, event: Event) -> None:
        match event:
            case EnterWanted(group=group):
                self.view(group, (*self.groups.get(group, ()), me))
            case ExitWanted(group=group):
                self.view(group, tuple(each for each in self.groups[group] if each != me))
                self.heard(me, Exited(group))
            case CastWanted(group=group, body=body):
                for member in self.groups.get(group, ()):
                    self.heard(member, Heard(group, me, body))
            case SecureWanted(token=token):
                self.heard(me, Secured(token))
            case TellWanted(to=to, body=body):
                if to in self.toolkits:
                    self.heard(to, Told(me, body))

    def view(self, group: str, members: tuple[str, ...]) -> None:
        self.numbers += 1
        self.groups[group] = members
        for member in members:
            self.heard(member, Viewed(group, self.numbers, members))

    def crash(self, me: str) -> None:
        """Nothing of it is heard any more; its groups have views without it."""
        del self.toolkits[me], self.layers[me]
        for group, members in list(self.groups.items()):
            if me in members:
                self.view(group, tuple(each for each in members if each != me))
        self.run()

    def answers(self, me: str) -> list[Answered]:
        return [each for each in self.said[me] if isinstance(each, Answered)]

    def member(self, me: str, group: str) -> Member:
        return self.toolkits[me].members[group]

    def tool(self, me: str, group: str, name: str) -> Tool:
        return self.toolkits[me].tool(group, name)


A, B, C = (f"{name}.1/tools" for name in SITES)


def call(method: str, *args: object, **kwargs: object) -> bytes:
    return encode(OperationCall(method, list(args), kwargs))


def three(group: str = "counter") -> Net:
    net = Net(*SITES)
    for me in (A, B, C):
        net.tell(me, OpenWanted(0, group))
    return net


def result(answer: Answered) -> object:
    return msgspec.msgpack.decode(answer.result)


def test_an_operation_is_answered_and_changes_all_components() -> None:
    net = three()
    net.tell(B, CallWanted(0, 1, "counter", call("add", "x", 3)))
    net.tell(C, CallWanted(0, 1, "counter", call("read")))
    assert [result(each) for each in (*net.answers(B), *net.answers(C))] == [3, 3]
    assert [net.tool(me, "counter", "object").state() for me in (A, B, C)] == [{"by": {"x": 3}, "total": 3}] * 3


def test_an_operation_that_raises_changes_nothing() -> None:
    net = three()
    net.tell(A, CallWanted(0, 1, "counter", call("add", "x", -3)), CallWanted(0, 2, "counter", call("_secret")))
    second, first = net.answers(A)  # the other one waits for the lock
    assert first.failed and result(first) == "ValueError: nothing less than 0"
    assert second.failed and "no operation '_secret'" in str(result(second))
    assert net.tool(B, "counter", "object").state() == {"by": {}, "total": 0}


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


def test_results_that_are_settled_are_forgotten() -> None:
    net = three()
    net.tell(A, CallWanted(0, 1, "counter", call("add", "x", 1)))
    net.tell(A, CallWanted(0, 2, "counter", call("add", "x", 1)))
    kept = net.tool(C, "counter", "requests").state()[1]
    assert [each[0] for each in kept] == [f"{A}#2@counter"]


def test_an_operation_awaits_another_object() -> None:
    net = three()
    net.tell(C, OpenWanted(0, "other"))
    net.tell(B, CallWanted(0, 1, "counter", call("add_both", 5)))
    assert [result(each) for each in net.answers(B)] == [5]
    assert net.tool(C, "other", "object").state()["by"] == {"friend": 5}
    assert net.tool(C, "other", "requests").state()[1] == []  # settled


@pytest.mark.parametrize("size", [0, 400_000])
def test_who_joins_has_the_state(size: int) -> None:
    net = Net(*SITES)
    net.tell(A, OpenWanted(0, "counter"), CallWanted(0, 1, "counter", call("add", "x" * size, 4)))
    net.tell(B, OpenWanted(0, "counter"))
    assert [each.how for each in net.said[B] if isinstance(each, MemberIsReady)] == ["transferred"]
    assert net.tool(B, "counter", "object").state()["total"] == 4
    assert net.member(A, "counter").full == net.member(B, "counter").full == {A, B}


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


def test_members_without_the_state_form_the_group_with_the_best_checkpoint() -> None:
    net = Net(*SITES, quorum=2)
    net.tell(A, OpenWanted(0, "counter"))
    assert net.member(A, "counter").phase is Phase.FORMING  # one is too few
    net.tell(B, OpenWanted(0, "counter"))
    net.tell(A, CallWanted(0, 1, "counter", call("add", "x", 4)))
    net.tell(A, ToolUsed(0, "counter", "", "checkpoint"))
    saved = net.toolkits[B]._checkpoints
    again = Net(quorum=2)
    for name in "ac":
        again.start(name)
    again.toolkits[A]._checkpoints.update(saved)
    again.numbers = 100
    again.tell(C, OpenWanted(0, "counter"))
    again.tell(A, OpenWanted(0, "counter"))
    assert [again.tool(me, "counter", "object").state()["total"] for me in (A, C)] == [4, 4]
    assert again.member(A, "counter").era == again.member(C, "counter").era != net.member(A, "counter").era


def test_a_property_changes_everywhere() -> None:
    net = three()
    net.tell(A, ToolUsed(0, "counter", "", "set_property", ("colour", b"red")))
    assert [net.member(me, "counter").properties for me in (A, B, C)] == [{"colour": b"red"}] * 3


# --- locks -----------------------------------------------------------------------------------------------------------


def held(net: Net, me: str) -> list[tuple[str, str]]:
    return [(each.item, each.owner) for each in net.said[me] if isinstance(each, LockHeld)]


def ask(net: Net, me: str, item: str, owner: str, *, writes: bool) -> None:
    net.tell(me, ToolUsed(0, "counter", "locks", "ask", (item, owner, writes)))


def free(net: Net, me: str, item: str, owner: str) -> None:
    net.tell(me, ToolUsed(0, "counter", "locks", "free", (item, owner)))


def test_readers_share_and_writers_wait() -> None:
    net = three()
    ask(net, A, "x", "one", writes=False)
    ask(net, B, "x", "two", writes=False)
    ask(net, C, "x", "three", writes=True)
    assert held(net, A) == [("x", "one")] and held(net, B) == [("x", "two")] and held(net, C) == []
    ask(net, A, "x", "four", writes=False)  # behind the writer
    free(net, A, "x", "one")
    assert held(net, C) == []
    free(net, B, "x", "two")
    assert held(net, C) == [("x", "three")] and held(net, A) == [("x", "one")]
    free(net, C, "x", "three")
    assert held(net, A) == [("x", "one"), ("x", "four")]


def test_locks_of_a_process_that_fails_are_free() -> None:
    net = three()
    ask(net, A, "x", "one", writes=False)
    ask(net, B, "y", "two", writes=True)
    ask(net, C, "x", "three", writes=True)
    ask(net, C, "y", "three", writes=True)
    assert held(net, C) == []
    net.crash(A)
    net.crash(B)
    assert held(net, C) == [("x", "three"), ("y", "three")]


def test_labels_are_locked_in_their_order() -> None:
    net = three()
    ask(net, A, "y", "one", writes=True)
    with pytest.raises(LocalProtocolError, match="order of their names"):
        ask(net, A, "x", "one", writes=True)
    ask(net, B, "y", "two", writes=False)
    ask(net, B, "z", "two", writes=False)
    with pytest.raises(LocalProtocolError, match="gives that lock back"):
        ask(net, B, "z", "two", writes=True)
    locks = net.tool(A, "counter", "locks")
    assert isinstance(locks, Locks) and locks.place_of("y") == 0


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


def system() -> Net:
    net = Net(*SITES)
    for me in (A, B, C):
        net.tell(me, OpenWanted(0, SYSTEM_GROUP))
    return net


def want(net: Net, program: str, copies: int) -> None:
    net.tell(A, ToolUsed(0, SYSTEM_GROUP, "programs", "want", (program, copies)))


def test_copies_are_spread_and_begin_elsewhere_when_one_fails() -> None:
    net = system()
    want(net, "p", 2)
    want(net, "q", 1)
    assert running(net) == {A: ["p"], B: ["p"], C: ["q"]}
    net.crash(B)
    assert running(net) == {A: ["p"], C: ["q", "p"]}
    net.tell(C, ToolUsed(0, SYSTEM_GROUP, "programs", "tell_ended", ("q",)))
    assert running(net) == {A: ["p", "q"], C: ["q", "p"]}  # the one at C had ended by itself
    want(net, "p", 0)
    assert running(net)[A] == ["q"]


def test_an_object_moves_with_its_state() -> None:
    net = system()
    want(net, "counter", 1)
    net.tell(C, CallWanted(0, 1, "counter", call("add", "x", 2)))
    net.tell(A, ToolUsed(0, SYSTEM_GROUP, "programs", "move", ("counter", A, C)))
    assert net.groups["counter"] == (C,) and "counter" not in net.toolkits[A].members
    assert net.tool(C, "counter", "object").state()["total"] == 2
    programs = net.tool(B, SYSTEM_GROUP, "programs")
    assert isinstance(programs, Programs) and programs.placed == {"counter": [C]} and not programs.moves


def test_a_name_stands_for_the_first_group_that_took_it() -> None:
    net = system()
    net.tell(B, ToolUsed(0, SYSTEM_GROUP, "switchboard", "bind", ("shop", "counter")))
    net.tell(A, ToolUsed(0, SYSTEM_GROUP, "switchboard", "bind", ("shop", "another")))
    assert [net.toolkits[me].group_of("shop") for me in (A, B, C)] == ["counter"] * 3
    net.tell(A, ToolUsed(0, SYSTEM_GROUP, "switchboard", "bind", ("shop", "")))
    assert net.toolkits[C].group_of("shop") == "shop"


def test_a_group_that_is_left_can_be_entered_again() -> None:
    net = three()
    net.tell(B, CloseWanted(0, "counter"))
    assert "counter" not in net.toolkits[B].members
    net.tell(B, OpenWanted(0, "counter"))
    assert net.member(B, "counter").is_ready


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
