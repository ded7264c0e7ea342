"""Mechanical mutations of source code: comparisons, guards, constants and arithmetic, each at one place.

A mutation replaces one expression by a slightly wrong one. Left alone are docstrings, annotations, assertions (they
are the net, not the fish), modules of settings, and what only describes a class.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

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
    function: str
    line: int
    column: int
    end_column: int
    before: str
    after: str
    number: int  # from 1, among those of the function that read the same
    lines: tuple[int, ...]  # whoever executes none of these does not execute the mutation

    def apply(self, source: str) -> str:
        """The source with the mutation in it."""
        lines = source.encode().splitlines(keepends=True)
        changed = lines[self.line - 1]
        lines[self.line - 1] = changed[: self.column] + self.after.encode() + changed[self.end_column :]
        return b"".join(lines).decode()

    @property
    def module(self) -> str:
        """As it is imported."""
        return ".".join(self.path.with_suffix("").parts[1:])

    @property
    def name(self) -> str:
        """Stays the same when lines are added elsewhere."""
        which = f" ({self.number})" if self.number > 1 else ""
        return f"{self.path.as_posix()} {self.function}: {self.before} -> {self.after}{which}"


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
    compiled = _compiled_lines(compile(source, path.name, "exec"))
    for name, function in _functions(ast.parse(source)):
        body = tuple(range(function.body[0].lineno, (function.end_lineno or 0) + 1))
        seen: Counter[tuple[str, str]] = Counter()
        for node, after in sorted(_changes(function), key=lambda each: (each[0].lineno, each[0].col_offset, each[1])):
            before = ast.get_source_segment(source, node)
            if before is None or "\n" in before or before == after:
                continue  # one line is enough to read, and there are plenty
            assert node.end_col_offset is not None
            seen[before, after] += 1
            lines = (node.lineno,) if node.lineno in compiled else body  # constants are folded into other lines
            place = (node.lineno, node.col_offset, node.end_col_offset)
            out.append(Mutation(path, name, *place, before, f"({after})", seen[before, after], lines))
    return sorted(out, key=lambda each: (each.line, each.column, each.after))


def _compiled_lines(code: CodeType) -> set[int]:
    """Where there are instructions: a line that is executed is one of these."""
    found = {line for _, _, line in code.co_lines() if line is not None}
    return found.union(*(_compiled_lines(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _changes(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, str]]:
    for node in (inner for statement in function.body for inner in _inside(statement)):
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


def _functions(node: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """All functions with their full names, but for those that only describe."""
    for child in ast.iter_child_nodes(node):
        name = outer
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{outer}.{child.name}" if outer else child.name
        if isinstance(child, ast.FunctionDef) and child.name not in ("__repr__", "__str__", "explain"):
            yield name, child
        yield from _functions(child, name)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that run; not assertions, annotations or messages of errors."""
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.FunctionDef | ast.Slice):
        return
    yield node
    skipped = {id(getattr(node, "annotation", None)), id(getattr(node, "returns", None))}
    for child in ast.iter_child_nodes(node):
        if id(child) not in skipped:
            yield from _inside(child)
