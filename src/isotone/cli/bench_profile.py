"""``isotone bench profile``: where the time of daemons and clients goes at full speed."""

from __future__ import annotations

import click
import msgspec
from rich.table import Table

from isotone.bench.lan.cells import FACTOR_SIZES, SIZES, Cell, isotone_cells
from isotone.bench.lan.profiling import Profile, profile
from isotone.cli.output import json_option, print_json, results
from isotone.core.errors import InputError


@click.command("profile")
@click.option(
    "--size", type=click.IntRange(min=17, max=1024 * 1024), default=64, show_default=True, help="Bytes of a message."
)
@click.option("--variant", default="base", show_default=True, help="As in bench lan, on loopback.")
@click.option("--seconds", type=click.FloatRange(min=0.1), default=10.0, show_default=True, help="How long to send.")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Functions of each process.")
@click.option("--lines", is_flag=True, help="The lines too.")
@json_option
def profile_command(*, size: int, variant: str, seconds: float, top: int, lines: bool, as_json: bool) -> None:
    """Run at full speed and look at the stack of every process with each tick of its CPU clock.

    Time in C code and in the kernel counts for the Python function that called it. Sampling costs little, but rates
    beside it are not to be quoted.

    \b
    Examples:
      isotone bench profile
      isotone bench profile --size 1024 --variant safe --top 10 --lines
    """
    report = profile(_cell(size, variant), seconds, top)
    if as_json:
        print_json(report)
        return
    console = results()
    cpu = f"{report.cpu_us_daemons:.2f} µs of daemons, {report.cpu_us_clients:.2f} µs of clients"
    console.print(f"{report.cell}: {report.rate:,.0f} messages/s, {cpu} per message", markup=False)
    for each in report.profiles:
        console.print(f"\n{each.process}: {each.cpu_us_per_message:.3f} µs per message, {each.samples:,} samples")
        console.print(_table(each))
        for name, share in each.lines if lines else ():
            console.print(f"  {share:6.1%}  {name}", markup=False)


def _cell(size: int, variant: str) -> Cell:
    sizes = (size,) if size in SIZES else FACTOR_SIZES[:1]
    for cell in isotone_cells(sizes):
        if cell.variant == variant and cell.path == "loopback" and not (cell.share or cell.rate):
            return msgspec.structs.replace(cell, size=size)
    raise InputError(f"there is no variant {variant} of {size} bytes on loopback that runs at full speed")


def _table(each: Profile) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("own", "with below", "own µs/message"):
        table.add_column(title, justify="right")
    table.add_column("function")
    for place in each.places:
        own = place.own * each.cpu_us_per_message
        table.add_row(f"{place.own:.1%}", f"{place.total:.1%}", f"{own:.3f}", place.name)
    return table
