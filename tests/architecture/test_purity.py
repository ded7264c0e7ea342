"""No IO, clock, thread or randomness in automata; nothing whose order depends on the hash seed."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import pytest

from tests.architecture.source import AUTOMATA, Module, imports, listed, module_of, modules

# All of the standard library that an automaton may use: none of it touches the world.
PURE_MODULES = frozenset(
    {"__future__", "abc", "array", "bisect", "collections", "contextlib", "copy", "dataclasses", "enum", "fractions"}
    | {
        "functools",
        "hashlib",
        "heapq",
        "inspect",
        "ipaddress",
        "itertools",
        "math",
        "operator",
        "re",
        "statistics",
        "string",
    }
    | {"struct", "textwrap", "types", "typing", "zlib"}
)
EXCEPTIONS = {
    ("isotone.core.choice", "random"): "the one source of choice, seeded by its user",
    ("isotone.isis", "importlib"): "its public names need a loop and are loaded from the host when they are asked for",
    ("isotone.core.memory_log", "asyncio"): "the OrderedLog interface is asynchronous; a log is no automaton",
}
ANY_ORDER = {
    ("isotone.sim.swarm", "set(multiprocessing.active_children()) - before"): "ends worker processes of a broken run",
}
IMPURE_CALLS = frozenset(
    {"hash", "id", "open", "print", "input", "eval", "exec", "compile", "breakpoint", "globals", "vars"}
)
DETERMINISTIC = AUTOMATA | {"trace", "sim"}


def impure_imports(module: Module) -> Iterator[str]:
    for node, name in imports(module):
        top = name.split(".")[0]
        if top in sys.stdlib_module_names and top not in PURE_MODULES and (module.name, top) not in EXCEPTIONS:
            yield f"{module.where(node)}: imports {name}"


def impure_calls(module: Module) -> Iterator[str]:
    own = {node.name for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS - own:
                yield f"{module.where(node)}: calls {name}()"
            case ast.Global():
                yield f"{module.where(node)}: state in module globals"


def hash_ordered(module: Module) -> Iterator[str]:
    """Places where the elements of a set are taken one by one in the set's own order."""
    for node in ast.walk(module.tree):
        match node:
            case ast.For(iter=source) | ast.comprehension(iter=source):
                pass
            case ast.Call(func=ast.Name(id="list" | "tuple" | "enumerate" | "iter" | "next"), args=[source, *_]):
                pass
            case ast.Call(func=ast.Attribute(attr="join" | "extend"), args=[source]):
                pass
            case ast.Starred(value=source):
                pass
            case _:
                continue
        if _is_set(source) and (module.name, ast.unparse(source)) not in ANY_ORDER:
            yield f"{module.where(source)}: the order of a set"


def _is_set(node: ast.expr) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), left=left, right=right):
            return _is_set(left) or _is_set(right)
        case _:
            return False


def automata() -> list[Module]:
    return [module for module in modules() if module.package in AUTOMATA]


def test_automata_import_nothing_that_touches_the_world() -> None:
    offences = [offence for module in automata() for offence in impure_imports(module)]
    assert not offences, listed(offences)


def test_automata_call_nothing_that_touches_the_world() -> None:
    offences = [offence for module in automata() for offence in impure_calls(module)]
    assert not offences, listed(offences)


def test_nothing_follows_the_order_of_a_set() -> None:
    checked = [module for module in modules() if module.package in DETERMINISTIC]
    offences = [offence for module in checked for offence in hash_ordered(module)]
    assert not offences, listed(offences)


def test_every_exception_is_still_needed() -> None:
    used = {(module.name, name.split(".")[0]) for module in modules() for _, name in imports(module)}
    assert not EXCEPTIONS.keys() - used


IMPURE = [
    *("socket", "asyncio", "time", "datetime", "random", "secrets", "os"),
    *("io", "threading", "subprocess", "select", "selectors", "ssl", "sqlite3"),
    *("logging", "pathlib", "multiprocessing", "concurrent.futures", "signal", "sys", "shutil"),
    *("tempfile", "uuid", "queue", "sched", "pickle", "gc", "weakref"),
    *("ctypes", "urllib.request", "http.client", "glob", "mmap", "fcntl"),
]


@pytest.mark.parametrize("name", IMPURE)
def test_the_rule_notices_imports(name: str) -> None:
    assert list(impure_imports(module_of("isotone/evs/x.py", f"import {name}")))
    assert list(impure_imports(module_of("isotone/evs/x.py", f"def late():\n    from {name} import x")))


@pytest.mark.parametrize("line", ["hash(x)", "x = id(y)", "open('f')", "print()", "def f():\n    global x\n    x = 1"])
def test_the_rule_notices_calls(line: str) -> None:
    assert list(impure_calls(module_of("isotone/evs/x.py", line)))


def test_fields_and_methods_of_these_names_are_fine() -> None:
    text = "class A:\n    id: int\n    def open(self): return self.id\ndef f(a): return a.open(), a.hash()"
    assert not list(impure_calls(module_of("isotone/evs/x.py", text)))


@pytest.mark.parametrize(
    "line",
    [
        "for x in {1, 2}: pass",
        "for x in set(y): pass",
        "[x for x in frozenset(y)]",
        "list({x for x in y})",
        "tuple(set(x) | y)",
        "', '.join(set(x))",
        "f(*set(x))",
        "next(iter(set(x)))",
    ],
)
def test_the_rule_notices_orders_of_sets(line: str) -> None:
    assert list(hash_ordered(module_of("isotone/evs/x.py", line)))


@pytest.mark.parametrize(
    "line", ["sorted(set(x))", "len(set(x))", "x in {1, 2}", "min(set(x))", "for x in sorted({1}): 1"]
)
def test_orders_that_are_made_are_fine(line: str) -> None:
    assert not list(hash_ordered(module_of("isotone/evs/x.py", line)))
