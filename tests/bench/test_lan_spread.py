"""The client of Spread, with a library of our own in the place of Spread's: how it is called, and what it tells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isotone.bench.lan import spread_client
from isotone.bench.lan.cells import Cell
from isotone.bench.lan.spread import KNOBS, SpreadCluster, version
from isotone.bench.lan.spread_client import WINDOW_MESSAGES, Mailbox
from isotone.core.errors import MachineError

MEMBERSHIP, REGULAR = 0x1000, 0x10


class Library:
    """Delivers what is sent, behind a view of three members."""

    def __init__(self) -> None:
        self.refusals = 1
        self.calls: list[tuple[Any, ...]] = []
        self.queue: list[tuple[int, bytes, int, bytes]] = []
        self._ends = os.pipe()

    def close(self) -> None:
        for end in self._ends:
            os.close(end)

    def SP_connect(self, *told: Any) -> int:
        self.calls.append(("connect", told[0], told[1], told[3]))
        if self.refusals:
            self.refusals -= 1
            return -2
        told[4]._obj.value = self._ends[0]
        return 1

    def SP_join(self, box: Any, group: bytes) -> int:
        self.queue.append((MEMBERSHIP, group, 3, b""))
        return 0

    def SP_multicast(self, *told: Any) -> int:
        _, service, group, _, length, data = told
        self.calls.append(("multicast", service, group, length))
        self.queue.append((service, b"#w0#d1", 1, data[:length]))
        return int(length)

    def SP_poll(self, box: Any) -> int:
        return len(self.queue)

    def SP_receive(self, *told: Any) -> int:
        service, sender, count, data = self.queue.pop(0)
        told[1]._obj.value, told[2].value, told[4]._obj.value = service, sender, count
        told[9][: len(data)] = data
        return len(data)

    def SP_disconnect(self, box: Any) -> int:
        self.calls.append(("disconnect",))
        return 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    made = Library()
    monkeypatch.setattr(spread_client, "_library", lambda path: made)
    monkeypatch.setattr("isotone.bench.lan.spread_client.time.sleep", lambda seconds: None)
    yield made
    made.close()


def test_views_and_messages_come_as_they_are(library: Library) -> None:
    box = Mailbox("libspread.so", "4803@127.0.0.1", 0, "agreed")
    assert [call[0] for call in library.calls] == ["connect", "connect"], (
        "a daemon that does not listen yet is waited for"
    )
    assert library.calls[0] == ("connect", b"4803@127.0.0.1", b"w0", 1)
    box.take(0.0)
    assert box.members == 3
    assert box.send(b"a" * 64)
    assert box.send(b"")
    box.take(0.0)
    assert box.arrived == [(0, b"a" * 64), (0, b"")]
    assert library.calls[2] == ("multicast", 0x10, b"bench", 64)
    box.close()
    assert library.calls[-1] == ("disconnect",)


def test_a_sender_keeps_its_window(library: Library) -> None:
    box = Mailbox("libspread.so", "4803@127.0.0.1", 0, "safe")
    taken = 0
    while box.send(b"x"):
        taken += 1
    assert taken == WINDOW_MESSAGES
    box.take(0.0)
    assert box.send(b"x")


def test_an_error_of_the_library_is_told(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    box = Mailbox("libspread.so", "4803@127.0.0.1", 0, "agreed")
    monkeypatch.setattr(library, "SP_poll", lambda box: -8)
    with pytest.raises(MachineError, match="SP_poll failed with -8"):
        box.take(0.0)


def test_the_settings_name_every_daemon(tmp_path: Path) -> None:
    cluster = SpreadCluster(Cell(system="spread").cluster, None, prefix=tmp_path)
    text = cluster._text()
    cluster.stop()
    for line in ("d1 127.0.0.1", "d2 127.0.0.2", "d3 127.0.0.3", "AcceleratedRing = true", "PersonalWindow = 100"):
        assert line in text


def test_the_windows_of_three_senders_fit_into_what_may_wait_for_one_client() -> None:
    assert int(KNOBS["MaxSessionMessages"]) > 3 * WINDOW_MESSAGES


def test_a_library_that_tells_no_version_is_of_an_unknown_one(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libspread.so.3").write_bytes(b"no library")
    assert version(tmp_path) == "unknown"
