"""``isotone site declare-lost``, ``withdraw``, ``handover``, ``rejoin`` and ``keygen``: acts of operators, each signed
with a key of his own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isotone.cli.command_group import EXIT_VIOLATION
from isotone.cli.output import json_option, print_json, print_text
from isotone.cli.site_asking import act_at, act_options, ask_everybody, check_centre, read_file
from isotone.core.errors import InputError, MachineError

if TYPE_CHECKING:
    from isotone.host.hab_acts import Act, Reply
    from isotone.host.hab_settings import CentresFile

RISK = (
    "--override: {name} counts as lost though no majority records it. {able} of {all} data centres answer and take "
    "part, {name} not counted; a majority is {majority}. What {name} ordered and passed on to nobody is lost. If it "
    "lives and the others are overridden there too, both sides order by themselves, and what one of them ordered "
    "since then is given up when they meet."
)
NOT_NEEDED = "These are a majority: --override is not needed, unless they do not reach each other."


@click.command("found")
@act_options
@json_option
def found_command(*, file: Path, operator: str, key_file: Path, as_json: bool) -> int:
    """Begin: the data centres of FILE are new, and none has a state. Once, when all of them run for the first time.

    \b
    Examples:
      isotone site found centres.toml --operator anna --key anna.key

    Exit codes: 0 all have begun, 1 refused, or not all, 2 wrong usage or not new, 3 one does not answer.
    """
    from isotone.hab.configuration import first_epoch

    centres = read_file(file)
    told, silent = ask_everybody(centres)
    for centre in centres.centre:
        if not any(status["centre"] == centre.name for status in told.values()):
            raise MachineError(f"all must run, and {centre.name} does not answer: {silent[centre.process[0].name]}")
    for status in told.values():
        if status["confirmed"] or status["epoch"] > first_epoch(1):  # those that began may have ordered by themselves
            raise InputError(f"{status['centre']} has a state already: `isotone site rejoin` brings back one without")
    codes = []
    for centre in centres.centre:
        asked = [process for process, status in told.items() if status["centre"] == centre.name]
        codes.append(_carry_out(centres, asked, _act("found", centre.name), operator, key_file, as_json=as_json))
    return max(codes)


@click.command("declare-lost")
@click.argument("name")
@act_options
@click.option("--at", default="", help="The data centre that records it; any that answers, if it is not said.")
@click.option("--override", is_flag=True, help="Also where no majority of the data centres is left to record it.")
@click.option("--yes", is_flag=True, help="Do not ask whether to take the risk of --override.")
@json_option
def declare_lost_command(
    *, name: str, file: Path, operator: str, key_file: Path, at: str, override: bool, yes: bool, as_json: bool
) -> int:
    """Declare the data centre NAME lost: the others go on without it, and it delivers nothing more.

    It counts when enough operators said so, or one and nobody withdrew it in time, as FILE has it, and when a majority
    of the data centres recorded it. Of two data centres no majority is left: --override says so, at a risk that the
    command names; it asks for the name of the data centre before it goes on.

    \b
    Examples:
      isotone site declare-lost berlin centres.toml --operator anna --key anna.key
      isotone site declare-lost berlin centres.toml --operator anna --key anna.key --override --yes

    Exit codes: 0 it counts, 1 refused, or it waits for something, 2 wrong usage, 3 nobody answers.
    """
    centres = read_file(file)
    check_centre(centres, name)
    if override and as_json and not yes:
        raise InputError("with --json nobody can be asked: say --yes to take the risk of --override")
    told, _ = ask_everybody(centres)
    process = _recorder(told, name, at)
    if override:
        click.echo(risk_of(told, name, process), err=True)
        if not yes and click.prompt(f"Type {name} to go on", default="", show_default=False, err=True) != name:
            print_text("nothing is declared")
            return EXIT_VIOLATION
    act = _act("declare-lost", name, _life(told[process], name), override=override)
    return _carry_out(centres, [process], act, operator, key_file, as_json=as_json)


@click.command("withdraw")
@click.argument("name")
@act_options
@json_option
def withdraw_command(*, name: str, file: Path, operator: str, key_file: Path, as_json: bool) -> int:
    """Take back that NAME shall be declared lost, while it is not confirmed.

    \b
    Examples:
      isotone site withdraw berlin centres.toml --operator ben --key ben.key

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 nobody answers.
    """
    centres = read_file(file)
    check_centre(centres, name)
    told, _ = ask_everybody(centres)
    asked = [process for process, status in told.items() if _is_wanted(status, name)][:1]
    if not asked:
        raise InputError(f"nobody wants {name} declared lost, or it is declared already")
    return _carry_out(centres, asked, _act("withdraw", name), operator, key_file, as_json=as_json)


@click.command("handover")
@click.argument("name")
@act_options
@json_option
def handover_command(*, name: str, file: Path, operator: str, key_file: Path, as_json: bool) -> int:
    """Make the data centre NAME the primary, without loss: behind all that was ordered so far.

    \b
    Examples:
      isotone site handover berlin centres.toml --operator anna --key anna.key

    Exit codes: 0 it leads, 1 refused, or it does not lead yet, 2 wrong usage, 3 nobody answers.
    """
    centres = read_file(file)
    check_centre(centres, name)
    told, _ = ask_everybody(centres)
    asked = [process for process, status in told.items() if status["role"] != "out"]
    return _carry_out(centres, asked, _act("handover", name), operator, key_file, as_json=as_json)


@click.command("rejoin")
@click.argument("name")
@act_options
@json_option
def rejoin_command(*, name: str, file: Path, operator: str, key_file: Path, as_json: bool) -> int:
    """Let the data centre NAME, which was declared lost and runs again, come back as a backup with the others' state.

    \b
    Examples:
      isotone site rejoin berlin centres.toml --operator anna --key anna.key

    Exit codes: 0 it is back, 1 refused, or not yet, 2 wrong usage, 3 nobody there answers.
    """
    centres = read_file(file)
    check_centre(centres, name)
    asked = [each.name for centre in centres.centre if centre.name == name for each in centre.process]
    return _carry_out(centres, asked, _act("rejoin", name), operator, key_file, as_json=as_json)


@click.command("keygen")
@click.argument("name")
@click.option("--operator", is_flag=True, help="The key of an operator; otherwise that of a process.")
@click.option("--file", "path", type=click.Path(path_type=Path, dir_okay=False), help="[default: NAME.key]")
@json_option
def keygen_command(*, name: str, operator: bool, path: Path | None, as_json: bool) -> None:
    """Make the private key of the process or operator NAME, and print the line for the settings of the data centres.

    \b
    Examples:
      isotone site keygen berlin1 --file state/berlin1/centre.key
      isotone site keygen anna --operator
    """
    from isotone.daemon.security.keys import generate_authority, generate_key

    path = path or Path(f"{name}.key")
    if not path.parent.exists():
        path.parent.mkdir(parents=True, mode=0o700)  # the `state` of a process that has not run yet
    text = generate_authority(path).text if operator else generate_key(path).text
    if as_json:
        print_json({"name": name, "key": text, "file": str(path)})
    else:
        print_text(f'[[{"operator" if operator else "centre.process"}]]\nname = "{name}"\nkey = "{text}"')


# --- helpers ---------------------------------------------------------------------------------------------------------


def _act(what: Any, centre: str, life: int = 0, *, override: bool = False) -> Act:
    from isotone.host.hab_acts import Act

    return Act(what, centre, life, override)


def risk_of(told: dict[str, dict[str, Any]], name: str, process: str) -> str:
    """What an override may cost, as the process sees it that shall record it."""
    here = told[process]
    parts = [seen["name"] for seen in here["centres"] if seen["number"]]
    up = {each["centre"] for each in told.values() if each["role"] != "out"}
    able = [each for each in parts if each in up and each != name]
    text = RISK.format(name=name, able=len(able), all=len(parts), majority=here["majority"])
    return f"{text} {NOT_NEEDED}" if len(able) >= here["majority"] else text


def _recorder(told: dict[str, dict[str, Any]], name: str, at: str) -> str:
    """The process that records it: where another operator asked for it already, or any but of the centre itself."""
    fit = [
        process
        for process, status in told.items()
        if status["centre"] != name and status["role"] != "out" and at in ("", status["centre"])
    ]
    wanted = [process for process in fit if _is_wanted(told[process], name)]
    if not fit:
        raise MachineError(f"no process of {at or 'another data centre'} that takes part answers")
    return (wanted or fit)[0]


def _is_wanted(status: dict[str, Any], name: str) -> bool:
    return any(petition["centre"] == name for petition in status["petitions"])


def _life(status: dict[str, Any], name: str) -> int:
    return int(next(seen["life"] for seen in status["centres"] if seen["name"] == name))


def _carry_out(
    centres: CentresFile, processes: list[str], act: Act, operator: str, key_file: Path, *, as_json: bool
) -> int:
    from isotone.daemon.security.keys import read_authority

    reply: Reply = act_at(centres, processes, act, operator, read_authority(key_file))
    if as_json:
        print_json({"outcome": reply.outcome, "text": reply.text})
    else:
        print_text(reply.text)
    return 0 if reply.outcome == "done" else EXIT_VIOLATION
