"""The ports of a test's cluster in the texts of the guides."""

from __future__ import annotations

from tests.cli.running import USUAL, Running


def test_a_port_that_begins_as_one_of_the_guides_is_placed_once() -> None:
    """Drawn by the system, the administration of d1 may be at 48031: the 4803 in it is not that of the guide."""
    clients = {"d1": 46749, "d2": 48101, "d3": 4810}
    admins = {"d1": 48031, "d2": 4803, "d3": 40000}
    daemons = [
        {"name": name, "address": f"127.0.0.1:{clients[name]}", "admin": f"127.0.0.1:{admins[name]}"} for name in USUAL
    ]
    guide = " ".join(f"127.0.0.1:{port} 127.0.0.1:{admin}" for port, admin in USUAL.values())
    assert Running({"daemons": daemons}).placed(guide + " 127.0.0.1:9") == (
        "127.0.0.1:46749 127.0.0.1:48031 127.0.0.1:48101 127.0.0.1:4803 127.0.0.1:4810 127.0.0.1:40000 127.0.0.1:9"
    )
