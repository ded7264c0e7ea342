"""What the layers make of the settings; without any, what they have by themselves."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from isotone.core.errors import InputError
from isotone.daemon.settings import (
    DaemonSettings,
    chosen_daemon,
    dev_notice,
    dev_settings,
    files_of,
    known_daemons,
    link_plans,
    listeners_of,
    read,
    server_settings,
    stack_settings,
)
from isotone.daemon.settings.tables import Daemon, Trace
from isotone.evs.groups import GroupsSettings
from isotone.evs.membership import InterimViews, KnownDaemon, LinkPlan, MembershipSettings
from isotone.evs.overlay.topology import LinkLimits, LinkProtocol
from isotone.evs.sessions.settings import ServerSettings, SlowPolicy

CLUSTER = """
[cluster]
name = "c"
seeds = ["10.9.9.9:1", "seed.example", "10.9.9.9:1", "[::1]:7"]
[[site]]
name = "a"
multicast = "239.0.0.1:4803"
[[site]]
name = "b"
[[daemon]]
name = "d1"
site = "a"
address = "10.0.0.1"
listen = "0.0.0.0"
client_port = 4900
unix_socket = "/run/{name}.socket"
[[daemon]]
name = "d2"
site = "b"
address = "10.0.0.2"
port = 9
admin_port = 4999
[[link]]
between = ["b", "a"]
protocol = "hop"
weight = 3
bits_per_second = 1000000
burst_bytes = 5000
[limits]
slow_policy = "disconnect"
packet_bytes = 1200
groups_max = 7
groups_per_session_max = 5
[[limits.group]]
pattern = "chat*"
slow_policy = "block"
[[limits.client]]
pattern = "logger"
slow_policy = "disconnect"
[timeouts]
keep_alive_ms = 300
gather_ms = 250
client_resume_ms = 1000
link_fail_ms = 700
tcp_stall_ms = 2000
[security]
mode = "open"
[spread]
enabled = true
unix_socket = "/tmp/4803"
"""


@pytest.fixture(scope="module")
def cluster() -> DaemonSettings:
    return read(CLUSTER).settings


def one(text: str = "") -> DaemonSettings:
    return read('[[daemon]]\nname = "d1"\n' + text).settings


def test_the_defaults_are_those_of_the_layers() -> None:
    stack = stack_settings(one(), "d1")
    own = MembershipSettings()
    ring = msgspec.structs.replace(own.transport.ring, multicast=False)
    plain = msgspec.structs.replace(own, multicast=False, transport=msgspec.structs.replace(own.transport, ring=ring))
    assert stack.membership == plain and stack.pruning
    assert stack.groups == GroupsSettings(groups_max=100_000, groups_per_session_max=10_000)


def test_the_defaults_of_sessions_are_those_of_the_sessions() -> None:
    ours, own = msgspec.structs.asdict(server_settings(one())), msgspec.structs.asdict(ServerSettings())
    differing = {key for key in ours if ours[key] != own[key]}
    assert differing <= {"large_bytes_max", "policies", "client_policies"}
    assert not ours["policies"] and not ours["client_policies"]
    assert ours["large_bytes_max"] >= own["large_bytes_max"]


def test_daemons_sites_and_links(cluster: DaemonSettings) -> None:
    assert known_daemons(cluster, "d1") == (KnownDaemon("d2", "b", "10.0.0.2:9"),)  # type: ignore[arg-type]
    assert link_plans(cluster) == (
        LinkPlan(a="a", b="b", weight=3, protocol=LinkProtocol.HOP, limits=LinkLimits(1_000_000, 5_000)),
    )


def test_the_membership_of_a_site_with_multicast_announces_itself(cluster: DaemonSettings) -> None:
    first = stack_settings(cluster, "d1").membership
    second = stack_settings(cluster, "d2").membership
    assert (first.multicast, first.transport.ring.multicast) == (True, True)
    assert (second.multicast, second.transport.ring.multicast) == (False, False)
    assert first.cluster == "c" and first.seeds == ("10.9.9.9:1", "[::1]:7")
    assert first.detector.keep_alive_us == 300_000 and first.gather_us == 250_000
    assert first.transport.hop.fail_after_us == 700_000 and first.transport.tcp.stall_us == 2_000_000
    assert first.transport.hop.packet_bytes == 1_200 and first.transport.ring.body_bytes == 1_152
    assert first.transport.ring.token_retries_max == MembershipSettings().transport.ring.token_retries_max


def test_without_announcements_the_ring_still_uses_multicast() -> None:
    text = '[cluster]\nannounce = false\ninterim_views = "deliver"\n[[site]]\nname = "a"\nmulticast = "239.0.0.1:1"\n'
    membership = stack_settings(one(text), "d1").membership
    assert (membership.multicast, membership.transport.ring.multicast) == (False, True)
    assert membership.interim_views is InterimViews.DELIVER


def test_limits_reach_groups_and_sessions(cluster: DaemonSettings) -> None:
    groups = stack_settings(cluster, "d1").groups
    assert (groups.groups_max, groups.groups_per_session_max) == (7, 5)
    server = server_settings(cluster)
    assert server.policy is SlowPolicy.DISCONNECT and server.resume_within_us == 1_000_000
    assert server.policies["chatter"] is SlowPolicy.BLOCK and "other" not in server.policies
    assert server.client_policies["logger"] is SlowPolicy.DISCONNECT and "log" not in server.client_policies


def test_where_a_daemon_listens(cluster: DaemonSettings) -> None:
    first = listeners_of(cluster, cluster.daemon[0])
    assert (first.daemons, first.clients) == ("0.0.0.0:4803", "0.0.0.0:4900")
    assert first.clients_unix == Path("/run/d1.socket")
    assert (first.spread, first.spread_unix, first.spread_shares_port) == (
        "127.0.0.1:4813",
        Path("/tmp/4803"),
        False,
    )
    assert first.admin == "127.0.0.1:4810"
    second = listeners_of(cluster, cluster.daemon[1])
    assert (second.daemons, second.clients, second.admin) == ("10.0.0.2:9", None, "127.0.0.1:4999")


def test_what_is_off_does_not_listen() -> None:
    found = listeners_of(one("[admin]\nenabled = false\n"), Daemon(name="d1"))
    assert (found.admin, found.spread, found.spread_unix, found.clients_unix) == (None, None, None, None)


def test_files_of_several_daemons_do_not_meet() -> None:
    settings = one('[security]\nprivate_key_file = "/k/{name}.key"\n[trace]\ndirectory = "/t/{name}"\n')
    files = files_of(settings, Daemon(name="d7"))
    assert files.state == Path("/var/lib/isotone/d7") and files.private_key == Path("/k/d7.key")
    assert files.trace == Path("/t/d7") and files.audit == Path("/var/lib/isotone/d7/audit.jsonl")
    assert files.tls_certificate is None


def test_which_daemon_a_process_is(cluster: DaemonSettings) -> None:
    assert chosen_daemon(cluster, "d2").name == "d2"
    assert chosen_daemon(cluster, hostname="d1.example.org").name == "d1"
    assert chosen_daemon(one()).name == "d1"
    with pytest.raises(InputError, match="no \\[\\[daemon\\]\\] named d3; known are: d1, d2"):
        chosen_daemon(cluster, "d3")
    with pytest.raises(InputError, match="Say --name with one of: d1, d2"):
        chosen_daemon(cluster, hostname="elsewhere")
    with pytest.raises(InputError, match="add one with the name of this daemon"):
        chosen_daemon(DaemonSettings())


def test_development_is_open_on_loopback_and_says_so(tmp_path: Path) -> None:
    settings = dev_settings(directory=tmp_path)
    places = listeners_of(settings, settings.daemon[0])
    assert (places.daemons, places.admin, places.spread_shares_port) == ("127.0.0.1:4803", "127.0.0.1:4810", True)
    assert settings.dev and settings.security.mode == "open"
    notice = dev_notice(settings)
    assert "loopback only and OPEN" in notice and str(tmp_path) in notice and "Spread" in notice
    assert files_of(settings, settings.daemon[0]).state == tmp_path / "state" / "dev"
    named = msgspec.structs.replace(settings, trace=Trace(directory=str(tmp_path / "{name}")))
    assert f"the trace in {tmp_path / 'dev'}." in dev_notice(named)
    assert stack_settings(settings, "dev").membership.known == ()


def test_development_with_others_on_the_same_machine(tmp_path: Path) -> None:
    settings = dev_settings(5001, directory=tmp_path, name="d1", peers=(Daemon(name="d2", port=5002),), spread=False)
    assert [each.address for each in stack_settings(settings, "d1").membership.known] == ["127.0.0.1:5002"]
    assert "Spread" not in dev_notice(settings)
