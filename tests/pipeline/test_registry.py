"""No property is forgotten: each has a check on Spark, or a written reason why not yet."""

from __future__ import annotations

from isotone.pipeline.conformance.registry import CHECKS, COREL_CHECKED, MISSING
from isotone.spec.corel_properties import COREL_PROPERTIES
from isotone.spec.properties import PROPERTIES, Form

JUDGED = {each.id.removeprefix("EVS-") for each in PROPERTIES if each.form is not Form.DEFINITION}


def test_every_property_has_a_check_or_a_reason() -> None:
    assert set(CHECKS) | set(MISSING) == JUDGED
    assert not set(CHECKS) & set(MISSING)
    assert set(COREL_CHECKED) == {each.id for each in COREL_PROPERTIES if each.form is not Form.DEFINITION}


def test_the_list_of_reasons_only_shrinks() -> None:
    assert not MISSING
