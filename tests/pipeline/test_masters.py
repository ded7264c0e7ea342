"""A master of Spark that is not there is said at once."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from isotone.core.errors import InputError, MachineError
from isotone.pipeline.masters import require_master
from isotone.pipeline.session import session

LOOPBACK = "127.0.0.1"


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A port that nobody else has, and at which nobody listens."""
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        yield bound


def test_one_that_is_not_there(silent: socket.socket) -> None:
    place = f"{LOOPBACK}:{silent.getsockname()[1]}"
    with pytest.raises(MachineError, match=rf"no master of Spark answers at spark://{place} \({place}: .*refused"):
        session(f"spark://{place}", name="never started")


def test_one_of_several_is_enough(silent: socket.socket) -> None:
    gone = f"{LOOPBACK}:{silent.getsockname()[1]}"
    with socket.create_server((LOOPBACK, 0)) as listening:
        require_master(f"spark://{gone},{LOOPBACK}:{listening.getsockname()[1]}")
    with pytest.raises(MachineError, match=rf"\({gone}: .*; {gone}: "):
        require_master(f"spark://{gone},{gone}")


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://nowhere:443"])
def test_other_places_are_left_to_spark(master: str) -> None:
    require_master(master)


@pytest.mark.parametrize("master", ["spark://host", "spark://host:", "spark://:7077", "spark://a:1,b"])
def test_what_is_no_address(master: str) -> None:
    with pytest.raises(InputError, match="HOST:PORT"):
        require_master(master, within_s=0.1)


def test_a_port_that_does_not_exist() -> None:
    with pytest.raises(MachineError, match="no master of Spark answers"):
        require_master(f"spark://{LOOPBACK}:70000")
