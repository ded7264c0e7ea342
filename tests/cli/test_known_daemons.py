"""Which other daemons a command asks, and with which credential."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from isotone.cli.admin_client import AdminClient
from isotone.cli.known_daemons import neighbours_of


@contextmanager
def daemon(name: str, cluster: str = "c", ready: int = 200) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """An administration port that tells its name and status; its address, and what was asked with which credential."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization", "")))
            answers: dict[str, Any] = {"/ready": {"daemon": f"{name}#1"}, "/status": {"name": name, "cluster": cluster}}
            body = json.dumps(answers[self.path]).encode()
            self.send_response(ready if self.path == "/ready" else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


def status(name: str, administration: dict[str, str], peers: Sequence[str] = ()) -> dict[str, Any]:
    stack = {"peers": [{"name": peer} for peer in peers]}
    return {"name": name, "cluster": "c", "stack": stack, "administration": administration}


@pytest.fixture
def asker() -> AdminClient:
    return AdminClient("127.0.0.1:1", "secret")


def test_others_are_asked_with_the_credential_once_they_said_who_they_are(asker: AdminClient) -> None:
    with daemon("d2", ready=503) as (address, asked):
        (found,) = neighbours_of([asker], [status("d1", {"d2": address, "d1": "127.0.0.1:1"}, ["d2"])])
    assert found.status == {"name": "d2", "cluster": "c"}
    assert asked == [("/ready", ""), ("/status", "Bearer secret")]


def test_what_answers_in_the_place_of_a_daemon_gets_no_credential(asker: AdminClient) -> None:
    with ExitStack() as stack:
        stranger, asked = stack.enter_context(daemon("d7"))
        foreign, _ = stack.enter_context(daemon("d3", cluster="other"))
        found = neighbours_of([asker], [status("d1", {"d2": stranger, "d3": foreign})])
    assert [each.why_not for each in found] == [
        f"d2: {stranger} is d7",
        f"d3: {foreign} is of cluster other",
    ]
    assert asked == [("/ready", "")]


def test_the_credential_goes_into_the_network_only_where_an_address_that_was_given_leads_there(
    asker: AdminClient,
) -> None:
    (found,) = neighbours_of([asker], [status("d1", {"d2": "192.0.2.1:4810"})])
    assert (found.client, found.status) == (None, None)
    assert found.why_not.startswith("d2: --address 192.0.2.1:4810 would ask it, and send the credential")


def test_who_is_known_without_an_administration_port_is_named(asker: AdminClient) -> None:
    found = neighbours_of([asker], [status("d1", {"d2": ""}, ["d2", "d3"])])
    assert [each.why_not for each in found] == [
        f"{name}: its administration port is not known here; give --address" for name in ("d2", "d3")
    ]


def test_who_does_not_answer_was_asked(asker: AdminClient) -> None:
    (found,) = neighbours_of([asker], [status("d1", {"d2": "127.0.0.1:1"})])
    assert found.client is not None and found.why_not.startswith("d2: no daemon answers at 127.0.0.1:1")
