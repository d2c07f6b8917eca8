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
                help="Print the layers of WORKLOAD, with shapes and parameters; with "
                "--verbose, also before a training.",
            ),
            count_option(
                "--epochs", show_default="the workload's", help="Number of passes over the data."
            ),
            count_option(
                "--steps",
                help="Stop after N steps, as a trial: print their speed, and keep no weights.",
            ),
            count_option(
                "--batch-size",
                show_default="the workload's",
                help="Samples per step, on all devices together.",
            ),
            count_option("--batch-size-per-device", help="Samples per step on each device."),
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
                help="Scale the learning rate with the batch size.",
            ),
            pairs_option(
                "--set",
                "settings",
                help="Change a setting of the workload; WORKLOAD --list shows them. May "
                "be repeated.",
            ),
            option(
                "--seed",
                type=int,
                metavar="N",
                default=0,
                show_default=True,
                help="Seed of the initial weights, the order of the samples and dropout.",
            ),
        ),
        cloup.option_group(
            "Data and early stopping",
            count_option(
                "--train-size",
                show_default="all",
                help="Train on N samples, chosen as --validation-split says.",
            ),
            count_option(
                "--validation-size",
                show_default="the dataset's own validation samples, or none",
                help="Hold out N training samples, and score them after every epoch.",
            ),
            validation_split_option("auto"),
            monitor_option(),
            count_option(
                "--patience",
                help="Stop early: after N epochs without a better --monitor. Needs "
                "held-out samples.",
            ),
            option("--verify", is_flag=True, help="Exit with 1 if the result is not as expected."),
            option(
                "--selftest",
                is_flag=True,
                help="Only check, on 24 samples, whether the workload trains, repeats "
                "bit for bit, resumes, and computes the same on two devices.",
            ),
        ),
        cloup.option_group(
            "Initial weights",
            option(
                "--init-from",
                metavar="RUN|FILE",
                shell_complete=complete_trainings,
                help="Initialize with the weights of a run, of a .safetensors file or of"
                " a file of torch.save.",
            ),
            option(
                "--init-partial",
                is_flag=True,
                help="Load only tensors of --init-from whose name and shape match; "
                "initialize the rest.",
            ),
            option(
                "--from-checkpoint",
                metavar="RUN",
                shell_complete=complete_trainings,
                help="Train longer: continue from a run's newest checkpoint to more "
                "--epochs, as a new run. A schedule then covers all these epochs.",
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
                help="Devices: auto, all, a number of GPUs, their indices (0,2), cpu, or"
                " cpu:N for N replicas on the CPU.",
            ),
            option(
                "--strategy",
                type=Choice(STRATEGIES, "tarmac.strategies"),
                default="auto",
                show_default=True,
                help="How to use several devices.",
            ),
            option(
                "--feed",
                type=Choice(FEEDS),
                default="auto",
                show_default=True,
                help="How samples reach a device. resident: the dataset is on the "
                "device; prefetch: next batches are copied ahead; direct: copied "
                "when needed.",
            ),
            count_option(
                "--accumulate",
                default=1,
                show_default=True,
                help="Gradient accumulation: micro-batches per device and step, which save memory.",
            ),
            option(
                "--sync-batchnorm",
                is_flag=True,
                help="Synchronize the statistics of batch normalization over all devices.",
            ),
            option(
                "--activation-checkpointing",
                is_flag=True,
                help="Keep only the inputs of repeated blocks, and recompute the blocks "
                "in the backward pass.",
            ),
            option(
                "--precision",
                type=Choice(PRECISIONS),
                default="auto",
                show_default=True,
                help="Precision of matrix products. auto takes the fastest that is safe:"
                " bf16, fp16 with loss scaling, or fp32.",
            ),
            count_option(
                "--threads",
                show_default="one per core, or a single thread if a step is too small for two",
                help="CPU threads per operation, for a training in one process.",
            ),
            option(
                "--fused",
                type=Choice(FUSED),
                default="auto",
                show_default=True,
                help="Whether Tarmac's own kernels train a multilayer perceptron on a "
                "GPU. auto: if they support it.",
            ),
            option(
                "--compile",
                "compile_",
                type=Choice(COMPILE),
                default="auto",
                show_default=True,
                help="Whether torch.compile compiles the model. auto: if it is expected to save "
                "time.",
            ),
            option(
                "--deterministic",
                is_flag=True,
                help="Compute the same bits every time on one device.",
            ),
        ),
        cloup.option_group(
            "Cluster",
            *place_options("Place of the training.", default="this machine"),
            count_option(
                "--nodes",
                default=1,
                show_default=True,
                help="Number of machines that train together.",
            ),
            option(
                "--gpus-per-node",
                type=click.IntRange(min=0),
                metavar="N",
                default=0,
                show_default=True,
                help="GPUs of each machine; 0 trains on CPUs.",
            ),
            count_option(
                "--cpus-per-node",
                show_default="one for each GPU",
                help="CPUs of each machine.",
            ),
        ),
        cloup.option_group(
            "Safety",
            option(
                "--resume",
                "resumed",
                metavar="RUN",
                shell_complete=complete_trainings,
                help="Resume a stopped run: its directory, its name, or latest.",
            ),
            count_option(
                "--checkpoint-every",
                default=1,
                show_default=True,
                help="Epochs between checkpoints.",
            ),
            count_option(
                "--max-restarts",
                default=3,
                show_default=True,
                help="Maximum number of restarts of ddp and fsdp after a lost worker.",
            ),
            option(
                "--hang-timeout",
                "hang_timeout_s",
                type=float,
                metavar="SECONDS",
                default=300.0,
                show_default=True,
                help="How long a rank may take for a step before it counts as hung.",
            ),
            option("--no-check", is_flag=True, help="Do not check the devices first."),
        ),
        cloup.option_group(
            "Output",
            output_option(
                "Directory in which to create the run; s3://bucket/prefix gets a copy.",
                kind=str,
            ),
            json_option("Print the result as JSON, and only that."),
            option(
                "--no-sampling",
                is_flag=True,
                help="Do not record samples of the GPUs and the host in the run.",
            ),
            option(
                "--log-to",
                multiple=True,
                type=Choice(TRACKERS),
                help="Log every epoch to a tracker as well. May be repeated.",
            ),
            option("--verbose", is_flag=True, help="Print more reasons for the choices."),
        ),
    )
    for group in reversed(groups):
        function = group(function)
    return function
