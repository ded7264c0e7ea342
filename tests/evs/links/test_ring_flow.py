"""The token counts the packets of one rotation: nobody's are counted for longer, so nobody is held back for ever."""

from __future__ import annotations

from isotone.evs.links.ring import RingSettings
from isotone.evs.links.ring.token import PACKET, PacketKind, Token, decode_token
from tests.evs.links.ring_pair import lan_of

SETTINGS = RingSettings(personal_window=5, global_window=10, late_window=2)


def test_the_flow_is_that_of_the_last_rotation() -> None:
    lan = lan_of(3, 1, settings=SETTINGS)
    tokens: list[Token] = []
    carry = lan._carry

    def watched(member: int, receivers: list[int], datagrams: object) -> None:
        for datagram in datagrams:  # type: ignore[attr-defined]
            data = memoryview(b"".join(datagram))
            if data[0] == PacketKind.TOKEN:
                tokens.append(decode_token(data[PACKET.size :]))
        carry(member, receivers, datagrams)

    lan._carry = watched  # type: ignore[method-assign]
    for member in lan.rings:
        lan.submit(member, *[bytes(1_000)] * 100)
    assert lan.run(10_000_000)
    assert len(lan.origins[0].received) == 300
    busy = [token.flow for token in tokens if 0 < token.link_sequence < 200]
    assert max(busy) <= 2 * SETTINGS.global_window and min(busy[3:]) >= 3
