"""A daemon as a service, in this process: administration with credentials, reloading, keys, development."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from isotone.cli.admin_client import AdminClient
from isotone.cli.local_cluster import Place, places_of, settings_text
from isotone.core.errors import InputError
from isotone.daemon.admin.assembly import administration_of, assembled, opened
from isotone.daemon.admin.service import Service
from isotone.daemon.node import Node
from isotone.daemon.security.credentials import add_credential
from isotone.daemon.security.keys import generate_key
from isotone.daemon.settings import DaemonSettings, load, read
from isotone.evs.sessions.admission import Admitted, Denied

ADMIN = """
[security]
credentials_file = "{credentials}"

[[security.access]]
allow = ["connect", "join", "send"]

[[security.access]]
principals = ["ada"]
allow = ["admin"]
"""


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    logger = logging.getLogger("isotone")
    level = logger.level
    yield
    logger.setLevel(level)


def settings_file(home: Path, places: list[Place], more: str = "") -> Path:
    path = home / "isotone.toml"
    path.write_text(settings_text(places, home) + more)
    return path


@asynccontextmanager
async def served(path: Path, name: str = "d1") -> AsyncIterator[tuple[Node, Service]]:
    """The daemon of a file, ready."""

    def again() -> tuple[DaemonSettings, list[str]]:
        return load(path), []

    assembly = assembled(load(path), name)
    node = Node(assembly.node, assembly.hooks)
    await node.start()
    service = Service(assembly, again)
    try:
        async with service.around(node):
            async with asyncio.timeout(30):
                await node.ready()
            yield node, service
    finally:
        await node.stop()


def test_administration_needs_a_credential_that_the_access_list_allows(tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    ada, bob = add_credential(credentials, "ada"), add_credential(credentials, "bob")
    path = settings_file(tmp_path, places_of(1, 1, None), ADMIN.format(credentials=credentials))

    async def scenario() -> None:
        async with served(path) as (_, service):
            assert service.admin is not None
            where = service.admin.address
            for credential in ("", "wrong", bob):
                with pytest.raises(InputError, match="refuses"):
                    await asyncio.to_thread(AdminClient(where, credential).get, "/status")
            admin = AdminClient(where, ada)
            assert (await asyncio.to_thread(admin.get, "/status"))["ready"]
            assert (await asyncio.to_thread(admin.post, "/trace", {"level": "off"}))["level"] == "off"
            assert await asyncio.to_thread(AdminClient(where).is_ready)
            credentials.write_text("")
            assert await asyncio.to_thread(admin.post, "/reload", {}) is not None
            with pytest.raises(InputError, match="refuses"):
                await asyncio.to_thread(admin.get, "/status")

    asyncio.run(scenario())
    audit = (tmp_path / "state" / "d1" / "audit.jsonl").read_text()
    assert '"principal": "ada", "act": "trace", "outcome": "done"' in audit
    assert audit.count('"principal": "", "act": "look", "outcome": "refused"') == 1
    assert audit.count('"principal": "bob", "act": "look", "outcome": "refused"') == 1


def test_a_reload_looks_up_new_names_and_keeps_what_it_found_of_old_ones(tmp_path: Path) -> None:
    path = settings_file(tmp_path, places_of(1, 1, None))

    async def scenario() -> None:
        async with served(path) as (node, _), asyncio.timeout(30):
            membership, text = node.stack.membership.node, path.read_text()
            assert not membership.seeds
            path.write_text(text.replace("[cluster]\n", '[cluster]\nseeds = ["localhost:9"]\n'))
            await node.reload()
            while "127.0.0.1:9" not in membership.seeds:
                await asyncio.sleep(0)
            other = '[[daemon]]\nname = "d9"\nsite = "s1"\naddress = "127.0.0.1"\nport = 9\nadmin_port = 19\n'
            path.write_text(path.read_text() + other)
            assert "d9 known" in (await node.reload())[0]
            while "127.0.0.1:9" not in membership.seeds:
                await asyncio.sleep(0)

    asyncio.run(scenario())


def test_a_reload_says_what_was_taken_over(tmp_path: Path) -> None:
    path = settings_file(tmp_path, places_of(1, 1, None))

    async def scenario() -> None:
        async with served(path) as (node, _):
            path.write_text(path.read_text() + '[[security.access]]\nallow = ["connect"]\n')
            assert await node.reload() == ["security.access changed"]
            assert await node.reload() == []

    asyncio.run(scenario())


def test_a_reload_compares_with_what_runs_and_says_each_change_once(tmp_path: Path) -> None:
    path = settings_file(tmp_path, places_of(1, 1, None))
    started = path.read_text()
    port = load(path).daemon[0].port
    text = started.replace(f"port = {port}", "port = 9").replace(
        f'directory = "{tmp_path / "trace"}"', "directory = '/x'"
    )
    more = '[security]\naudit_file = "/x"\nrevoked = ["d7"]\n[admin]\nmetrics_open = true\n'
    text = text.replace("share_port = true", 'share_port = true\noversize = "disconnect"').replace(
        "[faults]", more + "[faults]"
    )
    restart = ["daemon d1: port", "security.audit_file", "trace.directory", "spread.oversize", "admin.metrics_open"]

    async def scenario() -> None:
        async with served(path) as (node, service):
            path.write_text(text)
            first, second = await node.reload(), await node.reload()
            assert first.count("security.revoked changed") == 1
            first.remove("security.revoked changed")
            assert first == second == [f"{key} changed: that needs a restart" for key in restart]
            assert node.settings.port == service.settings.daemon[0].port == port
            assert node.trace_status().directory == node.directories()["trace"] == str(tmp_path / "trace")
            path.write_text(started)
            assert await node.reload() == ["security.revoked changed"]
            assert await node.reload() == []

    asyncio.run(scenario())


def test_a_reload_takes_another_file_with_credentials(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    add_credential(old, "ada")
    bea = add_credential(new, "ada")
    path = settings_file(tmp_path, places_of(1, 1, None), ADMIN.format(credentials=old))

    async def scenario() -> None:
        async with served(path) as (node, service):
            access = service.assembly.access
            assert isinstance(access.judge_admin(bea.encode(), "look"), Denied)
            path.write_text(path.read_text().replace(f'"{old}"', f'"{new}"'))
            assert await node.reload() == ["security.credentials_file changed"]
            assert isinstance(access.judge_admin(bea.encode(), "look"), Admitted)

    asyncio.run(scenario())


def test_settings_that_cannot_be_read_again_change_nothing(tmp_path: Path) -> None:
    path = settings_file(tmp_path, places_of(1, 1, None))

    async def scenario() -> None:
        async with served(path) as (node, service):
            before = service.settings
            path.write_text(path.read_text().replace('level = "buffered"', 'level = "loud"'))
            with pytest.raises(InputError, match="loud"):
                await node.reload()
            assert service.settings is before
            path.write_text(path.read_text().replace('level = "loud"', 'level = "off"'))
            assert any("trace" in line for line in await node.reload())
            assert node.trace_status().level == "off"

    asyncio.run(scenario())


def test_daemons_with_keys_come_together_and_a_stranger_does_not(tmp_path: Path) -> None:
    places = places_of(3, 1, None)
    keys = {place.name: generate_key(tmp_path / f"{place.name}.key") for place in places}
    stranger = generate_key(tmp_path / "other.key")
    text = settings_text(places, tmp_path)
    for place in places:
        own = stranger if place.name == "d3" else keys[place.name]
        text = text.replace(f'name = "{place.name}"\n', f'name = "{place.name}"\npublic_key = "{own.text}"\n')
    path = tmp_path / "isotone.toml"
    path.write_text(text + f'\n[security]\nmode = "keys"\nprivate_key_file = "{tmp_path}/{{name}}.key"\n')

    async def scenario() -> None:
        async with served(path, "d1") as (one, _), served(path, "d2") as (two, _), served(path, "d3") as (three, _):
            wanted = ["d1", "d2"]
            async with asyncio.timeout(30):
                while [each.name for each in two.stack.membership.members] != wanted or not two.is_ready:
                    await next_look(two)
                while not one.counts()["guard"] or not any(
                    count for name, count in one.counts()["guard"].items() if name.startswith("refused")
                ):
                    await next_look(one)
            assert [each.name for each in three.stack.membership.members] == ["d3"]
            assert [each.name for each in one.stack.membership.members] == wanted

    asyncio.run(scenario())


async def next_look(node: Node) -> None:
    """Until the node woke up once more."""
    woken = asyncio.Event()

    def look(at: int) -> None:
        woken.set()

    node.observers.append(look)
    await woken.wait()
    node.observers.remove(look)


def test_development_is_for_loopback_and_without_secrets(tmp_path: Path) -> None:
    places = places_of(1, 1, None)
    text = settings_text(places, tmp_path)
    assert opened(read(text).settings).dev
    for wrong in (
        text.replace('address = "127.0.0.1"', 'address = "10.1.2.3"'),
        text.replace("port = ", 'listen = "0.0.0.0"\nport = ', 1),
        text + '\n[admin]\nlisten = "0.0.0.0"\n',
        text + "\n[security]\nanonymous = false\n",
    ):
        with pytest.raises(InputError):
            opened(read(wrong).settings)


def test_a_daemon_knows_where_the_others_of_its_settings_are_administrated(tmp_path: Path) -> None:
    here, there = places_of(2, 1, None)
    settings = load(settings_file(tmp_path, [here, there]))
    me, other = settings.daemon
    assert administration_of(settings, me) == {"d2": there.admin}
    elsewhere = msgspec.structs.replace(other, address="10.0.0.2")
    apart = msgspec.structs.replace(settings, daemon=(me, elsewhere))
    assert administration_of(apart, me) == {"d2": ""}, "a port on loopback is for its own machine"
    listening = msgspec.structs.replace(apart, admin=msgspec.structs.replace(apart.admin, listen="0.0.0.0"))
    assert administration_of(listening, me) == {"d2": f"10.0.0.2:{there.admin.rpartition(':')[2]}"}
    off = msgspec.structs.replace(apart, admin=msgspec.structs.replace(apart.admin, enabled=False))
    assert administration_of(off, me) == {}
