"""``tarmac check``: parse, call, render."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup

from tarmac.cli.check_text import print_failure, print_report
from tarmac.cli.choices import FRAMEWORKS
from tarmac.cli.completion import complete_files, complete_frameworks
from tarmac.cli.options import examples, json_option, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.checks import Report

__all__ = ["command"]


@cloup.command(
    "check",
    epilog=examples(
        "tarmac check",
        "tarmac check torch jax",
        "tarmac check --python ~/venvs/jax/bin/python",
        "tarmac check --provision tensorflow",
        "tarmac check --quick --require 'gpus>=8' --require 'gpu_memory>=80' --json",
        "tarmac check --soak 10m",
        "srun tarmac check --ranks all",
        "tarmac check --explain no-driver",
    ),
)
@cloup.argument(
    "frameworks",
    nargs=-1,
    metavar="[FRAMEWORK]...",
    shell_complete=complete_frameworks,
    help=f"Of {', '.join(FRAMEWORKS)}; those that are installed if none is named.",
)
@cloup.option_group(
    "What is checked",
    option(
        "--python",
        "pythons",
        multiple=True,
        metavar="PATH",
        shell_complete=complete_files,
        help="Check what this interpreter has, instead of Tarmac's own; may be repeated.",
    ),
    option(
        "--image",
        "images",
        multiple=True,
        metavar="IMAGE",
        help="Check what a container image has; may be repeated.",
    ),
    option(
        "--provision",
        multiple=True,
        metavar="FRAMEWORK",
        shell_complete=complete_frameworks,
        help="Build an environment of pinned versions for a framework, once, and check that; may "
        "be repeated.",
    ),
    option(
        "--device",
        "devices",
        multiple=True,
        metavar="DEVICE",
        show_default="all",
        help="cuda, cuda:INDEX or cpu; may be repeated.",
    ),
)
@cloup.option_group(
    "How thoroughly",
    option("--quick", is_flag=True, help="The machine, and PyTorch alone; no rates."),
    option("--deep", is_flag=True, help="Measure longer, fill memory, all Keras backends."),
    option(
        "--ranks",
        metavar="N|all",
        show_default="the number of GPUs",
        help="Processes that add numbers up together, by PyTorch and Horovod; 2 or more. all: "
        "those that srun, torchrun or mpirun has started this command as, on all hosts; which host "
        "is slow, gone or different?",
    ),
    option(
        "--timeout",
        "timeout_s",
        type=float,
        metavar="SECONDS",
        default=120.0,
        show_default=True,
        help="How long each framework may take.",
    ),
)
@cloup.option_group(
    "Does it stay right?",
    option(
        "--soak",
        metavar="TIME",
        help="Keep all GPUs (the CPU where there is none) at work for so long, such as 60s or "
        "10m: products, copies and memory patterns, compared bit for bit. A device that gives no "
        "sign for --timeout counts as hung.",
    ),
)
@cloup.option_group(
    "As a gate",
    option(
        "--require",
        multiple=True,
        metavar="WHAT",
        help="Exit with 1 unless it holds; may be repeated. WHAT is a framework, which then has to "
        "compute; gpu; or NAME and a number, joined by >=, >, ==, <= or <. NAME is gpus, cpus, "
        "gpu_memory (GiB, of the smallest), memory or shm (GiB), driver or cuda (versions).",
    ),
)
@cloup.option_group(
    "Output",
    json_option("Print the report as JSON, and only that."),
    option(
        "--html",
        "page",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write a page as well.",
    ),
    option("--names", is_flag=True, help="Leave user names and home directories in the report."),
    option(
        "--explain",
        metavar="CODE",
        help="Print what is known of a failure, by the code that a check shows; check nothing.",
    ),
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    frameworks: Sequence[str],
    pythons: Sequence[str],
    images: Sequence[str],
    provision: Sequence[str],
    quick: bool,
    deep: bool,
    devices: Sequence[str],
    ranks: str | None,
    require: Sequence[str],
    as_json: bool,
    page: Path | None,
    explain: str | None,
    names: bool,
    timeout_s: float,
    soak: str | None,
) -> None:
    """Prove that frameworks compute on this machine's devices; else say what is wrong.

    Exits with 0 when all that is required holds (without --require: when nothing failed), with 1
    when not, with 2 when the request was wrong.
    """
    from tarmac.checks import check, check_ranks, find_failure
    from tarmac.cli.ranks_text import ranks_of
    from tarmac.cli.soak_text import has_mismatch, seconds_of, soaking
    from tarmac.errors import Interrupted, RequestError

    if explain is not None:
        print_failure(find_failure(explain), as_json=as_json)
        return
    if quick and deep:
        raise RequestError("--quick and --deep exclude each other")
    number = ranks_of(ranks)
    if number == "all":
        if frameworks or images or provision or quick or deep or soak or len(pythons) > 1:
            raise RequestError(
                "--ranks all goes with --python, --device, --require, --timeout and output options"
            )
        together = check_ranks(
            python=next(iter(pythons), None),
            devices=devices,
            require=require,
            timeout_s=timeout_s,
        )
        if together.report is None:
            ctx.exit(together.exit_code)
        ctx.exit(_show(together.report, as_json=as_json, page=page, names=names))
    with soaking(is_asked=soak is not None) as (stop, tell):
        report = check(
            frameworks,
            pythons=pythons,
            images=images,
            provision=provision,
            depth="quick" if quick else "deep" if deep else "normal",
            devices=devices,
            ranks=number,
            require=require,
            timeout_s=timeout_s,
            soak_s=None if soak is None else seconds_of(soak),
            stop=stop,
            tell=tell,
        )
    code = _show(report, as_json=as_json, page=page, names=names)
    if report.soak is not None and report.soak.interrupted and not has_mismatch(report):
        raise Interrupted("interrupted", hint="What is above was done until then.")
    ctx.exit(code)


def _show(report: Report, *, as_json: bool, page: Path | None, names: bool) -> int:
    """Print a report, and return the exit code."""
    from tarmac.checks import render_page, without_names
    from tarmac.files import write_text

    if not names:
        report = without_names(report, os.environ)
    if page is not None:
        write_text(page, render_page(report))
    if as_json:
        # By the model, which writes null for a number that is none: JSON has no NaN.
        facts = json.loads(report.model_dump_json())
        click.echo(json.dumps({"ok": report.ok, **facts}, indent=2))
    else:
        print_report(report)
        if page is not None:
            click.echo(f"page {page}")
    return 0 if report.ok else 1
