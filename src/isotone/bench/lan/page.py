"""The summary as one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from isotone.bench.lan.goals import Goal
from isotone.bench.lan.results import Row
from isotone.bench.lan.summary import Summary
from isotone.bench.measure import shown

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#1a1a1a}
table{border-collapse:collapse;margin:1rem 0;font-size:13px}
th,td{padding:.25rem .6rem;border-bottom:1px solid #ddd;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}
.met{color:#17692c}.missed,.not{color:#a51d1d;font-weight:600}
.bar{fill:#33658a}.peer{fill:#b9c6ce}.packed{fill:#dfe6ea}
@media(prefers-color-scheme:dark){body{background:#16181a;color:#e6e6e6}th,td{border-color:#333}text{fill:#e6e6e6}
.met{color:#6fce86}.missed,.not{color:#ff8f8f}}
"""
BAR_HEIGHT, BAR_WIDTH, LABEL_WIDTH = 18, 420, 260


def page(summary: Summary) -> str:
    """The whole page."""
    machine = summary.machine
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width,initial-scale=1">',
        f"<title>Isotone on a LAN</title><style>{STYLE}</style>",
        "<h1>Isotone and its peers on one workload</h1>",
        f"<p>{escape(summary.command)}<br>isotone {escape(machine.isotone)}, commit {escape(machine.commit)}, "
        f"{escape(machine.python)}; {escape(machine.processor)}, {machine.cores} cores, {escape(machine.system)}; "
        f"{escape(_versions({**machine.software, **summary.peers}))}; "
        f"{summary.repetitions} repetitions, {summary.minutes:g} minutes. Medians; quartiles in brackets.</p>",
        *_notes(summary),
        _goals(summary),
        _bars(summary.rows),
        _rows(summary.rows),
        _ratios(summary),
        _figures(summary),
        "</html>",
    ]
    return "\n".join(parts)


def _versions(software: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in software.items())


def _notes(summary: Summary) -> Iterable[str]:
    if summary.notes:
        yield "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in summary.notes) + "</ul>"


def _goals(summary: Summary) -> str:
    lines = [
        (
            escape(goal.name),
            f"at {goal.at} {shown(goal.goal)}",
            _found(goal),
            escape(goal.against),
            f'<span class="{goal.verdict.split()[0]}">{goal.verdict}</span>',
        )
        for goal in summary.goals
    ]
    return _table("Goals", ("what", "goal", "found", "against", "verdict"), lines)


def _found(goal: Goal) -> str:
    if goal.value is None or goal.quartiles is None:
        return "–"
    return f"{shown(goal.value)} [{shown(goal.quartiles[0])} … {shown(goal.quartiles[1])}]"


def _bars(rows: Sequence[Row]) -> str:
    """Rates of the base cases, by size."""
    parts = ["<h2>Messages per second, base case</h2>"]
    for size in dict.fromkeys(row.size for row in rows):
        found = [row for row in rows if row.size == size and row.variant == "base"]
        if not found:
            continue
        most = max(row.rate for row in found)
        height = BAR_HEIGHT * len(found)
        parts.append(f"<h3>{size:,} bytes</h3>")
        parts.append(f'<svg width="{LABEL_WIDTH + BAR_WIDTH + 120}" height="{height}" role="img">')
        for place, row in enumerate(found):
            parts.append(_bar(row, place * BAR_HEIGHT, row.rate / most * BAR_WIDTH))
        parts.append("</svg>")
    return "".join(parts)


def _bar(row: Row, top: int, width: float) -> str:
    kind = "bar" if row.system == "isotone" else "peer" if row.packing == "none" else "packed"
    packing = "" if row.packing == "none" else f", packed {row.packing}"
    return (
        f'<text x="0" y="{top + 13}" font-size="12">{escape(row.system)}, {row.path}{packing}</text>'
        f'<rect class="{kind}" x="{LABEL_WIDTH}" y="{top + 2}" width="{width:.1f}" height="{BAR_HEIGHT - 5}"/>'
        f'<text x="{LABEL_WIDTH + width + 6:.1f}" y="{top + 13}" font-size="12">{shown(row.rate)}</text>'
    )


def _rows(rows: Sequence[Row]) -> str:
    lines = [
        (
            row.system,
            row.variant,
            row.packing,
            row.service,
            f"{row.size:,}",
            str(row.senders),
            row.path,
            _with(row, "rate"),
            _with(row, "mb_per_s"),
            _with(row, "cpu_us_daemons"),
            _with(row, "cpu_us_clients"),
        )
        for row in rows
    ]
    heads = ("system", "variant", "packing", "service", "bytes", "senders", "path")
    return _table("Rows", (*heads, "messages/s", "MB/s", "CPU µs, daemons", "CPU µs, clients"), lines)


def _with(row: Row, name: str) -> str:
    low, high = row.quartiles[name]
    return f"{shown(getattr(row, name))} [{shown(low)} … {shown(high)}]"


def _ratios(summary: Summary) -> str:
    lines = [(*ratio.case(), f"{ratio.throughput:.2f}", f"{ratio.cpu:.3f}") for ratio in summary.ratios]
    heads = ("variant", "peer's packing", "service", "bytes", "senders", "path", "peer", "its path")
    return _table("Ours over the better peer", (*heads, "throughput", "CPU"), lines)


def _figures(summary: Summary) -> str:
    lines = [
        (
            escape(found.name),
            escape(name),
            f"{shown(value.median)} [{shown(value.quartiles[0])} … {shown(value.quartiles[1])}]",
        )
        for found in summary.figures
        for name, value in found.values.items()
    ]
    return _table("Latency, changes, rest", ("of", "what", "found"), lines)


def _table(title: str, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    if not lines:
        return ""
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join("<tr>" + "".join(_field(each) for each in line) + "</tr>" for line in lines)
    return f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{body}</table>"


def _field(text: str) -> str:
    return f'<td class="n">{text}</td>' if text[:1].isdigit() else f"<td>{text}</td>"
