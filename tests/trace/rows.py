"""Small rows for tests: bundles of one message, sent and delivered."""

from __future__ import annotations

from isotone.core.services import Service
from isotone.trace.events import Delivered, Row, Sent


def client(node: str, incarnation: int = 1) -> str:
    """The one client of a node."""
    return f"#c#{node}#{incarnation}#1"


def sent(node: str, index: int, sequence: int | None = None, *, at: int | None = None, incarnation: int = 1) -> Row:
    """The client of the node sends its message ``sequence``; by default one per row."""
    number = index + 1 if sequence is None else sequence
    entry = Sent(client(node, incarnation), number, Service.AGREED, ("g",), (3,), (number,))
    return Row(node, incarnation, index, index if at is None else at, entry)


def delivered(node: str, index: int, sender: str, sequence: int, *, at: int | None = None) -> Row:
    """The client of the node gets the message ``sequence`` of the sender's client."""
    entry = Delivered(
        (client(node),), client(sender), sequence, Service.AGREED, ("g",), (3,), (sequence,), sequence, f"{sender}#1"
    )
    return Row(node, 1, index, index if at is None else at, entry)


def sends(count: int, node: str = "d1", incarnation: int = 1, first: int = 0) -> list[Row]:
    """Consecutive rows of one record."""
    return [sent(node, index, incarnation=incarnation) for index in range(first, first + count)]
