"""``isotone pipeline tables``: replicated objects and databases as Parquet tables, all as of one position."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isotone.cli.output import json_option, print_json, print_text, progress_bar, results
from isotone.core.errors import InputError, IsotoneError, MachineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLLOW_EVERY = "1 second"
"""With --follow: so often Spark looks whether there is more."""


@click.command("tables")
@click.argument("archive", required=False, default="")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="The directory to write.")
@click.option("--as-of", type=click.IntRange(1), metavar="POSITION", help="Of the log (default: the last).")
@click.option("--follow", is_flag=True, help="Go on: write all tables anew when the log has grown, until interrupted.")
@click.option("--replica", metavar="HOST:PORT[,…]", default="", help="Servers of the log, for its live end.")
@click.option("--archive-credential-file", "credential_file", default="", help="JSON, for the archive.")
@click.option("--master", metavar="URL", help="Where Spark runs (default: local[*], all cores of this machine).")
@json_option
def tables_command(
    *,
    archive: str,
    out: Path,
    as_of: int | None,
    follow: bool,
    replica: str,
    credential_file: str,
    master: str | None,
    as_json: bool,
) -> int:
    """Write the dicts, sets, counters and SQLite tables of the log in ARCHIVE, all as they were at one position.

    DIR/objects is one Parquet table with the columns object, kind, key, value, json, number, revision, as_of,
    partitioned by object. DIR/databases/DATABASE/TABLE is each table of a database. Where there are databases, the last
    position is the last one whose row changes are archived. What was there is replaced as a whole.

    With --follow they are in DIR/current, a link to DIR/at-POSITION that is replaced when the log has grown.

    \b
    Examples:
      isotone pipeline tables /srv/archive --out tables
      isotone pipeline tables /srv/archive --replica a:4816,b:4816 --as-of 120000 --out tables
      isotone pipeline tables /srv/archive --follow --out tables
    """
    if not archive and not replica:
        raise InputError("name an archive, or --replica, or both")
    if follow and as_of is not None:
        raise InputError("--as-of names one position, and --follow goes on: choose one of them")
    if find_spec("pyspark") is None:
        raise MachineError("tables need pyspark: install isotone[pipeline]")
    changes, position = _changes_of(archive, credential_file, as_of)
    options = {"archive": archive, "archiveCredentialFile": credential_file, "replica": replica}
    of_changes = {"archive": changes, "archiveCredentialFile": credential_file} if changes else {}
    if follow:
        _follow(master, options, of_changes, out, as_json=as_json)
    else:
        objects, tables = _write(master, options, of_changes, out, position)
        _tell(out, position, objects, tables, as_json=as_json)
    return 0


def _spark(master: str | None) -> SparkSession:
    from isotone.pipeline.log.source import register
    from isotone.pipeline.session import session

    spark = session(master, is_small=True)
    register(spark)
    return spark


def _write(
    master: str | None, options: dict[str, str], changes: dict[str, str], out: Path, position: int | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What was written: how many rows of each object, and where each table of a database is."""
    from isotone.pipeline.log.current_tables import DATABASES, OBJECTS, read_log, write_databases, write_objects
    from isotone.pipeline.log.databases import row_changes, rows_as_of
    from isotone.pipeline.log.objects import objects_as_of

    with progress_bar("tables", total=None) as advance, _own_errors():
        spark = _spark(master)
        advance("applying the log")
        rows = objects_as_of(read_log(spark, options, 1, position), position)
        write_objects(rows, out / OBJECTS)
        written = spark.read.schema(rows.schema).parquet(str(out / OBJECTS))
        objects = [row.asDict() for row in written.groupBy("object", "kind").count().orderBy("object").collect()]
        shutil.rmtree(out / DATABASES, ignore_errors=True)
        if not changes:
            return objects, []
        log = read_log(spark, changes, 1, position)
        return objects, write_databases(rows_as_of(row_changes(log), position), out / DATABASES)


def _follow(master: str | None, options: dict[str, str], changes: dict[str, str], out: Path, *, as_json: bool) -> None:
    """Until somebody ends it."""
    from isotone.pipeline.log.current_tables import CURRENT, follow

    def tell(position: int) -> None:
        if as_json:
            print_json({"out": str(out / CURRENT), "as_of": position})
        else:
            print_text(f"{out / CURRENT}: as of position {position}")

    with _own_errors():
        follow(
            _spark(master), options, changes, out, trigger={"processingTime": FOLLOW_EVERY}, tell=tell
        ).awaitTermination()


@contextmanager
def _own_errors() -> Iterator[None]:
    """What our own code said in a task or a driver of Spark, without the stacks around it."""
    from pyspark.errors import PySparkException

    from isotone.pipeline.failures import failures_named

    try:
        with failures_named():
            yield
    except PySparkException as error:
        raise _own_error(error) from error


def _changes_of(archive: str, credential_file: str, as_of: int | None) -> tuple[str, int | None]:
    """Where the changes of databases are, if there are any, and the position of all tables."""
    from isotone.replicated.archive.store import Archive
    from isotone.replicated.database.change_log import FOLDER

    if not archive:
        return "", as_of
    place = f"{archive.rstrip('/')}/{FOLDER}"
    end = Archive(place, credential_file).listing().end
    return (place, as_of or end) if end else ("", as_of)


def _tell(
    out: Path, position: int | None, objects: list[dict[str, Any]], tables: list[dict[str, Any]], *, as_json: bool
) -> None:
    from isotone.pipeline.log.current_tables import OBJECTS

    if as_json:
        print_json({"out": str(out / OBJECTS), "as_of": position, "objects": objects, "tables": tables})
        return
    lines = [f"{each['object']}  {each['kind']}  {each['count']} rows" for each in objects]
    lines.append(f"written: {out / OBJECTS}")
    lines += [f"{each['database']}  {each['table']}  {each['count']} rows: {each['path']}" for each in tables]
    for line in lines if position is None else [*lines, f"as of position {position}"]:
        results().print(line, markup=False)


def _own_error(error: Exception) -> IsotoneError:
    """What our own code said in a task or a driver of Spark, without the stacks around it."""
    found = re.search(r"isotone\.core\.errors\.(InputError|MachineError): (.+)", str(error))
    if found is None:
        return MachineError(f"Spark failed: {str(error).splitlines()[0]}")
    return (InputError if found[1] == "InputError" else MachineError)(found[2])
