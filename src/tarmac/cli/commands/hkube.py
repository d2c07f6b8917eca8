"""``tarmac hkube``: parse, call."""

from __future__ import annotations

from pathlib import Path

import click
import cloup

from tarmac.cli.completion import complete_workloads
from tarmac.cli.imports import gc_paused
from tarmac.cli.options import Filename, Group, examples, option
from tarmac.cli.output import outlives_output


@click.group(
    "hkube",
    cls=Group,
    epilog=examples("tarmac hkube serve", "tarmac hkube serve mnist-mlp"),
)
def command() -> None:
    """Serve a workload as an HKube algorithm."""


@command.command(
    "serve",
    epilog=examples(
        "tarmac hkube serve",
        "tarmac hkube serve mnist-cnn",
        "WORKER_SOCKET_URL=ws://127.0.0.1:3000 tarmac hkube serve my_model.py:workload",
    ),
)
@cloup.argument(
    "workload",
    required=False,
    envvar="TARMAC_WORKLOAD",
    shell_complete=complete_workloads,
    help="Name from tarmac train --list, or a file and a name in it: "
    "my_model.py:workload. Default: TARMAC_WORKLOAD, else HKube's GPU example.",
)
@option(
    "--worker-timeout",
    "worker_timeout_s",
    type=float,
    metavar="SECONDS",
    default=300.0,
    show_default=True,
    help="How long the worker may be disconnected, at the start and later.",
)
def _serve(workload: str | None, worker_timeout_s: float) -> int:
    """Train as the tasks of HKube's worker request, one after another, until it sends exit.

    The first item of a task's input is an object: num_epochs, train_size, batch_size,
    learning_rate, validation_size, patience, seed, devices, precision, output, and settings as of
    tarmac train --set. The result is {"loss", "acc", "output"}. A stopped task resumes when the
    worker starts it again.
    """
    with gc_paused():
        from tarmac.cli.views.training import reporter_for
        from tarmac.hkube import serve

    with outlives_output():
        return serve(
            workload,
            worker_timeout_s=worker_timeout_s,
            reporting=lambda: reporter_for(quiet=False, verbose=False),
            say=click.echo,
        )


@command.command("work", epilog=examples("tarmac hkube work tasks/000000-sum/errand-1.msgpack"))
@cloup.argument(
    "errand", type=Filename(path_type=Path), help="File that the pipeline's runner wrote."
)
def _work(errand: Path) -> int:
    """Run one task of a pipeline on a node of a cluster.

    The pipeline's runner submits this command: tarmac run pipeline.json --on slurm.
    """
    with gc_paused():
        from tarmac.hkube import run_errand

    return run_errand(errand)
