"""The Guard by hand: handshakes, keys, batches, and everything that it refuses."""

from __future__ import annotations

import msgspec
import pytest

from isotone.core.choice import Choice
from isotone.core.contract import Address, DatagramsReceived, DatagramsRefused, SendDatagrams, TimerFired
from isotone.core.errors import LocalProtocolError
from isotone.daemon.security import OVERHEAD_BYTES, GuardSettings, Outgoing, RosterChanged
from isotone.daemon.security.handshakes import BUCKET_PER_SECOND, BUCKET_SIZE
from isotone.daemon.security.keys import authority_of, parse_certificate, public_text, sign_key
from isotone.daemon.security.packets import HEAD, Kind
from isotone.daemon.security.window import WINDOW, Window
from isotone.evs.membership.messages import Alive, Card, Envelope, ViewName
from tests.daemon.security.guarded import CLUSTER, key_of, roster_of
from tests.daemon.security.wire import End, Wire, daemon


def alive(name: str, incarnation: int = 1) -> bytes:
    view = ViewName(1, name, incarnation)
    card = Card(name, incarnation, bytes(16), "lan", name, 1, 1, 1, 1, view, True, view, 0, (), ())
    return b"".join(Envelope(CLUSTER).seal(Alive(card)))


# --- handshakes ------------------------------------------------------------------------------------------------------


def test_first_contact_keeps_what_was_sent_until_the_handshake_is_done() -> None:
    wire = Wire("a", "b")
    wire.send("a", "b", b"one", b"two")
    wire.send("a", "b", b"three")
    wire.settle()
    assert wire["b"].bodies == [b"one", b"two", b"three"]
    assert wire["a"].guard.peers() == [(daemon("b"), Address("b"))]
    assert wire["b"].guard.peers() == [(daemon("a"), Address("a"))]
    assert not wire["a"].refused and not wire["b"].refused
    wire.send("b", "a", b"back")
    wire.settle()
    assert wire["a"].bodies == [b"back"]


def test_nothing_is_readable_on_the_wire_and_every_datagram_has_the_same_overhead() -> None:
    wire = Wire("a", "b")
    wire.meet()
    wire.heard.clear()
    wire.send("a", "b", b"a secret", b"x" * 1400)
    (_, _, first), (_, _, second) = wire.heard
    assert b"secret" not in first
    assert (len(first), len(second)) == (8 + OVERHEAD_BYTES, 1400 + OVERHEAD_BYTES)
    assert 1400 + OVERHEAD_BYTES + 8 + 40 <= 1500, "a full packet of a link still fits a frame, over IPv6 too"


@pytest.mark.parametrize("lost", range(6))
def test_any_message_of_a_handshake_may_get_lost(lost: int) -> None:
    wire = Wire("a", "b")
    wire.send("a", "b", b"first")
    for _ in range(lost):
        if wire.queue:
            wire.step()
    wire.lose()
    for _ in range(4):
        wire.pass_time(200_000)
        wire.send("a", "b", b"again")
        wire.settle()
    assert wire["b"].bodies[-1] == b"again"
    wire.send("b", "a", b"back")
    wire.settle()
    assert wire["a"].bodies == [b"back"]


def test_both_may_call_at_once() -> None:
    wire = Wire("a", "b")
    wire.send("a", "b", b"from a")
    wire.send("b", "a", b"from b")
    wire.settle()
    assert wire["a"].bodies == [b"from b"] and wire["b"].bodies == [b"from a"]
    wire.send("a", "b", b"more")
    wire.send("b", "a", b"more")
    wire.settle()
    assert wire["a"].bodies[-1] == wire["b"].bodies[-1] == b"more"


def test_a_restarted_daemon_is_met_again_and_its_former_keys_are_gone() -> None:
    wire = Wire("a", "b")
    wire.meet()
    old = [datagram for source, destination, datagram in wire.heard if (source, destination) == ("b", "a")]
    wire.ends["b"] = End("b", wire.roster, incarnation=2)
    wire.send("a", "b", b"who is there")
    wire.settle()
    assert wire["b"].refused == {"unknown key": 1}
    assert wire["a"].guard.peers() == [(daemon("b", 2), Address("b"))], "b called back"
    before = len(wire["a"].passed)
    wire.inject("a", "b", *(datagram for datagram in old if datagram[0] == Kind.PAIRWISE))
    assert len(wire["a"].passed) == before


def test_a_daemon_that_forgot_us_is_called_anew_even_if_it_stays_silent() -> None:
    wire = Wire("a", "b")
    wire.meet()
    wire.ends["b"] = End("b", wire.roster, incarnation=2)
    strangers = wire["b"].guard._datagrams._strangers
    while strangers.take(wire.now):
        pass  # it has called back too often already
    for _ in range(20):
        wire.pass_time(100_000)
        wire.send("a", "b", b"probe")
        wire.settle()
    assert wire["a"].guard.peers() == [(daemon("b", 2), Address("b"))]
    assert b"probe" in wire["b"].bodies


def test_sessions_are_renewed_while_they_are_in_use() -> None:
    settings = GuardSettings(renew_us=10_000_000)
    wire = Wire("a", "b")
    wire.ends["a"] = End("a", wire.roster, settings=settings)
    wire.meet()
    before = wire["a"].guard.counters.handshakes
    for _ in range(12):
        wire.pass_time(1_000_000)
        wire.send("a", "b", b"x")
        wire.send("b", "a", b"y")
        wire.settle()
    assert wire["a"].guard.counters.handshakes == before + 1
    assert len(wire["b"].bodies) == 12 and len(wire["a"].bodies) == 12


# --- batches ---------------------------------------------------------------------------------------------------------


def test_a_batch_stays_a_batch() -> None:
    wire = Wire("a", "b")
    wire.meet()
    bodies = [bytes([number]) * 1400 for number in range(40)] + [b"short"]
    wire.send("a", "b", *bodies)
    wire.settle()
    (event,) = wire["b"].passed
    assert isinstance(event, DatagramsReceived) and event.segment_size == 1400
    assert wire["b"].bodies == bodies and event.source == "a"


def test_what_is_refused_in_a_batch_leaves_the_rest() -> None:
    wire = Wire("a", "b")
    wire.meet()
    wire.send("a", "b", *(bytes([number]) * 100 for number in range(5)), b"end")
    source, _, datagrams = wire.queue.popleft()
    datagrams[2] = bytes(len(datagrams[2]))
    datagrams[3] = datagrams[3][:-1] + bytes([datagrams[3][-1] ^ 1])
    wire.handle("b", DatagramsReceived(wire.now, source, b"".join(datagrams), len(datagrams[0])))
    assert wire["b"].bodies == [b"\0" * 100, b"\1" * 100, b"\4" * 100, b"end"]
    assert len(wire["b"].passed) == 1
    assert wire["b"].refused == {"not sealed": 1, "not authentic": 1}


def test_the_same_datagrams_for_several_are_sealed_once() -> None:
    wire = Wire("a", "b", "c")
    wire.meet()
    wire.enter(1, "a", "b", "c")
    wire.settle()
    shared = [[b"\1 packet of a ring"]]
    fan_out = [SendDatagrams(Address(name), shared) for name in "bc"]
    before = wire["a"].guard.counters.sealed
    wire.heard.clear()
    wire.handle("a", Outgoing(wire.now, fan_out))
    assert wire["a"].guard.counters.sealed == before + 1
    assert wire.heard[0][2] == wire.heard[1][2]
    wire.settle()
    assert wire["b"].bodies == wire["c"].bodies == [b"\1 packet of a ring"]


# --- who is who ------------------------------------------------------------------------------------------------------


def refused_contact(wire: Wire, reason: str, *, peer: str = "b") -> None:
    for _ in range(50):
        wire.pass_time(100_000)
        wire.send("a", "b", b"hello")
        wire.send("b", "a", b"hello")
        wire.settle()
    a = wire["a"]
    assert a.refused[reason] > 2
    assert not a.passed and not a.guard.peers()
    told = [(note.peer, note.reason) for note in a.notes]
    assert told[0] == (peer, reason) and len(told) == len(set(told)), "told once"


def test_a_wrong_key_is_refused() -> None:
    wire = Wire("a", "b")
    wire.ends["b"] = End("b", wire.roster, key=key_of("b", "stolen name"))
    refused_contact(wire, "wrong key")


def test_a_daemon_that_is_not_listed_is_refused() -> None:
    wire = Wire("a", "b", roster=roster_of("a", "c"))
    wire.ends["b"] = End("b", roster_of("a", "b"))
    refused_contact(wire, "unknown daemon")


def test_signed_keys_need_no_list() -> None:
    authority = authority_of(b"s" * 32)
    roster = msgspec.structs.replace(roster_of(), authority=authority.public)
    wire = Wire(roster=roster)
    for name in "ab":
        certificate = parse_certificate(sign_key(authority, CLUSTER, name, key_of(name).public))
        wire.ends[name] = End(name, roster, certificate=certificate)
    wire.send("a", "b", b"hello")
    wire.settle()
    assert wire["b"].bodies == [b"hello"]


@pytest.mark.parametrize("wrong", ["cluster", "name", "key", "authority", "none"])
def test_a_certificate_of_something_else_is_refused(wrong: str) -> None:
    authority = authority_of(b"s" * 32)
    signer = authority_of(b"t" * 32) if wrong == "authority" else authority
    certificate = sign_key(
        signer,
        "elsewhere" if wrong == "cluster" else CLUSTER,
        "c" if wrong == "name" else "b",
        key_of("c" if wrong == "key" else "b").public,
    )
    roster = msgspec.structs.replace(roster_of("a"), authority=authority.public)
    wire = Wire("a", roster=roster)
    wire.ends["b"] = End("b", roster, certificate=b"" if wrong == "none" else parse_certificate(certificate))
    refused_contact(wire, "wrong certificate")


def test_a_revoked_daemon_is_cut_off_at_once() -> None:
    for what in ("b", public_text(key_of("b").public)):
        wire = Wire("a", "b", "c")
        wire.meet()
        wire.enter(1, "a", "b", "c")
        wire.settle()
        roster = msgspec.structs.replace(wire.roster, revoked=frozenset([what]))
        wire.handle("a", RosterChanged(wire.now, roster))
        wire.settle()
        assert [peer.name for peer, _ in wire["a"].guard.peers()] == ["c"]
        wire.send("b", "a", b"still here")
        wire.multicast("a", b"\1 for c alone")
        wire.settle()
        assert not wire["a"].passed and not wire["b"].passed
        assert wire["c"].bodies == [b"\1 for c alone"], "who is left has the new keys"


def test_a_daemon_that_claims_another_name_inside_is_refused() -> None:
    wire = Wire("a", "b", "c")
    wire.meet()
    wire.send("b", "a", alive("b"))
    wire.settle()
    assert wire["a"].bodies == [alive("b")]
    for forged in (alive("c"), alive("b", 2)):
        wire.send("b", "a", forged)
        wire.multicast("b", forged)
        wire.settle()
    assert wire["a"].bodies == [alive("b")]
    assert wire["a"].refused == {"name of another": 4}
    assert [(note.peer, note.reason) for note in wire["a"].notes] == [("b", "name of another")]


def test_our_own_name_is_no_peer() -> None:
    wire = Wire("a", "b")
    wire.ends["b"] = End("a", wire.roster)
    wire.ends["b"].address = Address("b")
    wire.send("b", "a", b"I am you")
    wire.settle()
    assert wire["a"].refused.get("our own name", 0) + wire["b"].refused.get("our own name", 0) >= 1
    assert not wire["a"].passed


# --- replays and old keys --------------------------------------------------------------------------------------------


def test_replayed_packets_are_refused_from_wherever_they_come() -> None:
    wire = Wire("a", "b")
    wire.meet()
    wire.enter(1, "a", "b")
    wire.settle()
    for number in range(10):
        wire.send("b", "a", b"pair %d" % number)
        wire.multicast("b", b"\1 ring %d" % number)
        wire.multicast("b", alive("b"))
    wire.settle()
    a = wire["a"]
    heard, peers = len(a.passed), a.guard.peers()
    assert heard == 30 and not a.refused
    sealed = [datagram for source, to, datagram in wire.heard if (source, to) == ("b", "a")]
    wire.inject("a", "b", *sealed)
    wire.inject("a", "eve", *sealed)
    assert len(a.passed) == heard and a.guard.peers() == peers
    assert a.refused["replayed"] >= 30 and a.refused["other address"] >= 30
    assert len(a.notes) == len({(note.peer, note.reason) for note in a.notes})


def test_packets_of_an_old_group_key_are_refused() -> None:
    wire = Wire("a", "b", "c")
    wire.meet()
    wire.enter(1, "a", "b", "c")
    wire.settle()
    wire.multicast("b", b"\1 of the first view")
    late = [datagram for source, to, datagram in wire.heard[-2:] if to == "a"]
    wire.lose()
    wire.enter(2, "a", "b")
    wire.settle()
    wire.inject("a", "b", *late)
    assert wire["a"].refused == {"old group key": 1} and not wire["a"].passed
    assert [(note.peer, note.reason) for note in wire["a"].notes] == [("b", "old group key")]


def test_an_excluded_member_reads_nothing_that_comes_later() -> None:
    wire = Wire("a", "b", "c")
    wire.meet()
    wire.enter(1, "a", "b", "c")
    wire.settle()
    wire.multicast("a", b"\1 for all")
    wire.settle()
    wire.enter(2, "a", "b")
    wire.settle()
    for _ in range(5):
        wire.pass_time(100_000)
        wire.multicast("a", b"\1 for b alone")
        wire.settle()
    assert wire["c"].bodies == [b"\1 for all"]
    assert wire["b"].bodies == [b"\1 for all"] + [b"\1 for b alone"] * 5
    assert wire["c"].guard.counters.keys_missed == 5, "it asks, and gets no key"


def test_a_member_that_missed_the_key_asks_for_it() -> None:
    wire = Wire("a", "b")
    wire.meet()
    wire.enter(1, "a", "b")
    wire.lose()
    wire.multicast("a", b"\1 too early")
    wire.settle()
    wire.multicast("a", b"\1 in time")
    wire.settle()
    assert wire["b"].bodies == [b"\1 in time"]


def test_a_key_that_is_given_twice_opens_nothing_twice() -> None:
    wire = Wire("a", "b")
    wire.meet()
    wire.enter(1, "a", "b")
    wire.settle()
    wire.multicast("a", b"\1 once")
    packet = wire.heard[-1][2]
    wire.settle()
    wire.ends["b"] = End("b", wire.roster, incarnation=2)  # it has no window of the time before
    wire.meet()
    wire.enter(1, "a", "b")
    wire.settle()
    wire.inject("b", "a", packet)
    assert not wire["b"].passed


def test_announcements_reach_daemons_that_nobody_named() -> None:
    wire = Wire("a", "b")
    for _ in range(3):
        wire.pass_time(100_000)
        wire.multicast("a", alive("a"))
        wire.settle()
    assert wire["b"].bodies == [alive("a")] * 2


def test_no_nonce_comes_twice_even_after_a_crash() -> None:
    """The bytes of the source differ between incarnations, as those of a real one do: all keys are fresh."""
    wire = Wire("a", "b")
    seen: set[tuple[int, int]] = set()
    for incarnation in (1, 2, 3):
        wire.ends["a"] = End("a", wire.roster, incarnation=incarnation)
        wire.heard.clear()
        wire.meet()
        wire.enter(incarnation, "a", "b")
        wire.send("a", "b", *([b"x"] * 5))
        wire.multicast("a", b"\1", b"\1")
        wire.settle()
        nonces = {
            HEAD.unpack_from(datagram)[1:]
            for source, to, datagram in wire.heard
            if source == "a" and datagram[0] in (Kind.PAIRWISE, Kind.CONTROL, Kind.GROUP)
        }
        assert nonces and not nonces & seen
        seen |= nonces


# --- strangers -------------------------------------------------------------------------------------------------------


def test_who_does_not_know_the_cluster_gets_no_answer() -> None:
    wire = Wire("a", "b")
    wire.ends["b"] = End("b", roster_of("a", "b", cluster="elsewhere"))
    wire.send("b", "a", b"hello")
    wire.settle()
    assert wire["a"].refused == {"wrong check": 1}
    assert not any(source == "a" for source, _, _ in wire.heard)


def test_packets_in_clear_are_refused() -> None:
    wire = Wire("a", "b")
    wire.meet()
    wire.inject("a", "b", alive("b"), b"\1", b"")
    assert wire["a"].refused == {"not sealed": 2} and not wire["a"].passed


def test_a_flood_of_calls_costs_little_and_does_not_keep_daemons_out() -> None:
    wire = Wire("a", "b")
    flood = 3 * BUCKET_SIZE
    for number in range(flood):
        stranger = End("x", wire.roster)
        stranger.guard = End("x", wire.roster, incarnation=number + 1).guard
        (call,) = stranger.guard.handle(Outgoing(wire.now, [SendDatagrams(Address("a"), [[b"hello"]])]))
        assert isinstance(call, SendDatagrams)
        wire.inject("a", f"forged {number}", b"".join(call.datagrams[0]))
    answers = [datagram for source, _, datagram in wire.heard if source == "a"]
    computed = [datagram for datagram in answers if datagram[0] == Kind.SECOND]
    cookies = [datagram for datagram in answers if datagram[0] == Kind.COOKIE]
    assert len(computed) == BUCKET_SIZE // 2 and len(cookies) == flood - len(computed)
    assert all(len(answer) < 330 for answer in answers), "no answer is larger than the call"
    wire.lose()
    wire.send("b", "a", b"let me in")
    wire.settle()
    assert wire["a"].bodies == [b"let me in"], "who is where he says gets in"
    assert BUCKET_PER_SECOND <= 1000


def test_the_same_call_is_answered_without_computing_anew() -> None:
    wire = Wire("a", "b")
    wire.send("b", "a", b"hello")
    call = wire.queue[0][2][0]
    wire.lose()
    wire.heard.clear()
    wire.inject("a", "b", call, call, call)
    answers = {datagram for source, _, datagram in wire.heard if source == "a"}
    assert len(answers) == 1


def test_mutated_and_cut_packets_change_nothing() -> None:
    wire = Wire("a", "b")
    wire.meet()
    wire.enter(1, "a", "b")
    wire.send("b", "a", b"text")
    wire.multicast("b", alive("b"))
    wire.settle()
    a = wire["a"]
    peers, heard = a.guard.peers(), len(a.passed)
    samples = {datagram[0]: datagram for source, to, datagram in wire.heard if to == "a"}
    samples.update({datagram[0]: datagram for source, to, datagram in wire.heard if to == "b"})
    assert set(samples) == set(Kind) - {Kind.COOKIE}
    for sample in samples.values():
        for place in range(0, len(sample), 3):
            mutant = bytearray(sample)
            mutant[place] ^= 1 + place % 255
            wire.pass_time(10_000)
            wire.inject("a", "b", bytes(mutant), sample[:place])
            wire.inject("a", "mallory", bytes(mutant), sample[place:])
    assert a.guard.peers() == peers and len(a.passed) == heard
    assert len(a.notes) == len({(note.peer, note.reason) for note in a.notes})
    wire.lose()
    wire.send("b", "a", b"still the same session")
    wire.settle()
    assert a.bodies[-1] == b"still the same session"


# --- the rest --------------------------------------------------------------------------------------------------------


def test_what_is_not_for_the_guard_is_an_error_of_the_caller() -> None:
    wire = Wire("a")
    with pytest.raises(LocalProtocolError):
        wire["a"].guard.handle(TimerFired(1, "x"))
    refused = DatagramsRefused(1, Address("b"))
    wire.handle("a", refused)
    assert wire["a"].passed == [refused]


def test_the_window_takes_each_counter_once() -> None:
    window = Window(first=5)
    assert not window.is_fresh(4) and window.is_fresh(5)
    for counter in (7, 5, 6, 3 * WINDOW):
        assert window.is_fresh(counter)
        window.take(counter)
        assert not window.is_fresh(counter)
    assert not window.is_fresh(2 * WINDOW), "too old to tell"
    assert window.is_fresh(2 * WINDOW + 1)
    window.take(3 * WINDOW + 7)
    assert not window.is_fresh(3 * WINDOW)


def test_the_window_against_one_that_forgets_nothing() -> None:
    choice, window = Choice("window"), Window()
    taken: set[int] = set()
    highest = base = 0
    for _ in range(20_000):
        base += choice.pick((0, 0, 1, 1, 1, 2, 700, 5 * WINDOW)) if choice.chance(0.2) else 1
        counter = max(0, base - choice.pick((0, 0, 0, 1, 2, 5, 40, WINDOW - 1, WINDOW, 2 * WINDOW)))
        fresh = counter not in taken and (counter > highest - WINDOW or not taken)
        assert window.is_fresh(counter) == fresh
        if fresh and choice.chance(0.9):
            window.take(counter)
            taken.add(counter)
            highest = max(highest, counter)


def test_segments_that_are_too_short_for_anything_are_refused() -> None:
    wire = Wire("a", "b")
    wire.meet()
    wire.send("b", "a", b"text")
    (datagram,) = wire.queue.popleft()[2]
    for size in (1, 16, 17, 20, 32):
        wire.handle("a", DatagramsReceived(wire.now, Address("b"), datagram[:size] * 5, size))
    assert not wire["a"].passed
    wire.inject("a", "b", datagram)
    assert wire["a"].bodies == [b"text"]
