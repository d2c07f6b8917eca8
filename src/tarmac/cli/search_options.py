"""Options of ``tarmac search``, and the space and the workers that they define."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloup

from tarmac.cli.choices import METHODS, OBJECTIVES, PRUNING_RULES, TRACKERS, Choice
from tarmac.cli.completion import complete_objectives, complete_studies
from tarmac.cli.options import (
    Filename,
    count_option,
    json_option,
    monitor_option,
    option,
    output_option,
    validation_split_option,
)
from tarmac.cli.places import place_options
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from tarmac.settings import Settings
    from tarmac.studies import Workers


def search_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the space, the method, the end and the place of a search."""
    groups = (
        cloup.option_group(
            "Search space",
            option(
                "--space",
                "space_file",
                metavar="FILE",
                type=Filename(path_type=Path),
                help="YAML file with parameters and their values.",
            ),
            option(
                "--set",
                "settings",
                multiple=True,
                metavar="KEY=VALUES",
                help="Search over a setting: v1,v2, lo..hi, lo..hi:log or lo..hi:step; a"
                " single value fixes it. May be repeated.",
            ),
            option(
                "--objective",
                metavar="NAMES",
                show_default="the workload's main metric",
                shell_complete=complete_objectives,
                help=f"Objectives, the most important first: {', '.join(OBJECTIVES)}, or another "
                "metric of the workload, such as val_mae; mae:min if the workload does not say "
                "which end is better.",
            ),
        ),
        cloup.option_group(
            "Search method",
            option(
                "--method",
                type=Choice(METHODS, "tarmac.search_methods"),
                show_default="evolve",
                help="Evolution, all networks, random draws, or an Optuna sampler.",
            ),
            count_option(
                "--generations",
                show_default="10",
                help="Maximum number of generations of the evolution.",
            ),
            count_option(
                "--population",
                show_default="20",
                help="Networks per generation, including survivors.",
            ),
            option(
                "--retain",
                type=float,
                metavar="SHARE",
                show_default="0.4",
                help="Share of networks that survives by fitness.",
            ),
            option(
                "--random-select",
                type=float,
                metavar="CHANCE",
                show_default="0.1",
                help="Chance of each other network to survive.",
            ),
            option(
                "--mutate",
                type=float,
                metavar="CHANCE",
                show_default="0.2",
                help="Chance of a child to have one gene changed.",
            ),
            option(
                "--seed",
                type=int,
                metavar="N",
                show_default="0",
                help="Seed of all draws of the search, and of each training.",
            ),
        ),
        cloup.option_group(
            "Limits",
            count_option("--trials", help="Stop after N trainings."),
            option("--budget", metavar="TIME", help="Stop after this time, such as 30m or 2h."),
            option(
                "--prune",
                type=Choice(PRUNING_RULES, "tarmac.pruning_rules"),
                show_default="none",
                help="Rule that stops bad networks early.",
            ),
            count_option(
                "--confirm",
                show_default="0",
                help="Train the best N networks with two more seeds at the end.",
            ),
        ),
        cloup.option_group(
            "Each training",
            count_option(
                "--epochs",
                show_default="the workload's",
                help="Maximum number of epochs per network.",
            ),
            monitor_option(),
            count_option(
                "--patience", help="Stop a network after N epochs without a better --monitor."
            ),
            count_option(
                "--train-size",
                show_default="all",
                help="Train on N samples, chosen as --validation-split says.",
            ),
            count_option(
                "--validation-size",
                show_default="the dataset's own, else a sixth of the samples, at most 10,000",
                help="Number of training samples to hold out for scoring the networks.",
            ),
            validation_split_option(),
        ),
        cloup.option_group(
            "Devices and cluster",
            option(
                "--devices",
                "--device",
                "devices",
                metavar="DEVICES",
                show_default="auto",
                help="Devices, as for tarmac train.",
            ),
            count_option(
                "--workers",
                show_default="by devices; 1 on a cluster",
                help="Networks to train at the same time; on a cluster, the number of "
                "workers that train networks.",
            ),
            option(
                "--storage", metavar="URL", help="Optuna database to use instead of a journal file."
            ),
            output_option("Directory in which to create the study."),
            option(
                "--log-to",
                multiple=True,
                type=Choice(TRACKERS),
                help="Log every network to a tracker as well. May be repeated.",
            ),
            option(
                "--resume",
                metavar="STUDY",
                shell_complete=complete_studies,
                help="Resume a stopped study: its directory, its name, or latest.",
            ),
            option(
                "--dry-run",
                is_flag=True,
                help="Print the search space, and the files for a cluster; start nothing.",
            ),
            option(
                "--yaml",
                "as_yaml",
                is_flag=True,
                help="With --dry-run: print only a study file to edit.",
            ),
            json_option("Print the result as JSON, and only that."),
        ),
        cloup.option_group(
            "On a cluster",
            *place_options("Place of the workers.", default="local, this machine"),
            option(
                "--cpus-per-worker",
                metavar="N",
                type=float,
                default=1.0,
                show_default=True,
                help="Cores per worker.",
            ),
            option(
                "--gpus-per-worker",
                metavar="N",
                type=float,
                default=0.0,
                show_default=True,
                help="GPUs per worker.",
            ),
            option(
                "--memory-per-worker",
                metavar="SIZE",
                show_default="unlimited",
                help="Memory limit per worker, such as 8GiB.",
            ),
            option(
                "--time-per-worker",
                metavar="TIME",
                show_default="the cluster's",
                help="Time limit per worker, such as 4h; another worker follows while "
                "trials are left.",
            ),
        ),
    )
    for group in reversed(groups):
        function = group(function)
    return function


def space_of(file: Path | None, settings: Sequence[str]) -> dict[str, Any]:
    """Return the parameters to search over, with their values.

    Args:
        file: YAML file of the parameters. None: only ``settings``.
        settings: Values of ``--set``. Each replaces the file's values for its parameter.

    Raises:
        RequestError: A parameter cannot be read, or is given twice.
    """
    from tarmac.studies import parse_set, read_space

    space: dict[str, Any] = {} if file is None else dict(read_space(file))
    named: dict[str, str] = {}
    for text in settings:
        key, values = parse_set(text)
        if key in named:
            raise RequestError(f"--set {key} is given twice: {named[key]!r} and {text!r}")
        named[key] = text
        space[key] = values
    return space


def workers_of(
    place: Settings,
    count: int,
    cpus: float,
    gpus: float,
    memory: str | None,
    time: str | None,
) -> Workers:
    """Return the request for workers on a cluster.

    Args:
        place: Executor and its options, from ``--on`` and the settings. ``on`` must be set.
        count: Maximum number of workers at once.
        cpus: CPU cores per worker. The option's default is 1.
        gpus: GPUs per worker. The option's default is 0.
        memory: Memory per worker, such as ``8GiB``. None: no request.
        time: Time limit per worker, such as ``4h``. None: no limit.

    Raises:
        RequestError: A size or a time cannot be read, or a number is too small.
    """
    from tarmac.documents import parse_bytes, parse_seconds
    from tarmac.studies import Workers

    def parsed(name: str, text: str | None, parse: Callable[[Any], Any]) -> Any:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise RequestError(f"--{name}-per-worker is {text!r}: {error}") from error

    assert place.on is not None
    return Workers(
        on=place.on,
        count=count,
        cpus=cpus,
        gpus=gpus,
        memory=parsed("memory", memory, parse_bytes),
        time_s=parsed("time", time, parse_seconds),
        options=place.options,
    )
