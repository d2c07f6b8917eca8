"""``tarmac check``: parse, call, render."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup

from tarmac.cli.check_refusals import (
    refuse_beside_all_ranks,
    refuse_beside_nodes,
    refuse_beside_race,
    refuse_checking,
)
from tarmac.cli.choices import FAIL_ON, FORMATS, FRAMEWORKS, Choice
from tarmac.cli.commands.check_compare import compare
from tarmac.cli.completion import complete_codes, complete_files, complete_frameworks
from tarmac.cli.nodes_check import check_nodes
from tarmac.cli.options import Filename, GroupWithMain, MainCommand, examples, json_option, option
from tarmac.cli.places import profile_option
from tarmac.cli.views.check import print_failure
from tarmac.cli.views.check_forms import choose_format, errors_as, print_as, write_files
from tarmac.cli.views.log import print_log_report
from tarmac.cli.views.race import print_race
from tarmac.errors import Interrupted, RequestError

if TYPE_CHECKING:
    from tarmac.checks import Level


@cloup.command(
    "check",
    cls=MainCommand,
    epilog=examples(
        "tarmac check",
        "tarmac check torch jax",
        "tarmac check --python ~/venvs/jax/bin/python",
        "tarmac check --provision tensorflow",
        "tarmac check --quick --require 'gpus>=8' --require 'gpu_memory>=80' --json",
        "tarmac check --race",
        "tarmac check --soak 10m",
        "srun tarmac check --ranks all",
        "tarmac check --explain no-driver",
        "tarmac check --read train.log",
        "dmesg | tarmac check --read -",
        "tarmac check --save good.json",
        "tarmac check --against good.json --brief",
        "tarmac check compare n01.json n02.json n03.json",
        "tarmac check --on slurm",
        "tarmac check --on kubernetes --image registry.example/tarmac:1",
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
        help="Check what a container image has; may be repeated. With --on kubernetes: the image "
        "that has Tarmac, which nodes run.",
    ),
    option(
        "--conda",
        "condas",
        multiple=True,
        metavar="NAME|FILE",
        help="Check what an environment of conda's has: one that exists, by its name or directory, "
        "or an environment.yml, by which one is built; may be repeated.",
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
    "A cluster's nodes instead",
    option(
        "--on",
        type=Choice(("slurm", "kubernetes")),
        help="Look at the nodes by a small job on each, and say what they have. slurm: Python, "
        "containers, GPUs, and whether they see this directory. kubernetes: whether a pod of "
        "--image begins there, and its GPUs compute. Exits with 1 where one is not fit for tasks, "
        "with 3 where one could not be looked at within --timeout.",
    ),
    profile_option(),
)
@cloup.option_group(
    "A log instead",
    option(
        "--read",
        "log",
        metavar="FILE",
        shell_complete=complete_files,
        help="Say which known failures a log of any program shows, - for the standard input, and "
        "check nothing. Exits with 1 when there is one; a note alone is none.",
    ),
)
@cloup.option_group(
    "How much faster is the GPU?",
    option(
        "--race",
        "is_race",
        is_flag=True,
        help="Train one network on the CPU and on each GPU, by PyTorch, for some seconds each, and "
        "print how many images a second each takes; check nothing else.",
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
    option(
        "--xid-hours",
        type=float,
        metavar="HOURS",
        default=24.0,
        show_default=True,
        help="How long ago an error in the kernel's log (Xid) may have been to count.",
    ),
    option(
        "--expect",
        metavar="FILE",
        type=Filename(path_type=Path),
        help="Exit with 1 unless this machine is what a TOML file says; tarmac schema expect.",
    ),
    option(
        "--against",
        metavar="FILE",
        type=Filename(path_type=Path),
        help="Exit with 1 where this machine is worse than a report of --save: a rate by more than "
        "5 %, driver, firmware, GPUs, memory or links changed.",
    ),
    option(
        "--save",
        metavar="FILE",
        type=Filename(dir_okay=False, path_type=Path),
        help="Write the report for --against and compare, where the check ends with 0.",
    ),
    option(
        "--fail-on",
        type=Choice(FAIL_ON),
        show_default="failure; with --require nothing, as that decides alone",
        help="Exit with 1 for findings of this level or a higher one.",
    ),
    option(
        "--only",
        multiple=True,
        metavar="CODE",
        shell_complete=complete_codes,
        help="Look for this failure alone, by the code that a check shows; may be repeated.",
    ),
    option(
        "--skip",
        multiple=True,
        metavar="CODE",
        shell_complete=complete_codes,
        help="Say this failure where it is found, and do not count it; may be repeated.",
    ),
)
@cloup.option_group(
    "Output",
    option(
        "--format",
        "form",
        type=Choice(FORMATS),
        show_default="text",
        help="Print the report for people, as JSON, as a line, as a Nagios plugin does (with its "
        "exit codes), as JUnit's XML, or for Prometheus; and only that.",
    ),
    json_option("Short for --format json."),
    option("--brief", is_flag=True, help="Short for --format brief: a line of 80 characters."),
    option(
        "--html",
        "page",
        metavar="FILE",
        type=Filename(dir_okay=False, path_type=Path),
        help="Write a page as well.",
    ),
    option(
        "--verbose",
        is_flag=True,
        help="Print devices too, and where each operation of each framework ran.",
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
    condas: Sequence[str],
    provision: Sequence[str],
    quick: bool,
    deep: bool,
    devices: Sequence[str],
    ranks: str | None,
    require: Sequence[str],
    expect: Path | None,
    against: Path | None,
    save: Path | None,
    fail_on: Level | None,
    only: Sequence[str],
    skip: Sequence[str],
    form: str | None,
    as_json: bool,
    brief: bool,
    page: Path | None,
    explain: str | None,
    log: str | None,
    names: bool,
    verbose: bool,
    timeout_s: float,
    xid_hours: float,
    soak: str | None,
    is_race: bool,
    on: str | None,
    profile: str | None,
) -> None:
    """Check that frameworks compute on this machine's devices, and report what is wrong.

    Exits with 0 if all requirements hold (without --require: if nothing failed), with 1 if not,
    with 2 if the request was wrong, with 3 if there was no answer from a driver, a GPU or a
    program.
    """
    from tarmac.checks import check, check_ranks, find_failure, note_check, race, read_log
    from tarmac.cli.views.ranks import ranks_of
    from tarmac.cli.views.soak import has_mismatch, seconds_of, soaking

    if explain is not None:
        print_failure(find_failure(explain), as_json=as_json or form == "json")
        return
    if log is not None:
        refuse_checking(ctx)
        read = read_log(log, names=names)
        if read.is_whole and not read.num_lines:
            raise RequestError(
                f"{read.name} is empty",
                hint="Did the command before the pipe fail?" if log == "-" else None,
            )
        print_log_report(read, as_json=as_json)
        if not read.is_whole:
            raise Interrupted("interrupted")
        ctx.exit(0 if read.ok else 1)
    if is_race:
        refuse_beside_race(ctx)
        raced = race(
            python=next(iter(pythons), None),
            image=next(iter(images), None),
            devices=devices,
            timeout_s=timeout_s,
        )
        print_race(raced, as_json=as_json)
        ctx.exit(0 if all(racer.is_right for racer in raced.racers) else 1)
    if on is not None or profile is not None:
        refuse_beside_nodes(ctx)
        ctx.exit(check_nodes(on, profile, timeout_s, images=images, as_json=as_json))
    form = choose_format(form, as_json=as_json, brief=brief)
    with errors_as(form):
        if quick and deep:
            raise RequestError("--quick and --deep exclude each other")
        number = ranks_of(ranks)
        if number == "all":
            refuse_beside_all_ranks(ctx)
            together = check_ranks(
                python=next(iter(pythons), None),
                devices=devices,
                require=require,
                timeout_s=timeout_s,
            )
            if together.report is None:
                ctx.exit(together.exit_code)
            report = together.report
        else:
            with soaking(is_asked=soak is not None) as (stop, tell):
                report = check(
                    frameworks,
                    pythons=pythons,
                    images=images,
                    condas=condas,
                    provision=provision,
                    depth="quick" if quick else "deep" if deep else "normal",
                    devices=devices,
                    ranks=number,
                    require=require,
                    expect=expect,
                    against=against,
                    fail_on=fail_on,
                    only=only,
                    skip=skip,
                    timeout_s=timeout_s,
                    xid_hours=xid_hours,
                    soak_s=None if soak is None else seconds_of(soak),
                    stop=stop,
                    tell=tell,
                )
            note_check(report)
        report = write_files(report, page=page, save=save, names=names)
    code = print_as(form, report, page, verbose=verbose)
    if report.soak is not None and report.soak.interrupted and not has_mismatch(report):
        raise Interrupted("interrupted", hint="What is above was done until then.")
    ctx.exit(code)


@click.group("check", cls=GroupWithMain)
def group() -> None:
    """Check that frameworks compute on this machine's devices, and report what is wrong."""


group.add_command(compare)
command.serve(group)
