"""Real processes on loopback: authorities, several nodes in one process, kills and restarts, invitations."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from isotone.core.errors import InputError
from isotone.flows.hierarchy import grown, leaves_of, ring_settings
from isotone.flows.library import PHASES
from isotone.host.flow_invitations import Invitation, load_key, public_text, read_invitation, write_invitation
from isotone.host.flow_process import ask_status
from tests.flows.flow_children import LONG_S, Child


@pytest.fixture
def children() -> Iterator[list[Child]]:
    made: list[Child] = []
    yield made
    for child in made:
        child.end(signal.SIGKILL)


def test_processes_of_several_nodes_go_on_through_kills_and_restarts(tmp_path: Path, children: list[Child]) -> None:
    """Four processes of eight nodes, three layers of rings: a process is killed and comes back, the authority too."""
    state, invitations = str(tmp_path / "state"), tmp_path / "invitations"
    rings = "r,r.1,r.2,r.1.1,r.1.2,r.2.1,r.2.2"

    def authority(bind: str) -> Child:
        options = ["--rings", rings, "--bind", bind, "--token-ms", "20", "--state", state]
        child = Child("authority", "phases", *options, "--invitations", str(invitations))
        children.append(child)
        return child

    def nodes(ring: str) -> Child:
        child = Child("node", str(invitations / ring), "--count", "8", "--versions", "1000000", "--name", ring)
        children.append(child)
        child.ready = child.line()["ready"]  # type: ignore[attr-defined]
        return child

    first = authority("127.0.0.1:0")
    told = first.line()
    assert told["invitations"] == ["r.1.1", "r.1.2", "r.2.1", "r.2.2"] and told["rings"] == 7
    groups = {ring: nodes(ring) for ring in told["invitations"]}
    for child in groups.values():
        child.until_phase(3)
    groups["r.1.1"].end(signal.SIGKILL)  # its leader leads other rings too, perhaps the top
    groups["r.2.1"].until_phase(6)
    groups["r.1.1"] = nodes("r.1.1")
    first.end(signal.SIGKILL)
    second = authority(told["ready"])
    assert second.line()["key"] == told["key"]
    for child in groups.values():
        child.until_phase(12)
    status = asyncio.run(ask_status(told["ready"], LONG_S))
    assert set(status) == set(rings.split(",")) and all(each["view"] >= 1 for each in status.values())
    node = asyncio.run(ask_status(groups["r.1.1"].ready[0], LONG_S))  # type: ignore[attr-defined]
    assert node["program"] == "phases" and node["outputs"]["N"] >= 12


def test_inputs_and_outputs_are_lines(tmp_path: Path, children: list[Child]) -> None:
    options = ["--nodes", "2", "--token-ms", "10", "--state", str(tmp_path / "s"), "--invitations", str(tmp_path / "i")]
    authority = Child("authority", "phases", *options)
    children.append(authority)
    key = authority.line()["key"]
    node = Child("node", str(tmp_path / "i" / "r"), "--trust", key)
    children.append(node)
    assert node.line()["ring"] == "r"
    node.until_phase(1)
    assert node.process.stdin is not None
    node.process.stdin.write('{"M": 3}\n{"L": 7}\n')
    node.process.stdin.flush()
    seen = [node.line(), node.line()]
    assert any("has no input M" in line.get("refused", "") for line in seen)
    if not any(line.get("outputs", {}).get("N") == 8 for line in seen):
        node.until_phase(8)
    stranger = Child("node", str(tmp_path / "i" / "r"), "--trust", "00" * 32)
    children.append(stranger)
    assert stranger.process.wait(LONG_S) == 2


def test_invitations_are_signed(tmp_path: Path) -> None:
    key, other = load_key(tmp_path / "a"), load_key(tmp_path / "b")
    assert public_text(load_key(tmp_path / "a")) == public_text(key) != public_text(other)
    invitation = Invitation("r.1", "127.0.0.1:1", PHASES)
    text = write_invitation(invitation, key)
    assert read_invitation(text) == read_invitation(text, public_text(key)) == invitation
    with pytest.raises(InputError, match="signed by"):
        read_invitation(text, public_text(other))
    with pytest.raises(InputError, match="not an invitation"):
        read_invitation("hello")
    for place in range(20, len(text) - 4, 97):
        damaged = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        with pytest.raises(InputError):
            read_invitation(damaged)


def test_hierarchies_are_grown_or_written_down() -> None:
    names = grown(64, 4)
    assert len(leaves_of(names)) == 16 and len(names) == 21 and names[0] == "r"
    assert grown(3, 8) == ["r"]
    settings = ring_settings(names, PHASES, "a:1", token_us=1, ranges_max=1)
    assert [name for name, each in settings.items() if not each.parent] == ["r"]
    assert settings["r.1.1"].parent == "r.1"
    below = ring_settings(["x", "x.1"], PHASES, "b:1", parent=("r.1", "a:1"), token_us=1, ranges_max=1)
    assert (below["x"].parent, below["x"].parent_authority) == ("r.1", "a:1")
    with pytest.raises(InputError, match="one top ring"):
        ring_settings(["x", "y"], PHASES, "a:1", token_us=1, ranges_max=1)
    with pytest.raises(InputError, match="different names"):
        ring_settings([], PHASES, "a:1", token_us=1, ranges_max=1)
    with pytest.raises(InputError, match="fan-out"):
        grown(8, 1)
    with pytest.raises(InputError, match="at most 10000 rings"):
        grown(100_000, 2)
