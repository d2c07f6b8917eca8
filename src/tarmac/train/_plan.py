"""From what was asked to what will be done: every value resolved and checked beforehand."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from tarmac import data
from tarmac.devices import Device, find_device
from tarmac.errors import RequestError
from tarmac.train._precision import Precision, choose_compile, choose_precision
from tarmac.train._settings import Setting, apply_settings, settings_of
from tarmac.train._work import count_forward_flops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from tarmac.data import Dataset
    from tarmac.workloads import Workload

__all__ = ["Options", "Plan", "build_model", "check_memory", "make_plan"]

# A training step's backward pass does two products for each one of the forward pass.
_STEP_OVER_FORWARD = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What a user may ask of a training; None stands for the workload's own value.

    Attributes:
        epochs: Passes over the training set.
        batch_size: Samples per step.
        learning_rate: The rate that the workload's schedule scales.
        train_size: How many samples to train on, from the first; all that are there by default.
        validation_size: How many samples to hold out, from the last, and evaluate every epoch.
        seed: Sets the weights, the order of the data and the dropout.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:INDEX``.
        precision: ``auto``, ``fp32`` or ``bf16``.
        compile: ``auto``, ``on`` or ``off``.
        deterministic: Use only operations whose result is the same bits every time.
        checkpoint_every: Epochs from one checkpoint to the next.
        settings: What ``--set`` changes; see `settings_of`.
    """

    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    train_size: int | None = None
    validation_size: int = 0
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    compile: str = "auto"
    deterministic: bool = False
    checkpoint_every: int = 1
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
        device: Where it runs.
        precision: What the matrix products are computed in.
        compile: Whether ``torch.compile`` is used.
        reasons: Why ``precision`` and ``compile`` are what they are.
        step_flops: Matrix work of one whole training step.
    """

    reference: str
    workload: Workload
    settings: Mapping[str, Setting]
    model_arguments: Mapping[str, Setting]
    dataset: Dataset
    device: Device
    precision: Precision
    compile: bool
    reasons: Mapping[str, str]
    step_flops: int
    train_size: int
    validation_size: int
    seed: int
    deterministic: bool
    checkpoint_every: int

    @property
    def num_steps(self) -> int:
        """Steps per epoch."""
        return -(-self.train_size // self.workload.recipe.batch_size)

    def to_record(self) -> dict[str, Any]:
        """Return the complete effective configuration as JSON values."""
        recipe = self.workload.recipe
        return {
            "workload": self.reference,
            "epochs": recipe.epochs,
            "batch_size": recipe.batch_size,
            "learning_rate": recipe.optimizer.learning_rate,
            "train_size": self.train_size,
            "validation_size": self.validation_size,
            "seed": self.seed,
            "device": self.device.torch_name,
            "precision": self.precision,
            "compile": "on" if self.compile else "off",
            "deterministic": self.deterministic,
            "checkpoint_every": self.checkpoint_every,
            "optimizer": type(recipe.optimizer).__name__,
            "schedule": type(recipe.schedule).__name__,
            "weight_decay": dict(recipe.weight_decay),
            "settings": dict(self.settings),
        }


def make_plan(
    workload: Workload, reference: str, options: Options, progress: data.Progress | None = None
) -> Plan:
    """Resolve and check a request; nothing is written and nothing trained.

    Args:
        workload: What to train.
        reference: How it was named.
        options: What was asked.
        progress: Called while data are downloaded.

    Raises:
        RequestError: A value that cannot be, a device that is not here, too little memory.
        TarmacError: The data cannot be had or are damaged.
    """
    _check(options)
    workload = _with_options(workload, options)
    changed, model_arguments = apply_settings(workload, options.settings)
    device = find_device(options.device)
    dataset = _load(changed, progress)
    validation_size = options.validation_size
    available = len(dataset.train) - validation_size
    train_size = available if options.train_size is None else options.train_size
    if not 1 <= train_size <= available:
        held_out = f" ({validation_size} more are held out)" if validation_size else ""
        raise RequestError(
            f"train_size is {train_size}, but {dataset.name} has {max(available, 0)} samples "
            f"to train on{held_out}"
        )
    recipe = changed.recipe
    step_flops, num_parameters = _try_model(changed, model_arguments, dataset)
    check_memory(device, dataset, num_parameters)
    num_samples = train_size * recipe.epochs
    precision, why_precision = choose_precision(
        options.precision, device, step_flops * min(recipe.batch_size, train_size)
    )
    compiled, why_compiled = choose_compile(
        options.compile, device, float(step_flops) * num_samples
    )
    return Plan(
        reference=reference,
        workload=changed,
        settings=settings_of(changed) | dict(model_arguments),
        model_arguments=model_arguments,
        dataset=dataset,
        device=device,
        precision=precision,
        compile=compiled,
        reasons={"precision": why_precision, "compile": why_compiled},
        step_flops=step_flops * recipe.batch_size,
        train_size=train_size,
        validation_size=validation_size,
        seed=options.seed,
        deterministic=options.deterministic,
        checkpoint_every=options.checkpoint_every,
    )


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


def _check(options: Options) -> None:
    for name, lowest in (("validation_size", 0), ("seed", 0), ("checkpoint_every", 1)):
        value = getattr(options, name)
        if value < lowest:
            raise RequestError(f"{name} is {value}, expected at least {lowest}")


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


def _load(workload: Workload, progress: data.Progress | None) -> Dataset:
    if isinstance(workload.dataset, str):
        return data.load(workload.dataset, progress=progress)
    return workload.dataset()


def check_memory(device: Device, dataset: Dataset, num_parameters: int) -> None:
    """Raise a RequestError where data and weights alone are more than a device has free.

    A GPU holds the training set itself, a CPU has it already. Parameters count four times, in fp32:
    values, gradients, and two averages of an optimizer. What the layers' outputs take is not known
    beforehand.
    """
    needed = 4 * 4 * num_parameters
    if device.type == "cuda":
        needed += dataset.train.inputs.nbytes + dataset.train.targets.nbytes
    if needed > device.available_bytes:
        raise RequestError(
            f"{device.torch_name} has {device.available_bytes / 2**30:.1f} GiB of memory free, "
            f"and data, {num_parameters:,} parameters, gradients and optimizer take "
            f"{needed / 2**30:.1f} GiB",
            hint="Use a smaller model, less data, or another --device.",
        )


def _try_model(
    workload: Workload, arguments: Mapping[str, Setting], dataset: Dataset
) -> tuple[int, int]:
    """See that model and data fit together.

    Returns:
        A training step's matrix work for one sample, in FLOP, and the number of parameters.
    """
    with torch.random.fork_rng(devices=[]):
        model = build_model(workload, arguments, seed=0)
        sample = torch.from_numpy(dataset.train.inputs[:2])
        inputs = workload.recipe.preprocess(sample, training=False, dtype=torch.float32)
        forward = count_forward_flops(model, inputs, dataset.num_classes)
    num_parameters = sum(p.numel() for p in model.parameters())
    return _STEP_OVER_FORWARD * forward // len(inputs), num_parameters
