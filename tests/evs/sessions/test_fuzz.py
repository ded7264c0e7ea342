"""Bytes that no correct peer sends, at both ends: a session ends with a reason, nothing else happens."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.choice import Choice
from isotone.core.contract import Action, Address, StreamOpened, StreamReceived, WriteStream
from isotone.core.ids import NO_DAEMON, ClientId
from isotone.evs.sessions.client_session import ClientSession, Life
from isotone.evs.sessions.server import ServerSessions
from tests.evs.sessions.pair import DAEMON, SECRET, FakeGroups, Pair

ROUNDS = 1500


def recorded() -> tuple[list[bytes], list[bytes]]:
    """What a client and a daemon wrote in an ordinary session, write by write."""
    pair = Pair()
    alice = pair.connect("alice")
    pair.ask(alice, b4.Join("g"))
    pair.send(alice, b"one", b"two")
    pair.run()
    pair.send(alice, bytes(300), deadline_us=1_000_000)
    pair.pass_time(3_000_000)
    pair.ask(alice, b4.Leave("g"))
    pair.ask(alice, b4.Disconnect())
    pair.run()
    return [b"".join(each.data) for each in pair.client_writes], [b"".join(each.data) for each in pair.written]


def mutated(writes: list[bytes], choice: Choice) -> bytes:
    """The writes with something wrong: bytes changed, cut, doubled or put elsewhere."""
    chosen = [bytearray(each) for each in writes]
    for _ in range(choice.between(1, 4)):
        place = choice.below(len(chosen))
        target = chosen[place]
        match choice.below(6):
            case 0 | 1 | 2:
                if target:
                    target[choice.below(len(target))] = choice.below(256)
            case 3:
                del target[choice.below(len(target) + 1) :]
            case 4:
                chosen.insert(place, bytearray(chosen[choice.below(len(chosen))]))
            case 5:
                at = choice.below(len(target) + 1)
                target[at:at] = bytes(choice.below(256) for _ in range(choice.between(1, 12)))
    return b"".join(chosen)


def pieces(data: bytes, choice: Choice) -> list[bytes]:
    out, at = [], 0
    while at < len(data):
        size = choice.between(1, 200)
        out.append(data[at : at + size])
        at += size
    return out


def answer(server: ServerSessions, groups: FakeGroups, actions: list[Action]) -> None:
    """Let the group service answer, and those answers be told."""
    for action in actions:
        if isinstance(action, b4.Ask):
            for told in groups.take(action.client, action.request):
                assert isinstance(told, b4.Indicate)
                answer(server, groups, server.handle(b4.Indicated(1, told.receivers, told.indication)))


def test_a_daemon_bears_what_clients_send() -> None:
    client_writes, _ = recorded()
    choice = Choice("client bytes")
    refused = 0
    for _ in range(ROUNDS):
        server, groups = ServerSessions(DAEMON, secret=SECRET), FakeGroups()
        data = mutated(client_writes, choice)
        answer(server, groups, server.handle(StreamOpened(1, -1, Address("x"), True)))
        for piece in pieces(data, choice):
            answer(server, groups, server.handle(StreamReceived(1, -1, piece)))
        refused += server.counters.malformed
        assert server.counters.malformed <= 1 and server.sessions <= 1
    assert refused > ROUNDS // 4


def test_noise_at_a_daemon() -> None:
    choice = Choice("noise")
    server = ServerSessions(DAEMON, secret=SECRET)
    for stream in range(1, ROUNDS):
        server.handle(StreamOpened(stream, -stream, Address("x"), True))
        noise = bytes(choice.below(256) for _ in range(choice.between(1, 60)))
        server.handle(StreamReceived(stream, -stream, choice.pick([b"", b"ISOC\x01\x01\0\0", b"ISOC"]) + noise))
    assert server.sessions == 0 and server.counters.malformed > ROUNDS // 2


def test_a_client_bears_what_daemons_send() -> None:
    _, server_writes = recorded()
    choice = Choice("server bytes")
    over = 0
    for number in range(ROUNDS):
        session = ClientSession("alice", [Address("d")], choice=Choice(number))
        session.handle(b4.Requested(0, ClientId(NO_DAEMON, "alice", 0), b4.Connect()))
        session.handle(StreamOpened(1, 0, Address("d"), False))
        for piece in pieces(mutated(server_writes, choice), choice):
            for action in session.handle(StreamReceived(2, 0, piece)):
                assert not isinstance(action, WriteStream) or sum(map(len, action.data)) < 10_000
        over += session.life is Life.ENDED
    assert over > ROUNDS // 4


@pytest.mark.parametrize("seed", range(5))
def test_one_bad_client_among_good_ones(seed: int) -> None:
    choice = Choice(f"bad {seed}")
    pair = Pair(chunk=300, choice=choice.derive("net"))
    good = [pair.connect(f"good{number}") for number in range(3)]
    for app in good:
        pair.ask(app, b4.Join("g"))
    pair.run()
    sent = 0
    for _ in range(20):
        bad = pair.connect(f"bad{sent}")
        pipe = pair.pipe(bad)
        pipe.up += bytes(choice.below(256) for _ in range(choice.between(8, 100)))
        for app in good:
            pair.send(app, b"%d" % sent)
            sent += 1
        pair.run()
        if not bad.dead:
            pair.kill(bad)
    pair.pass_time(40_000_000)
    assert all(len(app.messages()) == sent and app.notices == [] for app in good)
    assert pair.server.sessions == 3 and pair.server.held_bytes == 0
