"""Mechanical mutations of source code: comparisons, guards, constants and arithmetic, each at one place.

A mutation replaces one expression by a slightly wrong one. Left alone are docstrings, annotations, assertions (they
are the net, not the fish), modules of settings, and what only describes a class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
EXTREMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
SKIPPED_FILES = ("settings.py", "__init__.py", "messages.py")


@dataclass(frozen=True)
class Mutation:
    """One place and what shall stand there instead; lines from 1, columns from 0, in bytes as `ast` counts them."""

    path: Path
    line: int
    column: int
    end_line: int
    end_column: int
    before: str
    after: str

    def apply(self, source: str) -> str:
        """The source with the mutation in it."""
        lines = source.encode().splitlines(keepends=True)
        head = b"".join(lines[: self.line - 1]) + lines[self.line - 1][: self.column]
        tail = lines[self.end_line - 1][self.end_column :] + b"".join(lines[self.end_line :])
        return (head + self.after.encode() + tail).decode()

    def __str__(self) -> str:
        return f"{self.path.as_posix()}:{self.line}: {self.before}  ->  {self.after}"


def mutations_below(root: Path, package: Path) -> list[Mutation]:
    """Every mutation of a package, in the order of files and lines; paths are relative to the root."""
    found: list[Mutation] = []
    for path in sorted((root / package).rglob("*.py")):
        if path.name not in SKIPPED_FILES:
            found += mutations_of(path.read_text(), path.relative_to(root))
    return found


def mutations_of(source: str, path: Path) -> list[Mutation]:
    """Every mutation of one module."""
    out: list[Mutation] = []
    for node, after in _changes(ast.parse(source)):
        before = ast.get_source_segment(source, node)
        if before is None or "\n" in before or before == after:
            continue  # one line is enough to read, and there are plenty
        assert node.end_lineno is not None and node.end_col_offset is not None
        out.append(
            Mutation(path, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, before, f"({after})")
        )
    return sorted(out, key=lambda each: (each.line, each.column, each.after))


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    for node in _code(tree):
        match node:
            case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
                changed = ast.Compare(node.left, [COMPARISONS[type(operator)]()], node.comparators)
                yield node, ast.unparse(changed)
            case ast.BoolOp(op=operator, values=values):
                other = ast.Or() if isinstance(operator, ast.And) else ast.And()
                yield node, ast.unparse(ast.BoolOp(other, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield node, ast.unparse(operand)
            case ast.BinOp(op=operator) if type(operator) in OPERATORS and not _is_text(node):
                yield node, ast.unparse(ast.BinOp(node.left, OPERATORS[type(operator)](), node.right))
            case ast.Constant(value=bool() as value):
                yield node, str(not value)
            case ast.Constant(value=int() as value):
                yield node, str(value + 1)
            case ast.Call(func=ast.Name(id=name)) if name in EXTREMES:
                yield node.func, EXTREMES[name]
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if isinstance(
                test, ast.Name | ast.Attribute | ast.Call
            ):
                yield test, f"not {ast.unparse(test)}"


def _is_text(node: ast.BinOp) -> bool:
    """Joining texts or lists: a minus there fails at once and teaches nothing."""
    joined = ast.List | ast.Tuple | ast.JoinedStr | ast.ListComp | ast.Starred
    return any(
        isinstance(side, joined) or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    )


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that run inside functions; not assertions, annotations or messages of errors."""
    for function in ast.walk(node):
        if isinstance(function, ast.FunctionDef) and function.name not in ("__repr__", "__str__", "explain"):
            for statement in function.body:
                yield from _inside(statement)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.FunctionDef | ast.Slice):
        return
    yield node
    skipped = {id(getattr(node, "annotation", None)), id(getattr(node, "returns", None))}
    for child in ast.iter_child_nodes(node):
        if id(child) not in skipped:
            yield from _inside(child)
