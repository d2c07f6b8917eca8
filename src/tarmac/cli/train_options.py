"""The options of ``tarmac train``."""

from __future__ import annotations

from collections.abc import Callable

import click
import cloup

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
from tarmac.cli.completion import complete_trainings
from tarmac.cli.options import (
    count_option,
    json_option,
    monitor_option,
    option,
    output_option,
    pairs_option,
    validation_split_option,
)
from tarmac.cli.places import place_options


def train_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the recipe, the data and the place of a training."""
    groups = (
        cloup.option_group(
            "Recipe",
            option(
                "--list",
                "list_them",
                is_flag=True,
                help="List the workloads, or the settings of WORKLOAD.",
            ),
            option(
                "--summary",
                is_flag=True,
                help="Print the layers of WORKLOAD, what each returns and its parameters; also "
                "with --verbose, before a training.",
            ),
            count_option("--epochs", show_default="the workload's", help="Passes over the data."),
            count_option(
                "--steps",
                help="Stop after N steps, as a trial: it says how fast they were, and keeps no "
                "weights.",
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
                help="Change a setting of the workload; may be repeated. WORKLOAD --list shows "
                "them.",
            ),
            option(
                "--seed",
                type=int,
                metavar="N",
                default=0,
                show_default=True,
                help="Decides the first weights, the order of the samples and dropout.",
            ),
        ),
        cloup.option_group(
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
            option(
                "--verify", is_flag=True, help="Exit with 1 when the result is not as expected."
            ),
            option(
                "--selftest",
                is_flag=True,
                help="Only say, on 24 samples, whether the workload trains, repeats bit for bit, "
                "resumes, and is the same on two devices.",
            ),
        ),
        cloup.option_group(
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
                help="Go on from a run's newest checkpoint to more --epochs than it was asked "
                "for, as a new run. A schedule is then that of all these epochs.",
            ),
        ),
        cloup.option_group(
            "Devices and speed",
            option(
                "--devices",
                "--device",
                "devices",
                metavar="DEVICES",
                default="auto",
                show_default=True,
                help="auto, all, a number of GPUs, their indices (0,2), cpu, or cpu:N for N "
                "replicas on it.",
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
                help="How samples get to a device: lie there, are copied ahead, or when they are "
                "needed.",
            ),
            count_option(
                "--accumulate",
                default=1,
                show_default=True,
                help="Parts of a device's share of a batch, computed one after another to save "
                "memory.",
            ),
            option(
                "--sync-batchnorm",
                is_flag=True,
                help="Take batch normalisation's statistics over all devices.",
            ),
            option(
                "--activation-checkpointing",
                is_flag=True,
                help="Keep only the inputs of repeated blocks, and compute these again going "
                "backward.",
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
                help="Whether Tarmac's own kernels train a multilayer perceptron on a GPU: where "
                "they can.",
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
        ),
        cloup.option_group(
            "Where",
            *place_options("Where it trains.", default="this machine"),
            count_option(
                "--nodes", default=1, show_default=True, help="Machines that train together."
            ),
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
        ),
        cloup.option_group(
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
        ),
        cloup.option_group(
            "Output",
            output_option(
                "Where runs are made; s3://bucket/prefix gets a copy as it trains.", kind=str
            ),
            json_option("Print the result as JSON, and only that."),
            option(
                "--no-sampling",
                is_flag=True,
                help="Keep no samples of the GPUs and the host in the run.",
            ),
            option(
                "--log-to",
                multiple=True,
                type=Choice(TRACKERS),
                help="Tell a tracker of every epoch as well; may be repeated.",
            ),
            option("--verbose", is_flag=True, help="Say more on why things are done as they are."),
        ),
    )
    for group in reversed(groups):
        function = group(function)
    return function
