"""An archive in an object store: ``python -m tests.integration.object_store s3://bucket/log CREDENTIALS --out FILE``.

A server orders transfers of a bank and archives log and row changes there; then the archive is verified and compacted
by its commands, and Spark reads it: the total at every position, and the tables as of the last one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from examples.ledger.ledger import ACCOUNTS, OPENING, ledger

import isotone
from isotone.bench.measure import this_machine
from isotone.cli.main import commands
from isotone.replicated.archive import segments, writer
from isotone.replicated.archive.places import below
from isotone.replicated.database.change_log import FOLDER
from tests.ports import free_port

TRANSFERS, SEGMENT = 1_000, 200
WITHIN_S = 300.0


async def archive(uri: str, credentials: str, state: Path) -> int:
    """The last position that is archived."""
    options: dict[str, Any] = {"state": state, "address": f"127.0.0.1:{free_port()}"}
    async with (
        asyncio.timeout(WITHIN_S),
        isotone.replica(
            "ledger", name="a", databases=[ledger], archive=uri, archive_credential_file=credentials, **options
        ) as server,
    ):
        await server.ready()
        accounts = server.database("ledger")
        await accounts.call("open_accounts", ACCOUNTS, OPENING)
        for number in range(TRANSFERS):
            await accounts.call("transfer", f"owner {number % ACCOUNTS}", f"owner {(number + 1) % ACCOUNTS}", 1)
        while (server.replica_log.archived or 0) < TRANSFERS // SEGMENT * SEGMENT:
            assert not server.replica_log.archive_problem, server.replica_log.archive_problem
            await asyncio.sleep(0.1)
        return server.replica_log.archived or 0


def told(*words: str) -> Any:
    """What a command says as JSON; it must be fine."""
    done = CliRunner().invoke(commands, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def tried(uri: str, credentials: str, place: Path) -> Iterator[str]:
    """The lines of the report."""
    began = time.monotonic()
    with pytest.MonkeyPatch.context() as patched:
        for module in (segments, writer):
            patched.setattr(module, "SEGMENT_RECORDS_MAX", SEGMENT)
        end = asyncio.run(archive(uri, credentials, place / "state"))
    yield f"a server archived positions 1 to {end}, with the row changes, in {time.monotonic() - began:.1f} s"
    secret = ("--archive-credential-file", credentials)
    for each in (uri, below(uri, FOLDER)):
        verified = told("archive", "verify", each, *secret)
        assert verified["problems"] == [] and verified["segments"] >= end // SEGMENT
        joined = told("archive", "compact", each, *secret)
        status = told("archive", "status", each, *secret)
        assert (joined["made"], status["segments"], status["needless"], status["last"]) == (1, 1, 0, end)
        yield f"{verified['segments']} segments verified, joined into 1 of {status['records']} records"
    from isotone.pipeline.log.databases import row_changes
    from isotone.pipeline.log.source import register
    from isotone.pipeline.log.totals import totals
    from isotone.pipeline.session import session

    spark = session("local[2]", is_small=True)
    register(spark)
    options = {"archive": below(uri, FOLDER), "archiveCredentialFile": credentials}
    log = spark.read.format("isotone").options(**options).load()
    found = {row["total"] for row in totals(row_changes(log), "account", "balance").collect()}
    assert found == {ACCOUNTS * OPENING}
    yield f"on Spark the total of all accounts is {ACCOUNTS * OPENING} at every position that changed one"
    written = told("pipeline", "tables", uri, *secret, "--out", str(place / "tables"))
    (table,) = written["tables"]
    rows = spark.read.parquet(table["path"])
    assert (rows.count(), rows.agg({"balance": "sum"}).collect()[0][0]) == (ACCOUNTS, ACCOUNTS * OPENING)
    yield f"isotone pipeline tables: {table['count']} accounts as of position {end}"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("uri")
@click.argument("credentials", type=click.Path(exists=True, dir_okay=False))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the report here too.")
def main(*, uri: str, credentials: str, out: Path | None) -> None:
    """Archive, verify, compact and read on Spark at URI, an empty place in a bucket that is there."""
    with tempfile.TemporaryDirectory(prefix="isotone-store-") as directory:
        lines = []
        for line in tried(uri, credentials, Path(directory)):
            click.echo(line)
            lines.append(line)
    if out is not None:
        machine = this_machine()
        head = [
            f"# python -m tests.integration.object_store {uri} CREDENTIALS",
            f"# commit {machine.commit}; {machine.python}",
        ]
        out.write_text("\n".join([*head, "", *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
