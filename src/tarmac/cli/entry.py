"""The entry point: finds the command, and turns every error into one designed message."""

from __future__ import annotations

import importlib
import sys
import traceback
from typing import TYPE_CHECKING, NoReturn

import click

from tarmac.cli.lead_process import speaks_for_all
from tarmac.distribution import explained_imports, installed_version
from tarmac.errors import PeerFailed, TarmacError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

# Each command's module holds it as `command`; the summaries stand here so that --help imports none.
_COMMANDS = {
    "check": (
        "tarmac.cli.commands.check",
        "Prove that frameworks compute on each device; else say why not.",
    ),
    "train": (
        "tarmac.cli.commands.train",
        "Train a workload and say whether the result is as expected.",
    ),
    "search": (
        "tarmac.cli.commands.search",
        "Search for a good network: evolve, try all, or sample.",
    ),
    "run": ("tarmac.cli.commands.run", "Run job files on this machine."),
    "submit": ("tarmac.cli.commands.run", "Run job files in the background."),
    "ps": ("tarmac.cli.commands.jobs", "List the jobs at work here."),
    "logs": ("tarmac.cli.commands.jobs", "Print what a job's tasks have printed."),
    "cancel": ("tarmac.cli.commands.jobs", "End a job."),
    "convert": ("tarmac.cli.commands.convert", "Print a job file in another format."),
    "env": ("tarmac.cli.commands.env", "List and remove environments that were built for jobs."),
    "data": ("tarmac.cli.commands.data", "List, fetch, add and verify datasets."),
    "runs": ("tarmac.cli.commands.runs", "List, show, compare and remove runs."),
}


class _Commands(click.Group):
    """Imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name][0])
        command = getattr(module, cmd_name if hasattr(module, cmd_name) else "command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and not args[0].startswith("-"):
            raise unknown_name(
                "command", args[0], {name: text for name, (_, text) in _COMMANDS.items()}
            )
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


def _version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(f"tarmac {installed_version()}")
        ctx.exit()


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the version.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def _tarmac(debug: bool) -> None:
    """Get deep-learning jobs off the ground on GPUs, and prove that they fly."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 the work failed, 2 the request was wrong.

    Args:
        arguments: Instead of ``sys.argv[1:]``; for tests.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Accepted anywhere, because it is added to a line that has just failed.
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    try:
        with explained_imports():
            result = _tarmac.main(given, prog_name="tarmac", standalone_mode=False)
        sys.exit(result if isinstance(result, int) else 0)
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; Python must not complain at exit.
        sys.stderr.close()
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 1)
    except click.ClickException as error:
        if not speaks_for_all():
            sys.exit(2)
        _fail(_usage(error), 2)
    except PeerFailed:
        # Another process of the same training says what is wrong, once for all.
        sys.exit(1)
    except TarmacError as error:
        if debug:
            traceback.print_exc()
        _fail(str(error), error.exit_code)
    except Exception as error:
        if debug:
            traceback.print_exc()
        place = traceback.extract_tb(error.__traceback__)[-1]
        _fail(
            f"{type(error).__name__}: {error}\n"
            f"At {place.filename}:{place.lineno}. Add --debug for the whole traceback.",
            1,
        )


def _fail(message: str, exit_code: int) -> NoReturn:
    first, _, rest = message.partition("\n")
    click.echo(click.style("error: ", fg="red", bold=True) + first, err=True)
    if rest:
        click.echo("\n".join(f"  {line}" for line in rest.splitlines()), err=True)
    sys.exit(exit_code)


def _usage(error: click.ClickException) -> str:
    """Word a click error as ours: an unknown option lists the valid ones with their defaults."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context is not None:
        options = {
            max(parameter.opts, key=len): _default(parameter)
            for parameter in context.command.params
            if isinstance(parameter, click.Option)
        }
        return str(unknown_name("option", error.option_name, options))
    help_line = f"\nSee: {context.command_path} --help" if context is not None else ""
    return error.format_message().rstrip(".") + help_line


def _default(option: click.Option) -> str:
    default = option.show_default if isinstance(option.show_default, str) else option.default
    if option.is_flag or option.multiple or not isinstance(default, str | int | float):
        return ""
    return f"default {default}"
