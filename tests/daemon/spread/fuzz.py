"""Mutated handshakes and frames against a daemon with a client that minds its own business.

``python -m tests.daemon.spread.fuzz --count 100000``: prints what was tried and fails at the first disturbance.
"""

from __future__ import annotations

import argparse
from collections import Counter

from isotone.core.choice import Choice
from isotone.daemon.spread import GatewaySettings
from tests.daemon.spread.house import Guest, House
from tests.spread_client.protocol import AGREED, FIFO, KILL, SAFE, SELF_DISCARD, SpreadClient

VERSIONS = ((3, 1, 0), (3, 14, 0), (3, 15, 1), (3, 17, 4), (4, 4, 0), (5, 0, 1))
EDGES = (0, 1, 0x7F, 0x80, 0xFF)
NUMBERS = (0, 1, -1, 2, 100, 101, 143_900, 143_952, 143_953, 144_001, 0x7FFFFFFF, 0x80000080, 0x80000090)
LOOK_EVERY = 25
WITNESS = "witness"


class Fuzz:
    """One daemon, one witness, and any number of clients that have gone mad."""

    def __init__(self, seed: int = 0) -> None:
        self.choice = Choice(f"spread/{seed}")
        self.house = House(settings=GatewaySettings(handshake_us=500_000, handshakes_max=8), recorded=False)
        (self.witness,) = self.house.joined(WITNESS, group=WITNESS)
        self.tried = 0
        self.taken: Counter[str] = Counter()

    def run(self, count: int) -> None:
        for _ in range(count):
            self.tried += 1
            (self._handshake if self.choice.chance(0.3) else self._frames)()
            if self.tried % LOOK_EVERY == 0:
                self.look()
        self.look()

    def look(self) -> None:
        """The witness is served as ever, a newcomer is accepted, and nothing is left of the others."""
        witness, house = self.witness, self.house
        text = str(self.tried).encode()
        witness.write(witness.client.multicast(AGREED, WITNESS, text, self.tried & 0x7FFF))
        received = witness.expect()
        assert (received.data, received.message_type) == (text, self.tried & 0x7FFF), received
        assert not witness.is_ended
        newcomer = house.connect("newcomer")
        newcomer.write(newcomer.client.disconnect())
        assert newcomer.is_ended
        house.world.run_for(2_000_000 if self.tried % 1000 == 0 else 5_000)
        assert [client.name for client in house.gateway().clients] == [WITNESS]
        booth = house.booth()
        booth.closed.clear()
        booth.remarks.clear()
        booth.asked.clear()
        booth.written.clear()
        witness.client.received.clear()
        witness.seen = 0

    # --- one client --------------------------------------------------------------------------------------------------

    def _client(self) -> SpreadClient:
        choice = self.choice
        order = choice.pick(("little", "big"))
        return SpreadClient("mad", choice.pick(VERSIONS), membership=choice.chance(0.5), order=order)

    def _handshake(self) -> None:
        client = self._client()
        guest = self.house.guest(client)
        self.taken["handshakes"] += 1
        self._write(guest, self._mutated(client.hello()))
        if not guest.is_ended:
            self._write(guest, self._mutated(client.choice()))
        self._leave(guest)

    def _frames(self) -> None:
        client = self._client()
        guest = self.house.guest(client)
        guest.write(client.hello())
        guest.write(client.choice() if client.number >= 31600 else b"")
        client.private_group = "#mad#d1"
        self.taken["frames"] += 1
        whole = b"".join(self._frame(client) for _ in range(self.choice.between(1, 6)))
        self._write(guest, self._mutated(whole))
        self.taken["ended by the daemon" if guest.is_ended else "left open"] += 1
        self._leave(guest)

    def _frame(self, client: SpreadClient) -> bytes:
        choice = self.choice
        kind = choice.below(6)
        if kind == 0:
            return client.join(choice.pick(("a", "b", "c")))
        if kind == 1:
            return client.leave(choice.pick(("a", "b", "c")))
        if kind == 2 and choice.chance(0.1):
            return client.frame(KILL, (client.private_group,))
        service = choice.pick((FIFO, AGREED, SAFE, AGREED | SELF_DISCARD))
        groups = tuple(choice.pick(("a", "b", "#mad#d1", "#x#d9", "")) for _ in range(choice.below(4)))
        return client.multicast(service, groups, bytes(choice.below(200)), choice.below(0x10000))

    def _mutated(self, data: bytes) -> bytes:
        """None, one or a few changes."""
        choice, out = self.choice, bytearray(data)
        for _ in range(choice.pick((0, 1, 1, 1, 2, 5))):
            place = choice.below(len(out) + 1) if choice.chance(0.5) else choice.below(min(len(out), 48) + 1)
            change = choice.below(7)
            if change == 6:
                field, order = choice.pick((0, 36, 40, 44)), choice.pick(("little", "big"))
                out[field : field + 4] = (choice.pick(NUMBERS) & 0xFFFFFFFF).to_bytes(4, order)
            elif change == 0:
                del out[place:]
            elif change == 1:
                out[place:place] = bytes(choice.below(256) for _ in range(choice.between(1, 8)))
            elif change == 2:
                del out[place : place + choice.between(1, 40)]
            elif change == 3:
                out[place:place] = out[: choice.below(len(out) + 1)]
            elif place < len(out):
                out[place] = choice.pick(EDGES) if change == 4 else out[place] ^ 1 << choice.below(8)
        return bytes(out)

    def _write(self, guest: Guest, data: bytes) -> None:
        """In one piece or in several."""
        place = 0
        while place < len(data) and not guest.is_ended:
            size = len(data) if self.choice.chance(0.5) else self.choice.between(1, 60)
            guest.write(data[place : place + size])
            place += size

    def _leave(self, guest: Guest) -> None:
        if not guest.is_ended and self.choice.chance(0.9):
            guest.close()
        elif not guest.is_ended:
            self.house.world.run_for(10_000)
            guest.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    fuzz = Fuzz(arguments.seed)
    try:
        fuzz.run(arguments.count)
    except BaseException:
        print(f"failed at client {fuzz.tried} of seed {arguments.seed}")
        raise
    counters = fuzz.house.gateway().counters
    print(f"{fuzz.tried} clients: {dict(fuzz.taken)}")
    print(f"turned away: {dict(counters.turned_away)}")
    print(f"ended: {dict(counters.ended)}")
    print(f"malformed: {dict(counters.malformed)}")


if __name__ == "__main__":
    main()
