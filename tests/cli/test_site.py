"""``isotone site``: keys, files that are wrong, data centres that do not answer, and what status says of states."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from isotone.cli.site_acts import NOT_NEEDED, risk_of
from isotone.cli.site_status import _remarks
from isotone.daemon.security.keys import read_authority, read_key
from isotone.host.hab_acts import Act
from tests.cli.running import isotone, told
from tests.host.centres import Centres
from tests.host.test_hab_log import run_with

ACTS = ("declare-lost", "withdraw", "handover", "rejoin")


def test_a_key_for_a_process_and_one_for_an_operator(tmp_path: Path) -> None:
    made = told("site", "keygen", "b1", "--file", str(tmp_path / "b1" / "centre.key"))
    assert made["key"] == read_key(tmp_path / "b1" / "centre.key").text
    made = told("site", "keygen", "anna", "--operator", "--file", str(tmp_path / "anna.key"))
    assert made["key"] == read_authority(tmp_path / "anna.key").text
    again = isotone("site", "keygen", "anna", "--operator", "--file", str(tmp_path / "anna.key"))
    assert again.exit_code == 2 and "keys are not written over" in again.output


@pytest.mark.parametrize("act", ACTS)
def test_a_centre_that_is_not_in_the_file(tmp_path: Path, act: str) -> None:
    centres = Centres(tmp_path, {"a": 1, "b": 1})
    words = [str(centres.path), "--operator", "anna", "--key", str(tmp_path / "anna.key")]
    done = isotone("site", act, "z", *words)
    assert done.exit_code == 2 and "no data centre is called 'z': a, b" in done.output


@pytest.mark.parametrize("words", [("status",), ("suspects",), ("found",), ("declare-lost", "a")])
def test_nobody_answers(tmp_path: Path, words: tuple[str, ...]) -> None:
    centres = Centres(tmp_path, {"a": 1, "b": 1})
    key = ["--operator", "anna", "--key", str(tmp_path / "anna.key")] if words[0] in {"found", "declare-lost"} else []
    done = isotone("site", *words, str(centres.path), *key)
    assert done.exit_code == 3 and "no process of any data centre answers" in done.output


def test_what_status_says_beside_the_table() -> None:
    seen = {"name": "a", "number": 1, "lost": "declared", "recorders": ["b"], "operators": ["anna"]}
    gone = {"name": "c", "number": 0, "lost": "", "recorders": [], "operators": []}
    status = {
        "centre": "b",
        "role": "backup",
        "majority": 2,
        "centres": [seen, gone],
        "petitions": [{"centre": "a", "operators": ["ben"], "overriding": []}],
        "joining": False,
        "unsafe_after_ms": 0,
    }
    assert _remarks(status) == [
        "b: a is declared lost, without the 2 it needs: recorded by b, wanted by anna",
        "b: c takes no part",
        "b: ben wants a declared lost: not confirmed yet",
    ]
    out = {**status, "role": "out", "centres": [], "petitions": []}
    assert _remarks(out) == ["b was declared lost, or has no state: isotone site rejoin asks back"]


def status_at(centre: str, *centres: str) -> dict[str, Any]:
    """As a process of it sees these, which all take part."""
    seen = [{"name": each, "number": number} for number, each in enumerate(centres, start=1)]
    return {"centre": centre, "role": "backup", "centres": seen, "majority": len(centres) // 2 + 1}


def test_an_override_names_its_risk() -> None:
    two = risk_of({"b1": status_at("b", "a", "b")}, "a", "b1")
    assert "1 of 2 data centres answer" in two and "a majority is 2" in two and NOT_NEEDED not in two
    three = {f"{each}1": status_at(each, "a", "b", "c") for each in "bc"}
    assert NOT_NEEDED in risk_of(three, "a", "b1")
    assert NOT_NEEDED not in risk_of(three, "b", "c1")


def test_operators_withdraw_and_hand_over(tmp_path: Path) -> None:
    """With real processes: what one wants, another one takes back; the primary role goes to another data centre."""

    async def main(centres: Centres) -> None:
        await centres.start("a1", "b1", "c1")

        async def site(*words: str, operator: str = "", code: int | None = 0) -> str:
            """Again while it only waits for something, unless this is what is expected."""
            key = ["--operator", operator, "--key", str(tmp_path / f"{operator}.key")] if operator else []
            while True:
                done = await asyncio.to_thread(isotone, "site", *words, str(centres.path), *key)
                if done.exit_code == code or code is None:
                    return done.output
                assert done.exit_code == 1 and code == 0, done.output

        async def status() -> dict[str, Any]:
            told = json.loads(await site("status", "--json", code=None))
            return {each["process"]: each for each in told["processes"]}

        await site("found", operator="anna")
        while "1 more operator says the same" not in await site("declare-lost", "b", operator="anna", code=None):
            pass
        assert "anna wants b declared lost: not confirmed yet" in await site("status", code=None)
        assert "nobody wants b declared lost any more" in await site("withdraw", "b", operator="ben")
        while any(each["petitions"] for each in (await status()).values()):
            pass  # until the others have heard it
        done = await asyncio.to_thread(isotone, *withdraw_of("b", centres))
        assert done.exit_code == 2 and "nobody wants b declared lost" in done.output
        assert "b leads" in await site("handover", "b", operator="anna")
        while {each["role"] for each in (await status()).values()} != {"primary", "backup"}:
            pass
        told = await status()
        assert {name: each["leader"] for name, each in told.items()} == {"a1": "b", "b1": "b", "c1": "b"}
        assert told["b1"]["role"] == "primary" and told["b1"]["crossed"]["Store"] > 0
        assert told["c1"]["crossed"]["OkStored"] > 0 and told["c1"]["unsafe_after_ms"] == 0
        await centres.running["c1"].dict("stock").set("after", 1)
        assert await centres.running["a1"].dict("stock").get("after") == 1

    run_with(tmp_path, {"a": 1, "b": 1, "c": 1}, main, head="confirmations = 2")


def withdraw_of(name: str, centres: Centres) -> tuple[str, ...]:
    key = str(centres.directory / "ben.key")
    return ("site", "withdraw", name, str(centres.path), "--operator", "ben", "--key", key)


def test_all_can_begin_though_some_began_before_and_ordered_something(tmp_path: Path) -> None:
    """The command broke off after the first of them: it says the same again."""

    async def main(centres: Centres) -> None:
        await centres.start("a1", "b1", "c1")
        await centres.ask("a1", Act("found", "a"))
        log = centres.running["a1"].centre_log
        waiting = asyncio.create_task(log.append(b"before the others have begun"))
        while not (await centres.ask("a1")).status["end"]:
            pass
        words = ("site", "found", str(centres.path), "--operator", "anna", "--key", str(tmp_path / "anna.key"))
        while (done := await asyncio.to_thread(isotone, *words)).exit_code == 1:
            pass
        assert done.exit_code == 0, done.output
        await waiting
        late = await asyncio.to_thread(isotone, *words)
        assert late.exit_code == 2 and "has a state already" in late.output

    run_with(tmp_path, {"a": 1, "b": 1, "c": 1}, main)


def test_status_says_who_declares_by_itself() -> None:
    told = {**status_at("b", "a", "b"), "petitions": [], "unsafe_after_ms": 30_000, "joining": False}
    told["centres"] = [{**each, "lost": ""} for each in told["centres"]]
    assert _remarks(told) == ["b declares a silent data centre lost by itself, after 30 s"]
