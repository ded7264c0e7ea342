"""Room is fair by session: who has nothing waiting below hands on one bundle when others have filled the room."""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.core.ids import ClientId
from isotone.evs.sessions.handing import RESERVE_BYTES, RESERVED_TURNS
from isotone.evs.sessions.notices import RoomChanged
from tests.evs.sessions.pair import App, Pair


class Below:
    """Knows of whom something waits."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.asked = 0

    def __call__(self, client: ClientId) -> bool:
        self.asked += 1
        return client.name in self.names


def pair_over(below: Below) -> Pair:
    pair = Pair()
    pair.server.ask_for_waiting(below)
    return pair


def sent(pair: Pair, app: App) -> list[bytes]:
    return pair.groups.bodies(app.session.name)


def room(pair: Pair, count: int) -> None:
    pair.tell_server(RoomChanged(pair.now, count))
    pair.run()


def test_who_has_nothing_waiting_hands_on_one_bundle_beyond_the_room() -> None:
    pair = pair_over(Below("busy"))
    busy, calm = pair.connect("busy"), pair.connect("calm")
    pair.server.note_room(0)
    for app in (busy, calm):
        pair.send(app, b"1")
        pair.run()
        pair.send(app, b"2")
        pair.run()
    assert sent(pair, busy) == [] and sent(pair, calm) == [b"1"]
    room(pair, -10)
    assert sent(pair, calm) == [b"1", b"2"], "its first one was stamped"
    room(pair, 10)
    assert sent(pair, busy)[:1] == [b"1"]


def test_the_reserve_has_an_end() -> None:
    pair = pair_over(Below())
    calm = pair.connect("calm")
    pair.server.note_room(-RESERVE_BYTES)
    pair.send(calm, b"1")
    pair.run()
    assert sent(pair, calm) == []
    room(pair, 1 - RESERVE_BYTES)
    assert sent(pair, calm) == [b"1"]


def test_a_large_message_needs_room() -> None:
    pair = pair_over(Below())
    calm = pair.connect("calm")
    pair.server.note_room(0)
    pair.send(calm, bytes(3 * BUNDLE_BYTES_MAX))
    pair.run()
    assert sent(pair, calm) == []
    room(pair, 1)
    assert len(sent(pair, calm)) == 1


def test_only_a_few_are_looked_at_each_time() -> None:
    names = [f"busy{place}" for place in range(3 * RESERVED_TURNS)]
    below = Below(*names)
    pair = pair_over(below)
    apps = [pair.connect(name) for name in names]
    pair.server.note_room(0)
    for app in apps:
        pair.send(app, b"1")
    pair.run()
    below.names.clear()
    below.names |= set(names[:-1])  # the last one has its turn after all the others
    below.asked = 0
    room(pair, -1)
    assert below.asked == RESERVED_TURNS and sent(pair, apps[-1]) == []
    for _ in range(2):
        room(pair, -2)
    assert sent(pair, apps[-1]) == [b"1"]


def test_joins_need_no_room() -> None:
    pair = pair_over(Below("busy"))
    busy = pair.connect("busy")
    pair.server.note_room(-RESERVE_BYTES)
    pair.ask(busy, b4.Join("g"))
    pair.run()
    assert pair.groups.members["g"]
