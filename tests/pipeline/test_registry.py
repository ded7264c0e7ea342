"""No property is forgotten: each has a check on Spark, or a written reason why not yet."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import isotone.spec
from isotone.pipeline.conformance.registry import CHECKS, COREL_CHECKED, MISSING
from isotone.spec.check.corel import CorelChecker
from isotone.spec.corel_properties import COREL_PROPERTIES
from isotone.spec.properties import PROPERTIES, RUN_PROPERTIES, Form, Property

JUDGED = {each.id.removeprefix("EVS-") for each in PROPERTIES if each.form is not Form.DEFINITION}


def test_every_property_has_a_check_or_a_reason() -> None:
    assert set(CHECKS) | set(MISSING) == JUDGED
    assert not set(CHECKS) & set(MISSING)
    assert set(COREL_CHECKED) == {each.id for each in COREL_PROPERTIES if each.form is not Form.DEFINITION}
    assert set(COREL_CHECKED) == {*CorelChecker().finish(lossy=False, liveness=None, components=())}


def test_there_is_no_other_table_of_properties() -> None:
    """A layer that brings its own is named here first, and its checks above. Those of a run no trace shows."""
    modules = [import_module(each.name) for each in pkgutil.walk_packages(isotone.spec.__path__, "isotone.spec.")]
    tables = [value for module in modules for value in vars(module).values() if isinstance(value, tuple)]
    found = {each.id for table in tables for each in table if isinstance(each, Property)}
    assert found == {each.id for each in (*PROPERTIES, *COREL_PROPERTIES, *RUN_PROPERTIES)}


def test_the_list_of_reasons_only_shrinks() -> None:
    assert not MISSING
