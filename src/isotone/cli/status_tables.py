"""The status of daemons for people: who is there, groups, clients and slow readers; links and timeouts where asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

ROWS_MAX = 12
ROWS_ALONE_MAX = 6
"""Groups, and clients, of one daemon: with all else that is told of it they fit a screen of 24 lines."""
ROWS_TOGETHER_MAX = 5
"""Groups and clients that are listed below a table of daemons, so that all of it fits a screen of 24 lines."""
COLUMNS_EXPLAINED = (
    "sites: units: received/known of a site; line: nothing earlier will come from it; everywhere: acknowledged by all\n"
    "links: again: share of packets sent more than once; held: bytes that wait\n"
    "daemons: ±: variation of the round trip; lost: share of probes without an answer\n"
    "timeouts: a daemon is suspected when it is not heard for so long (silence), does not answer for so long after "
    "another daemon suspected it (confirm), or is heard and does not hear us for so long (one way); after a pause of "
    "this daemon itself it suspects nobody for so long (grace)"
)


def links_view(status: dict[str, Any]) -> RenderableType:
    """One daemon with its sites, links, other daemons and timeouts."""
    parts: list[RenderableType] = [headline(status)]
    if status["stack"]["sites"]:
        parts.append(sites_table(status["stack"]))
    if status["stack"]["links"]:
        parts.append(links_table(status["stack"]))
    if status["stack"]["peers"]:
        parts += [peers_table(status["stack"]), timeouts_table(status["stack"])]
    return Group(*parts)


def status_view(status: dict[str, Any]) -> RenderableType:
    """One daemon: who is there, groups, clients, what is wrong."""
    parts: list[RenderableType] = [headline(status), traffic(status)]
    if status["groups"]:
        parts.append(groups_table(status))
    if status["clients"]:
        parts.append(clients_table(status))
    parts.append(tail(status))
    return Group(*parts)


def traffic(status: dict[str, Any]) -> Text:
    """The lag: what is here and not everywhere yet, and who is waited for since when."""
    lines, held = status["stack"]["lines"] or {}, status["stack"]["memory"]
    text = Text(f"lag: {size(held['unstable'])} not yet everywhere, {size(held['unstamped'])} not yet ordered")
    if lines.get("agreed_since") is not None and lines["slowest"]:
        waited = span(max(1, status["at"] - lines["agreed_since"]))
        text.append(f"; messages have waited {waited} for site {', '.join(lines['slowest'])}", style="yellow")
    return text


def together_view(rows: Sequence[tuple[str, dict[str, Any] | None, str]], causes: Sequence[str]) -> RenderableType:
    """Several daemons: a line each, their groups and clients together, what is wrong."""
    statuses = [status for _, status, _ in rows if status is not None]
    parts: list[RenderableType] = [cluster_table(rows)]
    groups = {group["name"]: group for status in statuses for group in status["groups"]}
    if groups:
        listed = [f"{name} ({groups[name]['members_total']})" for name in sorted(groups)]
        parts.append(_line_of("groups (members)", listed))
    clients = [f"{client['name']}@{status['name']}" for status in statuses for client in status["clients"]]
    if clients:
        parts.append(_line_of("clients", clients))
    parts += [Text(f"! {cause}", style="yellow") for cause in causes[:ROWS_TOGETHER_MAX]]
    if len(causes) > ROWS_TOGETHER_MAX:
        parts.append(Text(f"! and {len(causes) - ROWS_TOGETHER_MAX} more", style="yellow"))
    return Group(*parts)


def _line_of(title: str, names: Sequence[str]) -> Text:
    more = f" and {len(names) - ROWS_MAX} more" if len(names) > ROWS_MAX else ""
    return Text(f"{title}: {', '.join(names[:ROWS_MAX])}{more}")


def headline(status: dict[str, Any]) -> Text:
    """One daemon in two lines."""
    view = status["stack"]["view"]
    text = Text()
    text.append(status["stack"]["daemon"], style="bold")
    text.append(f" at {status['stack']['address']} in site {status['stack']['site']}, cluster {status['cluster']}: ")
    text.append("ready" if status["ready"] else "not ready", style="bold green" if status["ready"] else "bold red")
    works = "works" if view["is_working"] else "is over"
    text.append(f"\ndaemon view {view['daemon_view']} {works}: {', '.join(view['members'])}")
    if not view["is_working"]:
        text.append(f"\n{view['text']}", style="yellow")
    if view["groups_state"] != "GOP":
        missing = ", ".join(view["groups_missing"])
        text.append(f"\ngroups are {view['groups_state']}" + (f", waiting for {missing}" if missing else ""))
    return text


def sites_table(stack: dict[str, Any]) -> Table:
    """Sites with their lines."""
    lines = stack["lines"] or {}
    slowest = lines["slowest"] if lines.get("agreed_since") is not None else ()
    rows = (
        (
            site["name"],
            " ".join(site["daemons"]),
            site["gateway"],
            f"{site['received']}/{site['known']}",
            str(site["line"]),
            str(site["acknowledged"]),
            "messages wait for it" if site["name"] in slowest else "",
        )
        for site in stack["sites"]
    )
    return _table("sites", ("site", "daemons", "gateway", "units", "line", "everywhere", ""), rows)


def links_table(stack: dict[str, Any]) -> Table:
    """Links with what they carried, round trips, and what had to be sent again."""
    rows = []
    for link in stack["links"]:
        counters = link["counters"]
        sent = counters["packets_sent"]
        again = f"{100 * counters['packets_resent'] / sent:.1f} %" if sent else "-"
        rows.append(
            (
                link["name"],
                link["protocol"],
                " ".join(link["to"]) or "-",
                span(counters["round_trip_us"]),
                str(sent),
                str(counters["packets_received"]),
                again,
                size(counters["buffered_bytes"] + link["waiting_bytes"]),
            )
        )
    return _table("links", ("link", "protocol", "to", "round trip", "sent", "received", "again", "held"), rows)


def peers_table(stack: dict[str, Any]) -> Table:
    """Other daemons as they are seen from here."""
    rows = (
        (
            peer["name"],
            peer["site"],
            peer["address"],
            "suspected: " + peer["suspected"] if peer["suspected"] else "reached" if peer["reached"] else "not reached",
            span(peer["round_trip_us"]),
            span(peer["variation_us"]),
            f"{peer['lost_ppm'] / 10_000:.1f} %",
            span(peer["silent_us"]),
        )
        for peer in stack["peers"]
    )
    return _table("daemons", ("daemon", "site", "address", "", "round trip", "±", "lost", "heard ago"), rows)


def timeouts_table(stack: dict[str, Any]) -> Table:
    """How long each peer may be silent, and where that comes from."""
    rows = (
        (peer["name"], name.replace("_", " "), span(timeout["us"]), timeout["text"])
        for peer in stack["peers"]
        for name, timeout in peer["timeouts"].items()
    )
    return _table("timeouts", ("daemon", "timeout", "now", "where it comes from"), rows)


def groups_table(status: dict[str, Any]) -> Table:
    """Groups, the first of many."""
    rows = (
        (
            group["name"],
            str(group["members_total"]),
            str(group["local"]),
            "in transition" if group["in_transition"] else "",
            group["view"],
        )
        for group in status["groups"][:ROWS_ALONE_MAX]
    )
    title = _some("groups", status["totals"]["groups"])
    return _table(title, ("group", "members", "here", "", "view"), rows, cut=("group", "view"))


def clients_table(status: dict[str, Any]) -> Table:
    """Clients, those who hold most first."""
    rows = (
        (
            client["name"],
            client["kind"],
            client["principal"] or "-",
            str(client["groups"]),
            size(client["held_bytes"]),
            "senders wait for it" if client["blocks"] else "" if client["connected"] else "away",
        )
        for client in status["clients"][:ROWS_ALONE_MAX]
    )
    title = _some("clients", status["totals"]["clients"])
    return _table(title, ("client", "kind", "principal", "groups", "held", ""), rows, cut=("client", "principal"))


def tail(status: dict[str, Any]) -> Text:
    """Trace, faults, refusals."""
    trace = status["trace"]
    text = Text(f"trace {trace['level']}: {trace['rows']} rows, {trace['lost']} lost, {size(trace['bytes'])} on disk")
    if trace["failed"]:
        text.append(f"; {trace['failed']}", style="bold red")
    if status["faults"]:
        text.append(f"\n{len(status['faults'])} faults are injected", style="bold yellow")
    for refusal in status["stack"]["refusals"]:
        text.append(f"\n{refusal['daemon']}: {refusal['evidence']}", style="yellow")
    return text


def cluster_table(rows: Iterable[tuple[str, dict[str, Any] | None, str]]) -> Table:
    """Several daemons, one line each: name, status if it answered, and what else is to be said."""
    table = _table("", ("daemon", "site", "state", "sees", "groups", "clients", "slow readers", "lag", ""), ())
    for name, status, note in rows:
        if status is None:
            table.add_row(name, "", Text("no answer", style="red"), "", "", "", "", "", note)
            continue
        stack = status["stack"]
        state = Text("ready", style="green") if status["ready"] else Text(stack["view"]["state"], style="yellow")
        slow = sum(1 for client in status["clients"] if client["blocks"])
        table.add_row(
            name,
            stack["site"],
            state,
            " ".join(stack["view"]["members"]),
            str(status["totals"]["groups"]),
            str(status["totals"]["clients"]),
            Text(str(slow), style="bold yellow" if slow else ""),
            size(stack["memory"]["unstable"]),
            note,
        )
    return table


def _some(title: str, total: int) -> str:
    return f"{title}: {ROWS_ALONE_MAX} of {total}" if total > ROWS_ALONE_MAX else title


def _table(title: str, columns: Sequence[str], rows: Iterable[tuple[str, ...]], *, cut: Sequence[str] = ()) -> Table:
    """With columns to ``cut``, where the screen is too narrow, each row takes one line."""
    table = Table(
        title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for column in columns:
        table.add_column(column, header_style="dim", no_wrap=bool(cut) and column not in cut)
    for row in rows:
        cells = [
            Text(cell, no_wrap=True, overflow="ellipsis") if column in cut else cell
            for column, cell in zip(columns, row, strict=True)
        ]
        table.add_row(*cells)
    return table


def span(us: int) -> str:
    """A length of time for people."""
    if us >= 1_000_000:
        return f"{us / 1_000_000:.3g} s"
    return f"{us / 1_000:.3g} ms" if us else "-"


def size(count: int) -> str:
    """A number of bytes for people."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TiB"
