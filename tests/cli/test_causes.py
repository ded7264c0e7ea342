"""Which causes are read off the status of daemons."""

from __future__ import annotations

from typing import Any

from isotone.cli.causes import causes_of

NO_RULE: dict[str, Any] = {"cut": False, "drop": 0.0, "delay_us": 0}


def status(name: str, **changes: Any) -> dict[str, Any]:
    view = {"daemon_view": changes.pop("view", "2!d1#1"), "members": changes.pop("members", ("d1", "d2"))}
    stack = {"view": view, "peers": changes.pop("peers", ())}
    return {"name": name, "stack": stack, "faults": [], "clients": [], **changes}


def told(*statuses: dict[str, Any]) -> list[tuple[str, dict[str, Any] | None, str]]:
    return [(f"127.0.0.1:{i}", each, "") for i, each in enumerate(statuses)]


def peer(name: str, suspected: str) -> dict[str, Any]:
    return {"name": name, "suspected": suspected, "silent_us": 2_000_000}


def test_a_cluster_that_is_fine_has_no_cause() -> None:
    assert causes_of(told(status("d1", peers=[peer("d2", "")]), status("d2", faults=None))) == []


def test_an_injected_cut_is_named_as_such_and_not_as_a_suspicion() -> None:
    rule = {**NO_RULE, "daemon": "d2", "cut": True}
    found = causes_of(told(status("d1", faults=[rule], peers=[peer("d2", "silence")]), status("d2", faults=None)))
    assert [cause.kind for cause in found] == ["injected fault"]
    assert found[0].text == (
        "injected fault at d1: between it and d2 all packets are lost; `isotone faults heal` ends it"
    )


def test_a_cut_both_ways_is_told_once() -> None:
    towards = {name: [{**NO_RULE, "daemon": name, "cut": True}] for name in ("d1", "d2")}
    (cause,) = causes_of(told(status("d1", faults=towards["d2"]), status("d2", faults=towards["d1"])))
    assert cause.text.startswith("injected fault at d1: between it and d2 all packets are lost")


def test_losses_and_delays_are_told_with_their_sizes() -> None:
    rule = {"daemon": "d2", "cut": False, "drop": 0.1, "delay_us": 50_000}
    (cause,) = causes_of(told(status("d1", faults=[rule])))
    assert "10% of packets are lost and packets are 50 ms late" in cause.text


def test_a_suspicion_without_an_injected_fault() -> None:
    (cause,) = causes_of(told(status("d1", peers=[peer("d2", "silence")])))
    assert (cause.kind, cause.text) == ("suspected", "d1 suspects d2: silence (heard 2 s ago)")


def test_parts_and_daemons_that_do_not_answer() -> None:
    parted = told(status("d1", view="3!d1#1", members=("d1",)), status("d2", view="3!d2#1", members=("d2",)))
    found = causes_of([*parted, ("127.0.0.1:9", None, "no daemon answers")])
    assert [(cause.kind, cause.text) for cause in found] == [
        ("no answer", "no daemon answers"),
        ("partition", "the daemons are in 2 parts: d1 | d2"),
    ]


def test_a_client_that_does_not_read_is_named_with_its_backlog() -> None:
    client = {"name": "slow", "blocks": True, "held_bytes": 3 << 20, "held_bytes_max": 4 << 20}
    client |= {"blocks_us": 3_000_000, "blocked_groups": ("news", "room")}
    (cause,) = causes_of(told(status("d1", clients=[client, {**client, "name": "fast", "blocks": False}])))
    assert cause.text == (
        "client slow at d1 does not read: 3 MiB wait for it, 4 MiB are allowed; "
        "senders to its groups (news, room) have waited for 3 s"
    )
