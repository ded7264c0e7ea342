"""``isotone daemon ops``: the files for operators that come with the package, wherever it is installed."""

from __future__ import annotations

from pathlib import Path

import click

import isotone
from isotone.cli.output import json_option, print_json, print_text
from isotone.core.errors import MachineError

SHIPPED = {"unit": "isotone@.service", "alerts": "alerts.yml"}
INSTALLED = Path(isotone.__file__).resolve().parent / "ops"
CHECKOUT = INSTALLED.parents[2] / "ops"


def shipped(name: str) -> Path:
    """Where a file is: in the package, or in the checkout that it runs from; raises `MachineError`."""
    for directory in (INSTALLED, CHECKOUT):
        if (directory / name).is_file():
            return directory / name
    raise MachineError(f"this installation has no {name}: it should be {INSTALLED / name}")


@click.command("ops")
@click.argument("what", type=click.Choice(list(SHIPPED)))
@click.option("--path", "only_path", is_flag=True, help="Print where the file is, not what is in it.")
@json_option
def ops_command(what: str, only_path: bool, as_json: bool) -> int:
    """Print a file for operators: the systemd UNIT of a daemon, or the rules of ALERTS for Prometheus.

    \b
    Examples:
      isotone daemon ops unit > /etc/systemd/system/isotone@.service
      isotone daemon ops alerts --path
    """
    path = shipped(SHIPPED[what])
    text = path.read_text(encoding="utf-8")
    if as_json:
        print_json({"path": str(path), "text": text})
    else:
        print_text(str(path) if only_path else text.rstrip("\n"))
    return 0
