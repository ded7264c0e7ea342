"""Both sides of a session together, streams cut at every byte. Reference: docs/protocols/session.md."""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.choice import Choice
from isotone.evs.sessions.messages import EndCode
from isotone.evs.sessions.notices import Ended, Reconnected
from tests.evs.sessions.pair import Pair


def test_connect_join_send_hear_leave_part() -> None:
    pair = Pair()
    alice, bob = pair.connect("alice"), pair.connect("bob")
    for app in (alice, bob):
        pair.ask(app, b4.Join("g"))
    pair.run()
    pair.send(alice, b"one")
    pair.run()
    pair.send(bob, b"two", b"three")
    pair.run()
    assert alice.messages() == bob.messages() == [b"one", b"two", b"three"]
    assert alice.heard[0] == b4.Connected()
    pair.ask(alice, b4.Leave("g"))
    pair.run()
    assert alice.heard[-1] == b4.SelfLeave("g")
    pair.ask(alice, b4.Disconnect())
    pair.run()
    assert alice.notices == [Ended(EndCode.ASKED, "asked for", 0)]
    assert pair.server.sessions == 1
    assert not pair.apps["alice"].timers


def scenario(pair: Pair) -> None:
    alice = pair.client("alice")
    pair.ask(alice, b4.Connect())
    pair.pass_time(3_000_000)
    pair.ask(alice, b4.Join("g"))
    for number in range(6):
        pair.send(alice, b"message %d" % number)
        if number % 2:
            pair.pass_time(1_000)
    pair.pass_time(3_000_000)
    pair.ask(alice, b4.Leave("g"))
    pair.send(alice, b"last", groups=("other",))
    pair.pass_time(2_000_000)
    pair.ask(alice, b4.Disconnect())
    pair.pass_time(4_000_000)


def test_a_cut_at_every_byte_loses_and_doubles_nothing() -> None:
    whole = Pair()
    scenario(whole)
    total = sum(len(part) for write in (*whole.written, *whole.client_writes) for part in write.data)
    expected = [b"message %d" % number for number in range(6)]
    assert whole.apps["alice"].messages() == expected and total > 500
    for place in range(total + 1):
        for second in (None,) if place % 5 else (None, place % 97 + 17):
            pair = Pair()
            pair.cuts.extend([place] if second is None else [place, second])
            scenario(pair)
            alice = pair.apps["alice"]
            assert pair.groups.bodies("alice") == [*expected, b"last"], place
            assert alice.messages() == expected, place
            assert isinstance(alice.notices[-1], Ended) and alice.notices[-1].code is EndCode.ASKED, place
            assert pair.server.sessions == 0 and pair.server.held_bytes == 0, place
            connects = [request for _, request in pair.groups.asked if isinstance(request, b4.Connect)]
            assert len(connects) <= 2 or second, place
            assert alice.session.settled == 7


def test_what_a_client_sends_is_handed_on_once_and_in_order_through_many_cuts() -> None:
    for seed in range(30):
        choice = Choice(seed)
        pair = Pair(chunk=choice.pick([1, 7, 100, 5000]), choice=choice.derive("net"))
        alice, bob = pair.connect("alice"), pair.connect("bob")
        for app in (alice, bob):
            pair.ask(app, b4.Join("g"))
        pair.run()
        sent: dict[str, list[bytes]] = {"alice": [], "bob": []}
        for _ in range(60):
            app = choice.pick([alice, bob])
            if choice.chance(0.7):
                body = b"%d" % len(sent[app.session.name]) * choice.between(1, 60)
                sent[app.session.name].append(body)
                pair.send(app, body)
            if choice.chance(0.15) and pair.pipes:
                pair.cut(choice.pick(list(pair.pipes.values())))
            for _ in range(choice.below(12)):
                pair._step()
            if choice.chance(0.1):
                pair.pass_time(choice.below(3_000_000))
        pair.pass_time(20_000_000)
        for name, bodies in sent.items():
            assert pair.groups.bodies(name) == bodies, seed
        assert alice.messages() == bob.messages(), seed
        assert len(alice.messages()) == sum(map(len, sent.values())), seed
        told = len(alice.noticed(Reconnected)) + len(bob.noticed(Reconnected))
        assert told <= pair.server.counters.resumed
