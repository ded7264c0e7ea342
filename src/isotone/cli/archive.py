"""``isotone archive``: what the archive of a replicated log holds, whether it is whole, and fewer, larger files."""

from __future__ import annotations

from pathlib import Path

import click

from isotone.cli.command_group import EXIT_VIOLATION, CommandGroup
from isotone.cli.output import json_option, print_json, progress_bar, results
from isotone.core.errors import InputError
from isotone.replicated.archive.store import Archive

credential_option = click.option(
    "--archive-credential-file",
    "credential_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A JSON file with the arguments of the archive's file system, such as access_key and secret_key.",
)


@click.group("archive", cls=CommandGroup)
def archive_commands() -> None:
    """Look after the archive of a replicated log: Parquet files at a directory or URI, written by its servers.

    \b
    Examples:
      isotone archive status /srv/archive
      isotone archive verify s3://bucket/log --archive-credential-file s3.json
      isotone archive compact /srv/archive
    """


def _opened(uri: str, credential_file: Path | None) -> Archive:
    archive = Archive(uri, str(credential_file or ""))
    if not archive.exists():
        raise InputError(f"there is no archive at {uri}")
    return archive


@archive_commands.command("status")
@click.argument("uri")
@credential_option
@json_option
def status_command(uri: str, credential_file: Path | None, as_json: bool) -> int:
    """Which positions the archive at URI holds.

    \b
    Examples:
      isotone archive status /srv/archive --json

    Exit codes: 0 no gap, 2 a gap, an overlap or wrong usage, 3 it cannot be reached.
    """
    listing = _opened(uri, credential_file).listing()
    records = sum(map(len, listing.segments))
    if as_json:
        print_json(
            {
                "first": listing.first if records else None,
                "last": listing.end if records else None,
                "records": records,
                "segments": len(listing.segments),
                "needless": len(listing.needless),
            }
        )
        return 0
    if not records:
        results().print("the archive is empty: a segment is written when it is full")
        return 0
    needless = f"; {len(listing.needless)} files are needless, compact removes them" if listing.needless else ""
    results().print(f"positions {listing.first} to {listing.end} in {len(listing.segments)} segments{needless}")
    return 0


@archive_commands.command("verify")
@click.argument("uri")
@credential_option
@json_option
def verify_command(uri: str, credential_file: Path | None, as_json: bool) -> int:
    """Read every segment of the archive at URI and compare its rows with its name.

    \b
    Examples:
      isotone archive verify /srv/archive

    Exit codes: 0 all are whole, 1 some are damaged, 2 a gap, an overlap or wrong usage, 3 it cannot be reached.
    """
    archive = _opened(uri, credential_file)
    segments = archive.listing().segments
    with progress_bar("verified", total=len(segments)) as advance:
        problems = archive.verify(advance)
    if as_json:
        print_json({"segments": len(segments), "problems": problems})
    else:
        for problem in problems:
            results().print(problem, markup=False)
        results().print(f"{len(segments)} segments, {len(problems)} damaged")
    return EXIT_VIOLATION if problems else 0


@archive_commands.command("compact")
@click.argument("uri")
@credential_option
@json_option
def compact_command(uri: str, credential_file: Path | None, as_json: bool) -> int:
    """Join small segments of the archive at URI into large ones.

    Servers may go on writing meanwhile, and readers reading. Let one at a time do this.

    \b
    Examples:
      isotone archive compact /srv/archive
    """
    archive = _opened(uri, credential_file)
    with progress_bar("joined", total=len(archive.listing().segments)) as advance:
        joined, made = archive.compact(advance)
    if as_json:
        print_json({"joined": joined, "made": made})
    else:
        results().print(f"{joined} segments joined into {made}")
    return 0
