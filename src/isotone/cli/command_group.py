"""How every command ends: 0 fine, 1 a violation, 2 usage or input, 3 the machine, 130 interrupted. No stack traces.

One command has a code of its own: `bench lan` ends with 4 when a whole run misses a goal.

What nobody expected ends with 3 too, never with 1: that code is for violations alone.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from isotone.core.errors import InputError, IsotoneError, LocalProtocolError, MachineError

EXIT_VIOLATION = 1
EXIT_INPUT = 2
EXIT_MACHINE = 3
EXIT_INTERRUPTED = 130
_OF_JAVA = ("py4j", "pyspark")
"""Packages whose errors bring pages of Java's calls."""


class BadAnswer(IsotoneError):
    """All went as it should, and the answer is bad: a message was not delivered. Commands end with exit code 1."""


class CommandGroup(click.Group):
    """A group whose errors become one line on standard error and an exit code.

    ``lazy`` gives commands as ``module:attribute``; the module is imported when its command is asked for, so that an
    interrupt in the meantime is one like any other. ``summaries`` has a line for each of them: help and completion
    list them without importing any.
    """

    def __init__(
        self,
        *arguments: Any,
        lazy: Mapping[str, str] | None = None,
        summaries: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(*arguments, **extra)
        self._lazy = lazy or {}
        self._summaries = summaries or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now if need be."""
        if cmd_name in self._lazy:
            module, _, attribute = self._lazy[cmd_name].partition(":")
            command: click.Command = getattr(import_module(module), attribute)
            return command
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, or an error that names the one that was probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            for near in get_close_matches(args[0], self.list_commands(ctx), n=1):
                raise click.UsageError(f"{error.message} Did you mean {near!r}?", ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the help text."""
        if not self._summaries:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._summaries[name]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What a shell offers behind an unfinished word."""
        if not self._summaries:
            return super().shell_complete(ctx, incomplete)
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self._summaries[name]) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

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
            with suppress(OSError):
                error.show()
            sys.exit(EXIT_INPUT)
        except (InputError, LocalProtocolError) as error:
            _end(str(error), EXIT_INPUT)
        except BadAnswer as error:
            _end(str(error), EXIT_VIOLATION)
        except MachineError as error:
            _end(str(error), EXIT_MACHINE)
        except BrokenPipeError:  # of help texts; results have their own way to bear it
            _drop_output()
            sys.exit(0)
        except Exception as error:
            _drop_output()
            _end(f"unexpected {_told(error)}", EXIT_MACHINE)
        sys.exit(code if isinstance(code, int) else 0)


def _drop_output() -> None:
    from isotone.cli.output import drop_output

    drop_output()


def _told(error: Exception) -> str:
    """In one line: what, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].name}, {frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno})" if frames else ""
    words = str(error)
    if type(error).__module__.partition(".")[0] in _OF_JAVA:
        from isotone.pipeline.java_words import gist

        words = gist(words)
    return " ".join(f"{type(error).__name__}: {words}{place}".split())


def _end(message: str, code: int) -> NoReturn:
    try:
        click.echo(f"isotone: {message}", err=True)
    except OSError:  # without a place to say it, the code must do; nor may the interpreter try again when it ends
        from isotone.cli.output import drop_errors

        drop_errors()
    sys.exit(code)
