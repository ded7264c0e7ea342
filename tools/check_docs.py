"""Check the documentation: relative links and their anchors resolve, Python examples compile.

Links: every Markdown file of the repository. Python blocks: README.md and docs/guide (a file or a directory), where a
reader is invited to copy; they may await at the top level, as in `python -m asyncio`.
Exit codes: 0 fine, 1 something is broken.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
NOT_OURS = {"build", "dist", "node_modules", "soak"}
FENCE = re.compile(r"^\s*(`{3,}|~{3,})\s*(\w*)")
INLINE_CODE = re.compile(r"(`+)(?:(?!\1).)+\1")
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
ELSEWHERE = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*:|//)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the line on which its text begins, its text."""

    language: str
    first_line: int
    text: str


def main() -> int:
    documents = sorted(markdown_files())
    complaints = [complaint for path in documents for complaint in check_document(path)]
    for complaint in complaints:
        print(complaint)
    print(f"{len(documents)} documents, {len(complaints)} complaints")
    return 1 if complaints else 0


def markdown_files() -> Iterator[Path]:
    for path in ROOT.rglob("*.md"):
        parents = path.relative_to(ROOT).parts[:-1]
        if not any(part.startswith(".") or part in NOT_OURS for part in parents):
            yield path


def check_document(path: Path) -> Iterator[str]:
    prose, blocks = split_document(path.read_text(encoding="utf-8"))
    name = path.relative_to(ROOT)
    for number, line in prose:
        for target in link_targets(line):
            reason = why_broken(path, target)
            if reason:
                yield f"{name}:{number}: {target}: {reason}"
    if is_guide(name):
        for block in blocks:
            error = why_not_python(block)
            if error:
                yield f"{name}:{error}"


def split_document(text: str) -> tuple[list[tuple[int, str]], list[Block]]:
    """Numbered lines outside fenced blocks, and the blocks."""
    prose: list[tuple[int, str]] = []
    blocks: list[Block] = []
    fence, language, first_line = "", "", 0
    inside: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not match[2]:
                blocks.append(Block(language, first_line, "\n".join(inside) + "\n"))
                fence = ""
            else:
                inside.append(line)
        elif match:
            fence, language, first_line, inside = match[1], match[2].lower(), number + 1, []
        else:
            prose.append((number, line))
    return prose, blocks


def link_targets(line: str) -> list[str]:
    visible = INLINE_CODE.sub("", line)
    return [*LINK.findall(visible), *REFERENCE.findall(visible)]


def why_broken(path: Path, target: str) -> str:
    """Empty when the link resolves or leads out of the repository."""
    if ELSEWHERE.match(target):
        return ""
    file_part, _, anchor = unquote(target).partition("#")
    if file_part.startswith("/"):
        return "an absolute path; write it relative to this file"
    destination = (path.parent / file_part).resolve() if file_part else path
    if not destination.is_relative_to(ROOT):
        return "leads out of the repository"
    if not destination.exists():
        return "no such file"
    if anchor and destination.suffix == ".md" and anchor not in anchors(destination):
        return "no such heading"
    return ""


def anchors(path: Path) -> set[str]:
    """The anchors that the usual renderers make from headings, repeated ones numbered."""
    prose, _ = split_document(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for _, line in prose:
        match = HEADING.match(line)
        if match:
            base = re.sub(r"[^\w\- ]", "", match[1].lower()).replace(" ", "-")
            repeats = sum(1 for anchor in found if anchor == base or re.fullmatch(re.escape(base) + r"-\d+", anchor))
            found.add(f"{base}-{repeats}" if base in found else base)
    return found


def is_guide(name: Path) -> bool:
    return name in {Path("README.md"), Path("docs/guide.md")} or name.is_relative_to("docs/guide")


def why_not_python(block: Block) -> str:
    """Empty when the block is Python that compiles, or no Python at all."""
    if block.language not in {"python", "py"}:
        return ""
    try:
        compile(block.text, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        return f"{block.first_line + (error.lineno or 1) - 1}: example does not compile: {error.msg}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
