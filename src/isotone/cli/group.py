"""How every command ends: 0 fine, 1 a violation, 2 usage or input, 3 the machine, 130 interrupted. No stack traces."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from isotone.core.errors import InputError, LocalProtocolError, MachineError

EXIT_VIOLATION = 1
EXIT_INPUT = 2
EXIT_MACHINE = 3
EXIT_INTERRUPTED = 130


class CommandGroup(click.Group):
    """A group whose errors become one line on standard error and an exit code."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run a command and exit."""
        extra.pop("standalone_mode", None)
        try:
            code = super().main(args=args, prog_name=prog_name or "isotone", standalone_mode=False, **extra)
        except (KeyboardInterrupt, click.Abort):
            _end("interrupted", EXIT_INTERRUPTED)
        except click.ClickException as error:
            error.show()
            sys.exit(EXIT_INPUT)
        except (InputError, LocalProtocolError) as error:
            _end(str(error), EXIT_INPUT)
        except MachineError as error:
            _end(str(error), EXIT_MACHINE)
        except BrokenPipeError:
            sys.stderr.close()  # whoever read the output has gone; there is nobody to tell
            sys.exit(0)
        sys.exit(code if isinstance(code, int) else 0)


def _end(message: str, code: int) -> NoReturn:
    click.echo(f"isotone: {message}", err=True)
    sys.exit(code)
