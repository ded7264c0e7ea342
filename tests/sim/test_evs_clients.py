"""The clients of a node as an automaton: steps and indications in, requests out."""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.contract import Action, Event
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId
from isotone.core.services import Service
from isotone.core.views import Cause, GroupView
from isotone.sim.evs_clients import ClientKilled, Clients, StepDue
from isotone.sim.workload import ConnectStep, DisconnectStep, JoinStep, LeaveStep, SendStep

DAEMON = DaemonId("d1", 2)
ALICE = ClientId(DAEMON, "alice", 1)


def played(clients: Clients, *events: Event) -> list[Action]:
    return [action for event in events for action in clients.handle(event)]


def due(kind: type, **fields: object) -> StepDue:
    return StepDue(0, kind(at=0, node="d1", client="alice", **fields))


def heard(indication: b4.Indication) -> b4.Indicated:
    return b4.Indicated(0, (ALICE,), indication)


def send(*lengths: int) -> StepDue:
    return due(SendStep, service=Service.AGREED, groups=("g",), lengths=lengths)


def connected() -> Clients:
    clients = Clients(DAEMON)
    assert played(clients, due(ConnectStep)) == [b4.Ask(ALICE, b4.Connect())]
    assert played(clients, heard(b4.Connected())) == []
    return clients


def test_steps_before_the_session_is_open_wait_for_it() -> None:
    clients = Clients(DAEMON)
    played(clients, due(ConnectStep))
    assert played(clients, due(JoinStep, group="g"), send(3)) == []
    join, sent = played(clients, heard(b4.Connected()))
    assert join == b4.Ask(ALICE, b4.Join("g"))
    assert isinstance(sent, b4.Ask) and isinstance(sent.request, b4.Send)


def test_sequences_are_dense_from_one_over_all_sends_of_a_session() -> None:
    clients = connected()
    bundles = [action.request.bundle for action in played(clients, send(1, 2), send(0), send(5, 5, 5))]  # type: ignore[attr-defined]
    assert [bundle.first_sequence for bundle in bundles] == [1, 3, 4]
    assert [bundle.lengths for bundle in bundles] == [(1, 2), (0,), (5, 5, 5)]
    assert all(len(bundle.payload) == sum(bundle.lengths) for bundle in bundles)


def test_messages_of_the_same_length_differ() -> None:
    clients = connected()
    (ask,) = played(clients, send(9, 9, 9))
    bodies = [bytes(body) for body in ask.request.bundle.bodies()]  # type: ignore[attr-defined]
    assert len(set(bodies)) == 3


def test_a_second_join_and_a_leave_without_a_join_are_passed_over() -> None:
    clients = connected()
    assert len(played(clients, due(JoinStep, group="g"), due(JoinStep, group="g"))) == 1
    assert played(clients, due(LeaveStep, group="other")) == []
    assert played(clients, due(LeaveStep, group="g")) == [b4.Ask(ALICE, b4.Leave("g"))]
    assert played(clients, due(JoinStep, group="g")) == [], "not before the leave took effect"
    assert played(clients, heard(b4.SelfLeave("g")), due(JoinStep, group="g")) == [b4.Ask(ALICE, b4.Join("g"))]


def test_a_session_ends_with_the_request_and_the_next_one_has_a_higher_number() -> None:
    clients = connected()
    assert played(clients, due(DisconnectStep)) == [b4.Ask(ALICE, b4.Disconnect())]
    assert played(clients, send(1), heard(b4.SelfLeave("g"))) == []
    assert played(clients, due(ConnectStep)) == [b4.Ask(ClientId(DAEMON, "alice", 2), b4.Connect())]


def test_a_killed_client_is_gone_and_a_second_kill_does_nothing() -> None:
    clients = connected()
    assert played(clients, ClientKilled(0, "alice"), ClientKilled(0, "alice")) == [b4.Ask(ALICE, b4.Disconnect())]
    assert clients.sessions == {}


def test_a_disconnect_that_waited_ends_what_waited_behind_it() -> None:
    clients = Clients(DAEMON)
    played(clients, due(ConnectStep), due(DisconnectStep), send(1))
    assert played(clients, heard(b4.Connected())) == [b4.Ask(ALICE, b4.Disconnect())]


def test_the_last_view_of_each_group_is_remembered() -> None:
    clients = connected()
    played(clients, due(JoinStep, group="g"))
    view = GroupView("g", GroupViewId(DaemonViewId(1, DAEMON)), (ALICE,), (ALICE,), Cause.JOIN, ALICE)
    played(clients, heard(b4.View(view)))
    assert clients.sessions["alice"].views == {"g": view}
    played(clients, due(LeaveStep, group="g"), heard(b4.SelfLeave("g")))
    assert clients.sessions["alice"].views == {}
