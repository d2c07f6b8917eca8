"""From what was asked to what will be done: every value resolved and checked beforehand."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from tarmac import data
from tarmac.devices import Device, find_devices, name_devices
from tarmac.errors import RequestError
from tarmac.train._feeds import FeedName, choose_feed
from tarmac.train._layout import (
    BatchSize,
    StrategyName,
    choose_batch_size,
    choose_devices,
    choose_strategy,
    devices_of_machine,
)
from tarmac.train._precision import Precision, choose_compile, choose_precision
from tarmac.train._settings import Setting, apply_settings, settings_of
from tarmac.train._slices import Shares
from tarmac.train._work import count_forward_flops
from tarmac.train.strategies import replicate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import nn

    from tarmac.data import Dataset
    from tarmac.train.strategies import Rendezvous
    from tarmac.workloads import Workload

__all__ = ["Options", "Plan", "bind_dataset", "build_model", "check_memory", "make_plan"]

# A training step's backward pass does two products for each one of the forward pass.
_STEP_OVER_FORWARD = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What a user may ask of a training; None stands for the workload's own value.

    Attributes:
        epochs: Passes over the training set.
        batch_size: Samples per step, of all devices together.
        batch_size_per_device: Samples per step of each device, instead of ``batch_size``.
        learning_rate: The rate that the workload's schedule scales.
        scale_lr: How the rate follows the batch size: ``none``, ``linear`` (Goyal et al., 2017) or
            ``sqrt`` (Krizhevsky, 2014), by global batch size over the workload's own.
        train_size: How many samples to train on, from the first; all that are there by default.
        validation_size: How many samples to hold out, from the last, and evaluate every epoch.
        patience: Stop once the validation loss has not fallen for so many epochs; the weights are
            those of the last one. None for never.
        seed: Sets the weights, the order of the data and the dropout.
        devices: See `tarmac.devices.find_devices`.
        strategy: ``auto``, ``single``, ``ddp`` or ``towers``.
        feed: ``auto``, ``resident``, ``prefetch`` or ``direct``.
        accumulate: Into how many parts a device cuts its samples of a step, to save memory.
        sync_batchnorm: Take batch normalisation's statistics over all devices.
        precision: ``auto``, ``fp32`` or ``bf16``; ``fp64``, which is slow, is for proofs.
        compile: ``auto``, ``on`` or ``off``.
        deterministic: Use only operations whose result is the same bits every time.
        checkpoint_every: Epochs from one checkpoint to the next.
        max_restarts: How often ``ddp`` starts again from the newest checkpoint when it has lost a
            worker.
        hang_timeout_s: A rank that has done no step for so long is taken for hung.
        settings: What ``--set`` changes; see `settings_of`.
    """

    epochs: int | None = None
    batch_size: int | None = None
    batch_size_per_device: int | None = None
    learning_rate: float | None = None
    scale_lr: str = "none"
    train_size: int | None = None
    validation_size: int = 0
    patience: int | None = None
    seed: int = 0
    devices: str | int = "auto"
    strategy: str = "auto"
    feed: str = "auto"
    accumulate: int = 1
    sync_batchnorm: bool = False
    precision: str = "auto"
    compile: str = "auto"
    deterministic: bool = False
    checkpoint_every: int = 1
    max_restarts: int = 3
    hang_timeout_s: float = 300.0
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)


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
        step_flops: Matrix work of one whole training step.
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
    step_flops: int
    num_parameters: int
    train_size: int
    validation_size: int
    patience: int | None
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
    _check(options)
    if rendezvous is None:
        found = find_devices(str(options.devices))
    else:
        found = devices_of_machine(str(options.devices), rendezvous)
    chosen, model_arguments = apply_settings(workload, options.settings)
    changed = _with_options(chosen, options)
    dataset = _load(changed, progress)
    defaults = settings_of(changed)
    changed = bind_dataset(changed, dataset)
    train_size = _train_size(options, dataset)
    sample_flops, num_parameters, has_batch_norm = _try_model(changed, model_arguments, dataset)
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
    changed = _with_batch_size(changed, batch)
    _check_sync(options, strategy)
    if strategy == "towers":
        _try_replica(changed, model_arguments)
    feed, why_feed = choose_feed(options.feed, dataset.train, train_size, devices[0])
    check_memory(devices[0], dataset, num_parameters, strategy=strategy, feed=feed)
    weakest = min(devices, key=lambda device: device.bf16_matrix_units)
    shares = Shares(
        num_samples=train_size,
        batch_size=changed.recipe.batch_size,
        num_replicas=world_size,
        accumulate=options.accumulate,
    )
    if has_batch_norm and shares.smallest == 1 and not (options.sync_batchnorm and world_size > 1):
        _try_one_sample(changed, model_arguments, dataset)
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
        step_flops=sample_flops * changed.recipe.batch_size,
        num_parameters=num_parameters,
        train_size=train_size,
        validation_size=options.validation_size,
        patience=options.patience,
        seed=options.seed,
        accumulate=options.accumulate,
        sync_batchnorm=options.sync_batchnorm,
        scale_lr=options.scale_lr,
        deterministic=options.deterministic,
        checkpoint_every=options.checkpoint_every,
        max_restarts=options.max_restarts,
        hang_timeout_s=options.hang_timeout_s,
    )


def bind_dataset(workload: Workload, dataset: Dataset) -> Workload:
    """Give a workload's model what it asks to know of its data: see `Workload.model`."""
    known = {"sample_shape": dataset.sample_shape, "num_classes": dataset.num_classes}
    asked = {
        name: known[name]
        for name, parameter in inspect.signature(workload.model).parameters.items()
        if name in known and parameter.default is parameter.empty
    }
    if not asked:
        return workload
    return dataclasses.replace(workload, model=functools.partial(workload.model, **asked))


def build_model(plan_workload: Workload, arguments: Mapping[str, Setting], seed: int) -> nn.Module:
    """Build a workload's model on the CPU, its weights drawn from ``seed``.

    Raises:
        RequestError: The model refuses a setting.
    """
    torch.manual_seed(seed)
    try:
        return plan_workload.model(**arguments)
    except (ValueError, RuntimeError) as error:
        chosen = ", ".join(f"{key}={value}" for key, value in arguments.items()) or "no settings"
        raise RequestError(f"{plan_workload.name} with {chosen}: {error}") from error


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


def _check(options: Options) -> None:
    lowest = {
        "validation_size": 0,
        "patience": 1,
        "seed": 0,
        "checkpoint_every": 1,
        "accumulate": 1,
        "max_restarts": 0,
        "batch_size_per_device": 1,
    }
    for name, least in lowest.items():
        value = getattr(options, name)
        if value is not None and value < least:
            raise RequestError(f"{name} is {value}, expected at least {least}")
    if options.patience is not None and not options.validation_size:
        raise RequestError(
            f"patience is {options.patience}, but there is no validation loss to watch",
            hint="Hold samples out: --validation-size 5000",
        )
    if not options.hang_timeout_s > 0:
        raise RequestError(f"hang_timeout is {options.hang_timeout_s}, expected above 0 seconds")
    if options.batch_size is not None and options.batch_size_per_device is not None:
        raise RequestError(
            f"batch_size is {options.batch_size} and batch_size_per_device is "
            f"{options.batch_size_per_device}, expected one of them"
        )


def _check_sync(options: Options, strategy: StrategyName) -> None:
    if options.sync_batchnorm and strategy == "towers":
        raise RequestError(
            "towers cannot synchronise batch normalisation: its replicas compute one after another",
            hint="Use --strategy ddp.",
        )


def _with_options(workload: Workload, options: Options) -> Workload:
    recipe = workload.recipe
    if options.learning_rate is not None:
        optimizer = dataclasses.replace(recipe.optimizer, learning_rate=options.learning_rate)
        recipe = dataclasses.replace(recipe, optimizer=optimizer)
    if options.epochs is not None:
        recipe = dataclasses.replace(recipe, epochs=options.epochs)
    if options.batch_size is not None:
        recipe = dataclasses.replace(recipe, batch_size=options.batch_size)
    return dataclasses.replace(workload, recipe=recipe)


def _with_batch_size(workload: Workload, batch: BatchSize) -> Workload:
    optimizer = dataclasses.replace(workload.recipe.optimizer, learning_rate=batch.learning_rate)
    recipe = dataclasses.replace(workload.recipe, batch_size=batch.batch_size, optimizer=optimizer)
    return dataclasses.replace(workload, recipe=recipe)


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


def _try_model(
    workload: Workload, arguments: Mapping[str, Setting], dataset: Dataset
) -> tuple[int, int, bool]:
    """See that model and data fit together.

    Returns:
        A training step's matrix work for one sample, in FLOP, the number of parameters, and whether
        there are batch normalisations.
    """
    with torch.random.fork_rng(devices=[]):
        model = build_model(workload, arguments, seed=0)
        inputs = _samples(workload, dataset, 2)
        forward = count_forward_flops(model, inputs, dataset.num_classes)
    num_parameters = sum(p.numel() for p in model.parameters())
    has_batch_norm = any(isinstance(layer, _BatchNorm) for layer in model.modules())
    return _STEP_OVER_FORWARD * forward // len(inputs), num_parameters, has_batch_norm


def _try_one_sample(workload: Workload, arguments: Mapping[str, Setting], dataset: Dataset) -> None:
    """See whether a model with batch normalisations can train on a slice of one sample."""
    with torch.random.fork_rng(devices=[]):
        model = build_model(workload, arguments, seed=0).train()
        try:
            model(_samples(workload, dataset, 1))
        except ValueError as error:
            raise RequestError(
                "some step leaves a device one sample, of which batch normalisation has no "
                f"variance: {error}",
                hint="Use another --batch-size or --train-size, fewer --devices, or "
                "--sync-batchnorm.",
            ) from error


def _try_replica(workload: Workload, arguments: Mapping[str, Setting]) -> None:
    with torch.random.fork_rng(devices=[]):
        replicate(build_model(workload, arguments, seed=0), workload.name)


def _samples(workload: Workload, dataset: Dataset, count: int) -> torch.Tensor:
    raw = torch.tensor(dataset.train.inputs[:count])
    return workload.recipe.preprocess(raw, training=False, dtype=torch.float32)
