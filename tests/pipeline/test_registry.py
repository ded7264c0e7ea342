"""No property is forgotten: each has a check on Spark, or a written reason why not yet."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

import isotone.spec
from isotone.pipeline.conformance.layers import COLUMNS_KEPT
from isotone.pipeline.conformance.registry import CHECKS, MISSING
from isotone.spec.check.layers import ALL_PROPERTIES, LAYERS, Layer
from isotone.spec.properties import PROPERTIES, Form, Property
from isotone.trace.columns import columns_used

JUDGED = {each.id.removeprefix("EVS-") for each in PROPERTIES if each.form is not Form.DEFINITION}


def test_every_property_has_a_check_or_a_reason() -> None:
    assert set(CHECKS) | set(MISSING) == JUDGED
    assert not set(CHECKS) & set(MISSING)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_every_property_of_a_layer_has_a_verdict(layer: Layer) -> None:
    assert set(layer.labels()) == {*layer.checker().finish(lossy=False, liveness=None, components=())}


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_rows_of_a_layer_keep_all_their_fields_on_spark(layer: Layer) -> None:
    """Other columns are cleaned for group communication; a field of an upper layer needs a name without a column."""
    for entry in layer.entries:
        columns = columns_used(entry)
        assert "extra" in columns, f"{entry.__name__} needs a field of its own"
        assert columns <= COLUMNS_KEPT, f"{entry.__name__} uses {sorted(columns - COLUMNS_KEPT)}"


def test_there_is_no_other_table_of_properties() -> None:
    """A layer that brings its own is named here first, and its checks above. Those of a run no trace shows."""
    modules = [import_module(each.name) for each in pkgutil.walk_packages(isotone.spec.__path__, "isotone.spec.")]
    tables = [value for module in modules for value in vars(module).values() if isinstance(value, tuple)]
    found = {each.id for table in tables for each in table if isinstance(each, Property)}
    assert found == set(ALL_PROPERTIES)


def test_the_list_of_reasons_only_shrinks() -> None:
    assert not MISSING
