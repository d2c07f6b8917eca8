"""``tarmac search worker``: parse, call, set the exit code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import cloup

from tarmac.cli.commands.search_studies import study_argument
from tarmac.cli.imports import gc_paused
from tarmac.cli.options import count_option, examples, option, output_option
from tarmac.cli.output import outlives_output
from tarmac.errors import RequestError


@cloup.command(
    "worker", epilog=examples("tarmac search worker STUDY --of 16", "tarmac search worker STUDY")
)
@study_argument
@count_option(
    "--of", "count", default=1, show_default=True, help="Number of workers that share the study."
)
@option(
    "--time",
    metavar="TIME",
    show_default="as long as there are networks",
    help="How long the worker may run, such as 4h; it starts no network that takes longer.",
)
@output_option("Directory of the studies.")
@option("--storage", metavar="URL", envvar="TARMAC_STUDY_STORAGE", help="Database of the study.")
@click.pass_context
def worker(
    ctx: click.Context,
    study: str,
    count: int,
    time: str | None,
    output: Path | None,
    storage: str | None,
) -> None:
    """Train networks of a study together with other workers, until none is left.

    The last worker concludes the study. Exits with 75 if the time is over and networks are left.
    """
    with gc_paused():
        from tarmac.cli.views.search import reporter_for
        from tarmac.documents import parse_seconds
        from tarmac.studies import AGAIN, Terms, open_study, run_worker, time_left

    try:
        limit_s = None if time is None else parse_seconds(time)
    except ValueError as error:
        raise RequestError(f"--time is {time!r}: {error}") from error
    fields: dict[str, Any] = {} if storage is None else {"storage": storage}
    left_s = time_left(limit_s, os.environ)
    writer = open_study(resume=study, output=output, **fields)
    with outlives_output(), reporter_for(quiet=False) as reporter:
        leave = run_worker(writer, reporter, Terms(workers=count, time_left_s=left_s))
    ctx.exit(0 if leave in ("concluded", "others") else AGAIN)
