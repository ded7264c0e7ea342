from __future__ import annotations

import socket
from typing import cast

import msgspec
import pytest

from isotone.daemon.sockets import LARGE_BUFFER_BYTES
from isotone.daemon.suiting import suited
from isotone.evs.links.ring import RingSettings
from isotone.evs.stack import StackSettings


class FakeSocket:
    def __init__(self, host: str, buffer: int) -> None:
        self.host, self.buffer = host, buffer

    def getsockname(self) -> tuple[str, int]:
        return self.host, 4803

    def getsockopt(self, level: int, option: int) -> int:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_RCVBUF)
        return self.buffer


def ring_at(host: str, buffer: int = LARGE_BUFFER_BYTES, settings: StackSettings | None = None) -> RingSettings:
    sock = cast(socket.socket, FakeSocket(host, buffer))
    return suited(settings or StackSettings(), sock).membership.transport.ring


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.0.9", "::1"])
def test_on_one_machine_a_bundle_is_one_packet(host: str) -> None:
    ring, usual = ring_at(host), RingSettings()
    assert ring.body_bytes > 65_000 > usual.body_bytes
    assert ring.body_bytes + 20 + 64 < 65_507, "with the headers of ring and guard it is a datagram"
    for name in ("personal_window", "global_window", "unsettled_max"):
        assert getattr(ring, name) * ring.body_bytes <= 5 * getattr(usual, name) * usual.body_bytes


def test_elsewhere_packets_stay_and_windows_grow_with_the_buffer() -> None:
    usual = RingSettings()
    ring = ring_at("10.0.0.1")
    assert ring.body_bytes == usual.body_bytes and ring.personal_window > usual.personal_window
    assert ring.global_window * ring.body_bytes < LARGE_BUFFER_BYTES


def test_small_buffers_and_chosen_settings_stay_as_they_are() -> None:
    plain = StackSettings()
    assert ring_at("127.0.0.1", LARGE_BUFFER_BYTES - 1) == plain.membership.transport.ring
    chosen = msgspec.structs.replace(plain.membership.transport, ring=RingSettings(body_bytes=1_200))
    settings = StackSettings(membership=msgspec.structs.replace(plain.membership, transport=chosen))
    assert ring_at("127.0.0.1", settings=settings) == chosen.ring
