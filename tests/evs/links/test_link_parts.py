"""The parts of a link, each alone: what it holds, what it refuses, and when it says that there is room."""

from __future__ import annotations

import pytest

from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import FRAME_HEADER_BYTES, frame_of
from isotone.evs.links.hop.congestion import Congestion
from isotone.evs.links.hop.pacing import Timing
from isotone.evs.links.hop.queue import SendQueue
from isotone.evs.links.hop.sender import Sender
from isotone.evs.links.hop.settings import HopSettings
from isotone.evs.links.packing import Packer

SETTINGS = HopSettings()


def test_only_packets_that_were_sent_may_be_asked_for() -> None:
    sender = Sender(SETTINGS, Timing(SETTINGS))
    for _ in range(3):
        sender.send([b"x"], 1, 0)
    assert sender.requested([(2, 2)], 1_000_000) == 3
    with pytest.raises(RemoteProtocolError, match="never sent"):
        sender.requested([(2, 1), (4, 1)], 1_000_000)


def test_a_queue_that_was_cleared_holds_nothing() -> None:
    packer = Packer(1_000)
    packer.offer([frame_of(1, bytes(10)), frame_of(1, bytes(5_000))])
    packer.next_body()
    packer.clear()
    assert not packer and packer.queued_bytes == packer.large_bytes == 0
    packer.offer([frame_of(1, bytes(10))])
    assert packer.queued_bytes == 10 + FRAME_HEADER_BYTES


def test_room_that_returned_is_said_once() -> None:
    queue = SendQueue(SETTINGS, Congestion(SETTINGS, Timing(SETTINGS)))
    assert queue.returned_room() == 0, "it was never short"
    for _ in range(2):
        while queue.packer.queued_bytes < 1 << 14:
            queue.packer.offer([frame_of(1, bytes(1_000))])
        assert queue.returned_room() == 0
        queue.packer.clear()
        assert [queue.returned_room() > 0 for _ in range(3)] == [True, False, False]
