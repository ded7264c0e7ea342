"""One cluster of real daemons for all tests of commands."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.cli.running import Running, first_object, process, wait_until


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Three daemons in two sites, started by ``isotone up`` and stopped by SIGTERM."""
    home = tmp_path_factory.mktemp("up")
    arguments = ["up", "3", "--sites", "2", "--port", "0", "--directory", str(home / "cluster"), "--json"]
    with process(*arguments, log=home / "up.log") as running:
        yield Running(first_object(running, home / "up.log"))
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0, (home / "up.log").read_text()


@pytest.fixture
def cluster(started: Running) -> Running:
    """In one daemon view, also where a busy machine has let them suspect each other since the last test."""
    wait_until(started.is_together, "all are together")
    return started
