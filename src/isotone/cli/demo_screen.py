"""What the demo shows while it runs: lines as things happen, and on a terminal tables of clients and of the bank."""

from __future__ import annotations

import time
from types import TracebackType

from rich.columns import Columns
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from isotone.client import GroupEvent, Message, Reconnected, SelfLeave, Transitional, View


class Standing:
    """How one client stands, for the table."""

    def __init__(self, name: str, daemon: str, site: str) -> None:
        self.name, self.daemon, self.site = name, daemon, site
        self.members: tuple[str, ...] = ()
        self.heard = 0
        self.last = ""


class Desk:
    """A teller's copy of the accounts, for the table: as of which position, and what is in them."""

    def __init__(self, name: str, site: str) -> None:
        self.name, self.site = name, site
        self.position = 0
        self.balances: dict[str, int] = {}


class Screen:
    """Lines, and live tables where somebody looks; nothing at all without a console."""

    def __init__(self, console: Console | None) -> None:
        self._console = console
        self._began = time.monotonic()
        self._standings: list[Standing] = []
        self._desks: list[Desk] = []
        self._live: Live | None = None

    def __enter__(self) -> Screen:
        self._began = time.monotonic()
        if self._console is not None and self._console.is_terminal:
            # It must not redirect standard output: that is what the console itself writes to.
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def introduce(self, standing: Standing) -> None:
        """Show this client from now on."""
        self._standings.append(standing)

    def open_desk(self, desk: Desk) -> None:
        """Show this teller from now on."""
        self._desks.append(desk)

    def say(self, text: str) -> None:
        """What is done to the cluster."""
        self._print(f"[bold]-- {escape(text)}[/]")

    def tell(self, standing: Standing, event: GroupEvent) -> None:
        """What a client heard."""
        text = told(event)
        if isinstance(event, View):
            standing.members = tuple(member.name for member in event.members)
        elif isinstance(event, Message):
            standing.heard += 1
            standing.last = text
        self._print(f"{standing.name:<6}at {standing.daemon}  {escape(text)}")

    def tell_bank(self, desk: Desk, text: str) -> None:
        """What a teller was answered."""
        self._print(f"{desk.name:<6}in {desk.site}  bank    {escape(text)}")

    def refresh(self) -> None:
        """The tables, as things stand now."""
        if self._live is not None:
            self._live.update(Columns([self._clients(), self._accounts()]), refresh=True)

    def _print(self, line: str) -> None:
        if self._console is None:
            return
        self._console.print(f"{time.monotonic() - self._began:5.1f} s  {line}")
        self.refresh()

    def _accounts(self) -> Table:
        table = Table(title="the bank, as each teller has it", title_justify="left")
        owners = sorted({owner for each in self._desks for owner in each.balances})
        for title in ("teller", "site", "position", *owners, "together"):
            table.add_column(title)
        for each in self._desks:
            amounts = [str(each.balances.get(owner, "")) for owner in owners]
            table.add_row(each.name, each.site, str(each.position), *amounts, str(sum(each.balances.values())))
        return table

    def _clients(self) -> Table:
        table = Table(title="clients", title_justify="left")
        for title in ("client", "daemon", "site", "view", "heard", "last message"):
            table.add_column(title)
        for each in self._standings:
            view = ", ".join(each.members)
            table.add_row(each.name, each.daemon, each.site, view, str(each.heard), escape(each.last))
        return table


def told(event: GroupEvent) -> str:
    """One event in words."""
    match event:
        case Message():
            return f"hears   {event.body.decode(errors='replace')!r} ({event.service.name.lower()})"
        case View():
            return f"view    {', '.join(member.name for member in event.members)} (by {event.cause.value})"
        case Transitional():
            return "signal  transitional: what follows may have reached only some"
        case Reconnected():
            return f"is back with a new session; {len(event.unknown)} of its messages are of unknown fate"
        case SelfLeave():
            return "left"
        case _:
            return "reads slowly"
