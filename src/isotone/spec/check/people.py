"""Who is there: homes by node, processes by home, senders by id.

What a node records of a process whose id names another node is about a *ghost*: it shares the id, but neither its views
nor its sends. So a forged id cannot disturb the judgement of the true process, whatever the order of the rows.

Implements: [Spread 2.2.2], Assumptions 2.1 and 2.2, as far as ids go. Deviations: none.
"""

from __future__ import annotations

from isotone.spec.check.records import Home, Process, Sender


def parse_client(text: str) -> tuple[tuple[str, int], str, str]:
    """Home, lasting name and private group of ``#name#daemon#incarnation#session``; never raises."""
    parts = text.split("#")
    if len(parts) != 5 or not parts[3].isdigit():
        return ("", -1), text, ""
    lasting = f"#{parts[1]}#{parts[2]}"
    return (parts[2], int(parts[3])), lasting, lasting


def parse_daemon(text: str) -> tuple[tuple[str, int], str, str]:
    """Home, lasting name and no private group (``#`` is none) of ``daemon#incarnation``; never raises."""
    name, _, incarnation = text.rpartition("#")
    return (name, int(incarnation) if incarnation.isdigit() else -1), name, "#"


class People:
    """The registry of one boundary."""

    def __init__(self, *, daemons: bool) -> None:
        self._parse = parse_daemon if daemons else parse_client
        self._daemons = daemons
        self.homes: dict[str, Home] = {}  # the current incarnation of each node
        self.left_over: list[Home] = []  # earlier incarnations whose crash nobody recorded
        self.senders: dict[str, Sender] = {}
        self.by_name: dict[str, list[Sender]] = {}
        self.by_home: dict[tuple[str, int], list[Sender]] = {}
        self.missing: frozenset[tuple[str, int]] = frozenset()  # homes that others name, without a row; at the end

    def home(self, node: str, incarnation: int) -> Home:
        """The current home of a node; the caller has ended an earlier incarnation."""
        home = self.homes.get(node)
        if home is None or home.incarnation != incarnation:
            home = self.homes[node] = Home(node, incarnation)
        return home

    def sender(self, text: str) -> Sender:
        """The sender with this id, known or new."""
        sender = self.senders.get(text)
        if sender is None:
            home_key, name, _ = self._parse(text)
            sender = self.senders[text] = Sender(text, name, home_key, sparse=self._daemons)
            self.by_name.setdefault(name, []).append(sender)
            self.by_home.setdefault(home_key, []).append(sender)
            current = self.homes.get(home_key[0])
            if current is not None and home_key[1] < current.incarnation and not self._is_left_over(home_key):
                sender.ended = True
        return sender

    def meet(self, home: Home, text: str) -> Process:
        """The process with this id at this home, known or new."""
        process = home.processes.get(text)
        if process is not None:
            return process
        home_key, name, private = self._parse(text)
        own = home_key == (home.node, home.incarnation)
        process = Process(text, name, private, home, self.sender(text) if own else None)
        home.processes[text] = process
        if process.sender is not None:
            process.sender.process = process
            process.sender.lossy |= home.lossy
        return process

    def find(self, text: str) -> Process | None:
        """The true process with this id, if it was heard of."""
        sender = self.senders.get(text)
        return sender.process if sender is not None else None

    def _is_left_over(self, home_key: tuple[str, int]) -> bool:
        return any((home.node, home.incarnation) == home_key for home in self.left_over)

    def is_truncated(self, home_key: tuple[str, int]) -> bool:
        """Whether the record of this home broke off: nothing of it is to be waited for."""
        home = self.homes.get(home_key[0])
        return home is not None and home.incarnation == home_key[1] and home.truncated

    def home_of(self, text: str) -> tuple[str, int]:
        """Where a process with this id belongs."""
        return self._parse(text)[0]

    def over(self, text: str) -> bool:
        """Whether the process with this id has ended, or its node went on without a word of it."""
        process = self.find(text)
        if process is not None:
            return process.ended
        node, incarnation = self.home_of(text)
        if self._is_left_over((node, incarnation)):
            return False
        home = self.homes.get(node)
        return home is not None and (home.incarnation > incarnation or (home.ended and home.incarnation == incarnation))
