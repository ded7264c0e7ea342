"""The guide to security: its commands, settings and programs do what it says."""

from __future__ import annotations

import ast
import asyncio
import shlex
from pathlib import Path
from types import CodeType

import pytest
from click.testing import CliRunner

import isotone
from isotone.cli.main import commands
from isotone.client.errors import ClientError
from isotone.core.contract import Address
from isotone.daemon.composition import Hooks
from isotone.daemon.node import Node
from isotone.daemon.node_settings import Listener, NodeSettings
from isotone.daemon.security.access import Access, AccessRule
from isotone.daemon.security.credentials import read_credentials
from isotone.daemon.security.keys import Roster, parse_authority, parse_certificate, read_key
from isotone.daemon.security.tls import server_context
from isotone.daemon.settings import read
from isotone.evs.sessions.admission import Admitted
from tests.daemon.security.test_tls import Issuer

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "security.md"


def blocks(language: str) -> list[str]:
    parts = PAGE.read_text(encoding="utf-8").split(f"```{language}\n")[1:]
    return [part.partition("```")[0] for part in parts]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line: str) -> str:
    words = shlex.split(line)
    target = words[words.index(">") + 1] if ">" in words else ""
    words = words[: words.index(">")] if target else words
    assert words[0] == "isotone"
    result = CliRunner().invoke(commands, words[1:])
    assert result.exit_code == 0, result.output
    if target:
        Path(target).write_text(result.output)
    return result.output


def test_every_command_runs_and_makes_what_it_says(here: Path) -> None:
    said = "".join(run(line) for block in blocks("sh") for line in block.splitlines())
    for name in ("d1", "d2", "d3"):
        assert read_key(here / f"{name}.key")
    words = dict(line.split(" = ", 1) for line in said.splitlines() if " = " in line)
    authority = parse_authority(ast.literal_eval(words["authority"]))
    certificate = parse_certificate(ast.literal_eval(words["certificate"]))
    assert not Roster("isotone", {}, authority).problem("d3", read_key(here / "d3.key").public, certificate)
    credentials = read_credentials(here / "credentials")
    entry = credentials.find((here / "alice.credential").read_bytes().strip())
    assert entry is not None and entry.principal == "alice" and entry.names == ("alice*",)


@pytest.mark.parametrize("index", range(3))
def test_all_settings_are_accepted(index: int) -> None:
    text = blocks("toml")[index]
    loaded = read(text if "[[daemon]]" in text else f'[[daemon]]\nname = "d1"\n[security]\nmode = "open"\n{text}')
    assert len(blocks("toml")) == 3
    assert loaded.settings.security.private_key_file or loaded.settings.security.access


def test_with_its_access_list_members_call_and_answer_and_others_are_refused() -> None:
    rules = read(blocks("toml")[1]).settings.security.access
    access = Access([AccessRule(principals=each.principals, groups=each.groups, allow=each.allow) for each in rules])
    everybody_is_alice = Hooks(admit=lambda name, credential, peer: Admitted("alice"), permit=access.permit)

    async def serve(room: isotone.Group) -> None:
        async for event in room:
            if isinstance(event, isotone.Message) and event.is_call:
                await event.reply(b"pong")

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            isotone.node(hooks=everybody_is_alice) as daemon,
            isotone.connect(daemon.address) as asking,
            isotone.connect(daemon.address) as serving,
        ):
            working = asyncio.create_task(serve(await serving.join("chat")))
            room = await asking.join("chat")
            (answer,) = await room.call(b"ping", answers=1, deadline=30)
            assert answer.body == b"pong"
            working.cancel()
            with pytest.raises(isotone.ClientError, match="may not join news"):
                await asking.join("news")
            with pytest.raises(isotone.ClientError, match="may not send to news"):
                await asking.send("news", b"no")

    asyncio.run(main())
    assert access.refused == {"forbidden join": 1, "forbidden send": 1}


def compiled(text: str) -> CodeType:
    return compile(text, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_program_reaches_a_daemon_with_tls_and_a_credential(here: Path) -> None:
    for line in blocks("sh")[-1].splitlines():
        run(line)
    issuer = Issuer(here, "authority")
    certificate = issuer.issue("localhost")
    rules = [AccessRule(principals=["alice"], groups=["chat*"], allow=["connect", "join", "send"])]
    access = Access(rules, read_credentials(here / "credentials"), anonymous=False)
    hooks = Hooks(admit=access.admit, permit=access.permit, tls=server_context(certificate, certificate))
    asyncio.run(asyncio.wait_for(_visit(hooks), 30))
    assert access.refused == {"wrong credential": 1, "no credential": 1, "forged private name": 1, "forbidden join": 1}


async def _visit(hooks: Hooks) -> None:
    listener = Listener(address=Address("127.0.0.1:0"), tls=True)
    node = Node(NodeSettings(name="d1", listeners=(listener,)), hooks)
    await node.start()
    try:
        await node.ready()
        door = next(each for each in node.addresses if each != node.address).replace("127.0.0.1", "localhost")
        (program,) = blocks("python")
        for change, refused in (
            (("x", "x"), False),
            (("credential=credential", 'credential="id.guessed"'), True),
            (("credential=credential, ", ""), True),
            (('name="alice"', 'name="bob"'), True),
            (('join("chat")', 'join("secret")'), True),
        ):
            await _run(program.replace("localhost:4804", door).replace(*change), refused=refused)
    finally:
        await node.stop("done")


async def _run(program: str, *, refused: bool) -> None:
    coroutine = eval(compiled(program), {})
    if refused:
        with pytest.raises(ClientError):
            await coroutine
    else:
        await coroutine
