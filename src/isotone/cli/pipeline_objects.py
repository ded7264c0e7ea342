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

NEW = ".new"
"""Below the directory of tables: those that are not all written yet."""
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
    partitioned by object. DIR/databases/DATABASE/TABLE is each table of a database: for them the row changes are needed
    that servers archive in ARCHIVE/changes. Without --as-of the position is the last one that both have. What was there
    is replaced when all is written; a run that is killed then may leave nothing, but never tables of two positions.

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
    options = {"archive": archive, "archiveCredentialFile": credential_file, "replica": replica}
    changes, changed_to = _changes_of(archive, credential_file)
    of_changes = {"archive": changes, "archiveCredentialFile": credential_file} if changes else {}
    if not changes:
        click.echo(f"databases are left out: {_why_no_changes(archive)}", err=True)
    if follow:
        _follow(master, options, of_changes, out, as_json=as_json)
    else:
        position = as_of if as_of is not None else _last_position(options, changed_to)
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
    from isotone.pipeline.log.current_tables import (
        DATABASES,
        OBJECTS,
        put_in_place,
        read_log,
        write_databases,
        write_objects,
    )
    from isotone.pipeline.log.databases import row_changes, rows_as_of
    from isotone.pipeline.log.objects import objects_as_of

    with progress_bar("tables", total=None) as advance, _own_errors():
        spark = _spark(master)
        advance("applying the log")
        rows = objects_as_of(read_log(spark, options, 1, position), position)
        new = out / NEW
        shutil.rmtree(new, ignore_errors=True)  # of one that was killed
        write_objects(rows, new / OBJECTS)
        written = spark.read.schema(rows.schema).parquet(str(new / OBJECTS))
        objects = [row.asDict() for row in written.groupBy("object", "kind").count().orderBy("object").collect()]
        tables: list[dict[str, Any]] = []
        if changes:
            log = read_log(spark, changes, 1, position)
            tables = write_databases(rows_as_of(row_changes(log), position), new / DATABASES)
        put_in_place(new, out)
        for table in tables:
            table["path"] = str(out / Path(table["path"]).relative_to(new))
        return objects, tables


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


def _changes_of(archive: str, credential_file: str) -> tuple[str, int]:
    """Where the changes of databases are, if there are any, and their last position."""
    from isotone.replicated.archive.places import below
    from isotone.replicated.archive.store import Archive
    from isotone.replicated.database.change_log import FOLDER

    if not archive:
        return "", 0
    place = below(archive, FOLDER)
    end = Archive(place, credential_file).listing().end
    return (place, end) if end else ("", 0)


def _why_no_changes(archive: str) -> str:
    from isotone.replicated.archive.places import below
    from isotone.replicated.database.change_log import FOLDER

    if not archive:
        return "their row changes are in an archive, and none is named"
    return f"there are no row changes in {below(archive, FOLDER)}"


def _last_position(options: dict[str, str], changed_to: int) -> int | None:
    """Of the log, and of the changes where there are any: either may be ahead. None for a log without records."""
    from isotone.pipeline.log.options import parse_options
    from isotone.pipeline.log.reading import extent

    last = extent(parse_options({name: value for name, value in options.items() if value})).last
    return (min(last, changed_to) if changed_to else last) or None


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
