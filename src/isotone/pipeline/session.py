"""The Spark session: local by default, any master by its address. The only module that starts one.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from isotone.core.errors import MachineError
from isotone.pipeline.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.autoBroadcastJoinThreshold": "16m",
    "spark.sql.shuffle.partitions": "64",
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
}
_FAST = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
"""What makes small queries quick: for tests, and for traces that one core reads in a blink."""


def session(master: str = LOCAL, *, is_small: bool = False, name: str = "isotone") -> SparkSession:
    """The session of this process, started if there is none; ``is_small`` is for little data and a quick start."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MachineError("the pipeline needs pyspark: install isotone[pipeline]") from None
    _prepare_environment(is_local=master.startswith("local"))
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**_SETTINGS, **(_FAST if is_small else {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


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
