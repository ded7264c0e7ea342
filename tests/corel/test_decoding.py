"""What makes no sense names its sender and ends nobody: it is as if that server were not there."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.codec.control import ControlCodec, ControlMessage
from isotone.core.codec.frame import FRAME, FrameKind
from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import Stamp
from isotone.core.services import Service
from isotone.corel import wire
from isotone.corel.configuration import Configuration, founded
from isotone.corel.decoding import OPEN_MAX, decoded, named_view
from isotone.corel.explain import why_no_primary
from isotone.corel.message import Message, Origin, Range
from isotone.corel.port import wire as port_wire
from isotone.corel.quorum import History, Majority, Primary
from tests.corel.cluster import GROUP, Cluster, joined
from tests.corel.test_versions import say

SERVERS = ("a", "b", "c")
GOOD = founded(SERVERS, Majority(SERVERS))
UNREADABLE = Configuration(1, SERVERS, b"\xc1 is no rule")
HISTORY = History(Primary(0, SERVERS))
ALL = (wire.CODEC, wire.CATCHING_CODEC)


def state(**changes: object) -> wire.State:
    plain = wire.State("v", "b", 0, 0, 3, 5, (), HISTORY, (), SERVERS, GOOD)
    return msgspec.structs.replace(plain, **changes)


def change(configuration: Configuration) -> Message:
    return Message(Origin("b", 1), 1, 1, (), configuration)


NONSENSE: dict[str, wire.Wire] = {
    "a rule that nobody can read": wire.Regular("v", 0, 0, change(UNREADABLE)),
    "no servers": wire.Retransmitted("v", (change(Configuration(1, (), GOOD.rule)),)),
    "servers twice": wire.Priority("v", 1, (change(Configuration(1, ("a", "a"), GOOD.rule)),)),
    "an unreadable configuration": state(configuration=UNREADABLE),
    "green above yellow": state(green=6),
    "forgotten above green": state(forgotten=4),
    "a range backwards": state(ranges=(Range(Origin("a", 1), 5, 4),)),
    "a range from 0": state(ranges=(Range(Origin("a", 1), 0, 4),)),
    "a range without end": state(ranges=(Range(Origin("a", 1), 1, 1 << 40),)),
    "too many in all": state(ranges=(Range(Origin("a", 1), 2, OPEN_MAX), Range(Origin("b", 1), 8, 9))),
    "two of one origin": state(ranges=(Range(Origin("a", 1), 1, 2), Range(Origin("a", 1), 3, 4))),
}


@pytest.mark.parametrize("message", NONSENSE.values(), ids=NONSENSE)
def test_what_cannot_be_is_refused_by_the_name_of_its_sender(message: wire.Wire) -> None:
    with pytest.raises(RemoteProtocolError, match=r"^b says nonsense: "):
        decoded(wire.CODEC, "b", wire.CODEC.encode(message))


def test_what_can_be_is_taken() -> None:
    most = (Range(Origin("a", 1), 2, OPEN_MAX), Range(Origin("b", 1), 9, 9))
    for message in (state(), state(ranges=most), wire.Regular("v", 0, 0, change(GOOD))):
        assert decoded(wire.CODEC, "b", wire.CODEC.encode(message)) == message


# --- any bytes ------------------------------------------------------------------------------------------------------

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
tagged = st.tuples(st.integers(0x7E, 0x90), st.lists(values, max_size=18)).map(lambda each: [each[0], *each[1]])
bodies = st.binary(max_size=64) | values.map(msgspec.msgpack.encode) | tagged.map(msgspec.msgpack.encode)
samples = [wire.CODEC.encode(each) for each in (state(), *NONSENSE.values())]


@st.composite
def bent(draw: st.DrawFn) -> bytes:
    """A message of which a few bytes are others, or gone."""
    body = bytearray(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(1, 4))):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    return bytes(body[: draw(st.integers(0, len(body)))]) if draw(st.booleans()) else bytes(body)


@given(bodies | bent(), st.sampled_from(ALL))
def test_no_bytes_lead_to_another_error(body: bytes, codec: ControlCodec[ControlMessage]) -> None:
    assert isinstance(named_view(body), str)
    with suppress(RemoteProtocolError):
        decoded(codec, "b", body)


tags = st.tuples(st.integers(0, 12), st.lists(values, max_size=6)).map(lambda each: [each[0], *each[1]])


@given(bodies | tags.map(msgspec.msgpack.encode))
def test_the_frames_of_the_port_neither(body: bytes) -> None:
    for decoder in (port_wire.CLIENT_FRAMES, port_wire.SERVER_FRAMES):
        frames: port_wire.Frames[object] = port_wire.Frames(decoder)  # type: ignore[arg-type]
        with suppress(RemoteProtocolError):
            list(frames.feed(FRAME.pack(FrameKind.CONTROL, 0, 0, len(body)) + body))


def test_a_frame_that_nests_without_end_is_refused() -> None:
    deep = b"\x93\x05\x01" + b"\x91" * 100_000 + b"\xc0"
    frames: port_wire.Frames[port_wire.ServerFrame] = port_wire.Frames(port_wire.SERVER_FRAMES)
    with pytest.raises(RemoteProtocolError):
        list(frames.feed(FRAME.pack(FrameKind.CONTROL, 0, 0, len(deep)) + deep))


# --- servers ----------------------------------------------------------------------------------------------------------


def nonsense(cluster: Cluster, sender: str) -> bytes:
    return wire.CODEC.encode(wire.Regular(cluster[sender].replica.session.view, 0, 0, change(UNREADABLE)))


def others(name: str) -> list[str]:
    return [each for each in SERVERS if each != name]


def send(cluster: Cluster, sender: str, *bodies: bytes) -> None:
    """Together, as the next of the order."""
    client = cluster[sender].replica.session.client
    assert client is not None
    (order,) = cluster.sent.values()
    bundle = bundle_of(client, 99, Service.AGREED, (GROUP,), bodies)
    order.append((sender, b4.Message(bundle, Stamp(99, client.daemon))))


def hear(cluster: Cluster, sender: str, body: bytes) -> None:
    """All hear it at this place of the order, and its sender too."""
    send(cluster, sender, body)
    cluster.run()


def test_the_others_go_on_without_one_that_took_part_and_says_nonsense() -> None:
    cluster = joined("a", "b", "c")
    hear(cluster, "b", nonsense(cluster, "b"))
    cluster.append("a", b"1")
    cluster.run()
    assert cluster["a"].green == cluster["c"].green == [b"1"] and not cluster["b"].stopped
    assert cluster["a"].replica.session.servers == ("a", "c")
    told = cluster["a"].replica.session.differences()
    assert len(told) == 1 and told[0].startswith("b says nonsense: ")
    assert not cluster.report().violations
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["b"].green == [b"1"], "in the next view it is believed again"


def test_it_hears_that_itself_and_waits_for_the_next_view() -> None:
    """The others go on without it: it must not think that it is in a primary component with them."""
    cluster = joined("a", "b", "c")
    cluster.append("b", b"1")
    hear(cluster, "b", nonsense(cluster, "b"))
    replica = cluster["b"].replica
    assert cluster["b"].standing == "waiting" and not replica.flow.is_primary
    text = why_no_primary(replica)
    assert "b said what nobody understands" in text and "not a quorum rule" in text and "transition" not in text
    cluster.append("b", b"2")
    cluster.append("a", b"3")
    cluster.settle()
    assert cluster["a"].green == [b"1", b"3"] and cluster["b"].standing == "waiting"
    cluster.view("a", "b", "c")
    cluster.settle()
    assert cluster["a"].green == cluster["b"].green == [b"1", b"3", b"2"] and why_no_primary(replica) == ""
    assert not cluster.report(stable=True).violations


def test_it_may_say_so_in_any_standing_and_nobody_ends() -> None:
    for steps in range(12):
        cluster = Cluster("a", "b", "c")
        cluster.view("a", "b", "c")
        for _ in range(steps):
            for name in SERVERS:
                if cluster.waiting(name):
                    cluster.step(name)
        hear(cluster, "b", b"\x92\xcc\x82 half a state")
        assert cluster["b"].standing == "waiting" and cluster["a"].replica.flow.is_primary, steps
        cluster.view("a", "b", "c")
        cluster.settle()
        assert cluster["b"].replica.flow.is_primary and not cluster.report().violations


def test_nobody_waits_for_the_state_of_one_that_says_nonsense_instead() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.view("a", "b", "c")
    (order,) = cluster.sent.values()
    del order[[sender for sender, _ in order].index("b")]
    hear(cluster, "b", b"\x92\xcc\x82 half a state")
    cluster.append("c", b"1")
    cluster.run(*others("b"))
    assert cluster["a"].green == cluster["c"].green == [b"1"] and why_no_primary(cluster["a"].replica) == ""


def test_what_it_packed_behind_its_nonsense_counts_for_nothing() -> None:
    """Nobody waits for its state any more, and it is not in the view: it must not come into the plan."""
    cluster = Cluster("a", "b", "c")
    cluster.view("a", "b", "c")
    (order,) = cluster.sent.values()
    place = [sender for sender, _ in order].index("b")
    _, told = order.pop(place)
    (body,) = told.bundle.bodies()
    send(cluster, "b", b"\x92\xcc\x82 half a state", bytes(body))
    order.insert(place, order.pop())
    cluster.run("a", "c")
    assert cluster["a"].replica.session.servers == ("a", "c") and cluster["a"].replica.flow.is_primary
    assert cluster["c"].replica.flow.is_primary and not cluster.report().violations


def test_what_is_refused_takes_nothing_with_it_that_was_packed_behind_it() -> None:
    """What one server makes of the first must not decide whether it hears the second: the others do."""
    cluster = joined("a", "b", "c")
    message = Message(Origin("b", 1), 1, 1, (b"1",))
    send(
        cluster, "b", b"\x03anything", wire.CODEC.encode(wire.Regular(cluster["b"].replica.session.view, 0, 0, message))
    )
    cluster.run()
    assert cluster["a"].green == cluster["b"].green == cluster["c"].green == [b"1"]


def test_nonsense_of_another_view_counts_for_nothing_in_this_one() -> None:
    """What makes no sense may not be decoded at all; its view can be read all the same."""
    cluster = joined("a", "b", "c")
    send(cluster, "b", wire.CODEC.encode(wire.Regular("an earlier one", 0, 0, change(UNREADABLE))))
    send(cluster, "b", msgspec.msgpack.encode([0x82, "an earlier one", "no numbers", [[]]]))
    cluster.run()
    assert all(cluster[name].replica.flow.is_primary for name in SERVERS)
    assert cluster["a"].replica.session.differences() == []


def test_nonsense_of_an_earlier_round_neither() -> None:
    cluster = joined("a", "b", "c")
    bodies = [nonsense(cluster, sender) for sender in "bc"]
    for sender, body in zip("bc", bodies, strict=True):
        send(cluster, sender, body)
    cluster.run("a", "c")
    assert cluster["a"].replica.session.servers == ("a", "c") and cluster["a"].replica.flow.is_primary


def test_said_to_one_alone_it_is_dropped_with_a_name() -> None:
    cluster = joined("a", "b", "c")
    client = cluster["a"].replica.session.client
    assert client is not None
    with pytest.raises(RemoteProtocolError, match="b says nonsense"):
        say(cluster, "b", "a", b"\x91\xcc\x88", client.private_group)
    assert cluster["a"].standing == "regular"
