"""Declarations of commands: their help, and the options that several of them share.

cloup lays out help as plain text under headings, as gh and uv print it: rich-click would load rich
for every ``--help``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import cloup

from tarmac.cli.choices import CHECKPOINTS, VALIDATION_SPLITS, Choice
from tarmac.errors import RequestError, unknown_name

# For the whole command line: each command inherits its context's settings from the one above.
SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "formatter_settings": cloup.HelpFormatter.settings(col1_max_width=30),
}

# Our commands, by their names in other command lines.
_ELSEWHERE = {
    **dict.fromkeys(("delete", "del", "remove", "prune"), ("rm",)),
    **dict.fromkeys(("ls", "dir"), ("list", "ps")),
    **dict.fromkeys(("cat", "view", "describe", "info", "inspect", "get"), ("show", "runs")),
    **dict.fromkeys(("stop", "kill", "abort", "scancel", "down"), ("cancel",)),
    **dict.fromkeys(("status", "queue", "squeue", "jobs"), ("ps",)),
    **dict.fromkeys(("launch", "exec", "start"), ("run",)),
    "sbatch": ("submit",),
    "diff": ("compare",),
    **dict.fromkeys(("tune", "sweep", "optimize", "hpo"), ("search",)),
    "fit": ("train",),
    **dict.fromkeys(("test", "evaluate", "score", "validate"), ("eval", "verify", "check")),
    **dict.fromkeys(("infer", "inference"), ("predict",)),
    **dict.fromkeys(("monitor", "watch", "nvidia-smi", "gpus"), ("top",)),
    **dict.fromkeys(("doctor", "diagnose"), ("check",)),
    **dict.fromkeys(("dashboard", "ui", "board"), ("serve",)),
    **dict.fromkeys(("download", "pull"), ("fetch", "data")),
    **dict.fromkeys(("import", "create", "new"), ("add",)),
}

# Longer than any summary: click would cut at 45 characters, in the middle of a sentence.
_WHOLE = 1000


class Filename(click.Path):
    """A path that must not be empty: click takes an empty word for the current directory.

    A word is empty if it is a variable of the shell's that is not set.
    """

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """Return the path, or fail as click does."""
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


class Option(cloup.Option):
    """An option that shows its default in words as they are: click puts brackets around them."""

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:
        """Return the parts of the option's help apart from its text, such as the default."""
        extra = super().get_help_extra(ctx)
        if isinstance(self.show_default, str) and "default" in extra:
            extra["default"] = self.show_default
        return extra


option = functools.partial(cloup.option, cls=Option)


class Group(cloup.Group):
    """A group of commands, which its help lists first, each with its whole first sentence."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; for an unknown name, suggest the nearest, or one by its meaning."""
        name, names = args[0], self.list_commands(ctx)
        # A shell that completes a line needs the possible words, not an error.
        if name in names or name.startswith("-") or ctx.resilient_parsing:
            return click.Group.resolve_command(self, ctx, args)
        commands = {known: self.get_command(ctx, known) for known in names}
        summaries = {
            known: summary_of(command) for known, command in commands.items() if command is not None
        }
        meant = next((ours for ours in _ELSEWHERE.get(name, ()) if ours in summaries), None)
        raise unknown_name("command", name, summaries, meant=meant)

    def list_sections(
        self,
        ctx: click.Context,  # noqa: ARG002 - cloup's signature
        include_default_section: bool = True,  # noqa: ARG002 - cloup's signature
    ) -> list[cloup.Section]:
        """Return the headings and the commands under each, in the order of the code."""
        return [cloup.Section("Commands", dict(self.commands))]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands before the options."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_commands(ctx, formatter)
        self.format_params(ctx, formatter)
        self.format_epilog(ctx, formatter)

    def make_commands_help_section(
        self,
        ctx: click.Context,  # noqa: ARG002 - cloup's signature
        section: cloup.Section,
    ) -> cloup.formatting.HelpSection:
        """Return a heading's commands with their summaries."""
        summaries = [(name, summary_of(command)) for name, command in section.list_commands()]
        return cloup.formatting.HelpSection(section.title, summaries)


class GroupWithMain(Group):
    """A group that runs its main command, unless the first word is one of its commands."""

    main: cloup.Command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the words as one of the group's commands, else as its main command."""
        if args and args[0] in self.commands:
            return super().make_context(info_name, args, parent, **extra)
        return self.main.make_context(info_name, args, parent, **extra)


class MainCommand(cloup.Command):
    """The command that a group runs itself; its help shows the group's commands too."""

    group: GroupWithMain

    def serve(self, group: GroupWithMain) -> None:
        """Make this command the main command of a group."""
        self.group, group.main = group, self

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage, with a command as the alternative to the arguments."""
        return [*super().collect_usage_pieces(ctx), "|", "COMMAND"]

    def format_params(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the group's commands before the options."""
        self.group.format_commands(ctx, formatter)
        super().format_params(ctx, formatter)


def summary_of(command: click.Command) -> str:
    """Return the whole first sentence of a command's help."""
    return command.get_short_help_str(_WHOLE)


def examples(*lines: str) -> str:
    """Return the end of a command's help: examples that can be typed as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def output_option(
    help_text: str = "Directory of the runs.", *, kind: type[Path] | type[str] = Path
) -> Callable[[Any], Any]:
    """Add ``--output``: the directory in which runs are created or searched.

    Args:
        help_text: Help of the option. Default: "Where the runs lie."
        kind: Type of the value; ``str`` allows URIs. Default: a path.
    """
    return option(
        "--output",
        type=Filename(path_type=kind),
        show_default="TARMAC_RUNS or ./runs",
        help=help_text,
    )


def device_option() -> Callable[[Any], Any]:
    """Add ``--device``: the single device on which a model runs."""

    def named(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
        del ctx, parameter
        # A number alone is an index here, unlike with --devices, where it is a number of GPUs.
        return f"cuda:{value}" if value.isdecimal() else value

    return option(
        "--device",
        metavar="DEVICE",
        default="auto",
        show_default=True,
        callback=named,
        help="Device to compute on: auto, the index of a GPU, or cpu.",
    )


def checkpoint_option() -> Callable[[Any], Any]:
    """Add ``--checkpoint``: the weights of a run to use."""
    return option(
        "--checkpoint",
        type=Choice(CHECKPOINTS),
        default="last",
        show_default=True,
        help="Checkpoint to use: last, or best on held-out data.",
    )


def workload_option() -> Callable[[Any], Any]:
    """Add ``--workload``: the file of a run's workload, named by the user."""
    return option(
        "--workload",
        metavar="FILE:NAME",
        show_default="the one that the run names",
        help="Workload of the run, such as my_model.py:workload. Needed if the run or "
        "the file belongs to another user.",
    )


def json_option(help_text: str = "Print JSON, and only that.") -> Callable[[Any], Any]:
    """Add ``--json``, passed as ``as_json``."""
    return option("--json", "as_json", is_flag=True, help=help_text)


def count_option(*names: str, **attributes: Any) -> Callable[[Any], Any]:
    """Add an option for a count; the code that receives the count checks its minimum."""
    return option(*names, type=int, **{"metavar": "N"} | attributes)


def validation_split_option(default: str | None = None) -> Callable[[Any], Any]:
    """Add ``--validation-split``: the samples to hold out."""
    return option(
        "--validation-split",
        type=Choice(VALIDATION_SPLITS),
        default=default,
        show_default="auto",
        help="How to hold out samples. random: drawn by the seed, each class by its "
        "share; last: the last ones (--train-size then takes the first); own: the "
        "dataset's own validation samples; auto: the dataset's own, else the last "
        "ones of a series, else random.",
    )


def monitor_option() -> Callable[[Any], Any]:
    """Add ``--monitor``: the metric on held-out samples that decides."""
    return option(
        "--monitor",
        metavar="NAME",
        show_default="the workload's main metric",
        help="Metric on held-out samples for --patience and the best checkpoint, such as"
        " val_loss; NAME:max or NAME:min if the workload does not say which end is "
        "better.",
    )


def pairs_option(*names: str, **attributes: Any) -> Callable[[Any], Any]:
    """Add an option of the form ``KEY=VALUE`` that may be repeated, passed as a list of pairs."""

    def split(_ctx: click.Context, _option: click.Parameter, texts: Sequence[str]) -> Any:
        return [_split(names[0], text) for text in texts]

    return option(*names, multiple=True, callback=split, **{"metavar": "KEY=VALUE"} | attributes)


def _split(name: str, text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise RequestError(f"{name} {text!r} is not of the form KEY=VALUE")
    return key, value
