"""Services: their numbers are on the wire and in traces, and each keeps the promises of the weaker ones."""

from __future__ import annotations

from isotone.core.services import Service


def test_numbers_never_change() -> None:
    assert [(service.name, int(service)) for service in Service] == [
        ("UNRELIABLE", 0),
        ("RELIABLE", 1),
        ("FIFO", 2),
        ("CAUSAL", 3),
        ("AGREED", 4),
        ("SAFE", 5),
    ]


def test_each_service_promises_what_the_weaker_ones_do_and_more() -> None:
    promises = {
        Service.UNRELIABLE: "",
        Service.RELIABLE: "reliable",
        Service.FIFO: "reliable fifo",
        Service.CAUSAL: "reliable fifo causal",
        Service.AGREED: "reliable fifo causal agreed",
        Service.SAFE: "reliable fifo causal agreed safe",
    }
    names = ["reliable", "fifo", "causal", "agreed", "safe"]
    for service, promised in promises.items():
        assert [name for name in names if getattr(service, f"is_{name}")] == promised.split()
