"""The plan of a training: every value is resolved, and no work has started."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tarmac.data import Dataset, HoldOut
from tarmac.machine import Device, name_devices
from tarmac.runs import Layer
from tarmac.training.initial import Initial
from tarmac.training.shares import Shares
from tarmac.workloads import ParameterGroup, TorchOptimizer, Workload

ArrayFeed = Literal["resident", "prefetch", "direct"]
# Only data from a loader use the feed ``loader``, and they use no other.
FeedName = Literal[ArrayFeed, "loader"]
Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp64"]

Setting = bool | int | float | str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A training with every value resolved.

    Attributes:
        reference: Reference of the workload, by which a resumed run finds it again.
        workload: Workload with options and settings applied to its recipe.
        settings: Every setting's effective value.
        model_arguments: The keyword arguments for the workload's model.
        dataset: Dataset with the training, validation and test samples.
        devices: Devices of this machine; by local rank if each device has its own process.
        world_size: Number of devices on all machines.
        strategy: Name of the strategy that distributes the training over the devices.
        process_per_device: Whether each device has a process of its own.
        feed: How samples get to the devices, such as ``resident``.
        fused: Whether the kernels of `tarmac.kernels` compute the steps.
        precision: Precision of the matrix products.
        threads: Threads of an operation on the CPU; None for PyTorch's default.
        compile: Whether ``torch.compile`` is used.
        activation_checkpointing: Whether blocks are computed again in the backward pass.
        autotune: Whether cuDNN tries its algorithms to find the fastest.
        reasons: Reasons for the values of ``devices``, ``strategy``, ``feed``, ``fused``,
            ``batch_size``, ``precision``, ``threads``, ``compile`` and ``autotune``, by name.
        layers: The layers of the model, as it defines them.
        num_parameters: Number of parameters in the model, including frozen parameters.
        sample_flops: Matrix work of a training step for one sample, in FLOP: three times that of
            `count_forward_flops`.
        patience_metric: Metric on held-out data that patience watches; None for the metric that
            judges the training. Runs of earlier versions that accuracy judges still watch the loss.
        held: Training samples, and the samples held out for validation every epoch.
        validation_seed: Seed by which the validation samples were drawn.
        log_to: Names of the trackers that receive the metrics.
        sampling: Whether the run keeps samples of its GPUs and its host.
        initial: Initial weights of a new run; None for a random initialization. A resumed run
            has its initial weights in its directory.
        steps: Number of steps after which a trial stops; None for a whole training.
        returns_probabilities: Whether the model of a Classification returns probabilities. The
            loss then applies a second softmax to them.
    """

    reference: str
    workload: Workload
    settings: Mapping[str, Setting]
    model_arguments: Mapping[str, Setting]
    dataset: Dataset
    devices: Sequence[Device]
    world_size: int
    strategy: str
    process_per_device: bool
    feed: FeedName
    fused: bool
    precision: Precision
    threads: int | None
    compile: bool
    autotune: bool
    reasons: Mapping[str, str]
    layers: tuple[Layer, ...]
    num_parameters: int
    sample_flops: int
    held: HoldOut
    validation_seed: int
    patience: int | None
    score_test: bool
    seed: int
    accumulate: int
    sync_batchnorm: bool
    activation_checkpointing: bool
    scale_lr: str
    deterministic: bool
    checkpoint_every: int
    max_restarts: int
    hang_timeout_s: float
    sampling: bool
    log_to: tuple[str, ...]
    initial: Initial | None = None
    steps: int | None = None
    patience_metric: str | None = None
    returns_probabilities: bool = False

    @property
    def train_size(self) -> int:
        """Number of training samples."""
        return len(self.held.train)

    @property
    def validation_size(self) -> int:
        """Number of validation samples; 0 if there are none."""
        return len(self.held.validation)

    @property
    def num_steps(self) -> int:
        """Steps per epoch."""
        return self.shares.num_steps

    def steps_in(self, epoch: int) -> int:
        """Return the number of steps in an epoch (from 0); a trial ends within an epoch."""
        if self.steps is None:
            return self.num_steps
        return min(self.num_steps, self.steps - epoch * self.num_steps)

    @functools.cached_property
    def shares(self) -> Shares:
        """Samples of each device, step and micro-batch."""
        return Shares.of(self.workload.recipe, self.train_size, self.world_size, self.accumulate)

    def devices_of(self, local_rank: int) -> Sequence[Device]:
        """Return the devices that a process of this machine computes on."""
        return (self.devices[local_rank],) if self.process_per_device else self.devices

    def to_record(self) -> dict[str, Any]:
        """Return the complete effective configuration as JSON values."""
        recipe = self.workload.recipe
        return {
            "workload": self.reference,
            "epochs": recipe.epochs,
            "steps": self.steps,
            "batch_size": recipe.batch_size,
            "learning_rate": recipe.optimizer.learning_rate,
            "scale_lr": self.scale_lr,
            "train_size": self.train_size,
            "validation_size": self.validation_size,
            "validation_split": self.held.split,
            "validation_seed": self.validation_seed,
            "monitor": f"{self.workload.objective.judged_by}:{self.workload.objective.direction}",
            "patience": self.patience,
            "score_test": self.score_test,
            "seed": self.seed,
            "devices": name_devices(self.devices),
            "strategy": self.strategy,
            "feed": self.feed,
            "fused": "on" if self.fused else "off",
            "accumulate": self.accumulate,
            "sync_batchnorm": self.sync_batchnorm,
            "activation_checkpointing": self.activation_checkpointing,
            "precision": self.precision,
            "threads": self.threads,
            "compile": "on" if self.compile else "off",
            "autotune": "on" if self.autotune else "off",
            "deterministic": self.deterministic,
            "checkpoint_every": self.checkpoint_every,
            "max_restarts": self.max_restarts,
            "hang_timeout_s": self.hang_timeout_s,
            "sampling": self.sampling,
            "log_to": list(self.log_to),
            "optimizer": recipe.optimizer.name,
            "schedule": type(recipe.schedule).__name__,
            "weight_decay": dict(recipe.weight_decay),
            "parameter_groups": {
                pattern: _describe_group(group)
                for pattern, group in recipe.parameter_groups.items()
            },
            "drop_last": recipe.drop_last,
            "samples_per_epoch": recipe.samples_per_epoch,
            "augment": _describe(recipe.augment),
            "test_views": _describe(recipe.test_views),
            "ema": _describe(recipe.ema),
            "initialise": _describe(self.workload.initialise),
            "objective": {
                "kind": self.workload.objective.kind,
                "judged_by": self.workload.objective.judged_by,
                "direction": self.workload.objective.direction,
                "metrics": list(self.workload.objective.metrics),
            },
            "settings": dict(self.settings),
            "init_from": None if self.initial is None else str(self.initial.source.resolve()),
            "init_drawn": [] if self.initial is None else list(self.initial.missing),
        }


def _describe_group(group: ParameterGroup) -> dict[str, Any]:
    """Return the training of a parameter group as JSON values."""
    optimizer = group.optimizer
    described = _describe(optimizer)
    if isinstance(optimizer, TorchOptimizer):
        arguments = {name: str(value) for name, value in optimizer.arguments.items()}
        rate = optimizer.learning_rate
        described = {"kind": optimizer.name, "learning_rate": rate, "arguments": arguments}
    return {"optimizer": described, "schedule": _describe(group.schedule)}


def _describe(part: object) -> dict[str, Any] | None:
    """Return the kind of a recipe's part and, for a dataclass, its values; None for no part."""
    if part is None:
        return None
    kind = getattr(part, "__name__", type(part).__name__)
    values = dataclasses.asdict(part) if dataclasses.is_dataclass(part) else {}  # type: ignore[arg-type]
    return {"kind": kind} | values
