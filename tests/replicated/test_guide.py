"""docs/guide/replicated.md: every block of Python runs as it stands, but for places of other machines."""

from __future__ import annotations

import ast
import asyncio
import re
import textwrap
from collections.abc import Callable
from inspect import iscoroutine
from pathlib import Path
from typing import Any

import pytest

import isotone
from tests.ports import free_ports
from tests.testing import plugin

pytest_plugins = ("pytester",)

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "replicated.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
WITHIN_S = 120.0


def block(*words: str) -> str:
    """The only block with all of these words."""
    (found,) = (each for each in BLOCKS if all(word in each for word in words))
    return str(found)


async def run(text: str, names: dict[str, Any]) -> None:
    """A block, which may await at its top level, as `python -m asyncio` takes it."""
    code = compile(text, GUIDE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    waiting = eval(code, names)
    if iscoroutine(waiting):
        async with asyncio.timeout(WITHIN_S):
            await waiting


def test_the_first_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("asyncio.run(main"), GUIDE.name, "exec"), {"__name__": "guide"})
    assert capsys.readouterr().out == "3\n"


def test_the_program_without_asyncio_runs(tmp_path: Path) -> None:
    exec(placed(block("replica_blocking"), tmp_path), {"__name__": "guide"})


def placed(text: str, directory: Path) -> str:
    return text.replace('"data/a"', repr(str(directory / "a")))


def test_the_programs_with_objects_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(with_objects(tmp_path))
    told = capsys.readouterr().out
    for line in ("{'order': 17} 1", "2 apples 4 False", "commit", "3 sold 1 False"):
        assert line.partition(" ")[2] in told, line


async def with_objects(directory: Path) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    names: dict[str, Any] = {"isotone": isotone, "write_to_storage": lambda fence: None}
    for words in (("class Account",), ("class Votes",)):
        await run(block(*words), names)
    classes = [names["Account"], names["Votes"]]
    async with isotone.replica("shop", name="a", state=directory / "shop", clients=address, classes=classes) as shop:
        names["shop"] = shop
        await run(block("stock.watch"), names)
        await run(block('"host-b:4816"').replace('"host-a:4816", "host-b:4816"', repr(address)), names)
        history = block("history=").replace('"host-a:4816"', repr(address))
        await run(history.replace('"histories"', repr(str(directory / "histories"))), names)
        names["shop"] = shop
        await run(block("jobs.take"), names)
        locks = block("write_to_storage").replace('"start", 3', '"start", 1')
        await run(locks.replace("await term.until_lost()", "term.is_held"), names)
        await run(block("provisional()"), names)
        other = asyncio.create_task(shop.commitment("transfer-17", ["a", "b"]).vote("b", True, within_s=WITHIN_S))
        await run(block("shop.commitment"), names)
        await other
        assert await shop.dict("stock").items(stale_ok=True)
        await run(block("shop.remove"), names)
        assert not await shop.dict("stock").items(stale_ok=True)


ALONE: list[tuple[str, Callable[[str], str]]] = [
    ("peers=", lambda text: re.sub(r", peers=\{.*?\}", "", text)),
    ("classes=[Account]", lambda text: f"{block('class Account')}\n{text.replace('withdraw(3)', 'withdraw(0)')}"),
    ("databases=[bank]", lambda text: text + textwrap.indent(block("accounts.changes"), "    ") + "        break\n"),
]


@pytest.mark.parametrize(("word", "altered"), ALONE, ids=[word for word, _ in ALONE])
def test_a_program_of_a_server_runs(word: str, altered: Callable[[str], str], tmp_path: Path) -> None:
    asyncio.run(run(placed(altered(block(word)), tmp_path), {"isotone": isotone}))


def test_the_test_under_partitions_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(block("isotone.testing.seeds"))
    arguments = (*plugin.arguments(), "-p", "no:cacheprovider", "--isotone-seeds", "1")
    pytester.runpytest_inprocess(*arguments).assert_outcomes(passed=1)


def test_every_block_is_run_by_one_of_these() -> None:
    marks = ["asyncio.run(main", "replica_blocking", "class Account", "class Votes", "stock.watch", "history="]
    marks += [
        "jobs.take",
        "write_to_storage",
        "provisional()",
        "shop.commitment",
        "shop.remove",
        '"host-b:4816"',
        "isotone.testing.seeds",
    ]
    marks += ["accounts.changes", *(word for word, _ in ALONE)]
    assert sorted(BLOCKS) == sorted(map(block, marks))
