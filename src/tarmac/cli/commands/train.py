"""``tarmac train``: parse, call, show progress, say the verdict."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from tarmac.cli.ahead import begun_ahead
from tarmac.cli.choices import (
    COMPILE,
    FEEDS,
    FUSED,
    PRECISIONS,
    SCALES,
    STRATEGIES,
    TRACKERS,
    Choice,
)
from tarmac.cli.completion import complete_trainings, complete_workloads
from tarmac.cli.failed_work import explaining_failure
from tarmac.cli.imports import uncollected_imports
from tarmac.cli.lead_process import speaks_for_all
from tarmac.cli.options import (
    count_option,
    examples,
    json_option,
    monitor_option,
    option,
    output_option,
    pairs_option,
    validation_split_option,
)
from tarmac.cli.output import outlives_output
from tarmac.cli.places import chosen, place_options
from tarmac.cli.training_elsewhere import given_options, train_there
from tarmac.cli.training_end import conclude
from tarmac.cli.training_selftest import run_selftest
from tarmac.cli.views.workloads import print_workloads
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tarmac.cli.preflight import Checking
    from tarmac.settings import Settings

__all__ = ["command"]


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
    help="A name from --list, or a file and a name in it: my_model.py:workload.",
)
@cloup.option_group(
    "Recipe",
    option(
        "--list", "list_them", is_flag=True, help="List the workloads, or the settings of WORKLOAD."
    ),
    count_option("--epochs", show_default="the workload's", help="Passes over the data."),
    count_option(
        "--steps",
        help="Stop after N steps, as a trial: it says how fast they were, and keeps no weights.",
    ),
    count_option(
        "--batch-size",
        show_default="the workload's",
        help="Samples per step, of all devices together.",
    ),
    count_option("--batch-size-per-device", help="Samples per step of each device."),
    option(
        "--lr",
        "learning_rate",
        type=float,
        metavar="RATE",
        show_default="the workload's",
        help="Learning rate of the optimizer.",
    ),
    option(
        "--scale-lr",
        type=Choice(SCALES),
        default="none",
        show_default=True,
        help="Let the rate follow the batch size.",
    ),
    pairs_option(
        "--set",
        "settings",
        help="Change a setting of the workload; may be repeated. WORKLOAD --list shows them.",
    ),
    option(
        "--seed",
        type=int,
        metavar="N",
        default=0,
        show_default=True,
        help="Decides the first weights, the order of the samples and dropout.",
    ),
)
@cloup.option_group(
    "Data and ending",
    count_option(
        "--train-size",
        show_default="all",
        help="Train on N samples, chosen as --validation-split says.",
    ),
    count_option(
        "--validation-size",
        show_default="the dataset's own validation samples, or none",
        help="Hold out N training samples and score them every epoch.",
    ),
    validation_split_option("auto"),
    monitor_option(),
    count_option(
        "--patience",
        help="Stop once --monitor has not got better for N epochs; needs held-out samples.",
    ),
    option("--verify", is_flag=True, help="Exit with 1 when the result is not as expected."),
    option(
        "--selftest",
        is_flag=True,
        help="Only say, on 24 samples, whether the workload trains, repeats bit for bit, resumes, "
        "and is the same on two devices.",
    ),
)
@cloup.option_group(
    "Beginning",
    option(
        "--init-from",
        metavar="RUN|FILE",
        shell_complete=complete_trainings,
        help="Begin from the weights of a run, of a .safetensors file or of torch.save's.",
    ),
    option(
        "--init-partial",
        is_flag=True,
        help="Take of --init-from what fits by name and shape; the rest is drawn as ever.",
    ),
    option(
        "--from-checkpoint",
        metavar="RUN",
        shell_complete=complete_trainings,
        help="Go on from a run's newest checkpoint to more --epochs than it was asked for, as a "
        "new run. A schedule is then that of all these epochs.",
    ),
)
@cloup.option_group(
    "Devices and speed",
    option(
        "--devices",
        "--device",
        "devices",
        metavar="DEVICES",
        default="auto",
        show_default=True,
        help="auto, all, a number of GPUs, their indices (0,2), cpu, or cpu:N for N replicas on "
        "it.",
    ),
    option(
        "--strategy",
        type=Choice(STRATEGIES, "tarmac.strategies"),
        default="auto",
        show_default=True,
        help="How several devices are used.",
    ),
    option(
        "--feed",
        type=Choice(FEEDS),
        default="auto",
        show_default=True,
        help="How samples get to a device: lie there, are copied ahead, or when they are needed.",
    ),
    count_option(
        "--accumulate",
        default=1,
        show_default=True,
        help="Parts of a device's share of a batch, computed one after another to save memory.",
    ),
    option(
        "--sync-batchnorm",
        is_flag=True,
        help="Take batch normalisation's statistics over all devices.",
    ),
    option(
        "--activation-checkpointing",
        is_flag=True,
        help="Keep only the inputs of repeated blocks, and compute these again going backward.",
    ),
    option(
        "--precision",
        type=Choice(PRECISIONS),
        default="auto",
        show_default=True,
        help="What matrices are multiplied in: auto takes the faster of fp32 and bf16.",
    ),
    count_option(
        "--threads",
        show_default="one for each core, one alone where a step is too small for two",
        help="Threads of an operation on the CPU, of a training in one process.",
    ),
    option(
        "--fused",
        type=Choice(FUSED),
        default="auto",
        show_default=True,
        help="Whether Tarmac's own kernels train a multilayer perceptron on a GPU: where they can.",
    ),
    option(
        "--compile",
        "compile_",
        type=Choice(COMPILE),
        default="auto",
        show_default=True,
        help="Whether torch.compile compiles the model, where auto expects that it pays.",
    ),
    option("--deterministic", is_flag=True, help="The same bits every time on one device."),
)
@cloup.option_group(
    "Where",
    *place_options("Where it trains.", default="this machine"),
    count_option("--nodes", default=1, show_default=True, help="Machines that train together."),
    option(
        "--gpus-per-node",
        type=click.IntRange(min=0),
        metavar="N",
        default=0,
        show_default=True,
        help="GPUs that each of them gives; 0 trains on CPUs.",
    ),
    count_option(
        "--cpus-per-node",
        show_default="one for each GPU",
        help="CPUs that each of them gives.",
    ),
)
@cloup.option_group(
    "Safety",
    option(
        "--resume",
        "resumed",
        metavar="RUN",
        shell_complete=complete_trainings,
        help="Go on with a run that was stopped: its directory, its name, or latest.",
    ),
    count_option(
        "--checkpoint-every",
        default=1,
        show_default=True,
        help="Epochs from one checkpoint to the next.",
    ),
    count_option(
        "--max-restarts",
        default=3,
        show_default=True,
        help="How often ddp and fsdp start again when they have lost a worker.",
    ),
    option(
        "--hang-timeout",
        "hang_timeout_s",
        type=float,
        metavar="SECONDS",
        default=300.0,
        show_default=True,
        help="How long a rank may take for a step before it is taken for hung.",
    ),
    option("--no-check", is_flag=True, help="Do not check the devices."),
)
@cloup.option_group(
    "Output",
    output_option("Where runs are made; s3://bucket/prefix gets a copy as it trains.", kind=str),
    json_option("Print the result as JSON, and only that."),
    option(
        "--no-sampling", is_flag=True, help="Keep no samples of the GPUs and the host in the run."
    ),
    option(
        "--log-to",
        multiple=True,
        type=Choice(TRACKERS),
        help="Tell a tracker of every epoch as well; may be repeated.",
    ),
    option("--verbose", is_flag=True, help="Say more on why things are done as they are."),
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    workload: str | None,
    list_them: bool,
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
    """Train a workload and say whether the result is as expected.

    A run is made for it, which --resume goes on with.
    """
    if list_them:
        print_workloads(workload, as_json=as_json)
        return
    if selftest:
        _refuse_changes(ctx, _SELFTEST_OPTIONS, "a self-test")
        run_selftest(workload, _once_each(settings), as_json=as_json)
        return
    _check_beginning(ctx, workload, resumed, from_checkpoint)
    place = _cluster(ctx, on, profile)
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
    begun = begun_ahead(workload if is_new else None, devices=devices, strategy=strategy)
    with begun as load, uncollected_imports():
        from tarmac.cli.views.training import reporter_for
        from tarmac.training import extend, resume, train
        from tarmac.workloads import find_workload

    if verify and workload is not None and find_workload(workload).expectation is None:
        raise RequestError(f"{workload} has no expectation to verify")
    is_quiet = as_json or not speaks_for_all()
    checked: Checking | None = None
    with contextlib.ExitStack() as opened:
        opened.enter_context(outlives_output(unless=as_json))
        reporter = opened.enter_context(reporter_for(quiet=is_quiet, verbose=verbose))
        if speaks_for_all():
            opened.enter_context(explaining_failure(resumed or "latest", output, as_json=as_json))
        if speaks_for_all() and not no_check:
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
                settings=_once_each(settings),
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


def _start_ranks(ctx: click.Context, devices: str, resumed: str | None, output: str | None) -> None:
    """Be what starts the ranks of this node, and exit, where it is one of several."""
    from tarmac.files import is_object
    from tarmac.processes import python_command
    from tarmac.ranks import find_node, start_ranks

    node = find_node(os.environ)
    if node is not None:
        command = python_command("tarmac", *sys.argv[1:])
        # A copy in a store is made from where runs are made by default.
        place = Path(output) if output is not None and not is_object(output) else None
        ctx.exit(start_ranks(node, command, devices=devices, resumed=resumed, output=place))


_OF_NODES = ("nodes", "gpus_per_node", "cpus_per_node")


def _cluster(ctx: click.Context, on: str | None, profile: str | None) -> Settings | None:
    """Return the cluster that was asked for; None where it trains here."""
    if on is not None or profile is not None:
        place = chosen(on, profile)
        if place.on != "local":
            return place
    for parameter in given_options(ctx):
        if parameter.name in _OF_NODES:
            raise RequestError(
                f"{parameter.opts[0]} is for a training on a cluster",
                hint="Say which: --on slurm. On this machine: --devices.",
            )
    return None


def _check_beginning(
    ctx: click.Context, workload: str | None, resumed: str | None, from_checkpoint: str | None
) -> None:
    """Refuse a training that names nothing to train, or changes what a run has fixed."""
    if ctx.params["verify"] and ctx.params["steps"] is not None:
        raise RequestError(
            "--verify needs the result of a whole training, and --steps asks for a trial",
            hint="Leave one of them out.",
        )
    if workload is None and resumed is None and from_checkpoint is None:
        from tarmac.workloads import workload_names

        raise RequestError(
            "no workload is named", hint=f"Name one: tarmac train {workload_names()[0]}"
        )
    if resumed is not None:
        _refuse_changes(ctx, _RESUME_OPTIONS, "a resumed run")
    if from_checkpoint is not None:
        _refuse_changes(ctx, _EXTEND_OPTIONS, "a run that goes on from a checkpoint")
        if ctx.params["epochs"] is None:
            raise RequestError(
                "--from-checkpoint needs --epochs",
                hint="Say how many in all, those that are done among them: --epochs 40",
            )


# What may be said with --resume; everything else a run has in its run.json.
_RESUME_OPTIONS = {
    "workload",
    "list_them",
    "output",
    "resumed",
    "as_json",
    "devices",
    "verbose",
    "verify",
    "no_check",
    "on",
    "profile",
    *_OF_NODES,
}


# Likewise with --from-checkpoint.
_EXTEND_OPTIONS = (_RESUME_OPTIONS - {"resumed"}) | {"from_checkpoint", "epochs"}


# A self-test has sizes, devices and a place of its own.
_SELFTEST_OPTIONS = {"workload", "settings", "selftest", "as_json"}


def _refuse_changes(ctx: click.Context, changeable: Collection[str], what: str) -> None:
    for parameter in given_options(ctx):
        if parameter.name not in changeable:
            raise RequestError(
                f"{parameter.opts[0]} cannot be changed in {what}",
                hint="Leave it out, or start a new run.",
            )


def _once_each(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    values: dict[str, str] = {}
    for key, value in settings:
        if key in values:
            raise RequestError(f"--set {key} is given twice: {values[key]!r} and {value!r}")
        values[key] = value
    return values
