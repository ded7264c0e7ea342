"""Commands that ask running servers: wrong input is said once, with 2, and nobody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.cli.replica_verify import why_silent
from isotone.core.errors import MachineError
from tests.cli.replica_stores import three_servers
from tests.cli.running import isotone

NO_PORT = "is no address: write host:port, with a port of 1 to 65535"


@pytest.mark.parametrize("words", [("replica", "status"), ("explain", "primary"), ("replica", "remove", "c")])
@pytest.mark.parametrize("address", ["foo", "127.0.0.1:99999", "127.0.0.1:x"])
def test_what_is_no_address(words: tuple[str, ...], address: str) -> None:
    done = isotone(*words, "--address", "127.0.0.1:4816", "--address", address)
    assert done.exit_code == 2 and done.output == f"isotone: '{address}' {NO_PORT}\n"


@pytest.mark.parametrize("message", ["a.1", "", "17"])
def test_what_is_no_name_of_a_message(tmp_path: Path, message: str) -> None:
    done = isotone("explain", "green", message, str(three_servers(tmp_path)))
    assert done.exit_code == 2 and done.output.count("not the name of a message") == 1


def test_what_all_say_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = MachineError("no")
    monkeypatch.setattr("isotone.cli.replica_status.ask_all", lambda asked, *_: dict.fromkeys(asked, refused))
    done = isotone("replica", "status", "--address", "127.0.0.1:1", "--address", "127.0.0.1:2")
    assert done.exit_code == 3 and done.output == "isotone: no\n"


def test_servers_without_objects_cannot_be_verified_and_say_where_objects_are() -> None:
    assert "isotone.replica(" in why_silent(MachineError("nobody knows the question 'digests'"))
    assert why_silent(MachineError("no answer")) == "no answer"
