"""A receive buffer of many packets says the same as its packets one by one, however they are cut, lost or wrong."""

from __future__ import annotations

import pytest

from isotone.core.choice import Choice
from isotone.core.contract import Address, DatagramsReceived
from isotone.evs.links.contract import LinkCounters, frame_of
from isotone.evs.links.packing import PART, Packer
from isotone.evs.links.ring import RingSettings
from isotone.evs.links.ring.inbound import Inbound, split_before_token
from isotone.evs.links.ring.packets import PacketStore
from isotone.evs.links.ring.token import LONE_PART, PACKET, PacketKind

RING, SENDER, BODY = 99, 1, 200
SETTINGS = RingSettings(body_bytes=BODY)


class Member:
    def __init__(self) -> None:
        self.packets, self.counters = PacketStore(), LinkCounters()
        self.inbound = Inbound(
            ring=RING, others=[SENDER, 2], packets=self.packets, settings=SETTINGS, counters=self.counters
        )
        self.frames: list[bytes] = []
        self.words: list[tuple[int, int, int, int, bytes]] = []

    def hear(self, data: bytes, size: int) -> None:
        frames, words = self.inbound.take(DatagramsReceived(0, Address("a"), data, size))
        self.frames += [bytes(frame.body()) for frame in frames]
        self.words += [(*word[:4], bytes(word[4])) for word in words]

    def knows(self) -> tuple[object, ...]:
        held = {number: b"".join(packet) for number, packet in self.packets._held.items()}
        return self.frames, self.words, self.packets.through, self.packets.top, held, self.counters


def made(choice: Choice) -> list[bytes]:
    """The packets of a few frames, as a ring sends them."""
    packer, out = Packer(BODY), list[bytes]()
    packer.offer(
        frame_of(choice.below(2), b"head", bytes(choice.pick([0, 50, 190, 400, 3_000])))
        for _ in range(choice.between(1, 6))
    )
    while packer:
        pieces, _ = packer.next_run(choice.between(0, 20))
        for kind, size, total, number, offset, piece in pieces:
            head = LONE_PART.pack(
                PacketKind.DATA, 0, SENDER, RING, len(out) + 1, kind, PART, size, total, number, offset
            )
            out.append(head + piece)
        if not pieces:
            body, _ = packer.next_body()
            out.append(PACKET.pack(PacketKind.DATA, 0, SENDER, RING, len(out) + 1) + b"".join(body))
    return out


def spoilt(packets: list[bytes], choice: Choice) -> list[bytes]:
    """Some are lost, doubled, moved, of another ring, wrong, or a word."""
    out = list[bytes]()
    for packet in packets:
        match choice.below(12):
            case 0:
                continue
            case 1:
                out += [packet, packet]
            case 2:
                out.insert(choice.below(len(out) + 1), packet)
            case 3:
                place = choice.below(len(packet))
                out.append(packet[:place] + bytes([packet[place] ^ 1 << choice.below(8)]) + packet[place + 1 :])
            case 4:
                out += [packet, PACKET.pack(PacketKind.SEEN, 0, 2, RING, 7)]
            case _:
                out.append(packet)
    return out


@pytest.mark.parametrize("seed", range(300))
def test_many_at_once_are_as_one_by_one(seed: int) -> None:
    choice = Choice(f"inbound/{seed}")
    packets = made(choice)
    if seed % 3:
        packets = spoilt(packets, choice)
    together, alone = Member(), Member()
    run: list[bytes] = []
    for packet in [*packets, b""]:
        if run and (len(run[-1]) < len(run[0]) or len(packet) > len(run[0]) or not packet or choice.chance(0.1)):
            together.hear(b"".join(run), len(run[0]))
            run = []
        run.append(packet)
    for packet in packets:
        alone.hear(packet, len(packet))
    assert together.knows() == alone.knows()
    if seed % 3 == 0:
        assert together.packets.through == len(packets) and not together.inbound._unpackers[SENDER].held_bytes


def test_a_run_of_somebody_who_is_not_of_the_ring_is_malformed() -> None:
    """What stands in its packets would be next: only who they come from is wrong."""
    stranger, size = 7, BODY - 20
    packets = [
        LONE_PART.pack(PacketKind.DATA, 0, stranger, RING, number, 0, PART, size, 3 * size, 0, (number - 1) * size)
        + bytes(size)
        for number in (1, 2, 3)
    ]
    member = Member()
    member.hear(b"".join(packets), len(packets[0]))
    assert (member.frames, member.packets.through, member.counters.malformed) == ([], 0, 3)


def test_a_token_behind_packets_in_one_buffer_is_an_event_of_its_own() -> None:
    """So that who takes the packets can say on the token that they are here."""
    home = Address("a")
    packet, token = bytes([PacketKind.DATA]) * 40, bytes([PacketKind.TOKEN]) * 25
    for data, size, parts in (
        (packet + packet + token, 40, [packet + packet, token]),
        (packet + token, 40, [packet, token]),
        (packet + packet, 40, [packet + packet]),
        (token, 25, [token]),
        (packet, 40, [packet]),
        (token + packet[:10], 25, [token + packet[:10]]),
    ):
        found = split_before_token(DatagramsReceived(7, home, data, size))
        assert [bytes(each.data) for each in found] == parts
        assert all(each.at == 7 and each.source == home for each in found)
        assert found[0].segment_size == size and found[-1].segment_size in (size, len(parts[-1]))
