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
    help=f"Frameworks to check: {', '.join(FRAMEWORKS)}. Default: the installed ones.",
)
@cloup.option_group(
    "What is checked",
    option(
        "--python",
        "pythons",
        multiple=True,
        metavar="PATH",
        shell_complete=complete_files,
        help="Check the frameworks of this interpreter instead of Tarmac's own. May be repeated.",
    ),
    option(
        "--image",
        "images",
        multiple=True,
        metavar="IMAGE",
        help="Check the frameworks of a container image. May be repeated. With --on "
        "kubernetes: the image with Tarmac that each node runs.",
    ),
    option(
        "--conda",
        "condas",
        multiple=True,
        metavar="NAME|FILE",
        help="Check the frameworks of a conda environment: an existing one, by name or "
        "directory, or an environment.yml to build one from. May be repeated.",
    ),
    option(
        "--provision",
        multiple=True,
        metavar="FRAMEWORK",
        shell_complete=complete_frameworks,
        help="Build an environment with pinned versions of a framework, once, and check "
        "it. May be repeated.",
    ),
    option(
        "--device",
        "devices",
        multiple=True,
        metavar="DEVICE",
        show_default="all",
        help="Device to check: cuda, cuda:INDEX or cpu. May be repeated.",
    ),
)
@cloup.option_group(
    "Depth",
    option("--quick", is_flag=True, help="Check the machine and PyTorch only; measure no rates."),
    option(
        "--deep",
        is_flag=True,
        help="Measure longer, fill the memory, and check all Keras backends.",
    ),
    option(
        "--ranks",
        metavar="N|all",
        show_default="the number of GPUs",
        help="Check an all-reduce of N processes on this machine, by PyTorch and "
        "Horovod; at least 2. all: check the ranks that srun, torchrun or mpirun "
        "started this command as, on all hosts, and report slow, missing or "
        "different hosts.",
    ),
    option(
        "--timeout",
        "timeout_s",
        type=float,
        metavar="SECONDS",
        default=120.0,
        show_default=True,
        help="Time limit for each framework.",
    ),
)
@cloup.option_group(
    "Check a cluster's nodes instead",
    option(
        "--on",
        type=Choice(("slurm", "kubernetes")),
        help="Check the nodes of a cluster with a small job on each. slurm: Python, "
        "containers, GPUs, and access to this directory. kubernetes: whether a pod "
        "of --image starts, and whether its GPUs compute. Exits with 1 if a node is"
        " not fit for tasks, with 3 if a node gave no answer within --timeout.",
    ),
    profile_option(),
)
@cloup.option_group(
    "Read a log instead",
    option(
        "--read",
        "log",
        metavar="FILE",
        shell_complete=complete_files,
        help="Find known failures in the log of any program, - for the standard input, "
        "and check nothing else. Exits with 1 if there is a failure; notes do not "
        "count.",
    ),
)
@cloup.option_group(
    "CPU and GPU compared",
    option(
        "--race",
        "is_race",
        is_flag=True,
        help="Train one network on the CPU and on each GPU with PyTorch, for some "
        "seconds each, print the images per second, and check nothing else.",
    ),
)
@cloup.option_group(
    "Burn-in",
    option(
        "--soak",
        metavar="TIME",
        help="Keep all GPUs busy (the CPU if there are none) for a time such as 60s or "
        "10m, and compare products, copies and memory patterns bit for bit. A "
        "device without progress for --timeout counts as hung.",
    ),
)
@cloup.option_group(
    "As a gate",
    option(
        "--require",
        multiple=True,
        metavar="WHAT",
        help="Exit with 1 unless a requirement holds. May be repeated. WHAT is a "
        "framework, which must compute; gpu; or NAME and a number, joined by >=, >,"
        " ==, <= or <. NAME is gpus, cpus, gpu_memory (GiB, of the smallest GPU), "
        "memory or shm (GiB), driver or cuda (versions).",
    ),
    option(
        "--xid-hours",
        type=float,
        metavar="HOURS",
        default=24.0,
        show_default=True,
        help="Maximum age of errors in the kernel's log (Xid) that count.",
    ),
    option(
        "--expect",
        metavar="FILE",
        type=Filename(path_type=Path),
        help="Exit with 1 unless this machine matches a TOML file; see tarmac schema expect.",
    ),
    option(
        "--against",
        metavar="FILE",
        type=Filename(path_type=Path),
        help="Exit with 1 if this machine is worse than a report of --save: a rate lower"
        " by more than 5 %, or another driver, firmware, GPU, memory or link.",
    ),
    option(
        "--save",
        metavar="FILE",
        type=Filename(dir_okay=False, path_type=Path),
        help="Write the report for --against and compare, if the check exits with 0.",
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
        help="Look only for this failure, by the code that a check shows. May be repeated.",
    ),
    option(
        "--skip",
        multiple=True,
        metavar="CODE",
        shell_complete=complete_codes,
        help="Report this failure, but do not count it. May be repeated.",
    ),
)
@cloup.option_group(
    "Output",
    option(
        "--format",
        "form",
        type=Choice(FORMATS),
        show_default="text",
        help="Print the report as text, as JSON, as one line, for Nagios (with its exit "
        "codes), as JUnit XML, or for Prometheus, and print nothing else.",
    ),
    json_option("Short for --format json."),
    option("--brief", is_flag=True, help="Print one line of 80 characters, like --format brief."),
    option(
        "--html",
        "page",
        metavar="FILE",
        type=Filename(dir_okay=False, path_type=Path),
        help="Write the report as an HTML page as well.",
    ),
    option(
        "--verbose",
        is_flag=True,
        help="Print the devices too, and the device of each operation of each framework.",
    ),
    option("--names", is_flag=True, help="Keep user names and home directories in the report."),
    option(
        "--explain",
        metavar="CODE",
        help="Print the description of a failure, by the code that a check shows, and "
        "check nothing.",
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
                hint="Check whether the command before the pipe failed." if log == "-" else None,
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
        raise Interrupted("interrupted", hint="The report above covers the time before.")
    ctx.exit(code)


@click.group("check", cls=GroupWithMain)
def group() -> None:
    """Check that frameworks compute on this machine's devices, and report what is wrong."""


group.add_command(compare)
command.serve(group)
