"""``isotone daemon check``, ``show``, ``convert`` and ``keygen``: settings before a daemon runs with them."""

from __future__ import annotations

import json
from pathlib import Path

import click

from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, print_text
from isotone.core.errors import InputError, LocalProtocolError, MachineError
from isotone.core.names import check_daemon_name
from isotone.daemon.settings import Loaded, Problem, SettingsError, chosen_daemon, load_in_full
from isotone.daemon.settings.problems import Finding, key_text

FILE_MAX = 16 * 1024 * 1024
PATH = click.Path(path_type=Path, dir_okay=False)
file_argument = click.argument("file", type=PATH)


@click.command("check")
@file_argument
@click.option("--name", default="", help="Also look whether this daemon could start on this machine.")
@click.option("--strict", is_flag=True, help="Count warnings as problems.")
@json_option
def check_command(file: Path, name: str, strict: bool, as_json: bool) -> int:
    """Say everything that is wrong with a settings FILE: key, line and remedy.

    \b
    Examples:
      isotone daemon check isotone.toml
      isotone daemon check isotone.toml --name d1

    \b
    Exit codes: 0 the settings are good, 1 something is wrong with them, 2 there is no such file, 3 it cannot be read.
    """
    if not file.exists():
        raise InputError(f"{file}: there is no such file")
    warnings: tuple[Problem, ...] = ()
    try:
        loaded = load_in_full(file)
        problems: tuple[Problem, ...] = _named(loaded, name)
        warnings = loaded.warnings
    except SettingsError as error:
        problems = error.problems
    good = not problems and not (strict and warnings)
    if as_json:
        print_json({"file": str(file), "good": good, "problems": problems, "warnings": warnings})
    else:
        for problem in problems:
            print_text(str(problem))
        for warning in warnings:
            print_text(f"warning: {warning}")
        print_text(_verdict(file, len(problems), len(warnings)))
    return 0 if good else EXIT_VIOLATION


def _named(loaded: Loaded, name: str) -> tuple[Problem, ...]:
    """Whether there is a daemon of this name, and whether it could start on this machine, if one is asked for."""
    if not name:
        return ()
    try:
        daemon = chosen_daemon(loaded.settings, name)
    except InputError as error:
        return (Problem(file=loaded.file, line=0, key="daemon", what=str(error), remedy="or add a [[daemon]]"),)
    from isotone.daemon.settings.machine_rules import findings

    return tuple(_problem(loaded, found) for found in findings(loaded.settings, daemon))


def _problem(loaded: Loaded, found: Finding) -> Problem:
    key = key_text(found.path)
    line = loaded.lines.get(key, 0)
    return Problem(file=loaded.file, line=line, key=key, what=found.what, remedy=found.remedy)


def _verdict(file: Path, problems: int, warnings: int) -> str:
    said = f"{problems} problem{'s' * (problems != 1)}" if problems else "good"
    return f"{file}: {said}" + (f", {warnings} warning{'s' * (warnings != 1)}" if warnings else "")


@click.command("show")
@file_argument
@click.option("--changed", is_flag=True, help="Only what stands in the file.")
@json_option
def show_command(file: Path, changed: bool, as_json: bool) -> None:
    """Show all settings of a FILE as they hold, and where each comes from: a line of the file, or the default.

    \b
    Examples:
      isotone daemon show isotone.toml --changed
    """
    from isotone.daemon.settings.effective import effective_settings

    loaded = load_in_full(file)
    rows = [row for row in effective_settings(loaded) if row.line or not changed]
    if as_json:
        settings = {row.key: {"value": row.value, "line": row.line or None, "from": row.origin} for row in rows}
        print_json({"file": str(file), "settings": settings, "warnings": loaded.warnings})
        return
    width = max((len(row.key) for row in rows), default=0)
    for row in rows:
        value = "-" if row.value is None else json.dumps(row.value, ensure_ascii=False)
        print_text(f"{row.key:<{width}} = {value}  # {row.origin}")


@click.command("convert")
@file_argument
@click.option("--cluster", default="isotone", show_default=True, help="The name of the cluster, the same in all files.")
@click.option("--output", type=PATH, help="Write there; never over a file.")
@json_option
def convert_command(file: Path, cluster: str, output: Path | None, as_json: bool) -> int:
    """Turn a spread.conf FILE into settings, with comments about what was not carried over.

    \b
    Examples:
      isotone daemon convert spread.conf --output isotone.toml

    \b
    Exit codes: 0 done, 1 done, but `isotone daemon check` finds problems in the result, 2 FILE is no spread.conf.
    """
    from isotone.daemon.settings.convert import convert
    from isotone.daemon.settings.loading import read

    conversion = convert(_text_of(file), str(file), cluster=cluster)
    problems: tuple[Problem, ...] = ()
    try:
        read(conversion.toml, str(output or "the result"))
    except SettingsError as error:
        problems = error.problems
    if output is not None:
        _write_new(output, conversion.toml)
    if as_json:
        print_json({"toml": conversion.toml, "left_out": conversion.left_out, "problems": problems})
    elif output is None:
        print_text(conversion.toml.rstrip())
    for problem in problems:
        click.echo(str(problem), err=True)
    return EXIT_VIOLATION if problems else 0


def _text_of(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(FILE_MAX + 1)
    except FileNotFoundError:
        raise InputError(f"{file}: there is no such file") from None
    except OSError as error:
        raise MachineError(f"{file}: cannot be read: {error.strerror}") from None
    if len(data) > FILE_MAX:
        raise InputError(f"{file}: too large for a spread.conf")
    return data.decode("utf-8", "replace")


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise InputError(f"{path} is there already; choose another name") from None
    except OSError as error:
        raise MachineError(f"{path}: cannot be written: {error.strerror}") from None


@click.command("keygen")
@click.argument("name", required=False)
@click.option("--file", "path", type=PATH, help="Where the key is kept.  [default: NAME.key]")
@click.option("--authority", type=PATH, help="Sign with the key in this file.")
@click.option("--new-authority", type=PATH, help="Make a key that signs, and nothing else.")
@click.option("--cluster", default="isotone", show_default=True, help="The name of the cluster, which is signed too.")
@json_option
def keygen_command(
    *,
    name: str | None,
    path: Path | None,
    authority: Path | None,
    new_authority: Path | None,
    cluster: str,
    as_json: bool,
) -> None:
    """Make the key of the daemon NAME, and print the lines for the settings.

    With --authority the key is signed, so that the other daemons need not list it.

    \b
    Examples:
      isotone daemon keygen d1 --file /etc/isotone/d1.key
      isotone daemon keygen --new-authority authority.key
      isotone daemon keygen d3 --authority authority.key
    """
    from isotone.daemon.security.keys import generate_authority

    if new_authority is not None:
        made = generate_authority(new_authority)
        _print_lines({"security": {"authority": made.text}}, as_json, file=new_authority)
        return
    if not name:
        raise InputError("name the daemon: isotone daemon keygen NAME")
    try:
        check_daemon_name(name)
    except LocalProtocolError as error:
        raise InputError(str(error)) from None
    if "/" in name and path is None:
        raise InputError(f"{name} is no file name: say --file")
    path = path or Path(f"{name}.key")
    _print_lines(_key_lines(name, path, authority, cluster), as_json, file=path)


def _key_lines(name: str, path: Path, authority: Path | None, cluster: str) -> dict[str, dict[str, str]]:
    from isotone.daemon.security.keys import generate_key, read_authority, sign_key

    signer = read_authority(authority) if authority is not None else None  # before a key is made in vain
    pair = generate_key(path)
    security = {"mode": "keys", "private_key_file": str(path.resolve())}
    if signer is None:
        return {"security": security, "daemon": {"name": name, "public_key": pair.text}}
    security["authority"] = signer.text
    return {"security": security, "daemon": {"name": name, "certificate": sign_key(signer, cluster, name, pair.public)}}


def _print_lines(tables: dict[str, dict[str, str]], as_json: bool, *, file: Path) -> None:
    """The lines as they stand in the settings."""
    if as_json:
        print_json({"file": str(file), **tables})
        return
    lines = []
    for table, keys in tables.items():
        header = f"[{table}]" if table == "security" else f"# in the [[daemon]] named {keys['name']}:"
        lines += [header, *(f"{key} = {json.dumps(value)}" for key, value in keys.items() if key != "name")]
    print_text("\n".join(lines))
