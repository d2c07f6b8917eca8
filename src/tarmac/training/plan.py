"""From what was asked to what will be done: every value resolved and checked beforehand."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from tarmac import data
from tarmac.errors import RequestError
from tarmac.machine import Device, find_devices, name_devices
from tarmac.training.engine.feeds import FeedName, choose_feed
from tarmac.training.planning.layout import (
    StrategyName,
    choose_batch_size,
    choose_devices,
    choose_strategy,
    devices_of_machine,
)
from tarmac.training.planning.model import bind_dataset, try_model, try_one_sample, try_replica
from tarmac.training.planning.options import (
    Options,
    check_options,
    check_sync,
    with_batch_size,
    with_options,
)
from tarmac.training.planning.precision import Precision, choose_compile, choose_precision
from tarmac.training.planning.settings import Setting, apply_settings, settings_of
from tarmac.training.shares import Shares

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.data import Dataset
    from tarmac.training.processes.rendezvous import Rendezvous
    from tarmac.workloads import Workload

__all__ = ["Plan", "check_memory", "make_plan"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A training with every value resolved.

    Attributes:
        reference: How the workload was named, so that a resumed run finds it again.
        workload: With options and settings applied to its recipe.
        settings: Every setting's effective value.
        model_arguments: The keyword arguments for the workload's model.
        dataset: The data themselves.
        devices: Those of this machine, by local rank where each has a process of its own.
        world_size: Devices on all machines.
        strategy: How they are used together.
        feed: How samples get to them.
        precision: What the matrix products are computed in.
        compile: Whether ``torch.compile`` is used.
        reasons: Why ``devices``, ``strategy``, ``feed``, ``batch_size``, ``precision`` and
            ``compile`` are what they are.
        num_parameters: Of the model.
    """

    reference: str
    workload: Workload
    settings: Mapping[str, Setting]
    model_arguments: Mapping[str, Setting]
    dataset: Dataset
    devices: Sequence[Device]
    world_size: int
    strategy: StrategyName
    feed: FeedName
    precision: Precision
    compile: bool
    reasons: Mapping[str, str]
    num_parameters: int
    train_size: int
    validation_size: int
    patience: int | None
    score_test: bool
    seed: int
    accumulate: int
    sync_batchnorm: bool
    scale_lr: str
    deterministic: bool
    checkpoint_every: int
    max_restarts: int
    hang_timeout_s: float

    @property
    def num_steps(self) -> int:
        """Steps per epoch."""
        return self.shares.num_steps

    @functools.cached_property
    def shares(self) -> Shares:
        """Which device trains on which samples."""
        return Shares(
            num_samples=self.train_size,
            batch_size=self.workload.recipe.batch_size,
            num_replicas=self.world_size,
            accumulate=self.accumulate,
        )

    def devices_of(self, local_rank: int) -> Sequence[Device]:
        """Return the devices that a process of this machine computes on."""
        return self.devices if self.strategy == "towers" else (self.devices[local_rank],)

    def to_record(self) -> dict[str, Any]:
        """Return the complete effective configuration as JSON values."""
        recipe = self.workload.recipe
        return {
            "workload": self.reference,
            "epochs": recipe.epochs,
            "batch_size": recipe.batch_size,
            "learning_rate": recipe.optimizer.learning_rate,
            "scale_lr": self.scale_lr,
            "train_size": self.train_size,
            "validation_size": self.validation_size,
            "patience": self.patience,
            "score_test": self.score_test,
            "seed": self.seed,
            "devices": name_devices(self.devices),
            "strategy": self.strategy,
            "feed": self.feed,
            "accumulate": self.accumulate,
            "sync_batchnorm": self.sync_batchnorm,
            "precision": self.precision,
            "compile": "on" if self.compile else "off",
            "deterministic": self.deterministic,
            "checkpoint_every": self.checkpoint_every,
            "max_restarts": self.max_restarts,
            "hang_timeout_s": self.hang_timeout_s,
            "optimizer": type(recipe.optimizer).__name__,
            "schedule": type(recipe.schedule).__name__,
            "weight_decay": dict(recipe.weight_decay),
            "settings": dict(self.settings),
        }


def make_plan(
    workload: Workload,
    reference: str,
    options: Options,
    progress: data.Progress | None = None,
    *,
    rendezvous: Rendezvous | None = None,
) -> Plan:
    """Resolve and check a request; nothing is written and nothing trained.

    Args:
        workload: What to train.
        reference: How it was named.
        options: What was asked.
        progress: Called while data are downloaded.
        rendezvous: Which of several processes this one is, where a launcher has started them.

    Raises:
        RequestError: A value that cannot be, a device that is not here, too little memory.
        TarmacError: The data cannot be had or are damaged.
    """
    check_options(options)
    if rendezvous is None:
        found = find_devices(str(options.devices))
    else:
        found = devices_of_machine(str(options.devices), rendezvous)
    chosen, model_arguments = apply_settings(workload, options.settings)
    changed = with_options(chosen, options)
    dataset = _load(changed, progress)
    defaults = settings_of(changed)
    changed = bind_dataset(changed, dataset)
    train_size = _train_size(options, dataset)
    sample_flops, num_parameters, has_batch_norm = try_model(changed, model_arguments, dataset)
    asked = options.batch_size_per_device
    if rendezvous is None:
        devices, why_devices = choose_devices(
            str(options.devices),
            options.strategy,
            found,
            sample_flops * (asked or changed.recipe.batch_size / len(found)),
        )
    else:
        devices, why_devices = found, "one for each process here"
    strategy, why_strategy = choose_strategy(options.strategy, devices, rendezvous)
    world_size = len(devices) if rendezvous is None else rendezvous.world_size
    batch = choose_batch_size(
        chosen.recipe,
        changed.recipe,
        world_size,
        per_device=asked,
        accumulate=options.accumulate,
        scale_lr=options.scale_lr,
    )
    changed = with_batch_size(changed, batch)
    check_sync(options, strategy)
    if strategy == "towers":
        try_replica(changed, model_arguments)
    tightest = min(devices, key=lambda device: device.available_bytes)
    feed, why_feed = choose_feed(options.feed, dataset.train, train_size, tightest)
    check_memory(tightest, dataset, num_parameters, strategy=strategy, feed=feed)
    weakest = min(devices, key=lambda device: device.bf16_matrix_units)
    shares = Shares(
        num_samples=train_size,
        batch_size=changed.recipe.batch_size,
        num_replicas=world_size,
        accumulate=options.accumulate,
    )
    if has_batch_norm and shares.smallest == 1 and not (options.sync_batchnorm and world_size > 1):
        try_one_sample(changed, model_arguments, dataset)
    precision, why_precision = choose_precision(
        options.precision, weakest, sample_flops * shares.largest
    )
    compiled, why_compiled = choose_compile(
        options.compile, weakest, float(sample_flops) * train_size * changed.recipe.epochs
    )
    return Plan(
        reference=reference,
        workload=changed,
        settings=defaults | dict(model_arguments),
        model_arguments=model_arguments,
        dataset=dataset,
        devices=devices,
        world_size=world_size,
        strategy=strategy,
        feed=feed,
        precision=precision,
        compile=compiled,
        reasons={
            "devices": why_devices,
            "strategy": why_strategy,
            "feed": why_feed,
            "batch_size": batch.reason,
            "precision": why_precision,
            "compile": why_compiled,
        },
        num_parameters=num_parameters,
        train_size=train_size,
        validation_size=options.validation_size,
        patience=options.patience,
        score_test=options.score_test,
        seed=options.seed,
        accumulate=options.accumulate,
        sync_batchnorm=options.sync_batchnorm,
        scale_lr=options.scale_lr,
        deterministic=options.deterministic,
        checkpoint_every=options.checkpoint_every,
        max_restarts=options.max_restarts,
        hang_timeout_s=options.hang_timeout_s,
    )


def check_memory(
    device: Device,
    dataset: Dataset,
    num_parameters: int,
    *,
    strategy: StrategyName = "single",
    feed: FeedName = "resident",
) -> None:
    """Raise a RequestError where data and weights alone are more than a device has free.

    A GPU holds the training set where its feed is ``resident``. On a CPU the data are there
    already, but every process of ``ddp`` loads its own. Parameters count four times, in fp32:
    values, gradients, and two averages of an optimizer. What the layers' outputs take is not known
    beforehand.
    """
    needed = 4 * 4 * num_parameters
    if feed == "resident" and (device.type == "cuda" or strategy == "ddp"):
        needed += dataset.train.inputs.nbytes + dataset.train.targets.nbytes
    if needed > device.available_bytes:
        raise RequestError(
            f"{device.torch_name} has {device.available_bytes / 2**30:.1f} GiB of memory free, "
            f"and data, {num_parameters:,} parameters, gradients and optimizer take "
            f"{needed / 2**30:.1f} GiB",
            hint="Use a smaller model, less data, --feed prefetch, or other --devices.",
        )


def _load(workload: Workload, progress: data.Progress | None) -> Dataset:
    if isinstance(workload.dataset, str):
        return data.load(workload.dataset, progress=progress)
    return workload.dataset()


def _train_size(options: Options, dataset: Dataset) -> int:
    available = len(dataset.train) - options.validation_size
    train_size = available if options.train_size is None else options.train_size
    if not 1 <= train_size <= available:
        held_out = (
            f" ({options.validation_size} more are held out)" if options.validation_size else ""
        )
        raise RequestError(
            f"train_size is {train_size}, but {dataset.name} has {max(available, 0)} samples "
            f"to train on{held_out}"
        )
    return train_size
