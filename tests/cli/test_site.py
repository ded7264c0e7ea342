"""``isotone site``: keys, files that are wrong, data centres that do not answer, and what status says of states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from isotone.cli.site_acts import NOT_NEEDED, risk_of
from isotone.cli.site_status import _remarks
from isotone.daemon.security.keys import read_authority, read_key
from tests.cli.running import isotone, told
from tests.host.centres import Centres

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
