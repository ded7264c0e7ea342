"""What Spark says when the machine fails it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import click
import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from isotone.cli.command_group import CommandGroup
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


UNREAD = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{}.  SQLSTATE: KD001\n\tat org.apache"


def test_a_damaged_part_of_a_table_is_named_with_its_manifest(tmp_path: Path) -> None:
    table = tmp_path / "some tables" / "silver"
    (table / "manifests").mkdir(parents=True)
    (table / "manifests" / "a.json").write_text('{"directory": "a-1"}')
    (table / "manifests" / "b.json").write_text('{"directory": "b-2"}')
    part = table / "data" / "b-2" / "part-0.zstd.parquet"
    with pytest.raises(MachineError, match="the traces are not touched") as found, failures_named():
        raise Py4JError(UNREAD.format(quote(str(part))))
    told = str(found.value)
    assert f"damaged at {part}; remove them, or only {table / 'manifests' / 'b.json'}, and run again" in told
    for other in (tmp_path / "data" / "b-2" / "trace.parquet", Path("/trace.parquet")):
        with pytest.raises(Py4JError), failures_named():
            raise Py4JError(UNREAD.format(other))


def test_an_unexpected_error_of_java_is_told_by_its_innermost_cause() -> None:
    @click.command()
    def fail() -> None:
        raise Py4JError(
            "An error occurred while calling o1.x.\n: a.B: c\n\tat d\nCaused by: e.F: g\n" + "\tat h\n" * 999
        )

    told = CliRunner().invoke(CommandGroup(commands={"fail": fail}), ["fail"])
    assert told.exit_code == 3
    assert told.stderr.startswith("isotone: unexpected Py4JError: e.F: g (fail, test_failures.py:")
