"""Retransmission in parcels: many of them, few under way, none too large for a bundle."""

from __future__ import annotations

import pytest

from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.corel.recovery import PARCEL_BYTES_MAX, PARCELS_MAX
from isotone.corel.wire import CODEC, Priority, Retransmitted
from isotone.trace.corel import QueueArranged
from tests.corel.cluster import Cluster

LARGE = 15_000
COUNT = 40


def parcels(cluster: Cluster, name: str, kind: type) -> list[list[int]]:
    """The sizes of the messages in each parcel of the view that this server is in."""
    order = cluster.sent[cluster[name].replica.session.view]
    decoded = [CODEC.decode(bytes(message.bundle.payload)) for _, message in order]
    return [[each.size for each in wire.messages] for wire in decoded if isinstance(wire, kind)]  # type: ignore[attr-defined]


def with_backlog(*, members: str) -> Cluster:
    """These servers have many large messages that the others lack."""
    cluster = Cluster("a", "b", "c", "d", "e")
    cluster.view(*members)
    cluster.run()
    for number in range(COUNT):
        cluster.append(members[0], b"%05d" % number * (LARGE // 5))
        cluster.run()
    return cluster


@pytest.mark.parametrize(("members", "kind"), [("abc", Priority), ("ab", Retransmitted)])
def test_few_parcels_are_under_way_and_all_arrive(members: str, kind: type) -> None:
    cluster = with_backlog(members=members)
    cluster.view("a", "d", "e")
    for name in "ade":
        cluster.step(name, 3)
    assert len(parcels(cluster, "a", kind)) == PARCELS_MAX
    cluster.run("a", "d", "e")
    sizes = parcels(cluster, "a", kind)
    assert sum(map(len, sizes)) == COUNT and all(sum(parcel) <= PARCEL_BYTES_MAX for parcel in sizes)
    assert len(sizes) == COUNT // 2  # two of them fit into one
    assert cluster["e"].lines == (COUNT, COUNT, COUNT)
    assert not cluster.report().violations


def test_no_bundle_is_too_large() -> None:
    cluster = with_backlog(members="ab")
    cluster.hold_disk("a")
    cluster.append("b", b"x")
    cluster.step("a")
    cluster.append("a", *[b"y" * 10_000] * 30, b"z" * 60_000, *[b""] * 40_000)
    cluster.release_disk("a")
    cluster.run()
    cluster.view("a", "d", "e")
    cluster.run()
    sizes = [len(message.bundle.payload) for order in cluster.sent.values() for _, message in order]
    assert max(sizes) <= BUNDLE_BYTES_MAX
    assert cluster["e"].lines[0] == cluster["a"].lines[2]


def bodies(cluster: Cluster, name: str) -> int:
    """How many priority messages were sent whole in the view that this server is in."""
    order = cluster.sent[cluster[name].replica.session.view]
    decoded = [CODEC.decode(bytes(message.bundle.payload)) for _, message in order]
    return sum(not each.is_header for wire in decoded if isinstance(wire, Priority) for each in wire.messages)


@pytest.mark.parametrize("crash", [False, True])
def test_a_recovery_that_is_broken_off_goes_on_where_it_was(crash: bool) -> None:
    """d has a part of what a, b and c ordered when the view changes, again and again: nothing is sent a second time."""
    cluster = with_backlog(members="abc")
    had, sent = 0, 0
    while True:
        cluster.view("a", "d", "e")
        while cluster["d"].standing in {"exchange", "priority"} and cluster["d"].lines[2] < had + 9:
            for name in "ade":
                cluster.step(name, min(1, cluster.waiting(name)))
        sent += bodies(cluster, "a")
        if cluster["d"].standing not in {"exchange", "priority"}:
            break
        had = cluster["d"].lines[2]
        if crash:
            cluster.restart("d")
        else:
            assert len(cluster["d"].red) == had
        assert cluster["d"].lines == (0, 0, had)
    assert had > COUNT // 2 and sent <= COUNT + COUNT // 9 * 2 * PARCELS_MAX
    cluster.run("a", "d", "e")
    assert cluster["d"].lines == cluster["e"].lines == (COUNT, COUNT, COUNT)
    assert cluster["d"].green == cluster["a"].green and not cluster.report().violations


def test_what_was_taken_of_a_broken_recovery_is_red_and_moves_no_line() -> None:
    """d has some of what the primary of a, b and c ordered, and e has some red: without them all of it is red."""
    cluster = with_backlog(members="abc")
    cluster.view("e")
    cluster.run("e")
    cluster.append("e", b"of e")
    cluster.run("e")
    cluster.view("a", "d")
    while cluster["d"].lines[2] < 5:
        for name in "ad":
            cluster.step(name, min(1, cluster.waiting(name)))
    taken = cluster["d"].lines[2]
    cluster.signal("d")
    told = [row.entry for row in cluster.rows if isinstance(row.entry, QueueArranged) and row.entry.server == "d"]
    assert len(told[-1].queue) == taken, "the checkers know it from here on"
    cluster.view("d", "e")
    cluster.run("d", "e")
    assert cluster["d"].lines == cluster["e"].lines == (0, 0, taken + 1)
    cluster.view("b", "c", "d", "e")
    cluster.run("b", "c", "d", "e")
    assert cluster["e"].lines[0] == COUNT + 1 and cluster["e"].green == cluster["b"].green
    assert cluster["e"].green[:COUNT] == cluster["a"].green and not cluster.report().violations
