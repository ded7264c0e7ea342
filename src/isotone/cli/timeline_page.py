"""A run over time as SVG, and as one page that needs nothing but itself, in light and dark."""

from __future__ import annotations

from html import escape

from isotone.trace.story import Stay, Story

COLOURS = ("#2f6fb0", "#d9822b", "#3d9a5f", "#8e5ea8", "#c44e52", "#4c9aa8", "#a58b2c", "#7a7f87", "#b5679a", "#5a6ec4")
WIDTH, LANE, LEFT, TOP, BOTTOM = 1000, 44, 110, 12, 34
STAYS_MAX = 2000
"""The shortest ones above that are left out, so that the picture stays small."""
SECOND = 1_000_000
_STYLE = """
:root{color-scheme:light dark;--ink:#1f2933;--paper:#fff;--faint:#d5dbe1;--soft:#52606d}
@media (prefers-color-scheme:dark){:root{--ink:#e4e7eb;--paper:#16191d;--faint:#3a424c;--soft:#9aa5b1}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
body{margin:0 auto;max-width:1060px;padding:1rem}
h1{font-size:1.3rem}h2{font-size:1.05rem}svg{width:100%;min-width:640px;height:auto}.scroll{overflow-x:auto}
svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .bar{fill:#fff}svg .soft{fill:var(--soft)}
svg line{stroke:var(--faint)}td{padding:.1rem .8rem .1rem 0;vertical-align:top}
td:first-child{font-variant-numeric:tabular-nums;white-space:nowrap;color:var(--soft)}
.note{color:var(--soft)}
"""


def svg(story: Story, *, alone: bool = True) -> str:
    """The picture: a lane for each node, a bar for each view; ``alone``: as a file of its own, with its colours."""
    height = TOP + LANE * max(1, len(story.nodes)) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Views of {escape(story.subject)} over time">'
    ]
    if alone:
        parts.append(
            "<style>text{font:12px system-ui,sans-serif;fill:#1f2933}.bar{fill:#fff}.soft{fill:#52606d}"
            "line{stroke:#d5dbe1}</style>"
        )
    parts += _axis(story, height - BOTTOM)
    for place, node in enumerate(story.nodes):
        top = TOP + LANE * place
        parts.append(f'<text x="{LEFT - 10}" y="{top + 21}" text-anchor="end">{escape(node)}</text>')
        parts += [_bar(story, stay, top) for stay in _longest(story) if stay.node == node]
        parts += [_fault(story, stay, top) for stay in story.faults if stay.node == node]
        parts += [_mark(story, mark.at, mark.kind, top) for mark in story.marks if mark.node == node]
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def page(story: Story, run: str) -> str:
    """The picture, what happened in words, and the views."""
    told = "".join(
        f"<tr><td>{moment / SECOND:.3f} s</td><td>{escape(text)}</td></tr>" for moment, text in story.sentences()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(run)} over time</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(run)}: views of {escape(story.subject)} over time</h1>"
        f'<div class="scroll">{svg(story, alone=False)}</div>'
        '<p class="note">One colour is one view: nodes whose colours differ at one time were apart. '
        "▸ a start, ■ a stop, ✕ a crash or a kill, a red line: faults were injected.</p>"
        f"<h2>What happened</h2><table>{told}</table></body></html>\n"
    )


def _longest(story: Story) -> list[Stay]:
    if len(story.stays) <= STAYS_MAX:
        return story.stays
    return sorted(story.stays, key=lambda stay: stay.begin - stay.end)[:STAYS_MAX]


def _x(story: Story, moment: int) -> float:
    return LEFT + (WIDTH - LEFT - 12) * moment / max(1, story.length_us)


def _axis(story: Story, bottom: int) -> list[str]:
    step = _step(story.length_us)
    lines = []
    for moment in range(0, story.length_us + 1, step):
        x = _x(story, moment)
        lines.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        lines.append(
            f'<text class="soft" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{moment / SECOND:g} s</text>'
        )
    return lines


def _step(length_us: int) -> int:
    """Between two lines of the axis: 1, 2 or 5 times a power of ten, for at most ten of them."""
    step = 1_000
    while True:
        for factor in (1, 2, 5):
            if length_us <= 10 * step * factor:
                return step * factor
        step *= 10


def _bar(story: Story, stay: Stay, top: int) -> str:
    begin, end = _x(story, stay.begin), _x(story, stay.end)
    view = story.views[stay.view]
    fill = COLOURS[stay.view % len(COLOURS)]
    words = f"{stay.node}: {', '.join(view.members)}{f' by {view.cause}' if view.cause else ''}"
    label = ""
    if end - begin > 7 * len(str(len(view.members))) + 12:
        label = (
            f'<text class="bar" x="{(begin + end) / 2:.1f}" y="{top + 21}" text-anchor="middle">'
            f"{len(view.members)}</text>"
        )
    return (
        f'<g><title>{escape(words)}</title><rect x="{begin:.1f}" y="{top + 4}" width="{max(0.5, end - begin):.1f}" '
        f'height="26" rx="2" fill="{fill}"/>{label}</g>'
    )


def _fault(story: Story, stay: Stay, top: int) -> str:
    begin, end = _x(story, stay.begin), _x(story, stay.end)
    return (
        f'<g><title>faults are injected at {escape(stay.node)}</title><rect x="{begin:.1f}" y="{top + 33}" '
        f'width="{max(1.0, end - begin):.1f}" height="4" fill="#c44e52"/></g>'
    )


def _mark(story: Story, moment: int, kind: str, top: int) -> str:
    signs = {"start": "▸", "stop": "■", "crash": "✕", "end of record": "✕"}
    x, sign = f"{_x(story, moment):.1f}", signs[kind]
    return f'<text x="{x}" y="{top + 22}" text-anchor="middle"><title>{kind}</title>{sign}</text>'
