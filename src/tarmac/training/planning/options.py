"""Options of a training: their checks, and their application to a workload's own values."""

from __future__ import annotations

import dataclasses
import difflib
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from tarmac.errors import RequestError
from tarmac.trackers import check_tracker
from tarmac.training.engine.strategy import StrategySpec
from tarmac.training.plan import Setting
from tarmac.training.shares import MAX_SEED
from tarmac.workloads import Workload


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a training; None stands for the workload's own value.

    Attributes:
        epochs: Passes over the training set.
        steps: Stop after this number of optimizer steps, as a trial. The schedule is that of the
            whole training, and nothing is scored or saved. None for the whole training.
        batch_size: Samples per step, of all devices together.
        batch_size_per_device: Samples per step of each device, instead of ``batch_size``.
        learning_rate: The rate that the workload's schedule scales.
        scale_lr: Scaling of the rate with the global batch size over the workload's own: ``none``,
            ``linear`` (Goyal et al., 2017) or ``sqrt`` (Krizhevsky, 2014).
        train_size: Number of training samples; by default all samples that are not held out.
        validation_size: Number of samples to hold out and evaluate every epoch; by default the
            dataset's own validation samples, or none. 0 for none.
        validation_split: Choice of the held-out samples. ``random`` draws them by the seed, from
            each class by its share. ``last`` holds out the last and trains on the first. ``own``
            takes the dataset's own validation samples. ``auto`` is ``own``, else ``last`` for a
            series, else ``random``. See `tarmac.data.hold_out`.
        validation_seed: Seed of the random split; by default ``seed``. A fixed value makes
            trainings of several seeds use the same validation samples.
        monitor: Metric for patience and the best checkpoint, with or without ``val_``. Add
            ``:max`` or ``:min`` if the metric does not define which is better. By default the
            metric that judges the workload.
        patience: Stop after this number of epochs without a better ``monitor`` on held-out data.
            The weights are those of the last epoch. None to never stop early.
        score_test: Whether the test set is scored at the end. A search turns this off for its
            candidates.
        seed: Seed of the weights, the order of the data and the dropout.
        devices: Devices to train on, as `tarmac.machine.find_devices` takes them. Default ``auto``.
        strategy: ``auto``, ``single``, ``ddp``, ``fsdp`` or ``towers``.
        feed: ``auto``, ``resident``, ``prefetch`` or ``direct``.
        fused: Whether Tarmac's own kernels train a multilayer perceptron on a GPU: ``auto``, ``on``
            or ``off``.
        accumulate: Number of micro-batches per device and step. More micro-batches need less
            memory.
        sync_batchnorm: Compute the statistics of batch normalisation over all devices.
        activation_checkpointing: Keep only the inputs of repeated blocks for the backward pass, and
            compute the blocks again there. This saves memory.
        precision: ``auto``, ``fp32``, ``bf16``, or ``tf32`` on GPUs that have it; ``fp16`` with a
            scaled loss, for GPUs without bf16; ``fp64``, which is slow, is for proofs.
        threads: Threads of an operation on the CPU, for a training in one process; 0 for PyTorch's
            default. By default one for each core that the process may use, or only one if a step is
            too small for two.
        compile: Whether ``torch.compile`` is used: ``auto``, ``on`` or ``off``.
        deterministic: Use only operations that give the same bits every time.
        checkpoint_every: Epochs from one checkpoint to the next.
        max_restarts: Maximum number of times that ``ddp`` restarts from the newest checkpoint after
            it has lost a worker.
        hang_timeout_s: Seconds without a step after which a rank counts as hung.
        sampling: Keep samples of the GPUs and the host beside the run's metrics, with totals of
            energy and throttling.
        log_to: Trackers that receive every epoch's metrics: ``wandb``, ``mlflow``.
        settings: Values that ``--set`` changes, by name; see `settings_of`.
        init_from: Initial weights: a ``.safetensors`` file or a file of ``torch.save``; for
            `tarmac.train` also a run. None for a random initialization.
        init_partial: Whether to load only the weights that fit the model by name and shape.
    """

    epochs: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    batch_size_per_device: int | None = None
    learning_rate: float | None = None
    scale_lr: str = "none"
    train_size: int | None = None
    validation_size: int | None = None
    validation_split: str = "auto"
    validation_seed: int | None = None
    monitor: str | None = None
    patience: int | None = None
    score_test: bool = True
    seed: int = 0
    devices: str | int = "auto"
    strategy: str = "auto"
    feed: str = "auto"
    fused: str = "auto"
    accumulate: int = 1
    sync_batchnorm: bool = False
    activation_checkpointing: bool = False
    precision: str = "auto"
    threads: int | None = None
    compile: str = "auto"
    deterministic: bool = False
    checkpoint_every: int = 1
    max_restarts: int = 3
    hang_timeout_s: float = 300.0
    sampling: bool = True
    log_to: Sequence[str] = ()
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    init_from: str | None = None
    init_partial: bool = False

    @property
    def split_seed(self) -> int:
        """The seed that draws the validation samples."""
        return self.seed if self.validation_seed is None else self.validation_seed


class TrainOptions(TypedDict, total=False):
    """The keyword options of `tarmac.train`, for editors and type checkers.

    The keys are the fields of `Options`, and ``device``, an alias of ``devices``.
    """

    epochs: int | None
    steps: int | None
    batch_size: int | None
    batch_size_per_device: int | None
    learning_rate: float | None
    scale_lr: str
    train_size: int | None
    validation_size: int | None
    validation_split: str
    validation_seed: int | None
    monitor: str | None
    patience: int | None
    score_test: bool
    seed: int
    devices: str | int
    strategy: str
    feed: str
    fused: str
    accumulate: int
    sync_batchnorm: bool
    activation_checkpointing: bool
    precision: str
    threads: int | None
    compile: str
    deterministic: bool
    checkpoint_every: int
    max_restarts: int
    hang_timeout_s: float
    sampling: bool
    log_to: Sequence[str]
    settings: Mapping[str, Setting]
    init_from: str | None
    init_partial: bool
    device: str | int


# Names of the options' types in messages.
_KINDS: dict[str, tuple[Any, str]] = {
    "int": (numbers.Integral, "a whole number"),
    "float": (numbers.Real, "a number"),
    "bool": (bool, "True or False"),
    "str": (str, "a text"),
    "None": (type(None), "None"),
    "Sequence[str]": ((list, tuple), "a list of texts"),
    "Mapping[str, Setting]": (Mapping, "a mapping of names to values"),
}


def check_types(options: Mapping[str, object]) -> None:
    """Raise a TypeError for an unknown option, or a value of a wrong type."""
    fields = {field.name: str(field.type) for field in dataclasses.fields(Options)}
    for name, value in options.items():
        if name not in fields:
            nearest = difflib.get_close_matches(name, fields, n=1)
            meant = f", did you mean {nearest[0]!r}?" if nearest else ""
            raise TypeError(f"train() got an unexpected option {name!r}{meant}")
        kinds = [kind.strip() for kind in fields[name].split("|")]
        is_right = any(isinstance(value, _KINDS[kind][0]) for kind in kinds)
        if not is_right or (isinstance(value, bool) and "bool" not in kinds):
            words = " or ".join(_KINDS[kind][1] for kind in kinds)
            raise TypeError(f"{name} is {value!r}, expected {words}")


def check_options(options: Options) -> None:
    """Raise a RequestError for a value that is never valid."""
    lowest = {
        "steps": 1,
        "validation_size": 0,
        "patience": 1,
        "seed": 0,
        "validation_seed": 0,
        "checkpoint_every": 1,
        "accumulate": 1,
        "max_restarts": 0,
        "batch_size_per_device": 1,
        "threads": 0,
    }
    for name, least in lowest.items():
        value = getattr(options, name)
        if value is not None and value < least:
            raise RequestError(f"{name} is {value}, expected at least {least}")
    for tracker in options.log_to:
        check_tracker(tracker)
    for name in ("seed", "validation_seed"):
        seed = getattr(options, name)
        if seed is not None and seed > MAX_SEED:
            raise RequestError(f"{name} is {seed}, expected at most {MAX_SEED}")
    if not options.hang_timeout_s > 0:
        raise RequestError(f"hang_timeout is {options.hang_timeout_s}, expected above 0 seconds")
    if options.init_partial and options.init_from is None:
        raise RequestError(
            "init_partial needs initial weights",
            hint="Name them: --init-from RUN",
        )
    if options.batch_size is not None and options.batch_size_per_device is not None:
        raise RequestError(
            f"batch_size is {options.batch_size} and batch_size_per_device is "
            f"{options.batch_size_per_device}, expected one of them"
        )


def check_sync(options: Options, strategy: StrategySpec) -> None:
    """Raise a RequestError if the strategy cannot synchronise batch normalisation on request."""
    if options.sync_batchnorm and not strategy.syncs_batchnorm:
        raise RequestError(
            f"{strategy.name} cannot synchronise batch normalisation: its replicas compute one "
            "after another",
            hint="Use --strategy ddp.",
        )


def check_steps(options: Options, num_steps: int) -> None:
    """Raise a RequestError if a trial has more steps than the whole training."""
    if options.steps is not None and options.steps > num_steps:
        raise RequestError(
            f"steps is {options.steps}, but the whole training has {num_steps}",
            hint="Use fewer --steps, more --epochs, or leave --steps out for the whole training.",
        )


def with_options(workload: Workload, options: Options, *, on_cpu: bool) -> Workload:
    """Return a workload whose recipe has the options, or the CPU's default batch size."""
    recipe = workload.recipe
    if options.monitor is not None:
        recipe = dataclasses.replace(recipe, monitor=options.monitor)
    if options.learning_rate is not None:
        recipe = recipe.with_learning_rate(options.learning_rate)
    if options.epochs is not None:
        recipe = dataclasses.replace(recipe, epochs=options.epochs)
    if options.batch_size is not None:
        recipe = dataclasses.replace(recipe, batch_size=options.batch_size)
    elif on_cpu and recipe.cpu_batch_size is not None:
        recipe = dataclasses.replace(recipe, batch_size=recipe.cpu_batch_size)
    return dataclasses.replace(workload, recipe=recipe)
