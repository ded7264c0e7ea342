"""What strangers, broken peers and full disks do to flows: a clear error, and nothing that grows without bound."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.cli.flow_serving import read_text, until_ended
from isotone.core.codec.control import ControlMessage
from isotone.core.contract import (
    Address,
    CancelTimer,
    DatagramsReceived,
    PersistFailed,
    SendDatagrams,
    SetTimer,
    Started,
    Stop,
    TimerFired,
)
from isotone.core.errors import InputError, LocalProtocolError, MachineError, RemoteProtocolError
from isotone.flows.authority import VIEW_BYTES_MAX, Authority, RingSettings
from isotone.flows.compiler import compile_text, decide
from isotone.flows.library import COMMIT, PHASES
from isotone.flows.messages import (
    CODEC,
    Alive,
    Bootstrap,
    Depart,
    Enrol,
    Record,
    Recorded,
    RingView,
    WireMember,
    decision_to_bytes,
    token_to_wire,
)
from isotone.flows.node import FlowNode
from isotone.flows.parser import parse
from isotone.flows.ring import Token
from isotone.flows.root import Decision
from isotone.flows.syntax import FlowError
from isotone.flows.values import RangeSet, range_set
from isotone.host.flow_invitations import Invitation
from isotone.host.flow_nodes import RunningNode, start_authority
from isotone.host.flow_process import FlowProcess, ask_status

A, B = Address("127.0.0.1:1"), Address("127.0.0.1:2")
RULES, COMMIT_RULES = compile_text(PHASES), compile_text(COMMIT)
LONG_S = 60


def hear(automaton: Any, message: ControlMessage | bytes) -> list[Any]:
    data = message if isinstance(message, bytes) else CODEC.encode(message)
    found: list[Any] = automaton.handle(DatagramsReceived(1, B, data, len(data)))
    return found


def authority(text: str = PHASES, parent: str = "") -> Authority:
    return Authority({"r": RingSettings("r", parent, "127.0.0.1:9" if parent else "", text)})


def member(text: str = PHASES, peers: tuple[str, ...] = ()) -> FlowNode:
    """A node that leads the top ring, with peers."""
    node = FlowNode(me="n", address=A, ring="r", authority=B, rules=compile_text(text))
    node.handle(Started(0))
    hear(node, Bootstrap("r", "n/1", "", "", 1_000, 100, 0, text))
    hear(node, RingView("r", 1, (WireMember("n/1", A, 1), *(WireMember(each, B, 1) for each in peers))))
    return node


def mutations(seed: int, count: int) -> list[bytes]:
    """Whole messages with a few bytes changed, cut off or doubled."""
    token = Token("n/1", 1, 3, [range_set((1, 2, 5)), range_set((7,))], 1, reach=[5, 0])
    whole = [
        CODEC.encode(each)
        for each in (
            token_to_wire("r", token, 0),
            Enrol("r", "m", B),
            RingView("r", 2, (WireMember("n/1", A, 1), WireMember("m", B, 2))),
            Alive("r", "m", 1),
            Record("r", "m", B, (0, 0), decision_to_bytes(Decision((1, 1), (3,), {"L'": 3, "N": 4}))),
            Recorded("r", "n/1", decision_to_bytes(Decision((1, 1), (3,), {"L'": 3, "N": 4}))),
        )
    ]
    choice = random.Random(seed)
    found = []
    for _ in range(count):
        data = bytearray(choice.choice(whole))
        for _ in range(choice.randint(1, 4)):
            data[choice.randrange(len(data))] = choice.randrange(256)
        found.append(bytes(data[: choice.randint(1, len(data))] if choice.random() < 0.3 else data))
    return found


@pytest.mark.parametrize("make", [authority, member, lambda: member(COMMIT, ("m",))], ids=["authority", "top", "ring"])
def test_mutated_packets_are_refused_or_harmless(make: Callable[[], Any]) -> None:
    automaton = make()
    for number, data in enumerate(mutations(7, 3_000)):
        if number % 100 == 0:
            automaton = make()
        try:
            hear(automaton, data)
        except RemoteProtocolError:
            continue


def test_decisions_of_another_program_are_refused() -> None:
    other = decision_to_bytes(Decision((1, 1), (RangeSet(), RangeSet()), decide(COMMIT_RULES, (RangeSet(),) * 2, {})))
    for body in (other, decision_to_bytes(Decision((1, 1), (3,), {"L'": 3, "X": 4})), b"\x93"):
        with pytest.raises(RemoteProtocolError):
            hear(authority(), Record("r", "m", B, (0, 0), body))
        with pytest.raises(RemoteProtocolError):
            hear(member(), Recorded("r", "n/1", body))
    with pytest.raises(RemoteProtocolError, match="only a top ring"):
        hear(authority(parent="q"), Record("r", "m", B, (0, 0), b""))


def test_a_view_fits_into_a_datagram_whatever_members_call_themselves() -> None:
    crowd = authority()
    refused = 0
    for number in range(300):
        try:
            hear(crowd, Enrol("r", f"{number:03}" + "\u4e00" * 190, "\u4e00" * 200))
        except RemoteProtocolError:
            refused += 1
    assert refused > 200
    view = [each for each in crowd.handle(TimerFired(2, ("view", "r"))) if isinstance(each, SendDatagrams)]
    assert view and all(len(b"".join(each.datagrams[0])) < 65_507 for each in view)
    assert VIEW_BYTES_MAX < 65_507


def test_what_does_not_fit_into_a_datagram_is_dropped_and_counted() -> None:
    node = member(COMMIT, ("m",))
    numbers = RangeSet(tuple(place for each in range(12_000) for place in (1_000 * each, 1_000 * each + 500)))
    node.stack[0].ring.values = (numbers, RangeSet())
    node.stack[0].down = (numbers,) * len(COMMIT_RULES.down)
    assert not [each for each in node.handle(TimerFired(2, ("tick", "r"))) if isinstance(each, SendDatagrams)]
    assert node.too_long == 1


def test_an_authority_that_cannot_write_stops() -> None:
    assert authority().handle(PersistFailed(1, 1, "No space left on device")) == [
        Stop("cannot write: No space left on device")
    ]


async def _stopped(tmp_path: Path) -> None:
    process = await start_authority(lambda at: {"r": RingSettings("r", "", "", PHASES)}, "127.0.0.1", 0, tmp_path / "s")
    try:
        process.tell(lambda at: PersistFailed(at, 1, "No space left on device"))
        with pytest.raises(MachineError, match="cannot write: No space left on device"):
            await asyncio.wait_for(until_ended(asyncio.Event().wait, [process]), LONG_S)  # type: ignore[arg-type]
    finally:
        process.close()


def test_an_authority_that_slept_while_a_member_departs_says_nothing_that_its_process_does_not_know() -> None:
    """The detector then doubts itself in its answer to any event; that is not for the process."""
    service = authority()
    for place in (A, B):
        hear(service, Enrol("r", f"m-{place}", str(place)))
    data = CODEC.encode(Depart("r", f"m-{A}"))
    said = service.handle(DatagramsReceived(LONG_S * 1_000_000, A, data, len(data)))
    assert {type(each) for each in said} <= {SetTimer, CancelTimer, SendDatagrams}
    assert any(isinstance(each, SendDatagrams) for each in said), "it probes the others, for it slept"


def test_whoever_runs_it_hears_why_it_stopped(tmp_path: Path) -> None:
    asyncio.run(_stopped(tmp_path))


async def _strangers(tmp_path: Path) -> None:
    process = await start_authority(lambda at: {"r": RingSettings("r", "", "", PHASES)}, "127.0.0.1", 0, tmp_path / "s")
    try:
        host, _, port = process.address.rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for place in ("nonsense", "no.such.host:1", ":", "127.0.0.1:99999", "127.0.0.1:0", "\u4e00:1"):
                stranger.sendto(CODEC.encode(Enrol("r", f"m{place}", place)), (host, int(port)))
            for data in mutations(3, 200):
                stranger.sendto(data, (host, int(port)))
        status = await ask_status(process.address, LONG_S)
        assert set(status) == {"r"} and not process.ended.done()
    finally:
        process.close()


def test_strangers_do_not_end_an_authority(tmp_path: Path) -> None:
    asyncio.run(_strangers(tmp_path))


async def _inputs() -> None:
    node = RunningNode(Invitation("r", "127.0.0.1:9", PHASES), "n")
    await node.process.start("127.0.0.1", 0)
    try:
        node.give({"L": 7})
        for wrong in ({"L": 3}, {"M": 1}, {"L": ["s", -1]}, {"L": True}, {"L": "x"}, {"L": 2**70}):
            with pytest.raises(InputError):
                node.give(wrong)
        node.give({"L": 8})
        assert not node.process.ended.done()
    finally:
        node.close()


def test_wrong_inputs_are_refused_and_the_node_goes_on() -> None:
    asyncio.run(_inputs())


async def _unreachable() -> None:
    def make(address: Address, incarnation: int) -> FlowNode:
        raise AssertionError

    with pytest.raises(InputError, match="other nodes can reach"):
        await FlowProcess(make).start("0.0.0.0", 0)


def test_an_address_that_nobody_can_reach_is_refused() -> None:
    asyncio.run(_unreachable())


def test_files_that_are_no_invitations(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "x", tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError):
            read_text(path)


@given(st.text(alphabet="programinuts LNR:=+-\\/()[]|2\n;#'<&", max_size=200))
def test_any_text_is_a_program_or_a_clear_error(text: str) -> None:
    for whole in (text, f"program x\ninput L : int\n{text}"):
        with suppress(FlowError):
            parse(whole)


def test_a_node_takes_no_strange_events() -> None:
    with pytest.raises(LocalProtocolError):
        member().handle(PersistFailed(1, 1, "x"))
