"""Ports that are named before anybody listens there."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from isotone.daemon import ports


@pytest.mark.parametrize("kernels", ["20500\t60999\n", "1024\t65535\n", "soup", None])
def test_they_are_free_and_not_those_that_the_kernel_gives_away_if_there_are_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: str | None
) -> None:
    monkeypatch.setattr(ports, "KERNELS", tmp_path / "range")
    if kernels is not None:
        (tmp_path / "range").write_text(kernels)
    found = ports.free_ports(20)
    assert len(set(found)) == 20
    if kernels == "20500\t60999\n":
        assert all(20_000 <= number < 20_500 for number in found)


def test_one_that_is_taken_for_either_protocol_is_not_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one, two, free = ports.free_ports(3)
    with socket.create_server((ports.LOOPBACK, one)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind((ports.LOOPBACK, two))
        monkeypatch.setattr(ports.random, "sample", lambda own, count: [one, two, free])
        assert ports.free_ports(1) == [free]
