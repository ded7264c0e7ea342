"""``isotone flow``: protocols for many nodes, none of which knows the membership."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from isotone.cli.command_group import CommandGroup
from isotone.cli.output import json_option, print_json, results
from isotone.core.errors import InputError
from isotone.flows.compiler import compile_program, told_rules
from isotone.flows.library import PROGRAMS
from isotone.flows.prover import ProvedProgram, read_program

COMMANDS = {
    "rollout": "isotone.cli.flow_rollout:rollout_command",
    "run": "isotone.cli.flow_run:run_command",
}


@click.group("flow", cls=CommandGroup, lazy=COMMANDS)
def flow_commands() -> None:
    """Agreement, phases, multicast and commit among many nodes.

    \b
    Examples:
      isotone flow show phases                          a program of the library
      isotone flow check my.flow                        what is proved of it, or which premise fails and where
      isotone flow run phases --nodes 16                16 nodes on this machine, with a live display
      isotone flow authority phases --nodes 32          an authority; it writes signed invitations
      isotone flow node invitations/r.1.1               a node that joins by an invitation
      isotone flow status 127.0.0.1:4810                how a node or an authority stands
      isotone flow rollout --nodes 64 --versions 5      no node starts version k+1 before all have confirmed k
    """


def program_text(name: str) -> str:
    """Of the library, or of a file."""
    if name in PROGRAMS:
        return PROGRAMS[name]
    try:
        return Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no program {name!r}: give a file, or one of {', '.join(PROGRAMS)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {name}: {error}") from error


@flow_commands.command("show")
@click.argument("program", metavar="PROGRAM")
def show_command(program: str) -> None:
    """Print the text of a program of the library, or of a file.

    \b
    Examples:
      isotone flow show phases
    """
    results().print(program_text(program), highlight=False, markup=False, end="")


@flow_commands.command("check")
@click.argument("program", metavar="PROGRAM")
@json_option
def check_command(*, program: str, as_json: bool) -> None:
    """Parse, type and prove a program; say how monotonic each flow is, and print the rules that rings run.

    \b
    Examples:
      isotone flow check my.flow
    """
    proved = read_program(program_text(program))
    rules = told_rules(compile_program(proved))
    if as_json:
        print_json({"flows": _proofs(proved), "rules": rules})
        return
    console = results()
    for name, told in _proofs(proved).items():
        console.print(f"{name:10} {told['monotonic']}", highlight=False, markup=False)
        for reason in told["because"]:
            console.print(f"{'':10}   {reason}", highlight=False, markup=False)
    console.print("\n".join(["", *rules]), highlight=False, markup=False)


def _proofs(proved: ProvedProgram) -> dict[str, dict[str, list[str] | str]]:
    found: dict[str, dict[str, list[str] | str]] = {}
    for name, proof in proved.proofs.items():
        order = f", {proof.order.value}" if proof.order and not proof.failures else ""
        assumed = " (assumed: checked when it runs)" if proof.assumed else ""
        because = [f"{each.premise.value}, {each.place}: {each.reason}" for each in proof.failures]
        found[name] = {"monotonic": proof.strength.value + order + assumed, "because": because}
    return found


@flow_commands.command("authority")
@click.argument("program", metavar="PROGRAM", required=False)
@click.option("--bind", default="127.0.0.1:0", show_default=True, help="Address for nodes, HOST:PORT.")
@click.option("--nodes", type=click.IntRange(1), default=8, show_default=True, help="Grow rings for so many nodes.")
@click.option("--fan-out", type=click.IntRange(2), default=8, show_default=True, help="Members of a ring, at most.")
@click.option("--rings", default="", help="Rings by hand instead: dotted names, such as r,r.1,r.2.")
@click.option("--under", type=click.Path(path_type=Path), help="An invitation whose ring is the parent of ours.")
@click.option("--token-ms", type=click.IntRange(1), default=100, show_default=True, help="Time between tokens.")
@click.option("--ranges", type=click.IntRange(1), default=100, show_default=True, help="Ranges in a value, at most.")
@click.option(
    "--adapt",
    "bytes_per_s",
    type=click.IntRange(0),
    default=0,
    metavar="BYTES",
    help="Adapt token rate and ranges to the network, with so many bytes a second at each member.",
)
@click.option("--state", type=click.Path(path_type=Path), required=True, help="Directory for views, register and key.")
@click.option("--invitations", type=click.Path(path_type=Path), required=True, help="Directory to write them to.")
def authority_command(
    *,
    program: str | None,
    bind: str,
    nodes: int,
    fan_out: int,
    rings: str,
    under: Path | None,
    token_ms: int,
    ranges: int,
    bytes_per_s: int,
    state: Path,
    invitations: Path,
) -> None:
    """Serve rings: let nodes in, number their views, keep the register of decisions.

    \b
    Examples:
      isotone flow authority phases --nodes 32 --fan-out 4 --state state --invitations invitations
    """
    from isotone.cli.flow_serving import AuthorityOptions, serve_authority

    options = AuthorityOptions(
        program_text(program) if program else "",
        bind,
        nodes,
        fan_out,
        rings,
        under,
        token_ms,
        ranges,
        bytes_per_s,
        state,
        invitations,
    )
    asyncio.run(serve_authority(options, _until_interrupted))


@flow_commands.command("node")
@click.argument("invitation", type=click.Path(path_type=Path, exists=True))
@click.option("--bind", default="127.0.0.1:0", show_default=True, help="Address for other nodes, HOST:PORT.")
@click.option("--name", default="node", show_default=True, help="Its name; several nodes get numbers behind it.")
@click.option(
    "--count", type=click.IntRange(1, 1000), default=1, show_default=True, help="So many nodes in this process."
)
@click.option("--trust", default="", help="Accept invitations signed by this key only.")
@click.option("--versions", type=click.IntRange(1), help="Follow phases or versions up to this one.")
@click.option(
    "--apply", "command", default="", help="Command that puts a version into effect; {version} is its number."
)
def node_command(
    *, invitation: Path, bind: str, name: str, count: int, trust: str, versions: int | None, command: str
) -> None:
    """Join a ring by an invitation. Inputs are read as JSON lines, outputs are written as JSON lines.

    \b
    Examples:
      isotone flow node invitations/r.1.1
      isotone flow node invitations/r.1.1 --versions 9 --apply 'deploy {version}'
    """
    from isotone.cli.flow_serving import serve_nodes

    asyncio.run(
        serve_nodes(
            invitation, bind=bind, name=name, count=count, trust=trust, versions=versions, command=command,
            until=_until_interrupted,
        )
    )  # fmt: skip


@flow_commands.command("status")
@click.argument("address", metavar="HOST:PORT")
@click.option("--within", type=float, default=2.0, show_default=True, help="Seconds to wait for an answer.")
@json_option
def status_command(*, address: str, within: float, as_json: bool) -> None:
    """Ask a node or an authority how it stands.

    \b
    Examples:
      isotone flow status 127.0.0.1:4810
    """
    from isotone.host.flow_process import ask_status

    told = asyncio.run(ask_status(address, within))
    if as_json:
        print_json(told)
    elif "node" in told:
        _show_node(told)
    else:
        rows = [
            (name, each["view"], len(each["members"]), ", ".join(who.partition("#")[0] for who in each["members"]))
            for name, each in told.items()
        ]
        results().print(_table(("ring", "view", "members", "the leader first"), rows))


def _show_node(told: dict[str, Any]) -> None:
    """Whether it counts, what it heard, and its part in each ring."""
    console = results()
    counts = "counts" if told["regular"] else "does not count yet: it is below what was decided, or has just joined"
    outputs = json.dumps(told["outputs"]) if told["outputs"] else "nothing"
    console.print(f"{told['node']} runs {told['program']}, and {counts}", highlight=False, markup=False)
    console.print(f"it heard: {outputs}", highlight=False, markup=False)
    if told["left_out"]:
        console.print(f"rings went on without it {told['left_out']} times", highlight=False)
    if told["too_long"]:
        console.print(f"{told['too_long']} tokens or decisions were too long for a datagram", highlight=False)
    rows = [
        (
            each["ring"],
            each["view"],
            each["members"],
            "leads" if each["leads"] else "",
            "yes" if each["regular"] else "no",
            f"{each['token_ms']:g}",
            each["ranges_max"],
        )
        for each in told["rings"]
    ]
    console.print(_table(("ring", "view", "members", "", "counts", "ms between tokens", "ranges at most"), rows))


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    table = Table(box=None)
    for name in columns:
        table.add_column(name)
    for row in rows:
        table.add_row(*(str(each) for each in row))
    return table


async def _until_interrupted() -> None:
    """Until Ctrl-C, or a termination request."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, ended.set)
    await ended.wait()
    sys.stdout.flush()
