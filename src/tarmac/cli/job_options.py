"""Common options of ``tarmac run`` and ``submit``: the job, and where it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from tarmac.cli.choices import RUNNER_PLACES
from tarmac.cli.job_files import secret_places
from tarmac.cli.options import Filename, count_option, option, output_option, pairs_option
from tarmac.cli.places import place_options
from tarmac.errors import RequestError
from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.jobs import RunRequest

job_files = cloup.argument(
    "files",
    nargs=-1,
    metavar="[FILE]...",
    type=Filename(path_type=Path),
    help="Job files of Tarmac, HKube or Batch Shipyard; a folder stands for the Batch "
    "Shipyard files in it.",
)


def job_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the job, and for the place where it runs."""
    groups = (
        cloup.option_group(
            "The job",
            pairs_option(
                "--set",
                "settings",
                help="Change a value of the file, such as resources.cpus=2. May be repeated.",
            ),
            option(
                "--secret",
                "secrets",
                multiple=True,
                metavar="NAME/KEY=env:VAR",
                help="Source of a named secret: env:VARIABLE or file:PATH. May be repeated.",
            ),
            option(
                "--input",
                "input_file",
                type=Filename(path_type=Path),
                metavar="FILE",
                help="JSON or YAML. For an HKube algorithm: its list of inputs, or "
                "{input: [...], taskId: ID}; for a pipeline: its flowInput.",
            ),
            option(
                "--algorithms",
                type=Filename(path_type=Path),
                metavar="DIR",
                show_default="beside the pipeline's file",
                help="Directory with the definitions of the algorithms and pipelines "
                "that a pipeline names.",
            ),
        ),
        cloup.option_group(
            "Place",
            *place_options(
                "Place of the tasks.",
                default="on in the settings, else local; a resumed run keeps its place",
            ),
            option(
                "--runner",
                type=click.Choice(RUNNER_PLACES),
                show_default="here; for submit on a cluster: runner in the settings, else engine",
                help="Place of the process that hands out the tasks: here, or a job of "
                "the cluster.",
            ),
            count_option(
                "--jobs",
                "concurrency",
                show_default="as many as fit",
                help="Run at most N tasks at the same time.",
            ),
            option(
                "--keep-going",
                is_flag=True,
                help="Start a cluster's remaining tasks even if the first twenty all failed alike.",
            ),
            option(
                "--fake-gpus",
                type=click.IntRange(min=0),
                metavar="N",
                default=0,
                show_default=True,
                help="Pretend that this machine has N GPUs, to try a file without them.",
            ),
            output_option("Directory in which to create the runs."),
        ),
    )
    for group in reversed(groups):
        function = group(function)
    return function


def run_request(options: Mapping[str, Any], *, quiet: bool) -> RunRequest:
    """Check those values of `job_options` that are not part of the job, and return a request.

    Args:
        options: Click's values by field name of the request; ``secrets`` are still texts.
        quiet: Whether to suppress the note on pretended GPUs, on stderr.

    Raises:
        RequestError: A value or the user's file of secrets is invalid.
    """
    from tarmac.jobs import RunRequest, read_secret_mapping

    concurrency, fake_gpus = options["concurrency"], options["fake_gpus"]
    if concurrency is not None and concurrency < 1:
        raise RequestError(f"jobs is {concurrency}, expected at least 1")
    if fake_gpus and not quiet:
        click.secho(
            f"{counted(fake_gpus, 'GPU')} PRETENDED (--fake-gpus): programs will find none",
            fg="yellow",
            err=True,
        )
    secrets = read_secret_mapping() | secret_places(options["secrets"])
    return RunRequest(**{**options, "secrets": secrets})
