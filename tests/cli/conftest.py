"""One cluster of real daemons for all tests of commands."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.cli.running import Running, first_object, process


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Three daemons in two sites, started by ``isotone up`` and stopped by SIGTERM."""
    home = tmp_path_factory.mktemp("up")
    arguments = ["up", "3", "--sites", "2", "--port", "0", "--directory", str(home / "cluster"), "--json"]
    with process(*arguments, log=home / "up.log") as running:
        yield Running(first_object(running, home / "up.log"))
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0, (home / "up.log").read_text()
