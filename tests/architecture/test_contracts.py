"""``docs/contracts.md`` says what the code says. After a change that is meant: ``pytest --rewrite``, then review."""

from __future__ import annotations

import msgspec
import pytest

from isotone.core.contract import Action, Event
from isotone.trace.vocabulary import entry_types
from tests.architecture.contract_blocks import BLOCK, MAKERS, block, rewritten, struct_line
from tests.architecture.source import ROOT

DOCUMENT = ROOT / "docs" / "contracts.md"


def pinned() -> list[tuple[str, str]]:
    return [(match[2], match[3]) for match in BLOCK.finditer(DOCUMENT.read_text(encoding="utf-8"))]


def test_every_block_stands_in_the_document_once(rewrite: bool) -> None:
    if rewrite:
        DOCUMENT.write_text(rewritten(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    assert sorted(name for name, _ in pinned()) == sorted(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
def test_the_contract_is_pinned(name: str) -> None:
    assert dict(pinned())[name].splitlines() == block(name).splitlines(), (
        f"{name} changed; if that is meant: pytest tests/architecture --rewrite, and review docs/contracts.md"
    )


def test_every_entry_of_the_trace_is_pinned() -> None:
    """Whichever layer adds it; a trace that was written once must be read for ever."""
    text = "".join(body for name, body in pinned() if name.startswith("trace."))
    own = [kind for kind, entry in entry_types().items() if entry.__module__.startswith("isotone.")]
    assert not [kind for kind in own if f"\n{kind}: {struct_line(entry_types()[kind])}\n" not in text]


class Old(Event, frozen=True):
    key: str
    count: int = 3


class Renamed(Event, frozen=True):
    key: str
    amount: int = 3


class Retyped(Event, frozen=True):
    key: bytes
    count: int = 3


class Moved(Action, frozen=True):
    key: str
    count: int = 3


def test_names_types_defaults_and_roles_are_all_pinned() -> None:
    assert struct_line(Old) == "event Old(at: int, key: str, count: int = 3)"
    assert struct_line(Renamed) == "event Renamed(at: int, key: str, amount: int = 3)"
    assert struct_line(Retyped) == "event Retyped(at: int, key: bytes, count: int = 3)"
    assert struct_line(Moved) == "action Moved(key: str, count: int = 3)"


def test_the_json_of_swarm_and_check_keeps_its_promised_keys() -> None:
    from isotone.sim.summary import summarise

    made = msgspec.to_builtins(summarise([], {}))
    assert {"runs", "violations", "properties", "failures", "bounds"} <= made.keys()
    assert (made["runs"], made["violations"], made["properties"]) == (0, 0, {})
    assert list(made["failures"]) == [] and made["bounds"] == {}


def test_rewriting_changes_blocks_and_nothing_else() -> None:
    before = "a\n<!-- pinned: core.services -->\nstale\n<!-- end -->\nb\n<!-- pinned: unknown -->\nx\n<!-- end -->\n"
    after = rewritten(before)
    assert after.startswith("a\n<!-- pinned: core.services -->\n```text\nService.UNRELIABLE = 0\n")
    assert after.endswith("<!-- end -->\nb\n<!-- pinned: unknown -->\nx\n<!-- end -->\n")
    assert rewritten(after) == after
