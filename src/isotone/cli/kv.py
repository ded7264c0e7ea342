"""``isotone kv``: read, write and watch a replicated dict from a shell. Values are text, or JSON where asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from isotone.cli.command_group import BadAnswer, CommandGroup
from isotone.cli.objects import object_options, with_objects
from isotone.cli.output import json_option, print_json, print_text
from isotone.core.errors import InputError

dict_option = click.option("--dict", "name", default="kv", show_default=True, help="The name of the dict.")
stale_option = click.option("--stale", is_flag=True, help="Read what this server knows, without asking the others.")


@click.group("kv", cls=CommandGroup)
def kv_commands() -> None:
    """Read, write and watch a replicated dict.

    \b
    Examples:
      isotone kv set apples 3
      isotone kv get apples
      isotone kv list --prefix app
      isotone kv watch --after 120
      isotone kv delete apples --address host-b:4816
    """


@kv_commands.command("get")
@click.argument("key")
@dict_option
@stale_option
@object_options
def get_command(
    *, key: str, name: str, stale: bool, addresses: tuple[str, ...], credential_file: Path | None, within_s: float
) -> int:
    """Print the value of KEY. Exit code 1 if there is none.

    \b
    Examples:
      isotone kv get apples
      isotone kv get apples --dict stock --address host-b:4816
    """

    async def work(objects: Any) -> None:
        missing = object()
        value = await objects.dict(name).get(key, missing, stale_ok=stale, within_s=within_s)
        if value is missing:
            raise BadAnswer(f"there is no key {key!r} in {name}")
        print_text(f"{_text(value)}")

    return with_objects(work, addresses, credential_file)


@kv_commands.command("set")
@click.argument("key")
@click.argument("value")
@click.option("--as-json", is_flag=True, help="VALUE is JSON: a number, a list, an object.")
@click.option("--expect", help="Only if KEY has this value now; an empty text: only if there is no such key.")
@dict_option
@object_options
def set_command(
    *,
    key: str,
    value: str,
    as_json: bool,
    expect: str | None,
    name: str,
    addresses: tuple[str, ...],
    credential_file: Path | None,
    within_s: float,
) -> int:
    """Set KEY to VALUE; prints its revision.

    \b
    Examples:
      isotone kv set apples 3
      isotone kv set apples '[1, 2]' --as-json
      isotone kv set apples 4 --expect 3
    """
    decoded = _from_json(value) if as_json else value

    async def work(objects: Any) -> None:
        stock = objects.dict(name)
        if expect is None:
            print_text(f"{await stock.set(key, decoded, within_s=within_s)}")
            return
        expected = (_from_json(expect) if as_json else expect) if expect else None
        if not await stock.compare_and_set(key, expected, decoded, within_s=within_s):
            raise BadAnswer(f"{key} does not have the expected value; it was not set")

    return with_objects(work, addresses, credential_file)


@kv_commands.command("delete")
@click.argument("key")
@dict_option
@object_options
def delete_command(
    *, key: str, name: str, addresses: tuple[str, ...], credential_file: Path | None, within_s: float
) -> int:
    """Delete KEY. Exit code 1 if there is none.

    \b
    Examples:
      isotone kv delete apples
    """

    async def work(objects: Any) -> None:
        if not await objects.dict(name).delete(key, within_s=within_s):
            raise BadAnswer(f"there is no key {key!r} in {name}")

    return with_objects(work, addresses, credential_file)


@kv_commands.command("list")
@click.option("--prefix", default="", help="Only keys that begin so.")
@dict_option
@stale_option
@json_option
@object_options
def list_command(
    *,
    prefix: str,
    name: str,
    stale: bool,
    as_json: bool,
    addresses: tuple[str, ...],
    credential_file: Path | None,
    within_s: float,
) -> int:
    """Print all keys with their values, sorted.

    \b
    Examples:
      isotone kv list --prefix app
      isotone kv list --json
    """

    async def work(objects: Any) -> None:
        items = await objects.dict(name).items(prefix, stale_ok=stale, within_s=within_s)
        if as_json:
            print_json(items)
            return
        for key, value in items.items():
            print_text(f"{key}\t{_text(value)}")

    return with_objects(work, addresses, credential_file)


@kv_commands.command("watch")
@click.option("--prefix", default="", help="Only keys that begin so.")
@click.option("--after", type=int, help="Changes behind this revision; without it, from now on.")
@click.option("--count", type=int, default=0, help="End after so many changes.")
@dict_option
@object_options
def watch_command(
    *,
    prefix: str,
    after: int | None,
    count: int,
    name: str,
    addresses: tuple[str, ...],
    credential_file: Path | None,
    within_s: float,
) -> int:
    """Print changes as they come: revision, set or delete, key, value.

    \b
    Examples:
      isotone kv watch
      isotone kv watch --after 120 --prefix app
    """
    del within_s

    async def work(objects: Any) -> None:
        seen = 0
        async for change in objects.dict(name).watch(prefix, after=after):
            told = "delete" if change.deleted else "set"
            value = "" if change.deleted else f"\t{_text(change.value)}"
            print_text(f"{change.revision}\t{told}\t{change.key}{value}")
            seen += 1
            if seen == count:
                return

    return with_objects(work, addresses, credential_file)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return json.dumps(value, default=str)


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{text!r} is not JSON: {error}") from error
