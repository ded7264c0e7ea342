"""The import rule: a package imports only what stands before it; only known packages exist."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import pytest

from tests.architecture.source import AUTOMATA, PACKAGES, Module, imports, listed, module_of, modules

BARE_PACKAGES = ("msgspec", "click", "rich")  # all that a bare installation has


def layering_offences(module: Module) -> Iterator[str]:
    """What this module imports although it stands behind, or nowhere."""
    if module.package and module.package not in PACKAGES:
        yield f"{module.path}: package {module.package!r} has no place in the order"
        return
    own = PACKAGES.index(module.package) if module.package else -1
    lazy = set() if module.package else _for_types_only(module)
    for node, name in imports(module):
        if node in lazy:
            continue
        parts = name.split(".")
        if parts[0] != "isotone" or len(parts) < 2 or parts[1].startswith("__"):
            continue
        if parts[1] not in PACKAGES:
            yield f"{module.where(node)}: {name} is in no known package"
        elif PACKAGES.index(parts[1]) > own:
            yield f"{module.where(node)}: {module.package or 'isotone'} imports {name}"


def _for_types_only(module: Module) -> set[ast.AST]:
    """What ``isotone`` itself imports for type checkers alone: its public names are loaded when they are asked for."""
    tests = [
        node for node in module.tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {inner for node in tests for statement in node.body for inner in ast.walk(statement)}


def foreign_imports(module: Module) -> Iterator[tuple[str, str]]:
    """Packages of others that the module imports, with the place."""
    for node, name in imports(module):
        top = name.split(".")[0]
        if top not in sys.stdlib_module_names and top not in {"isotone", ""}:
            yield module.where(node), top


def test_there_is_source_to_check() -> None:
    assert len(modules()) > 20
    assert {"core", "trace", "spec"} <= {module.package for module in modules()}


def test_packages_import_only_what_stands_before_them() -> None:
    offences = [offence for module in modules() for offence in layering_offences(module)]
    assert not offences, listed(offences)


def test_automata_know_no_package_of_others_but_msgspec() -> None:
    offences = [
        f"{where}: {top}"
        for module in modules()
        if module.package in AUTOMATA
        for where, top in foreign_imports(module)
        if top != "msgspec"
    ]
    assert not offences, listed(offences)


def test_only_the_commands_know_click_and_rich() -> None:
    offences = [
        f"{where}: {top}"
        for module in modules()
        if module.package not in {"cli", "bench"}
        for where, top in foreign_imports(module)
        if top in {"click", "rich"}
    ]
    assert not offences, listed(offences)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("isotone/core/x.py", "import isotone.sim.world"),
        ("isotone/core/x.py", "from isotone import trace"),
        ("isotone/core/x.py", "from isotone.trace.events import Entry"),
        ("isotone/core/x.py", "def late():\n    from isotone.spec import properties"),
        ("isotone/core/x.py", "if TYPE_CHECKING:\n    import isotone.cli"),
        ("isotone/core/x.py", "from .. import sim"),
        ("isotone/core/x.py", "from ..sim import world"),
        ("isotone/core/codec/__init__.py", "from ...trace import events"),
        ("isotone/core/x.py", "import importlib\nimportlib.import_module('isotone.sim')"),
        ("isotone/spec/x.py", "import isotone.detector"),
        ("isotone/corel/x.py", "import isotone.isis"),
        ("isotone/__init__.py", "import isotone.core"),
        ("isotone/__init__.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import isotone.core"),
        ("isotone/helpers/x.py", ""),
        ("isotone/cli/x.py", "import isotone.helpers"),
    ],
)
def test_the_rule_notices(path: str, text: str) -> None:
    assert list(layering_offences(module_of(path, text)))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("isotone/core/x.py", "from isotone.core.ids import DaemonId\nimport asyncio"),
        ("isotone/core/codec/__init__.py", "from .bundle import x\nfrom ..ids import y"),
        ("isotone/spec/x.py", "from isotone.trace import events\nfrom isotone import core"),
        ("isotone/cli/x.py", "from isotone import __version__\nimport isotone.bench"),
        ("isotone/isis/x.py", "import isotone.corel"),
        ("isotone/__init__.py", "if TYPE_CHECKING:\n    from isotone.client import connect"),
    ],
)
def test_the_rule_allows(path: str, text: str) -> None:
    assert not list(layering_offences(module_of(path, text)))
