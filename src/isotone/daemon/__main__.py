"""``python -m isotone.daemon SETTINGS [NAME]``: `isotone daemon run` without the command."""

from __future__ import annotations

import sys
from pathlib import Path

from isotone.core.errors import InputError, MachineError
from isotone.daemon.early import stop_cleanly

BAD_INPUT, BAD_MACHINE = 2, 3


def main(arguments: list[str]) -> int:
    """Run the daemon that a settings file describes; the exit code."""
    if not 1 <= len(arguments) <= 2:
        sys.stderr.write("usage: python -m isotone.daemon SETTINGS [NAME]\n")
        return BAD_INPUT
    stop_cleanly()
    from isotone.daemon.admin.service import run_file  # it takes a while, in which somebody may think again

    try:
        return run_file(Path(arguments[0]), *arguments[1:])
    except (InputError, MachineError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT if isinstance(error, InputError) else BAD_MACHINE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
