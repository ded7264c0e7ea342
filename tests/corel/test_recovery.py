"""Retransmission in parcels: many of them, few under way, none too large for a bundle."""

from __future__ import annotations

import pytest

from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.corel.recovery import PARCEL_BYTES_MAX, PARCELS_MAX
from isotone.corel.wire import CODEC, Priority, Retransmitted
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
