"""One Spark session for all tests of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from isotone.pipeline.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    started = session("local[2]", is_small=True, name="isotone-tests")
    yield started
    started.stop()
