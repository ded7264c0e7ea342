"""Requests to the administration port of a simulated daemon."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from isotone.core.errors import InputError, MachineError
from isotone.core.services import Service
from isotone.daemon.admin.server import AdminServer, AdminSettings
from isotone.evs.sessions.admission import Admitted, Denied
from tests.daemon.admin.fake_node import FakeNode, Inn, Port


@pytest.fixture(scope="module")
def inn() -> Inn:
    house = Inn("ab c").start()
    house.run(500)
    return house


@pytest.fixture
def node(inn: Inn) -> FakeNode:
    return FakeNode(inn, "a")


def judge(credential: bytes, act: str) -> Admitted | Denied:
    if credential == b"reader" and act == "look":
        return Admitted("rita")
    if credential == b"reader":
        return Denied("rita may only look", "rita")
    return Admitted("ada") if credential == b"secret" else Denied("no such credential")


def ask(node: FakeNode, method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
    return asked(Port(node), method, path, body, **more)


def asked(port: Port, method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
    async def scenario() -> tuple[int, Any]:
        async with port:
            return await port.ask(method, path, body, **more)

    return asyncio.run(scenario())


# --- looking -------------------------------------------------------------------------------------------------------


def test_health_and_readiness(node: FakeNode) -> None:
    assert ask(node, "GET", "/health") == (200, {"healthy": True, "daemon": "a#1"})
    status, said = ask(node, "GET", "/ready")
    assert (status, said["ready"]) == (200, True)


def test_a_daemon_is_not_ready_before_its_first_daemon_view() -> None:
    house = Inn("ab")
    house.world.restart("a")
    status, said = ask(FakeNode(house, "a"), "GET", "/ready")
    assert (status, said["ready"]) == (503, False)
    assert "looking for others" in said["reason"]
    house.until(lambda: not FakeNode(house, "a").why_not_ready)
    assert ask(FakeNode(house, "a"), "GET", "/ready")[0] == 200


def test_the_status_has_view_sites_links_groups_clients_and_timeouts(node: FakeNode) -> None:
    status, said = ask(node, "GET", "/status")
    assert (status, said["name"], said["cluster"], said["ready"]) == (200, "a", "test", True)
    stack = said["stack"]
    assert stack["view"]["members"] == ["a", "b", "c"]
    assert [site["name"] for site in stack["sites"]] == ["ab", "c"]
    assert {link["protocol"] for link in stack["links"]} == {"ring", "hop"}
    assert "text" in stack["peers"][0]["timeouts"]["silence"]
    assert [group["name"] for group in said["groups"]] == ["g"]
    assert [(each["name"], each["kind"], each["groups"]) for each in said["clients"]] == [("a", "inside", 1)]
    assert said["totals"] == {"groups": 1, "clients": 1}
    assert said["trace"]["level"] == "buffered" and said["faults"] is None


def test_groups_can_be_chosen_and_are_bounded(node: FakeNode) -> None:
    status, said = ask(node, "GET", "/groups?name=g*")
    assert (status, said["total"], said["groups"][0]["members_total"]) == (200, 1, 3)
    assert ask(node, "GET", "/groups?name=x*")[1]["total"] == 0
    assert ask(node, "GET", "/groups?limit=0")[1]["groups"] == []
    assert ask(node, "GET", "/groups?limit=-1")[0] == 400


def test_explanations(inn: Inn, node: FakeNode) -> None:
    message = inn.send("a", Service.AGREED, 10)
    text = f"%23a%23a%231%23{message.sender.session}:{message.sequence}"
    inn.run(500)
    status, said = ask(node, "GET", f"/explain?question=message&message={text}")
    assert (status, said["place"]) == (200, "delivered")
    assert ask(node, "GET", "/explain?question=view")[1]["is_working"] is True
    assert ask(node, "GET", "/explain?question=exclusion&daemon=b")[1]["ruling"] == "member"
    assert ask(node, "GET", "/explain?question=exclusion&daemon=z")[1]["ruling"] == "unknown"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "question=weather",
        "question=message",
        "question=view&x=1",
        "question=message&message=x",
        "question=message&message=%23a:1",
        "question=message&message=1!x",
    ],
)
def test_questions_that_make_no_sense_say_why(node: FakeNode, query: str) -> None:
    status, said = ask(node, "GET", f"/explain?{query}")
    assert status == 400 and said["error"]


def test_unknown_paths_and_methods(node: FakeNode) -> None:
    assert ask(node, "GET", "/nothing")[0] == 404
    assert ask(node, "POST", "/status", {})[0] == 405
    assert ask(node, "DELETE", "/trace")[0] == 405


# --- acting --------------------------------------------------------------------------------------------------------


def test_the_level_of_the_trace_is_changed_and_written_down(node: FakeNode) -> None:
    port = Port(node)
    assert asked(port, "POST", "/trace", {"level": "full"})[1]["level"] == "full"
    assert port.audit.acts == [("anybody", "trace", "begun"), ("anybody", "trace", "done")]
    port = Port(node)
    status, said = asked(port, "POST", "/trace", {"level": "loud"})
    assert (status, node.level) == (400, "full") and "loud" in said["error"]
    assert port.audit.acts == [("anybody", "trace", "begun"), ("anybody", "trace", "failed")]


@pytest.mark.parametrize("body", [{}, {"level": 3}, {"level": "off", "more": 1}, []])
def test_bodies_that_make_no_sense_change_nothing(node: FakeNode, body: object) -> None:
    assert ask(node, "POST", "/trace", body)[0] == 400
    assert node.level == "buffered"


def test_faults_only_where_the_settings_enable_them(node: FakeNode) -> None:
    rules = [{"kind": "cut", "daemon": "b"}]
    port = Port(node)
    refused, answer = asked(port, "POST", "/faults", {"rules": rules})
    assert refused == 403 and "[faults]" in answer["error"] and "reload" in answer["error"]
    assert port.audit.acts == [("anybody", "faults", "begun"), ("anybody", "faults", "refused")]
    node.rules = []
    assert ask(node, "POST", "/faults", {"rules": rules}) == (200, {"enabled": True, "rules": rules})
    assert ask(node, "GET", "/faults")[1]["rules"] == rules


def test_reload_and_stop(node: FakeNode) -> None:
    assert ask(node, "POST", "/reload", {}) == (200, {"changes": ["trace level"]})
    node.reload_error = "line 3: no such key"
    assert ask(node, "POST", "/reload", {}) == (400, {"error": "line 3: no such key"})
    assert ask(node, "POST", "/stop", {"reason": "new kernel"})[0] == 202
    assert node.stopped == ["new kernel (anybody)"]


# --- principals ----------------------------------------------------------------------------------------------------


def test_without_a_credential_only_health_and_readiness_are_told(node: FakeNode) -> None:
    for path, status in (("/health", 200), ("/ready", 200), ("/metrics", 401), ("/status", 401), ("/explain", 401)):
        assert asked(Port(node, judge=judge), "GET", path)[0] == status, path
    assert asked(Port(node, judge=judge, metrics_open=True), "GET", "/metrics")[0] == 200


def test_a_credential_stands_for_a_principal_and_refusals_are_written_down(node: FakeNode) -> None:
    port = Port(node, judge=judge)
    assert asked(port, "POST", "/trace", {"level": "off"}, headers={"Authorization": "Bearer wrong"})[0] == 403
    assert (node.level, port.audit.acts) == ("buffered", [("", "trace", "refused")])
    port = Port(node, judge=judge)
    assert asked(port, "POST", "/trace", {"level": "off"}, headers={"Authorization": "Bearer secret"})[0] == 200
    assert port.audit.acts == [("ada", "trace", "begun"), ("ada", "trace", "done")]
    assert asked(Port(node, judge=judge), "GET", "/status", headers={"Authorization": "Bearer reader"})[0] == 200
    assert asked(Port(node, judge=judge), "POST", "/stop", {}, headers={"Authorization": "Bearer reader"})[0] == 403
    assert not node.stopped


def test_refusals_are_written_down_once_for_each_host_and_act(node: FakeNode) -> None:
    port = Port(node, judge=judge)

    async def scenario() -> None:
        async with port:
            for _ in range(5):
                assert (await port.ask("POST", "/stop", {}))[0] == 401
                assert (await port.ask("GET", "/status"))[0] == 401

    asyncio.run(scenario())
    assert port.audit.acts == [("", "stop", "refused"), ("", "look", "refused")]


def test_a_refusal_of_somebody_known_is_written_down_with_the_name(node: FakeNode) -> None:
    """Whatever strangers on the same host were refused before."""
    port = Port(node, judge=judge)

    async def scenario() -> None:
        async with port:
            for credential in ("wrong", "reader", "reader"):
                assert (await port.ask("POST", "/stop", {}, headers={"Authorization": f"Bearer {credential}"}))[
                    0
                ] == 403

    asyncio.run(scenario())
    assert port.audit.acts == [("", "stop", "refused"), ("rita", "stop", "refused")]


def test_what_cannot_be_recorded_is_not_done(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    port = Port(node)

    def full(*_: object, **__: object) -> None:
        raise MachineError("the disk is full")

    monkeypatch.setattr(port.audit, "record", full)
    assert asked(port, "POST", "/trace", {"level": "off"}) == (503, {"error": "the disk is full"})
    assert node.level == "buffered"


def test_an_open_port_takes_nothing_from_web_pages(node: FakeNode) -> None:
    assert ask(node, "GET", "/status", headers={"Origin": "http://evil.example"})[0] == 403
    assert ask(node, "GET", "/status", headers={"Host": "evil.example"})[0] == 403
    assert ask(node, "POST", "/stop", {}, headers={"Content-Type": "text/plain"})[0] == 415
    assert ask(node, "GET", "/status", headers={"Host": "[::1]:4810"})[0] == 200
    assert not node.stopped


def test_an_open_port_listens_on_loopback_only(node: FakeNode) -> None:
    with pytest.raises(InputError, match=r"0\.0\.0\.0"):
        AdminServer(node, AdminSettings(address="0.0.0.0:0"))
    with pytest.raises(InputError, match=r"0\.0\.0\.0"):
        AdminServer(node, AdminSettings(address="0.0.0.0:0"), judge=judge, is_open=True)
    asked_for: list[str] = []

    def counting(credential: bytes, act: str) -> Admitted | Denied:
        asked_for.append(act)
        return judge(credential, act)

    AdminServer(node, AdminSettings(address="0.0.0.0:0"), judge=counting)
    assert not asked_for, "a question that nobody put would be counted and logged as a refusal"
