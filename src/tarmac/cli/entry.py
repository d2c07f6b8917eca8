"""The entry point: finds the command, and turns each error into one message."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TextIO

import click
import cloup

from tarmac.cli.lead_process import (
    code_of_peer,
    is_rank_zero,
    leave,
    wait_for_failed,
    wait_for_rank_zero,
)
from tarmac.cli.options import SETTINGS, Group, examples, option
from tarmac.cli.output import flush_output, guarded_output
from tarmac.cli.terminal import guard_terminals
from tarmac.distribution import explained_imports, installed_version
from tarmac.errors import (
    Interrupted,
    PeerFailed,
    RequestError,
    TarmacError,
    unknown_name,
    without_native_stack,
)
from tarmac.wording import in_lines

# Commands by heading, with the module and the name that hold each.
_SECTIONS = {
    "Check": {"check": "check:group"},
    "Train and search": {"train": "train:command", "search": "search:command"},
    "After a training": {
        "eval": "eval:command",
        "predict": "predict:command",
        "export": "export:command",
    },
    "Jobs": {
        "run": "run:command",
        "submit": "run:submit",
        "ps": "jobs:ps",
        "logs": "jobs:logs",
        "cancel": "jobs:cancel",
        "convert": "convert:command",
        "cluster": "cluster:command",
        "hkube": "hkube:command",
    },
    "Watch": {
        "top": "top:command",
        "report": "report:command",
        "serve": "serve:command",
    },
    "Housekeeping": {
        "data": "data:command",
        "runs": "runs:command",
        "env": "env:command",
        "schema": "schema:command",
        "completion": "completion:command",
    },
}

# Other training programs' names for our options, too different in spelling for a suggestion.
_OTHERS_OPTIONS = {
    "--learning-rate": "--lr",
    "--gpus": "--devices",
    "--num-gpus": "--devices",
    "--nnodes": "--nodes",
    "--num-trials": "--trials",
}

# Command lines that work without a current directory: these commands, and all requests for help.
_WITHOUT_DIRECTORY = ("schema", "completion")
_HELP_OPTIONS = {"-h", "--help", "--version"}

# More options than these hide the message that they follow.
_MAX_LISTED = 12

_COMMANDS = {name: home for section in _SECTIONS.values() for name, home in section.items()}


class _Commands(Group):
    """A group that imports a command's module on its call, and all modules for its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return _command(cmd_name) if cmd_name in _COMMANDS else None

    def list_sections(
        self,
        ctx: click.Context,  # noqa: ARG002 - cloup's signature
        include_default_section: bool = True,  # noqa: ARG002 - cloup's signature
    ) -> list[cloup.Section]:
        return [
            cloup.Section(title, {name: _command(name) for name in names})
            for title, names in _SECTIONS.items()
        ]


def _command(name: str) -> click.Command:
    module, _, attribute = _COMMANDS[name].partition(":")
    command = getattr(importlib.import_module(f"tarmac.cli.commands.{module}"), attribute)
    assert isinstance(command, click.Command)
    return command


def _version(ctx: click.Context, _option: click.Parameter, is_requested: bool) -> None:
    if is_requested:
        click.echo(f"tarmac {installed_version()}")
        ctx.exit()


@cloup.command(
    cls=_Commands,
    context_settings=SETTINGS,
    epilog=examples(
        "tarmac check                            does every framework compute here?",
        "tarmac train digits-mlp --verify        train, and compare with the known result",
        "tarmac search mlp-evolve --budget 5m    find a better network",
        "tarmac run job.yaml                     run the tasks of a job file",
    )
    + "\n\nEach command has --help. Exit codes: 0 done, 1 the work failed, 2 the request was "
    "wrong, 3 no answer (check), 130 interrupted.",
)
@option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the version.",
)
@option("--debug", is_flag=True, help="Show the traceback of an error; accepted anywhere.")
def root(debug: bool) -> None:
    """Check GPUs, train models, search hyperparameters and run jobs."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Exit codes: 0 done, 1 the work failed, 2 the request was wrong, 3 no answer, 130 interrupted.

    Args:
        arguments: Arguments of the command line, for tests. Default: ``sys.argv[1:]``.
    """
    with guarded_output():
        _main(arguments)


def _main(arguments: Sequence[str] | None) -> NoReturn:
    argv = list(sys.argv[1:] if arguments is None else arguments)
    # Accepted anywhere, because users append it to a line that has just failed.
    debug = "--debug" in argv
    argv = [argument for argument in argv if argument != "--debug"]
    guard_terminals()
    if arguments is None and not debug:
        warnings.showwarning = _show_warning
    try:
        _require_directory(argv)
        with explained_imports():
            result = _run(argv)
        flush_output()
        leave(result if isinstance(result, int) else 0, is_own_process=arguments is None)
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe.
        sys.exit(1)
    except KeyboardInterrupt:
        _end(Interrupted("interrupted"))
    except click.Abort as error:
        # click raises this for Ctrl-C, and for a question that was not answered with yes.
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            _end(Interrupted("interrupted"))
        _fail("not confirmed; nothing was done", 1)
    except Interrupted as interruption:
        _end(interruption)
    except click.ClickException as error:
        _refuse(error)
    except PeerFailed:
        # Another process of the same training prints the error, once for all.
        wait_for_failed()
        sys.exit(code_of_peer())
    except TarmacError as error:
        if debug:
            _show_traceback()
        # Line ends come from another program or a name: the text after them is not our hint.
        message = str(error).replace(error.message, error.message.replace("\n", "\n| "), 1)
        _fail(_with_notes(message, error), error.exit_code)
    except Exception as error:
        if debug:
            _show_traceback()
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = (
            f"{type(error).__name__}: {without_native_stack(str(error))}\n"
            f"At {place.filename}:{place.lineno}. Add --debug for the whole traceback."
        )
        _fail(_with_notes(message, error), 1)


# Packages that end a program themselves: click for a shell that completes a line, Rich for a closed
# pipe.
_ENDING = ("click", "rich")


def _run(arguments: Sequence[str]) -> object:
    """Run a command, and return its result.

    Raises:
        TarmacError: The user's code, such as a model, exited this process: that is no success.
    """
    try:
        return root.main(arguments, prog_name="tarmac", standalone_mode=False)
    except SystemExit as end:
        place = traceback.extract_tb(end.__traceback__)[-1]
        packages = Path(click.__file__).parents[1]
        if any(Path(place.filename).is_relative_to(packages / name) for name in _ENDING):
            raise
        raise TarmacError(
            f"{place.filename}:{place.lineno} ended the program with SystemExit({end.code!r})"
        ) from end


def _require_directory(arguments: Sequence[str]) -> None:
    """Refuse a current directory that was removed: imports of PyTorch end the process there.

    Raises:
        RequestError: The current directory is gone.
    """
    # A shell that completes a line adds no arguments.
    if not arguments or arguments[0] in _WITHOUT_DIRECTORY or _HELP_OPTIONS & {*arguments}:
        return
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise RequestError(
            "the current directory is gone: it was removed or its file system unmounted",
            hint="Change to a directory that exists, and try again: cd ~",
        ) from error


def _show_traceback() -> None:
    click.echo(in_lines(_without_secrets(traceback.format_exc())), err=True, nl=False)


def _without_secrets(text: str) -> str:
    from tarmac.masking import remember_environment, without_known

    remember_environment(os.environ)
    return without_known(text)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning for users without its line of code, such as a line of threading.py.

    Other warnings help developers: they keep the line. With ``--debug``, all warnings keep it.
    """
    if issubclass(category, UserWarning):
        _say(str(message), before=click.style("warning: ", fg="yellow"))
        return
    text = warnings.formatwarning(message, category, filename, lineno, line)
    click.echo(in_lines(text), nl=False, file=file, err=file is None)


def _with_notes(message: str, error: Exception) -> str:
    """Return a message with the notes that were added to its error."""
    return "\n".join((message, *getattr(error, "__notes__", ())))


def _end(interruption: Interrupted) -> NoReturn:
    """Print that the work was interrupted, which is not an error, and exit."""
    if is_rank_zero():
        _say(str(interruption))
    sys.exit(interruption.exit_code)


def _fail(message: str, exit_code: int) -> NoReturn:
    _say(message, before=click.style("error: ", fg="red", bold=True))
    sys.exit(exit_code)


def _say(message: str, *, before: str = "") -> None:
    """Print a message on standard error.

    Args:
        message: Text that may have other people's names. Characters that move the cursor or colour
            the text, and so hide the message, are shown as escapes.
        before: Coloured text before the first line. Default: none.
    """
    first, *rest = in_lines(_without_secrets(message)).split("\n")
    click.echo(before + first, err=True)
    for line in rest:
        click.echo(f"  {line}", err=True)


def _refuse(error: click.ClickException) -> NoReturn:
    """Print what is wrong with the command line, and exit."""
    if not is_rank_zero():
        wait_for_rank_zero()
        sys.exit(2)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        # A group without a command prints its help, which is no error text.
        click.echo(error.message, err=True)
        sys.exit(2)
    _fail(_usage(error), 2)


def _usage(error: click.ClickException) -> str:
    """Return the message for a click error; for an unknown option, with the valid ones."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context is not None:
        options = {
            max(parameter.opts, key=len): _default(parameter)
            for parameter in context.command.params
            if isinstance(parameter, click.Option)
        }
        meant = _OTHERS_OPTIONS.get(error.option_name)
        unknown = unknown_name(
            "option", error.option_name, options, meant=meant if meant in options else None
        )
        if len(options) > _MAX_LISTED:
            return f"{unknown.message}\nSee: {context.command_path} --help"
        return str(unknown)
    help_line = f"\nSee: {context.command_path} --help" if context is not None else ""
    return error.format_message().rstrip(".") + help_line


def _default(option: click.Option) -> str:
    default = option.show_default if isinstance(option.show_default, str) else option.default
    if option.is_flag or option.multiple or not isinstance(default, str | int | float):
        return ""
    return f"default {default}"
