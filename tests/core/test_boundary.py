"""Boundary B4 and the contract: immutable values, comparable, and told apart by `match`."""

from __future__ import annotations

import typing

import msgspec
import pytest

from isotone.core import boundary, contract
from isotone.core.bundles import bundle_of
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.services import Service
from isotone.core.views import Cause, GroupView

ALICE = ClientId(DaemonId("d1", 3), "alice", 17)
BUNDLE = bundle_of(ALICE, 1, Service.AGREED, ["g"], [b"hello"])
VIEW = GroupViewId(DaemonViewId(1, ALICE.daemon))

REQUESTS: list[boundary.Request] = [
    boundary.Connect(),
    boundary.Disconnect(),
    boundary.Join("g"),
    boundary.Leave("g"),
    boundary.Send(BUNDLE),
]
INDICATIONS: list[boundary.Indication] = [
    boundary.Connected(),
    boundary.Refused("join", "why"),
    boundary.Disconnected("why"),
    boundary.Message(BUNDLE, Stamp(1, ALICE.daemon)),
    boundary.View(GroupView("g", VIEW, (ALICE,), (ALICE,), Cause.JOIN, ALICE)),
    boundary.Transitional("g", VIEW),
    boundary.SelfLeave("g"),
]


def structs(module: object) -> list[type[msgspec.Struct]]:
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, msgspec.Struct)]
    return [value for value in found if value.__module__ == module.__name__]  # type: ignore[attr-defined]


def test_every_request_and_every_indication_is_tried_here() -> None:
    assert {type(each) for each in REQUESTS} == set(typing.get_args(boundary.Request))
    assert {type(each) for each in INDICATIONS} == set(typing.get_args(boundary.Indication))


@pytest.mark.parametrize("module", [boundary, contract], ids=lambda module: module.__name__)
def test_every_type_is_frozen(module: object) -> None:
    assert len(structs(module)) > 10
    for each in structs(module):
        assert each.__struct_config__.frozen, each


def test_actions_and_events_are_told_apart() -> None:
    for each in structs(contract) + structs(boundary):
        assert not (issubclass(each, contract.Event) and issubclass(each, contract.Action)), each
    assert issubclass(boundary.Ask, contract.Action) and issubclass(boundary.Indicate, contract.Action)
    assert issubclass(boundary.Requested, contract.Event) and issubclass(boundary.Indicated, contract.Event)


def test_every_event_begins_with_its_time() -> None:
    for each in structs(contract) + structs(boundary):
        if issubclass(each, contract.Event):
            assert each.__struct_fields__[0] == "at", each


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_goes_down_as_it_was_asked(request_: boundary.Request) -> None:
    ask = boundary.Ask(ALICE, request_)
    assert boundary.Requested(5, ask.client, ask.request) == boundary.Requested(5, ALICE, request_)
    assert hash(ask) == hash(boundary.Ask(ALICE, request_))


@pytest.mark.parametrize("indication", INDICATIONS, ids=lambda each: type(each).__name__)
def test_an_indication_comes_up_as_it_was_told(indication: boundary.Indication) -> None:
    indicate = boundary.Indicate((ALICE,), indication)
    indicated = boundary.Indicated(5, indicate.receivers, indicate.indication)
    assert (indicated.at, indicated.receivers, indicated.indication) == (5, (ALICE,), indication)
    with pytest.raises(AttributeError):
        indicated.at = 6  # type: ignore[misc]


def test_an_automaton_is_anything_with_handle() -> None:
    class Echo:
        def handle(self, event: contract.Event) -> list[contract.Action]:
            match event:
                case contract.TimerFired(key=key):
                    return [contract.SetTimer(key, 5)]
                case boundary.Indicated(receivers=receivers, indication=boundary.SelfLeave(group=group)):
                    return [boundary.Ask(receiver, boundary.Join(group)) for receiver in receivers]
            return []

    automaton: contract.Automaton = Echo()
    assert automaton.handle(contract.TimerFired(1, ("retry", 3))) == [contract.SetTimer(("retry", 3), 5)]
    assert automaton.handle(boundary.Indicated(2, (ALICE,), boundary.SelfLeave("g"))) == [
        boundary.Ask(ALICE, boundary.Join("g"))
    ]
    assert automaton.handle(contract.Stopping(3)) == []
