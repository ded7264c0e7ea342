"""``isotone group``: send, receive, chat, ping and flood, as any client does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from isotone.cli.admin_client import read_credential
from isotone.cli.command_group import BadAnswer, CommandGroup
from isotone.cli.context import read_context
from isotone.cli.group_work import CONNECT_WITHIN_S, Caller, chat, flood, ping, receive, send
from isotone.cli.output import json_option, print_json, results
from isotone.client.asking import sending_service
from isotone.client.errors import ClientError, ConnectFailed, Disconnected, NotSent, Refused, Unconfirmed, UnknownFate
from isotone.core.errors import InputError, IsotoneError, MachineError
from isotone.core.names import check_group_name
from isotone.core.services import Service

DEFAULT_ADDRESS = "127.0.0.1:4803"
REFUSALS = ("refused", "certificate", "protocol", "version")
"""Why there is no session, where trying again makes no sense."""
UNCERTAIN = ("transitional", "disconnected", "deadline", "left")
"""Why a message is not confirmed that was permitted."""
SHARE_OF_SENDING = 0.9
"""Of the time of a command: what is not sent then is given up with its name, before the command itself is."""
SERVICES = [service.name.lower() for service in Service]
Command = TypeVar("Command", bound=Callable[..., Any])


@click.group("group", cls=CommandGroup)
def group_commands() -> None:
    """Take part in a group from the command line.

    \b
    Examples:
      isotone group send room "hello" --service safe --confirm
      isotone group recv room --count 1 --timeout 10
      isotone group chat room --name alice
      isotone group ping room --count 10
      isotone group flood room --seconds 5 --size 1000
    """


def _named(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """A wrong name is told before a daemon is looked for."""
    del context, parameter
    for name in (value,) if isinstance(value, str) else value:
        check_group_name(name)
    return value


def client_options(command: Command) -> Command:
    """How to connect; they become ``caller`` by `_caller`."""
    for option in (
        click.option("--tls", metavar="FILE", help="Speak TLS; FILE has the authority of the daemon's certificate."),
        click.option(
            "--credential-file",
            "credential_file",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="ISOTONE_CREDENTIAL_FILE",
            help="A file with a credential.",
        ),
        click.option("--name", default="", help="The client's name; a random one when left out."),
        click.option(
            "--address",
            "addresses",
            multiple=True,
            metavar="HOST:PORT",
            envvar="ISOTONE_ADDRESS",
            help="Of the daemon, or unix:/path; several times for several to try (default: those of `isotone up` in "
            f"this directory, else {DEFAULT_ADDRESS}).",
        ),
    ):
        command = option(command)
    return command


def service_option(command: Command) -> Command:
    """Which promises."""
    return click.option(
        "--service", type=click.Choice(SERVICES), default="agreed", show_default=True, help="Which promises it gets."
    )(command)


@group_commands.command("send")
@click.argument("group", callback=_named)
@click.argument("texts", nargs=-1)
@click.option(
    "--service", type=click.Choice(SERVICES), help="Which promises it gets (default: agreed, confirmed safe)."
)
@click.option("--confirm", is_flag=True, help="Wait until it is safe everywhere; only that is an acknowledgement.")
@click.option(
    "--type", "kind", type=click.IntRange(0, 65_535), default=0, show_default=True, help="A number for your program."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.01),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up after this time.",
)
@client_options
@json_option
def send_command(
    *,
    group: str,
    texts: tuple[str, ...],
    service: str | None,
    confirm: bool,
    kind: int,
    timeout: float,
    as_json: bool,
    **who: Any,
) -> int:
    """Send TEXTS to GROUP, each as one message; without any, every line of standard input. No membership is needed.

    \b
    Examples:
      isotone group send room hello
      date | isotone group send room --confirm --json

    What is printed names the last message, and so do errors: `isotone explain message ID` says what it waits for.

    Exit codes: 0 fine, 1 not taken or not confirmed, 2 wrong usage or refused, 3 no daemon answers.
    """
    chosen = sending_service(None if service is None else Service[service.upper()], confirm=confirm)
    bodies = [text.encode() for text in texts] or [line.rstrip("\n").encode() for line in sys.stdin]
    caller = _caller(who, timeout / 2)
    try:
        within_s = SHARE_OF_SENDING * timeout
        report = _run(send(caller, group, bodies, chosen, confirm=confirm, kind=kind, within_s=within_s), timeout)
    except IsotoneError as error:
        if as_json:
            message = getattr(error.__cause__, "id", None)
            print_json({"error": str(error), "id": "" if message is None else str(message)})
        raise
    if as_json:
        print_json(report)
    else:
        results().print(report.text, markup=False)
    return 0


@group_commands.command("recv")
@click.argument("groups", nargs=-1, required=True, callback=_named)
@click.option("--count", type=click.IntRange(1), help="End after so many messages.")
@click.option("--timeout", type=click.FloatRange(0.01), metavar="SECONDS", help="End after this time.")
@click.option("--quiet", is_flag=True, help="Only messages, no views or signals.")
@client_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def recv_command(
    *, groups: tuple[str, ...], count: int | None, timeout: float | None, quiet: bool, as_json: bool, **who: Any
) -> int:
    """Join GROUPS and print what they hear, in its order.

    \b
    Examples:
      isotone group recv room
      isotone group recv room --count 3 --timeout 10 --json

    Exit codes: 0 fine, 1 the time was over before --count messages came, 2 wrong usage or refused, 3 no daemon answers.
    """
    work = receive(_caller(who), groups, count=count, timeout=timeout, quiet=quiet, as_json=as_json)
    return 0 if _run(work, None) else 1


@group_commands.command("chat")
@click.argument("group", callback=_named)
@service_option
@client_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def chat_command(*, group: str, service: str, as_json: bool, **who: Any) -> int:
    """Join GROUP, send every line that is typed, and show what all say. The end of input ends it.

    \b
    Examples:
      isotone group chat room --name alice
    """
    _run(chat(_caller(who), group, Service[service.upper()], as_json=as_json), None)
    return 0


@group_commands.command("ping")
@click.argument("group", callback=_named)
@click.option("--count", type=click.IntRange(1, 1_000_000), default=4, show_default=True, help="How many messages.")
@click.option("--size", type=click.IntRange(0, 1_000_000), default=64, show_default=True, help="Bytes of each message.")
@click.option(
    "--every",
    type=click.FloatRange(0, 3600),
    default=0.2,
    show_default=True,
    metavar="SECONDS",
    help="Pause between messages.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.01),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long for each.",
)
@service_option
@client_options
@json_option
def ping_command(
    *, group: str, count: int, size: int, every: float, timeout: float, service: str, as_json: bool, **who: Any
) -> int:
    """Measure how long a message takes from its sender through the order and back to it, as a member of GROUP.

    \b
    Examples:
      isotone group ping room --count 10 --service safe --json

    Exit codes: 0 all came back, 1 one did not within --timeout, 2 wrong usage or refused, 3 no daemon answers.
    """
    work = ping(_caller(who), group, Service[service.upper()], count=count, size=size, every=every, timeout=timeout)
    report = _run(work, None)
    if as_json:
        print_json(report)
    else:
        results().print(report.text, markup=False)
    return 0 if report.received == report.sent else 1


@group_commands.command("flood")
@click.argument("group", callback=_named)
@click.option("--seconds", type=click.FloatRange(0.1, 3600), default=5.0, show_default=True, help="How long to send.")
@click.option(
    "--size", type=click.IntRange(1, 1_000_000), default=1_000, show_default=True, help="Bytes of each message."
)
@service_option
@client_options
@json_option
def flood_command(*, group: str, seconds: float, size: int, service: str, as_json: bool, **who: Any) -> int:
    """Send as fast as credits allow, as a member of GROUP that hears it all, and say how much that was.

    \b
    Examples:
      isotone group flood room --seconds 5 --size 1000 --json
    """
    report = _run(flood(_caller(who), group, Service[service.upper()], seconds=seconds, size=size), None)
    if as_json:
        print_json(report)
    else:
        results().print(report.text, markup=False)
    return 0 if report.received == report.sent else 1


_T = TypeVar("_T")


def _caller(who: dict[str, Any], within_s: float = CONNECT_WITHIN_S) -> Caller:
    return Caller(
        addresses=who["addresses"] or _known_addresses(),
        name=who["name"],
        credential=read_credential(who["credential_file"]),
        tls=who["tls"] or "",
        connect_within_s=min(within_s, CONNECT_WITHIN_S),
    )


def _known_addresses() -> tuple[str, ...]:
    context = read_context()
    return tuple(each.address for each in context.daemons) if context is not None else (DEFAULT_ADDRESS,)


def _run(work: Awaitable[_T], timeout: float | None) -> _T:
    """Do it, with the errors of a client as commands tell them."""

    async def within() -> _T:
        async with asyncio.timeout(timeout):
            return await work

    try:
        return asyncio.run(within())
    except TimeoutError as error:  # with a session: to open one it has less time
        raise BadAnswer(f"not done within {timeout:g} seconds") from error
    except ClientError as error:
        raise _told_as(error)(str(error)) from error


def _told_as(error: ClientError) -> type[IsotoneError]:
    """What was refused, what was not delivered, and what is wrong with the daemon have different exit codes."""
    match error:
        case NotSent(reason="deadline") | UnknownFate():
            return BadAnswer
        case Refused() | NotSent():
            return InputError
        case Unconfirmed():
            return BadAnswer if error.reason in UNCERTAIN else InputError
        case ConnectFailed() | Disconnected():
            return InputError if getattr(error.code, "value", error.code) in REFUSALS else MachineError
    return MachineError
