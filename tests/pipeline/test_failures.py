"""What Spark says when the machine fails it."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from isotone.core.errors import MachineError
from isotone.pipeline.failures import failures_named

LOST = "Job aborted: ExecutorLostFailure (executor 1 exited) Reason: Command exited with code"
CASES = {
    "is full": Py4JError("java.io.IOException: No space left on device\n\tat java.base/sun.nio"),
    "out of memory": PySparkException("java.lang.OutOfMemoryError: Java heap space"),
    "ran out of memory": Py4JError(f"{LOST} 137"),
    "lost a worker": Py4JError(f"{LOST} 1"),
    "Python process": PySparkException("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"),
    "Spark ended": Py4JNetworkError("Answer from Java side is empty"),
}


@pytest.mark.parametrize("told", CASES)
def test_what_the_machine_lacks_is_told_in_one_line(told: str) -> None:
    with pytest.raises(MachineError, match=told) as found, failures_named():
        raise CASES[told]
    assert "\n" not in str(found.value)
    assert "run it again" in str(found.value)


def test_our_own_mistakes_are_left_as_they_are() -> None:
    @failures_named()
    def work(error: Exception) -> None:
        raise error

    for error in (PySparkException("UNRESOLVED_COLUMN"), AssertionError("No space left on device")):
        with pytest.raises(type(error)):
            work(error)
