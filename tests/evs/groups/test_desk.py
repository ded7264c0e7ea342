"""What clients may ask, and what is refused: the same as the oracle refuses."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.bundles import BUNDLE_BYTES_MAX, Bundle, bundle_of
from isotone.core.choice import Choice
from isotone.core.codec.fragment import MESSAGE_BYTES_MAX
from isotone.core.ids import ClientId
from isotone.core.services import Service
from isotone.evs.groups import Groups, GroupsSettings, Submit
from isotone.spec.oracle import DaemonStarted, Oracle, OracleSettings
from tests.evs.groups.bench import A1, A2, B1, D1, started

TWICE = ClientId(D1, "a", 2)


def bundle(client: ClientId = A1, first: int = 1, groups: tuple[str, ...] = ("g",), body: bytes = b"x") -> Bundle:
    return Bundle(client, first, Service.AGREED, groups, (len(body),), (0,), body)


SCRIPT: list[tuple[ClientId, b4.Request]] = [
    (A1, b4.Send(bundle())),
    (A1, b4.Join("g")),
    (A1, b4.Leave("g")),
    (A1, b4.Disconnect()),
    (ClientId(D1, "bad name", 1), b4.Connect()),
    (ClientId(D1, "", 1), b4.Connect()),
    (ClientId(D1, "elevenchars", 1), b4.Connect()),
    (A1, b4.Connect()),
    (A1, b4.Connect()),
    (TWICE, b4.Connect()),
    (A1, b4.Leave("g")),
    (A1, b4.Join("g")),
    (A1, b4.Join("g")),
    (A1, b4.Join("#a#d1")),
    (A1, b4.Join("")),
    (A1, b4.Join("has space")),
    (A1, b4.Join("g" * 32)),
    (A1, b4.Leave("g")),
    (A1, b4.Leave("g")),
    (A1, b4.Join("g")),
    (A1, b4.Send(bundle(B1))),
    (A1, b4.Send(bundle(first=2))),
    (A1, b4.Send(bundle(first=0))),
    (A1, b4.Send(bundle(groups=()))),
    (A1, b4.Send(bundle(groups=("g", "g")))),
    (A1, b4.Send(bundle(groups=("#a#b#c",)))),
    (A1, b4.Send(bundle(groups=tuple(f"g{number:03}" for number in range(101))))),
    (A1, b4.Send(Bundle(A1, 1, Service.AGREED, ("g",), (), (), b""))),
    (A1, b4.Send(Bundle(A1, 1, Service.AGREED, ("g",), (2,), (0,), b"x"))),
    (A1, b4.Send(Bundle(A1, 1, Service.AGREED, ("g",), (1,), (), b"x"))),
    (A1, b4.Send(bundle(groups=("#a#d1", "g")))),
    (A1, b4.Send(bundle())),
    (A1, b4.Send(bundle(first=2))),
    (A1, b4.Disconnect()),
    (A1, b4.Disconnect()),
    (A1, b4.Connect()),
    (TWICE, b4.Connect()),
]


def test_the_oracle_and_the_stack_take_and_refuse_the_same() -> None:
    oracle = Oracle(Choice(1), OracleSettings())
    oracle.handle(DaemonStarted(0, D1))
    groups = Groups(D1)
    for client, request in SCRIPT:
        answers = []
        for service in (oracle, groups):
            actions = service.handle(b4.Requested(0, client, request))  # type: ignore[attr-defined]
            heard = [action.indication for action in actions if isinstance(action, b4.Indicate)]
            answers.append([type(each).__name__ for each in heard])
        assert answers[0] == answers[1], (client, request)


def test_a_refused_request_changes_nothing() -> None:
    bench = started(A1)
    assert bench.ask(A1, b4.Send(bundle(first=7))) == ["a1: refused send: the next sequence is 1, not 7"]
    assert bench.ask(A1, b4.Send(bundle(first=1))) == ["Submit"]
    assert bench.ask(A1, b4.Join("a b"))[0].startswith("a1: refused join: ")
    assert bench.ask(A1, b4.Join("g")) == ["Submit"]


def test_a_client_of_another_daemon_is_refused() -> None:
    assert started().ask(A2, b4.Connect()) == ["a2: refused connect: a client of d2#1, not of d1#1"]


@pytest.mark.parametrize(("size", "pieces"), [(BUNDLE_BYTES_MAX, 1), (BUNDLE_BYTES_MAX + 20_000, 2), (200_000, 4)])
def test_one_message_may_be_large(size: int, pieces: int) -> None:
    bench = started(A1)
    assert bench.ask(A1, b4.Send(bundle(body=b"." * size))) == ["Submit"]
    (submit,) = bench.actions
    assert isinstance(submit, Submit) and len(submit.drafts) == pieces
    assert {draft.session for draft in submit.drafts} == {"a"}


def test_a_message_over_the_limit_and_a_bundle_over_its_own_are_refused() -> None:
    bench = started(A1, settings=GroupsSettings(message_bytes_max=100_000))
    assert "refused send" in bench.ask(A1, b4.Send(bundle(body=b"." * 100_001)))[0]
    several = bundle_of(A1, 1, Service.AGREED, ["g"], [b"." * 40_000] * 2)
    assert "refused send" in bench.ask(A1, b4.Send(several))[0]


def test_names_that_are_forgotten_still_need_higher_sessions() -> None:
    bench = started(settings=GroupsSettings(names_max=2))
    for session, name in enumerate("abcd"):
        client = ClientId(D1, name, session)
        bench.connect(client)
        bench.ask(client, b4.Disconnect())
    refused = "a session's number is higher than the last under its name"
    assert bench.ask(ClientId(D1, "a", 0), b4.Connect()) == [f"a1: refused connect: {refused}"]
    assert bench.ask(ClientId(D1, "d", 3), b4.Connect()) == [f"d1: refused connect: {refused}"]
    bench.connect(ClientId(D1, "a", 4))


def test_a_message_of_sixteen_mebibytes_is_taken_and_one_byte_more_is_refused_with_the_limit() -> None:
    groups = started().groups
    assert groups.handle(b4.Requested(0, A1, b4.Connect()))
    whole = bytes(MESSAGE_BYTES_MAX)
    refused = groups.handle(b4.Requested(0, A1, b4.Send(bundle(body=whole + b"x"))))
    assert [action.indication.reason for action in refused] == [  # type: ignore[attr-defined]
        f"a payload of {MESSAGE_BYTES_MAX + 1} bytes; at most {MESSAGE_BYTES_MAX}, and the sum of the lengths"
    ]
    taken = groups.handle(b4.Requested(0, A1, b4.Send(bundle(body=whole))))
    assert sum(len(draft.body) for action in taken if isinstance(action, Submit) for draft in action.drafts) > len(
        whole
    )


def test_one_session_is_in_no_more_groups_than_the_settings_say() -> None:
    bench = started(A1, B1, settings=GroupsSettings(groups_per_session_max=2))
    assert bench.ask(A1, b4.Join("g")) == bench.ask(A1, b4.Join("h")) == ["Submit"]
    assert bench.ask(A1, b4.Join("i")) == ["a1: refused join: a session is in at most 2 groups"]
    assert bench.ask(A1, b4.Leave("g")) == bench.ask(A1, b4.Join("i")) == ["Submit"]
    assert bench.ask(B1, b4.Join("j")) == ["Submit"]


def test_there_are_no_more_groups_than_the_settings_say_but_any_may_have_more_members() -> None:
    bench = started(A1, B1, settings=GroupsSettings(groups_max=1))
    bench.ask(A1, b4.Join("g"))
    bench.units(bench.joining(A1, "g"))
    assert bench.ask(B1, b4.Join("h")) == ["b1: refused join: there are at most 1 groups"]
    assert bench.ask(B1, b4.Join("g")) == ["Submit"]


def test_joins_on_their_way_count_as_groups() -> None:
    bench = started(A1, settings=GroupsSettings(groups_max=1))
    assert bench.ask(A1, b4.Join("g")) == ["Submit"]
    assert "at most 1 groups" in bench.ask(A1, b4.Join("h"))[0]
