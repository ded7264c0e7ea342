"""Another version, of what is said or of what is written, is refused by its number; the first has no mark at all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.contract import Started, Stop, Storage, StoredLog
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.ids import DaemonId, Stamp
from isotone.core.services import Service
from isotone.core.versions import VersionRange
from isotone.corel.events import StandingChanged
from isotone.corel.explain import why_no_primary
from isotone.corel.records import Lived, decode_record, encode_record
from isotone.corel.versions import marked, unmarked, version_of
from tests.corel.cluster import GROUP, Cluster, joined

SECOND = VersionRange(2, 2)


def mixed(names: str, newer: str) -> Cluster:
    """Some servers run a program that speaks version 2 alone; all come into one view."""
    cluster = Cluster(*names)
    speak(cluster, newer, SECOND)
    cluster.view(*names)
    cluster.run()
    return cluster


def speak(cluster: Cluster, names: Sequence[str], versions: VersionRange) -> None:
    for name in names:
        cluster[name].replica.session.speaks = versions


def test_the_first_version_has_no_mark() -> None:
    record = encode_record(Lived(7))
    assert record == b"\x93\x01\x07\xc4\x00" and marked(1, record) == unmarked(record) == record
    assert version_of(record) == version_of(b"") == version_of(b"\x00") == version_of(b"\xdc\x00\x20") == 1


@pytest.mark.parametrize("version", [2, 3, 127])
def test_a_later_one_begins_with_its_number(version: int) -> None:
    data = marked(version, b"\x92\x01\x07")
    assert (version_of(data), unmarked(data), len(data)) == (version, b"\x92\x01\x07", 4)


# --- what is said ---------------------------------------------------------------------------------------------------


def test_a_quorum_goes_on_without_one_that_speaks_another_version_and_names_it() -> None:
    cluster = mixed("abc", newer="c")
    cluster.append("a", b"1")
    cluster.run()
    assert cluster["a"].green == cluster["b"].green == [b"1"] and cluster["c"].green == []
    assert cluster["a"].replica.session.foreign == {"c": 2}
    (told,) = cluster["a"].replica.views.enter(cluster["a"].replica.standing, "as ever")
    assert isinstance(told, StandingChanged) and told.primary and "c speaks version 2" in told.reason
    assert not cluster.report().violations


def test_both_sides_say_who_speaks_what() -> None:
    cluster = mixed("abcd", newer="cd")
    old, new = why_no_primary(cluster["a"].replica), why_no_primary(cluster["d"].replica)
    assert "c speaks version 2 of the replicas' protocol, and this server 1" in old and "d speaks" in old
    assert "a speaks version 1 of the replicas' protocol, and this server 2" in new and "b speaks" in new
    assert all("No quorum" in text and "Run one program at both" in text for text in (old, new))


def test_it_is_said_as_soon_as_it_is_known() -> None:
    cluster = Cluster("a", "b", "c")
    speak(cluster, "c", SECOND)
    cluster.view("a", "b", "c")
    reasons = [
        action.reason
        for _, message in cluster.sent[cluster["a"].replica.session.view]
        for action in told(cluster, "a", message)
        if hasattr(action, "reason")
    ]
    assert any("c speaks version 2" in reason for reason in reasons)


def told(cluster: Cluster, name: str, message: b4.Message) -> list[object]:
    replica = cluster[name].replica
    assert replica.session.client is not None
    return list(replica.handle(b4.Indicated(0, (replica.session.client,), message)))


def test_all_who_speak_one_version_agree_whichever_comes_first() -> None:
    """The others' states may come before, between and behind one's own."""
    for newer in ("a", "b", "d", "ad"):
        cluster = mixed("abcde", newer=newer)
        rest = [name for name in "abcde" if name not in newer]
        cluster.append(rest[0], b"1")
        cluster.run()
        assert all(cluster[name].green == [b"1"] for name in rest), newer
        assert not cluster.report().violations


def test_with_the_right_program_it_takes_part_again() -> None:
    cluster = mixed("abc", newer="c")
    cluster.append("a", b"1")
    cluster.run()
    cluster.restart("c")
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["c"].green == [b"1"] and cluster["a"].replica.session.foreign == {}


def test_who_takes_part_and_then_speaks_otherwise_is_not_believed() -> None:
    cluster = joined("a", "b", "c")
    with pytest.raises(RemoteProtocolError, match="b speaks version 3"):
        say(cluster, "b", "a", b"\x03anything", GROUP)
    assert cluster["a"].standing == "regular" and cluster["a"].replica.session.foreign == {}


def test_help_of_another_version_is_refused_by_name() -> None:
    cluster = joined("a", "b", "c")
    client = cluster["a"].replica.session.client
    assert client is not None
    with pytest.raises(RemoteProtocolError, match="b speaks version 2"):
        say(cluster, "b", "a", b"\x02anything", client.private_group)


def say(cluster: Cluster, sender: str, receiver: str, body: bytes, group: str) -> None:
    client = cluster[sender].replica.session.client
    assert client is not None
    bundle = bundle_of(client, 99, Service.AGREED, (group,), (body,))
    told(cluster, receiver, b4.Message(bundle, Stamp(99, DaemonId("d", 1))))


# --- what is written ------------------------------------------------------------------------------------------------


def test_a_record_of_a_newer_version_is_refused_by_its_number() -> None:
    with pytest.raises(LocalProtocolError, match="version 2 of a replica's log; this program reads 1"):
        decode_record(marked(2, encode_record(Lived(7))))


def test_a_server_does_not_start_on_a_log_of_a_newer_version() -> None:
    """Nothing of it is written or said: the newer program finds it as it left it."""
    cluster = joined("a", "b", "c")
    server = cluster["a"]
    log = StoredLog(1, (*server.log, marked(2, b"whatever it means there")))
    replica = type(server.replica)(server.replica.settings, DaemonId("da", 2), b"a")
    (stop,) = replica.handle(Started(0, Storage({}, {"log": log})))
    assert isinstance(stop, Stop) and "version 2" in stop.reason and "newer" in stop.reason
