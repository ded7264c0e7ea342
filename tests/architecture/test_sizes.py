"""No big file, no long function, no module without a word about itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.source import Module, listed, module_of, modules

MODULE_LINES_MAX = 450
FUNCTION_LINES_MAX = 64
FORBIDDEN_STEMS = {"util", "utils", "helper", "helpers", "common", "misc", "manager"}


def long_functions(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{module.where(node)}: {node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"


def test_modules_are_short() -> None:
    sizes = [(len(module.text.splitlines()), module.path) for module in modules()]
    offences = [
        f"{path}: {lines} lines, at most {MODULE_LINES_MAX}" for lines, path in sizes if lines > MODULE_LINES_MAX
    ]
    assert not offences, listed(offences)


def test_functions_are_short() -> None:
    offences = [offence for module in modules() for offence in long_functions(module)]
    assert not offences, listed(offences)


def test_the_rule_notices_a_long_function() -> None:
    body = "    pass\n" * FUNCTION_LINES_MAX
    assert list(long_functions(module_of("isotone/core/x.py", f"class A:\n  async def f():\n{body}")))
    assert not list(long_functions(module_of("isotone/core/x.py", f"def f():\n{body[:-9]}")))


def test_every_module_says_what_it_is() -> None:
    offences = [module.path for module in modules() if not ast.get_docstring(module.tree)]
    assert not offences, listed(offences)


def test_names_of_modules_say_something() -> None:
    stems = [(module.name.rpartition(".")[2], module.path) for module in modules()]
    offences = [path for stem, path in stems if stem in FORBIDDEN_STEMS or stem[-1].isdigit()]
    assert not offences, listed(offences)
