"""What Spark says when the machine fails it, or a table, in words of ours: what is lacking, and what to do about it.

Other errors of Spark are mistakes of ours, and are left as they are.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from isotone.core.errors import MachineError
from isotone.trace.reader import DATA, MANIFESTS

FULL = "No space left on device"
"""How Spark says it, somewhere in the words of a job that failed."""
AGAIN = "what was written before is as it was; run it again"
_CAUSES = (
    (
        (FULL, "Disk quota exceeded"),
        "Spark's working directory is full: make room there (SPARK_LOCAL_DIRS names it, else it is /tmp)",
    ),
    (
        (
            "OutOfMemoryError",
            "GC overhead limit exceeded",
            "Cannot allocate memory",
            "MemoryError",
            "code 137",
            "UNABLE_TO_ACQUIRE_MEMORY",
        ),
        "Spark ran out of memory: give it more (spark-submit --driver-memory, --executor-memory), or fewer traces",
    ),
    (
        (
            "ExecutorLostFailure",
            "Lost executor",
            "executor lost",
            "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND",
            "Checkpoint block",
            "FetchFailed",
        ),
        "Spark lost a worker, and with it what that had computed",
    ),
    (
        ("Python worker exited unexpectedly", "Python worker failed to connect back"),
        "a Python process of Spark ended, perhaps killed because memory ran out",
    ),
    (
        ("All masters are unresponsive",),
        "no Spark master answers there: look whether it runs, and at its address",
    ),
    (
        (
            "SparkContext was shut down",
            "stopped SparkContext",
            "Answer from Java side is empty",
            "Error while sending or receiving",
            "An error occurred while trying to connect to the Java server",
            "Connection refused",
            "Connection reset",
        ),
        "Spark ended, or was killed, while it was needed; perhaps memory ran out",
    ),
)
"""How it is told somewhere in the words of a job that failed, and what it means; the first that fits counts."""

_UNREAD = re.compile(r"\[(?:FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER)\b[^\n]*?\bfile:(?://)?(/\S+\.parquet)")
"""How Spark says that it could not read a file."""


@contextmanager
def failures_named() -> Iterator[None]:
    """While Spark works: what the machine lacks becomes a `MachineError`. May stand before a function, too."""
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        words = _words(error)
        told = explanation(words)
        if told is not None:
            raise MachineError(f"{told}; {AGAIN}") from None
        damaged = _damage(words)
        if damaged is not None:
            raise MachineError(damaged) from None
        raise


def explanation(words: str) -> str | None:
    """What these words of Spark mean, if it is the machine."""
    return next((told for marks, told in _CAUSES if any(mark in words for mark in marks)), None)


def _damage(words: str) -> str | None:
    """What these words say of tables of ours that cannot be read; of other files nothing."""
    found = _UNREAD.search(words)
    if found is None:
        return None
    part = Path(unquote(found[1]))
    manifests = part.parents[2] / MANIFESTS if len(part.parents) > 2 else part
    if part.parent.parent.name != DATA or not manifests.is_dir():
        return None
    named = (path for path in sorted(manifests.glob("*.json")) if part.parent.name in path.read_text(errors="replace"))
    what = "".join(f", or only {path}," for path in islice(named, 1))
    return f"the tables are damaged at {part}; remove them{what} and run again; the traces are not touched"


def _words(error: Exception) -> str:
    """An error of Java asks that for its words."""
    try:
        return str(error)
    except (Py4JError, OSError) as other:
        return str(other)
