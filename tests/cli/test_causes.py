"""Which causes are read off the status of daemons."""

from __future__ import annotations

from typing import Any

from isotone.cli.causes import Scope, causes_of, exclusion_scope, message_scope, sender_of

NO_RULE: dict[str, Any] = {"cut": False, "drop": 0.0, "delay_us": 0}


def status(name: str, **changes: Any) -> dict[str, Any]:
    view = {"daemon_view": changes.pop("view", "2!d1#1"), "members": changes.pop("members", ("d1", "d2"))}
    stack = {"view": view, "peers": changes.pop("peers", ()), "sites": changes.pop("sites", ())}
    groups = [{"name": group, "members": members} for group, members in changes.pop("groups", {}).items()]
    totals = {"groups": len(groups)}
    return {"name": name, "stack": stack, "faults": [], "clients": [], "groups": groups, "totals": totals, **changes}


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
    assert "injected fault at d1: of its packets to d2 10% are lost and all are 50 ms late" in cause.text


def test_a_cut_of_one_way_says_which() -> None:
    one_way = {**NO_RULE, "daemon": "d2", "cut": True}
    (cause,) = causes_of(told(status("d1", faults=[{**one_way, "receive_only": True}])))
    assert "all packets from d1 to d2 are lost" in cause.text
    (cause,) = causes_of(told(status("d1", faults=[{**one_way, "send_only": True}])))
    assert "all packets from d2 to d1 are lost" in cause.text


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
    client = {"name": "slow", "id": "#slow#d1#1#7", "blocks": True, "held_bytes": 3 << 20, "held_bytes_max": 4 << 20}
    client |= {"blocks_us": 3_000_000, "blocked_groups": ("news", "room")}
    (cause,) = causes_of(told(status("d1", clients=[client, {**client, "name": "fast", "blocks": False}])))
    assert cause.text == (
        "client slow at d1 does not read: 3 MiB wait for it, 4 MiB are allowed; "
        "senders to its groups (news, room) have waited for 3 s"
    )


# --- only what has to do with the question ---------------------------------------------------------------------------

SLOW = {"name": "slow", "id": "#slow#d3#1#7", "blocks": True, "held_bytes": 1, "held_bytes_max": 1}
SLOW |= {"blocks_us": 1, "blocked_groups": ("news",)}
MESSAGE = "#alice#d1#1#5:9"


def blocker(wait: str, text: str = "", daemons: tuple[str, ...] = (), readers: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"wait": wait, "text": text, "daemons": daemons, "readers": readers}


def asked(statuses: list[dict[str, Any]], **answers: dict[str, Any]) -> list[tuple[str, str]]:
    found = causes_of(told(*statuses), message_scope(MESSAGE, answers, statuses), answers)
    return [(cause.kind, cause.daemon) for cause in found]


def delayed(name: str) -> dict[str, Any]:
    return {**NO_RULE, "daemon": name, "delay_us": 1_000}


def test_the_sender_of_a_message_is_told_by_either_of_its_names() -> None:
    assert (sender_of("120!d1#3"), sender_of(MESSAGE)) == ("d1", "d1")


def test_a_fault_on_another_link_is_no_cause_of_a_message() -> None:
    room = {"room": ("#alice#d1#1#5", "#bob#d2#1#6")}
    statuses = [status("d1", faults=[delayed("d2"), delayed("d3")], groups=room), status("d3", faults=[delayed("d2")])]
    assert asked(statuses, d1={"groups": ("room",)}) == [("injected fault", "d1")]
    assert asked(statuses, d1={"groups": ("room",), "blockers": [blocker("line", daemons=("d3",))]}) == [
        ("injected fault", "d1"),
        ("injected fault", "d1"),
        ("injected fault", "d3"),
    ], "it waits for d3, so what is between d3 and the others counts"


def test_without_known_groups_what_touches_the_sender_counts() -> None:
    statuses = [status("d1", faults=[delayed("d2")]), status("d3", faults=[delayed("d2")])]
    assert asked(statuses, d1={"groups": ()}) == [("injected fault", "d1")]


def test_a_message_between_sites_passes_their_gateways() -> None:
    sites = [{"name": "s1", "daemons": ("d1", "d2"), "gateway": "d2"}, {"name": "s2", "daemons": ("d3",)}]
    sites[1]["gateway"] = "d3"
    room = {"room": ("#bob#d3#1#6",)}
    statuses = [status("d1", sites=sites, groups=room), status("d2", faults=[delayed("d3")], sites=sites)]
    assert asked(statuses, d1={"groups": ("room",)}) == [("injected fault", "d2")]


def test_while_no_daemon_view_works_every_fault_counts() -> None:
    statuses = [status("d1"), status("d3", faults=[delayed("d2")])]
    assert asked(statuses, d1={"groups": ("room",), "blockers": [blocker("daemon view")]}) == [("injected fault", "d3")]


def test_a_reader_of_another_group_is_no_cause_of_a_message() -> None:
    statuses = [status("d1"), status("d3", clients=[SLOW])]
    assert asked(statuses, d1={"groups": ("room",)}) == []
    held = {"groups": ("news",), "blockers": [blocker("reader", readers=("#slow#d3#1#7",))]}
    assert asked(statuses, d1=held) == [("slow reader", "d3")]
    assert asked([status("d1")], d1=held) == [("slow reader", "d3")], "its own daemon was not asked"


def test_a_full_window_is_told_with_the_site_that_holds_it() -> None:
    waits = [blocker("window", "9 bytes"), blocker("acknowledgement", "site s2 has not acknowledged")]
    (cause,) = causes_of([], answers={"d1": {"blockers": waits}})
    assert (cause.kind, cause.text) == (
        "full window",
        "the window of d1 is full, 9 bytes: site s2 has not acknowledged",
    )


def test_an_exclusion_is_about_that_daemon_and_those_who_do_not_reach_each_other() -> None:
    statuses = [status("d1", faults=[delayed("d2"), delayed("d4")]), status("d3", faults=[delayed("d2")])]
    found = causes_of(told(*statuses), exclusion_scope("d4", {"d1": {"unreached": [["d2", "d3"]]}}))
    assert [cause.text.split(";")[0] for cause in found] == [
        "injected fault at d1: of its packets to d4 all are 1 ms late",
        "injected fault at d3: of its packets to d2 all are 1 ms late",
    ]
    assert not causes_of(told(status("d3", clients=[SLOW])), exclusion_scope("d4", {}))


def test_parts_count_where_the_question_is_about_several() -> None:
    parted = told(
        *(status(name, view="3!d1#1", members=("d1", "d2")) for name in ("d1", "d2")),
        status("d3", view="3!d3#1", members=("d3",)),
    )
    assert causes_of(parted, Scope(among=frozenset({"d1", "d2"}))) == []
    assert [cause.kind for cause in causes_of(parted, Scope(among=frozenset({"d1", "d3"})))] == ["partition"]
