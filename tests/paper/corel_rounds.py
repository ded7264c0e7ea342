"""Communication rounds of a message of COReL, counted on the trace: what was sent at B4, by whom and behind what.

Round one is the bundle that its origin sends behind the row of its initiation. Round two is of each server the first
bundle behind the row that has the message on its disk: an acknowledgement, or a message that carries one. Each further
round is of each server the first bundle behind the delivery of the whole round before. A server has it green after as
many rounds as it had delivered whole when it said so.
"""

from __future__ import annotations

from isotone.core.ids import parse_client_id
from isotone.trace import corel as trace
from isotone.trace.events import Delivered, Row, Sent

Bundle = tuple[str, int]
"""Its sender and the number of its last message."""


class Rounds:
    """Of one run without failures, in which these servers are one primary component."""

    def __init__(self, rows: list[Row], servers: tuple[str, ...]) -> None:
        ordered = sorted(rows, key=lambda row: (row.node, row.incarnation, row.index))
        self._servers = servers
        self._rows = {server: [row.entry for row in ordered if row.node == server] for server in servers}

    def messages(self) -> dict[str, str]:
        """All that were sent, with the server that sent them."""
        return {
            entry.message: server
            for server, entries in self._rows.items()
            for entry in entries
            if isinstance(entry, trace.Initiated)
        }

    def until_green(self, message: str) -> dict[str, int]:
        """By server; a message that is not green there has no number."""
        green = {server: self._place_of(server, trace.Greened, message) for server in self._servers}
        found = dict.fromkeys((server for server in self._servers if green[server] is not None), 0)
        round: list[Bundle] | None = self._first_round(message)
        number = 0
        while round is not None:
            number += 1
            for server in found:
                had, line = self._had(server, round), green[server]
                if found[server] == number - 1 and had is not None and line is not None and had < line:
                    found[server] = number
            round = self._second_round(message) if number == 1 else self._next_round(round)
        return found

    def _first_round(self, message: str) -> list[Bundle] | None:
        origin = self.messages()[message]
        begun = self._place_of(origin, trace.Initiated, message)
        sent = self._sent_behind(origin, begun)
        return [sent] if sent is not None else None

    def _second_round(self, message: str) -> list[Bundle] | None:
        return self._all(
            [self._sent_behind(server, self._place_of(server, trace.Yellowed, message)) for server in self._servers]
        )

    def _next_round(self, round: list[Bundle]) -> list[Bundle] | None:
        return self._all([self._sent_behind(server, self._had(server, round)) for server in self._servers])

    def _all(self, round: list[Bundle | None]) -> list[Bundle] | None:
        found = [bundle for bundle in round if bundle is not None]
        return found if len(found) == len(self._servers) else None

    def _place_of(self, server: str, kind: type, message: str) -> int | None:
        for place, entry in enumerate(self._rows[server]):
            if isinstance(entry, kind) and message in (getattr(entry, "messages", ()) or (entry.message,)):  # type: ignore[attr-defined]
                return place
        return None

    def _sent_behind(self, server: str, place: int | None) -> Bundle | None:
        if place is None:
            return None
        for entry in self._rows[server][place + 1 :]:
            if isinstance(entry, Sent) and parse_client_id(entry.client).daemon.name == server:
                return entry.client, entry.first_sequence + len(entry.lengths) - 1
        return None

    def _had(self, server: str, round: list[Bundle]) -> int | None:
        """Where the last bundle of a round was delivered there."""
        places = []
        for sender, last in round:
            for place, entry in enumerate(self._rows[server]):
                if isinstance(entry, Delivered) and entry.sender == sender:
                    if entry.first_sequence <= last < entry.first_sequence + len(entry.lengths):
                        places.append(place)
                        break
        return max(places) if len(places) == len(round) else None
