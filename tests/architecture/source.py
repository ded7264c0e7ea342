"""The source as data: every module of ``src/isotone`` with its package and its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "isotone"

# A package imports only what stands before it.
PACKAGES = (
    "core",
    "trace",
    "spec",
    "detector",
    "evs",
    "corel",
    "isis",
    "hab",
    "flows",
    "replicated",
    "sim",
    "client",
    "daemon",
    "host",
    "testing",
    "pipeline",
    "bench",
    "cli",
)
AUTOMATA = frozenset({"core", "spec", "detector", "evs", "corel", "isis", "hab", "flows"})


@dataclass(frozen=True)
class Module:
    """One file: its dotted name, its package (empty for ``isotone`` itself), its text and its tree."""

    path: str  # from the root of the repository
    name: str
    package: str
    text: str
    tree: ast.Module
    is_package: bool

    def where(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


def module_of(path: str, text: str) -> Module:
    """A module as it would stand at this path, below ``src``."""
    parts = path.removesuffix(".py").split("/")
    is_package = parts[-1] == "__init__"
    if is_package:
        parts.pop()
    package = parts[1] if len(parts) > 1 else ""
    return Module(f"src/{path}", ".".join(parts), package, text, ast.parse(text), is_package)


@cache
def modules() -> tuple[Module, ...]:
    """All modules, sorted by path."""
    found = sorted(path.relative_to(SOURCE.parent).as_posix() for path in SOURCE.rglob("*.py"))
    return tuple(module_of(path, (SOURCE.parent / path).read_text(encoding="utf-8")) for path in found)


def imports(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Every name that the module imports, fully spelt out, wherever the import stands and also by a literal name."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield node, alias.name
            case ast.ImportFrom(names=names):
                base = _base(module, node)
                for alias in names:
                    yield node, f"{base}.{alias.name}"
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if _is_import_call(func):
                yield node, name


def _base(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    keep = len(parts) - node.level + (1 if module.is_package else 0)
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])


def _is_import_call(func: ast.expr) -> bool:
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    return name in {"import_module", "__import__", "find_spec"}


def listed(offences: list[str]) -> str:
    """All offences, one per line, as the message of an assertion."""
    return f"{len(offences)} found:\n" + "\n".join(offences)
