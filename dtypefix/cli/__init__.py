"""The command line: one module per command, imported when it is asked for."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

import click

from dtypefix import __version__
from dtypefix.engine.memory import collector_paused
from dtypefix.errors import UserError

COMMANDS = ("scan", "rewrite", "baseline", "validate", "compare", "history", "rules", "explain", "lsp")
EPILOG = (
    "Exit status: 0 nothing to report or to change, 1 something, 2 it could not do all that was asked, "
    "3 a repair could not be shown to be right (validate). `dtypefix COMMAND --help` says more."
)
FAILED = 2
INTERRUPTED = 130
PIPE_CLOSED = 141  # as a process ended by SIGPIPE


class LazyGroup(click.Group):
    """A group whose commands are the ``command`` of the modules of this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which a person meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, its module imported now."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"dtypefix.cli.{cmd_name}").command
        return command


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="dtypefix")
def group() -> None:
    """Find, repair and prove tensor-dtype faults in vLLM and its plug-ins."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; 2 means it could not do what was asked."""
    _open_streams()
    _tolerate_any_name()
    # A scanned file's doubtful escapes are its own affair; parsing it would print them.
    warnings.simplefilter("ignore", SyntaxWarning)
    try:
        with collector_paused():
            status = group.main(args=arguments, prog_name="dtypefix", standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        return _fail(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return FAILED
    except click.UsageError as error:
        hint = f" (see `{error.ctx.command_path} --help`)" if error.ctx else ""
        return _fail(error.format_message() + hint)
    except click.ClickException as error:
        return _fail(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        print("dtypefix: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # What is still buffered would fail again when the interpreter closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except OSError as error:
        # What is still buffered would fail again when the interpreter closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail(f"{error.filename or 'the report cannot be written'}: {error.strerror or error}")
    return status if isinstance(status, int) else 0


def _fail(message: str) -> int:
    print(f"dtypefix: {message}", file=sys.stderr)
    return FAILED


def _open_streams() -> None:
    """Let a stream that the caller has closed swallow what is written to it."""
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BytesIO())
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.BytesIO())


def _tolerate_any_name() -> None:
    """Let file names and messages that the terminal's encoding lacks be shown escaped, not fail."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
