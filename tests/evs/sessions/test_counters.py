"""What an operator reads: writes are counted once each."""

from __future__ import annotations

from tests.evs.sessions.pair import Pair
from tests.evs.sessions.test_server import member


def test_writes_and_their_bytes_are_counted() -> None:
    pair = Pair()
    apps = [member(pair, f"c{number}") for number in range(3)]
    before, bytes_before = pair.server.counters.written, pair.server.counters.bytes_written
    pair.written.clear()
    for size in (10, 1_000):
        pair.send(apps[0], bytes(size))
        pair.run()
    assert pair.written
    assert pair.server.counters.written - before == len(pair.written)
    sizes = [sum(map(len, write.data)) for write in pair.written]
    assert pair.server.counters.bytes_written - bytes_before == sum(sizes)
