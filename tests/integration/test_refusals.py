"""Everybody who must not get in, at daemons with keys, TLS, credentials and an access list, in one cluster.

Each of them is refused, counted by its reason, told once in the log for each peer, and no view changes.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from isotone.cli.local_cluster import LOOPBACK, quoted
from isotone.client import Settings, connect
from isotone.client.connecting import Connecting
from isotone.client.errors import ConnectFailed, NotSent, Refused
from isotone.daemon.security.credentials import add_credential
from isotone.daemon.security.keys import generate_key
from isotone.daemon.security.tls import client_context
from isotone.evs.sessions.settings import ClientSettings
from tests.daemon.security.test_tls import DAY, Issuer
from tests.integration.cluster import PATIENT as PATIENT_DAEMONS
from tests.integration.cluster import WITHIN_S, RealCluster, real_cluster, run
from tests.integration.people import Person
from tests.ports import free_ports
from tests.spread_client.blocking import SocketClient
from tests.spread_client.protocol import SpreadClient

PATIENT = Settings(session=ClientSettings(connect_within_us=3_600_000_000))
"""Who is refused hears it at once; who is not told waits for ever."""
SITES = {"d1": "s1", "d2": "s1", "d3": "s1"}


class Fortress:
    """A cluster, the secrets of those who may, and the certificates of those who may not."""

    def __init__(self, cluster: RealCluster, directory: Path) -> None:
        self.cluster = cluster
        self.issuer, self.stranger = Issuer(directory, "authority"), Issuer(directory, "stranger")
        self.given = {name: add_credential(directory / "credentials", name, (f"{name}*",)) for name in ("alice", "bob")}
        cluster.credential = self.given["operator"] = add_credential(directory / "credentials", "operator")
        certificate = self.issuer.issue("localhost")
        ports = {name: free_ports(2) for name in SITES}
        self.ports = {name: tls for name, (tls, _) in ports.items()}
        self.spread_port = ports["d1"][1]
        for name, (tls, spread) in ports.items():
            key = generate_key(directory / f"{name}.key").text
            cluster.per_daemon[name] = [f'public_key = "{key}"', f"client_port = {tls}", f"spread_port = {spread}"]
        cluster.extra = f"""
[spread]
enabled = true
[security]
mode = "keys"
private_key_file = {quoted(directory / "{name}.key")}
credentials_file = {quoted(directory / "credentials")}
tls_certificate_file = {quoted(certificate)}
tls_key_file = {quoted(certificate)}
client_authority_file = {quoted(self.issuer.path)}
anonymous = false
[[security.access]]
principals = ["alice", "bob", "cert/*"]
groups = ["town"]
allow = ["connect", "join", "send"]
[[security.access]]
principals = ["operator"]
allow = ["connect", "admin"]
{PATIENT_DAEMONS}"""

    def connect(
        self, name: str, credential: str = "", certificate: Path | None = None, *, daemon: str = "d1"
    ) -> Connecting:
        """A client over TLS."""
        tls = client_context(self.issuer.path, certificate)
        return connect(f"localhost:{self.ports[daemon]}", name=name, credential=credential, tls=tls, settings=PATIENT)

    def counts(self, reason: str) -> int:
        """How often d1 refused somebody for this, as an operator sees it."""
        found = self.cluster.admin("d1").get("/status")["counts"]
        return sum(count for part in found.values() for what, count in part.items() if what.endswith(reason))

    def lines(self, reason: str) -> list[str]:
        """In its log; when and what for, but not the time."""
        return [line.partition(" ")[2] for line in self.cluster.log("d1").splitlines() if f'reason="{reason}"' in line]

    def views(self) -> list[object]:
        """Which daemon view each is in, and since when."""
        found = [self.cluster.admin(name).get("/status")["stack"]["view"] for name in ("d1", "d2")]
        return [(each["daemon_view"], each["since"]) for each in found]


@asynccontextmanager
async def fortress(directory: Path) -> AsyncIterator[tuple[Fortress, Person]]:
    """With somebody inside whose views must not change."""
    async with real_cluster(directory, SITES, start=False, open=False) as cluster:
        built = Fortress(cluster, directory)
        cluster.start()
        await cluster.together()
        session = await built.connect("alice", built.given["alice"])
        inside = Person("alice", session, await session.join("town"))
        await inside.sees("alice")
        yield built, inside
        await inside.close()


async def by_credential(built: Fortress, name: str, credential: str, code: str = "refused") -> None:
    with pytest.raises(ConnectFailed) as failed:
        await built.connect(name, credential)
    assert failed.value.code == code


async def by_certificate(built: Fortress, issuer: Issuer, *, expired: bool = False) -> None:
    certificate = issuer.issue("carol", valid=-DAY if expired else DAY)
    with pytest.raises(ConnectFailed) as failed:
        await built.connect("carol", certificate=certificate)
    assert failed.value.code == "certificate" and "alert" in failed.value.reason


async def by_forbidden_group(built: Fortress, *, join: bool) -> None:
    async with built.connect("bob", built.given["bob"]) as bob:
        if join:
            with pytest.raises(Refused, match="may not join palace"):
                await bob.join("palace")
        else:
            with pytest.raises(NotSent, match="may not send to palace"):
                await bob.send("palace", b"hello")


async def without_tls(built: Fortress) -> None:
    with pytest.raises(ConnectFailed, match="clients come by TLS here"):
        await connect(built.cluster.address("d1"), credential=built.given["bob"], settings=PATIENT)


async def of_spread(built: Fortress) -> None:
    def shake_hands() -> None:
        with SocketClient(f"{LOOPBACK}:{built.spread_port}", SpreadClient("old"), WITHIN_S) as old:
            assert old.connect().client.state == "rejected"
            old.until_ended()

    await asyncio.to_thread(shake_hands)


def intruders(built: Fortress) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
    """Each with the reason for which it is refused."""
    bob = built.given["bob"]
    return [
        ("wrong certificate", lambda: by_certificate(built, built.stranger)),
        ("wrong certificate", lambda: by_certificate(built, built.issuer, expired=True)),
        ("wrong credential", lambda: by_credential(built, "bob", bob[:-1])),
        ("no credential", lambda: by_credential(built, "bob", "")),
        ("forged private name", lambda: by_credential(built, "alice2", bob)),
        ("forbidden join", lambda: by_forbidden_group(built, join=True)),
        ("forbidden send", lambda: by_forbidden_group(built, join=False)),
        ("no TLS", lambda: without_tls(built)),
        ("no credential", lambda: of_spread(built)),
    ]


def test_clients_that_must_not_get_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with fortress(tmp_path) as (built, inside):
            views, seen = built.views(), len(inside.views)
            for reason, intrude in intruders(built):
                before = await asyncio.to_thread(built.counts, reason)
                for _ in range(3):
                    await intrude()
                await built.cluster.until(lambda r=reason, b=before: built.counts(r) == b + 3, f"{reason} is counted")
                await built.cluster.until(lambda r=reason: bool(built.lines(r)), f"{reason} is told")
            for reason in dict.fromkeys(reason for reason, _ in intruders(built)):
                assert len(built.lines(reason)) == 1, "one peer, one reason, one line"
            await inside.confirm(b"nothing happened")
            assert inside.acknowledged and len(inside.views) == seen and built.views() == views
            await built.cluster.end_quietly()

    run(main())


# --- daemons and packets -------------------------------------------------------------------------------------------


def test_a_daemon_that_was_removed_stays_outside(tmp_path: Path) -> None:
    async def main() -> None:
        async with fortress(tmp_path) as (built, inside):
            cluster = built.cluster
            removed = cluster.daemons["d3"]
            removed.settings = tmp_path / "former.toml"
            removed.settings.write_text(cluster.text(), encoding="utf-8")
            del cluster.daemons["d3"]
            cluster.settings.write_text(cluster.text(), encoding="utf-8")
            try:
                for name in ("d1", "d2"):
                    cluster.signal(name, signal.SIGHUP)
                await cluster.together("d1", "d2")
                views, seen = built.views(), len(inside.views)
                before = await asyncio.to_thread(built.counts, "unknown daemon")
                removed.send_signal(signal.SIGKILL)
                await asyncio.to_thread(removed.process.wait)
                removed.start()
                await cluster.until(lambda: built.counts("unknown daemon") > before + 2, "it is counted")
                assert len([line for line in cluster.log("d1").splitlines() if "unknown daemon" in line]) == 1
                await inside.confirm(b"still here")
                assert inside.acknowledged and len(inside.views) == seen and built.views() == views
            finally:
                removed.send_signal(signal.SIGKILL)
                await asyncio.to_thread(removed.process.wait)

    run(main())


class Eavesdropper:
    """Hears UDP on loopback, and says it again, with the source that it came from."""

    def __init__(self, port: int) -> None:
        self.heard: list[bytes] = []
        self._port = port
        with ExitStack() as opened:
            self._ear = opened.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)))
            self._ear.bind(("lo", 0x0800))
            self._ear.setblocking(False)
            self._mouth = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))
            self._opened = opened.pop_all()

    def __enter__(self) -> Eavesdropper:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def listen(self) -> int:
        """Keep what came by now for the daemon; how much that is in all."""
        with suppress(BlockingIOError):
            while True:
                packet = self._ear.recv(65_536)
                if len(packet) > 28 and packet[0] == 0x45 and packet[9] == socket.IPPROTO_UDP:
                    if struct.unpack_from(">H", packet, 22)[0] == self._port and len(packet) < 1_400:
                        self.heard.append(
                            packet[:26] + bytes(2) + packet[28:]
                        )  # no checksum: the kernel's was for later
        return len(self.heard)

    def repeat(self) -> None:
        for packet in self.heard:
            self._mouth.sendto(packet, (LOOPBACK, 0))


def eavesdropper(port: int) -> Eavesdropper:
    try:
        return Eavesdropper(port)
    except (PermissionError, AttributeError):
        pytest.skip("hearing and forging packets of others needs root (CAP_NET_RAW), and Linux")


def test_replayed_packets_and_those_of_an_old_group_key_change_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with fortress(tmp_path) as (built, inside):
            cluster = built.cluster
            with eavesdropper(cluster.daemons["d1"].place.port) as eve:
                async with built.connect("bob", built.given["bob"], daemon="d2") as bob:
                    for number in range(10):
                        await bob.send("town", b"%d" % number)
                        await inside.hears(b"%d" % number)
                await cluster.until(lambda: eve.listen() > 20, "packets")
                views, seen = built.views(), len(inside.views)
                eve.repeat()
                await cluster.until(lambda: built.counts("replayed") > 20, "replays are counted")
                assert built.views() == views

                await cluster.stop("d3")
                await cluster.together("d1", "d2")
                views = built.views()
                await cluster.until(
                    lambda: (eve.repeat(), built.counts("old group key") > 2)[1], "old keys are counted"
                )
                assert built.views() == views
            for reason in ("replayed", "old group key"):
                lines = [line.partition(" ")[2] for line in cluster.log("d1").splitlines() if reason in line]
                assert 1 <= len(lines) == len(set(lines)) <= 4, "once for each peer"
            await inside.confirm(b"still here")
            assert inside.acknowledged[-1] == b"still here" and len(inside.views) == seen

    run(main())
