"""``tarmac train``: parse, call, show progress, print the verdict."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from tarmac.cli.completion import complete_workloads
from tarmac.cli.failed_work import explaining_failure
from tarmac.cli.imports import gc_paused
from tarmac.cli.lead_process import is_rank_zero
from tarmac.cli.options import examples
from tarmac.cli.output import outlives_output
from tarmac.cli.prefetch import prefetching
from tarmac.cli.train_checks import (
    SELFTEST_OPTIONS,
    SUMMARY_OPTIONS,
    check_beginning,
    cluster_of,
    once_each,
    refuse_changes,
)
from tarmac.cli.train_options import train_options
from tarmac.cli.training_elsewhere import given_options, train_there
from tarmac.cli.training_end import conclude
from tarmac.cli.training_selftest import run_selftest
from tarmac.cli.views.layers import print_layers
from tarmac.cli.views.workloads import print_workloads
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from tarmac.cli.preflight import Checking


@cloup.command(
    "train",
    epilog=examples(
        "tarmac train --list",
        "tarmac train digits-mlp --verify",
        "tarmac train mnist-mlp --epochs 5 --precision fp32 --seed 1",
        "tarmac train gpt2-124m --steps 50",
        "tarmac train mnist-convnet --devices all --scale-lr linear",
        "tarmac train my_model.py:workload --set hidden=64",
        "tarmac train my_model.py:workload --selftest",
        "tarmac train --resume latest",
        "tarmac train --from-checkpoint latest --epochs 40",
        "tarmac train my_model.py:workload --init-from weights.safetensors",
        "tarmac train mnist-convnet --on slurm --nodes 2 --gpus-per-node 8",
    ),
)
@cloup.argument(
    "workload",
    required=False,
    shell_complete=complete_workloads,
    help="Name from --list, or a file and a name in it: my_model.py:workload.",
)
@train_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    workload: str | None,
    list_them: bool,
    summary: bool,
    settings: Sequence[tuple[str, str]],
    output: str | None,
    resumed: str | None,
    from_checkpoint: str | None,
    as_json: bool,
    verbose: bool,
    verify: bool,
    selftest: bool,
    no_check: bool,
    no_sampling: bool,
    fused: str,
    compile_: str,
    on: str | None,
    profile: str | None,
    nodes: int,
    gpus_per_node: int,
    cpus_per_node: int | None,
    **options: Any,
) -> None:
    """Train a workload and compare the result with its expectation.

    The command creates a run, which --resume continues.
    """
    if list_them:
        print_workloads(workload, as_json=as_json)
        return
    if summary or selftest:
        _look_at(ctx, workload, once_each(settings), selftest=selftest, as_json=as_json)
        return
    check_beginning(ctx, workload, resumed, from_checkpoint)
    place = cluster_of(ctx, on, profile)
    if place is not None:
        run = train_there(
            ctx,
            place,
            workload,
            resumed,
            output,
            from_checkpoint=from_checkpoint,
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            cpus_per_node=cpus_per_node,
            max_restarts=options["max_restarts"],
            quiet=as_json,
        )
        conclude(run, as_json=as_json, verify=verify)
        return
    devices, strategy = options["devices"], options["strategy"]
    if "TARMAC_NODES" in os.environ:
        _start_ranks(ctx, devices, resumed, output)
    is_new = resumed is None and from_checkpoint is None
    begun = prefetching(workload if is_new else None, devices=devices, strategy=strategy)
    with begun as load, gc_paused():
        from tarmac.cli.views.training import reporter_for
        from tarmac.training import extend, resume, train
        from tarmac.workloads import find_workload

    if verify and workload is not None and find_workload(workload).expectation is None:
        raise RequestError(f"{workload} has no expectation to verify")
    is_quiet = as_json or not is_rank_zero()
    checked: Checking | None = None
    with contextlib.ExitStack() as opened:
        opened.enter_context(outlives_output(unless=as_json))
        reporter = opened.enter_context(reporter_for(quiet=is_quiet, verbose=verbose))
        if is_rank_zero():
            opened.enter_context(explaining_failure(resumed or "latest", output, as_json=as_json))
        if is_rank_zero() and not no_check:
            from tarmac.cli.preflight import checking

            reporter = checked = opened.enter_context(checking(reporter, quiet=is_quiet))
        if resumed is not None:
            own = any(parameter.name == "devices" for parameter in given_options(ctx))
            run = resume(
                resumed,
                output=output,
                workload=workload,
                devices=devices if own else None,
                reporter=reporter,
            )
        elif from_checkpoint is not None:
            run = extend(
                from_checkpoint,
                epochs=options["epochs"],
                output=output,
                workload=workload,
                reporter=reporter,
            )
        else:
            assert workload is not None
            run = train(
                workload,
                output=output,
                reporter=reporter,
                load=load,
                fused=fused,
                compile=compile_,
                settings=once_each(settings),
                sampling=not no_sampling,
                **options,
            )
        if checked is not None and run.record.status == "interrupted":
            checked.cancel()
    with outlives_output(unless=as_json):
        conclude(run, as_json=as_json, verify=verify)
    failure = checked.failure() if checked is not None and verify else None
    if failure is not None:
        raise failure


def _look_at(
    ctx: click.Context,
    workload: str | None,
    settings: Mapping[str, str],
    *,
    selftest: bool,
    as_json: bool,
) -> None:
    """Print a workload's self-test or its layers, without a run."""
    if selftest:
        refuse_changes(ctx, SELFTEST_OPTIONS, "a self-test")
        run_selftest(workload, settings, as_json=as_json)
        return
    refuse_changes(ctx, SUMMARY_OPTIONS, "a summary")
    if workload is None:
        raise RequestError("--summary names no workload", hint="tarmac train NAME --summary")
    print_layers(workload, settings, as_json=as_json)


def _start_ranks(ctx: click.Context, devices: str, resumed: str | None, output: str | None) -> None:
    """On one of several nodes, run this node's ranks and exit."""
    from tarmac.files import is_object
    from tarmac.processes import python_command
    from tarmac.ranks import find_node, start_ranks

    node = find_node(os.environ)
    if node is not None:
        command = python_command("tarmac", *sys.argv[1:])
        # A run in an object store is a copy of one in the default directory.
        place = Path(output) if output is not None and not is_object(output) else None
        ctx.exit(start_ranks(node, command, devices=devices, resumed=resumed, output=place))
