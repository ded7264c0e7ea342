"""The Spark session: local by default, any master by its address. The only module that starts one.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from isotone.core.errors import InputError, MachineError
from isotone.pipeline.gateway import launching, speak
from isotone.pipeline.java import java_home
from isotone.pipeline.java_words import gist
from isotone.pipeline.masters import require_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
_MASTER = re.compile(r"local(\[([1-9]\d*|\*)(, *[1-9]\d*)?\])?|local-cluster\[[\d, ]+\]|(spark|k8s)://[^/\s]\S*|yarn")
SMALL_BYTES_MAX = 4 << 20
"""Trace files of up to so many bytes together are judged sooner by interpreting than by compiling queries."""
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.autoBroadcastJoinThreshold": "16m",
    "spark.sql.shuffle.partitions": "64",
    "spark.sql.constraintPropagation.enabled": "false",  # costs planning; and breaks on unions of unions (4.3.0)
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # else every column asks for its place in our source
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
}
_FEW_TASKS = "spark.default.parallelism"
_FAST = {
    "spark.sql.shuffle.partitions": "1",  # see `isotone.pipeline.little`
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",  # each is a query of its own
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    _FEW_TASKS: "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "1g",
    # most of what planning makes is thrown away at once: so much room for it, and little is collected twice
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xmn400m -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
}
"""What makes small queries quick: for tests, and for traces that one core reads in a blink."""


_FUNCTIONS = (
    "col",
    "lit",
    "when",
    "struct",
    "array",
    "coalesce",
    "max",
    "min",
    "count",
    "sum",
    "get",
    "size",
    "explode",
)
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""In the environment of a program that ``spark-submit`` started: it has chosen master, memory and Java already."""


def settings(*, is_small: bool = False, is_wide: bool = False) -> dict[str, str]:
    """What `session` asks of Spark."""
    fast = {key: value for key, value in _FAST.items() if key != _FEW_TASKS or not is_wide}
    return {**_SETTINGS, **(fast if is_small or is_wide else {})}


def session(
    master: str | None = None, *, is_small: bool = False, is_wide: bool = False, name: str = "isotone"
) -> SparkSession:
    """The session of this process, started if there is none; ``is_small`` is for little data and a quick start.

    ``is_wide``: little data, but work for every core of the master.
    Without a master it is all cores of this machine; under ``spark-submit`` what that was told.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MachineError("the pipeline needs pyspark: install isotone[pipeline]") from None
    if master is not None and not _MASTER.fullmatch(master):
        raise InputError(
            f"no place for Spark: {master!r}; it is local, local[N], local[*], spark://HOST:PORT, k8s://URL or yarn"
        )
    is_submitted = master is None and _SUBMITTED in os.environ
    builder = SparkSession.builder.appName(name)
    if not is_submitted:
        place = master or LOCAL
        require_master(place)
        _prepare_environment(is_local=place.startswith("local"))
        builder = builder.master(place)
    wanted = settings(is_small=is_small, is_wide=is_wide)
    for key, value in wanted.items() if not is_submitted else ():
        builder = builder.config(key, value)
    with launching() as launch:
        try:
            started = builder.getOrCreate()
        except Exception as error:  # of the launcher, of the gateway, of Java: all mean the same to the caller
            held = launch.words.held() if launch.words is not None else ""
            raise MachineError(f"Spark does not start at {master or LOCAL}: {_reason(error, held)}") from None
    speak(launch.words)
    if launch.words is not None:
        atexit.register(launch.words.settle)
    if is_submitted:
        _settle(started, wanted)
    _remember_classes(started)
    return started


def _settle(spark: SparkSession, wanted: dict[str, str]) -> None:
    """Of these settings, those that can still be chosen, and that whoever submitted the program has not chosen."""
    chosen = spark.sparkContext.getConf()
    for key, value in wanted.items():
        if key.startswith("spark.sql.") and not chosen.contains(key):
            spark.conf.set(key, value)


def _remember_classes(spark: SparkSession) -> None:
    """Look Spark's own classes and functions up once.

    Else the gateway searches all archives for their short names at every call, and asks for every function twice.
    """
    gateway = spark.sparkContext._jvm
    if "functions" in vars(gateway):
        return
    classes = {name: getattr(gateway, name) for name in ("functions", "PythonUtils", "PythonSQLUtils")}
    vars(gateway).update(classes | {"org.apache.spark.sql.functions": classes["functions"]})
    members = {"functions": _FUNCTIONS, "PythonUtils": ("toSeq",), "PythonSQLUtils": ("fn", "lambdaFunction")}
    for name, found in members.items():
        vars(classes[name]).update({each: getattr(classes[name], each) for each in found})


def is_small(
    paths: Iterable[Path], master: str | None, *, more_bytes: int = 0, bytes_max: int = SMALL_BYTES_MAX
) -> bool:
    """Whether these files, and so many bytes of others, are little: starting costs more than computing.

    On a machine of our own; of a cluster nothing is known.
    """
    if not (master or LOCAL).startswith("local") or (master is None and _SUBMITTED in os.environ):
        return False
    return more_bytes + sum(path.stat().st_size for path in paths if path.exists()) <= bytes_max


def _reason(error: Exception, held: str) -> str:
    """Why, in one line: by what Java said before it ended or gave up, else by the error."""
    from isotone.pipeline.failures import explanation

    told = str(error)
    said = held.strip()
    if "JAVA_GATEWAY_EXITED" in told and said:
        told = said if "Exception" in said else said.splitlines()[-1]
    return explanation(said) or explanation(told) or gist(told) or type(error).__name__


def _prepare_environment(*, is_local: bool) -> None:
    """What Spark's launcher reads: which Python, which Java, which address."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["JAVA_HOME"] = str(java_home(_cache()))


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    place = Path(base) if base else Path.home() / ".cache"
    try:
        (place / "isotone").mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="isotone-"))
    return place / "isotone"
