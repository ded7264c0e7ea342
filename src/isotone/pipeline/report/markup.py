"""The page's parts as HTML text: escaped, without scripts, styled in one place.

Implements: [DESIGN 5], report. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --soft: #52606d; --line: #e1e6eb; --accent: #2f6fb0; --bad: #b3261e;
  --good: #2e7d4f; --quiet: #6b7682; --page: #f5f7f9; --paper: #fff; --faint: #cbd2d9; --grid: #e8ecf0;
  --row: #eef1f4; --code: #f1f4f7; --kept: #e3f3e9; --broken: #fbe4e2; --open: #fdf0dc; --warn: #8a5a0b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --soft: #9aa5b1; --line: #333b45; --accent: #7fb2e5;
  --bad: #ff8a80; --good: #5cc98a; --quiet: #8a94a0; --page: #101317; --paper: #181c21; --faint: #4a535e;
  --grid: #2a313a; --row: #252b33; --code: #252b33; --kept: #173524; --broken: #4a1f1c; --open: #42330f;
  --warn: #e6b455; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 Inter, "Helvetica Neue", Arial,
  "Liberation Sans", "DejaVu Sans", sans-serif; }
header { background: #14212e; color: #fff; padding: 34px 0 30px; }
header .inner, main, nav .inner, footer { max-width: 1080px; margin: 0 auto; padding: 0 28px; }
header h1 { margin: 0 0 4px; font-size: 27px; letter-spacing: -0.01em; font-weight: 650; }
header p { margin: 0; color: #b6c2cf; }
nav { background: var(--paper); border-bottom: 1px solid var(--line); position: sticky; top: 0; z-index: 2; }
nav .inner { display: flex; gap: 20px; flex-wrap: wrap; padding-top: 10px; padding-bottom: 10px; font-size: 14px; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(128px, 1fr)); gap: 12px; margin: 26px 0 8px; }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; }
.card b { display: block; font-size: 24px; font-weight: 650; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: 13px; line-height: 1.3; display: block; }
.card.bad b { color: var(--bad); } .card.good b { color: var(--good); }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 22px 26px 18px;
  margin: 20px 0; }
h2 { margin: 0 0 6px; font-size: 19px; } h3 { margin: 20px 0 6px; font-size: 15.5px; }
p { margin: 6px 0 10px; } .note, .source, figcaption { color: var(--soft); font-size: 13.5px; }
figure { margin: 12px 0 6px; overflow-x: auto; }
figure svg { width: 100%; min-width: 560px; height: auto; display: block; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 14px; margin: 8px 0; }
th { text-align: left; color: var(--soft); font-weight: 600; border-bottom: 2px solid var(--line); }
th, td { padding: 6px 12px 6px 0; vertical-align: top; } td { border-bottom: 1px solid var(--row); }
table.even { table-layout: fixed; } table.even th:first-child { width: 30%; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.id { white-space: nowrap; font-weight: 600; } td small { color: var(--soft); display: block; }
.state { display: inline-block; border-radius: 10px; padding: 0 9px; font-size: 12.5px; white-space: nowrap; }
.holds { background: var(--kept); color: var(--good); }
.violated { background: var(--broken); color: var(--bad); font-weight: 650; }
.not_exercised { background: var(--row); color: var(--soft); }
.not_judged { background: var(--open); color: var(--warn); }
.missing { color: var(--warn); background: var(--open); border-radius: 6px; padding: 8px 12px; }
details { margin: 8px 0; } summary { cursor: pointer; padding: 4px 0; }
.broken { border-left: 3px solid var(--bad); padding: 2px 0 2px 12px; margin: 10px 0; }
code { font: 13px/1.4 ui-monospace, "DejaVu Sans Mono", monospace; background: var(--code); border-radius: 4px;
  padding: 1px 5px; }
footer { color: var(--quiet); font-size: 13px; padding-top: 6px; padding-bottom: 40px; }
@media (max-width: 640px) {
  header .inner, main, nav .inner, footer { padding-left: 14px; padding-right: 14px; } nav { position: static; }
  section { padding: 16px 14px 12px; } table.even { table-layout: auto; } figure svg { min-width: 500px; } }
@media print { nav { display: none; } body { background: #fff; } section { break-inside: avoid; } }
"""


def text(value: Any) -> str:
    """Anything as text that means nothing to HTML."""
    return escape(str(value))


def run_name(run: str) -> str:
    """The name of a run, as it is shown."""
    return run if run.strip() else "(no name)"


def number(value: float | None) -> str:
    """A number with as many digits as help; nothing for none."""
    if value is None:
        return "–"
    if value == int(value) and abs(value) >= 100:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def milliseconds(microseconds: float | None) -> str:
    """A time in milliseconds."""
    return number(None if microseconds is None else microseconds / 1000)


def table(head: Sequence[str], lines: Iterable[Sequence[str]], *, numbers_from: int = 1 << 30) -> str:
    """A table of cells that are text; columns from ``numbers_from`` on are set as numbers."""
    marks = ['class="n"' if place >= numbers_from else "" for place in range(len(head))]
    top = "".join(f"<th {mark}>{text(title)}</th>" for mark, title in zip(marks, head, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td {mark}>{text(cell)}</td>" for mark, cell in zip(marks, line, strict=True)) + "</tr>"
        for line in lines
    )
    form = ' class="even"' if numbers_from == 1 else ""
    return f'<div class="scroll"><table{form}><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table></div>'


def figure(id: str, svg: str, caption: str) -> str:
    """A picture with its words."""
    words = text(caption)
    return f'<figure id="{text(id)}" role="img" aria-label="{words}">{svg}<figcaption>{words}</figcaption></figure>'


def section(id: str, title: str, body: str) -> str:
    """A part of the page that can be linked to."""
    return f'<section id="{text(id)}"><h2>{text(title)}</h2>{body}</section>'


def card(value: str, label: str, mood: str = "") -> str:
    """A figure that is seen first."""
    return f'<div class="card {mood}"><b>{text(value)}</b><span>{text(label)}</span></div>'


def page(title: str, subtitle: str, links: Iterable[tuple[str, str]], body: str, foot: str) -> str:
    """The whole."""
    menu = "".join(f'<a href="#{text(id)}">{text(name)}</a>' for id, name in links)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{text(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f'<style>{STYLE}</style></head><body><header><div class="inner"><h1>{text(title)}</h1><p>{text(subtitle)}</p>'
        f'</div></header><nav><div class="inner">{menu}</div></nav><main>{body}</main><footer>{foot}</footer>'
        "</body></html>\n"
    )
