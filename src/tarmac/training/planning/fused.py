"""Choose by rule whether the fused kernels compute the steps, and give the reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import nn

from tarmac.data import Dataset
from tarmac.errors import RequestError
from tarmac.kernels import MAX_CLASSES, UnfitNetworkError, read_architecture, why_not
from tarmac.machine import Device
from tarmac.training.engine.strategy import StrategySpec
from tarmac.training.planning.options import Options
from tarmac.workloads import ByType, Classification, Objective, Recipe, Scale

_PRECISIONS = ("fp32", "tf32", "bf16")

# The compute capability of Ampere. For Volta and Turing, Triton 3.7 compiles the kernels without
# matrix-unit instructions, and spills kilobytes of registers.
_SINCE = (8, 0)

# Matrix work of a step above which cuBLAS's larger tiles outweigh the saved launches. By
# arithmetic, not measured yet: launches take some 80 us less on an H200, while the products run at
# a third of cuBLAS's speed. A step of 784-512-512-10 with 128 samples is 0.4e9.
_MAX_STEP_FLOPS = 4e9


def choose_fused(
    options: Options,
    model: nn.Module,
    recipe: Recipe,
    device: Device,
    *,
    strategy: StrategySpec,
    feed: str,
    precision: str,
    is_compiled: bool,
    step_flops: int,
    task: str | None = None,
    missing: Callable[[], str | None] = why_not,
) -> tuple[bool, str]:
    """Choose whether the fused kernels compute the steps: if they can and the steps are small.

    Args:
        options: Options that the user set.
        model: Model to train; the kernels support multilayer perceptrons only.
        recipe: Recipe of the training, with its optimizer and preprocessing.
        device: Device on which the model is trained.
        strategy: Strategy of the training; the kernels support only ``single``.
        feed: How samples get to the device, such as ``resident``.
        precision: Precision of the matrix products, such as ``bf16``.
        is_compiled: Whether ``torch.compile`` is used.
        step_flops: Matrix work of a step, in FLOP.
        task: Reason why the kernels do not fit the data or the objective; None if they fit.
        missing: Function that returns why Triton cannot work here; called only if nothing else
            rules the kernels out.

    Returns:
        Whether the fused kernels are used, and the reason in words.

    Raises:
        RequestError: The request is unknown, or is ``on`` where the kernels cannot be used.
    """
    request = options.fused
    if request not in ("auto", "on", "off"):
        raise RequestError(f"fused is {request!r}, expected auto, on or off")
    if request == "off":
        return False, "as requested"
    choices = {
        f"strategy is {strategy.name}": strategy.name != "single",
        "activation_checkpointing is on": options.activation_checkpointing,
        f"feed is {feed}": feed != "resident",
        f"precision is {precision}": precision not in _PRECISIONS,
        "torch.compile is on": is_compiled,
        f"accumulate is {options.accumulate}": options.accumulate != 1,
    }
    against = (
        _against_device(device)
        or next((choice for choice, excludes in choices.items() if excludes), None)
        or task
        or _against_network(model, recipe)
        or missing()
    )
    if request == "on":
        if against is not None:
            raise RequestError(
                f"the fused kernels cannot train this: {against}",
                hint="Leave --fused out to train with PyTorch's kernels.",
            )
        return True, "as requested"
    if against is not None:
        return False, against
    gflop = step_flops / 1e9
    if step_flops > _MAX_STEP_FLOPS:
        return False, f"{gflop:.0f} GFLOP a step keep a GPU busy without them"
    return True, f"a multilayer perceptron of {gflop:.1f} GFLOP a step on one GPU"


def why_not_plain_classes(objective: Objective, dataset: Dataset) -> str | None:
    """Return why a training does not classify plain bytes; None if it does.

    The fused kernels and other special code support only such classification.
    """
    if not isinstance(objective, Classification):
        return f"the objective is {objective.kind}"
    if list(objective.metrics) != ["accuracy"]:
        return "the objective has metrics beside accuracy"
    splits = dataset.parts().values()
    if any(split.identity is not None for split in splits):
        return "the samples come from a loader"
    if any(split.weights is not None for split in splits):
        return "the samples have weights"
    inputs = dataset.train.inputs
    if not isinstance(inputs, np.ndarray):
        return "there are several inputs"
    return None if inputs.dtype == np.uint8 else f"the inputs are {inputs.dtype}"


def _against_device(device: Device) -> str | None:
    """Return why the kernels cannot run on this device; None if they can."""
    if device.type != "cuda":
        return "they are for GPUs"
    if device.compute_capability is not None and device.compute_capability < _SINCE:
        return f"Triton uses no matrix units of {device.name}; it does since Ampere"
    return None


def _against_network(model: nn.Module, recipe: Recipe) -> str | None:
    """Return why the kernels cannot train this model or recipe; None if they can."""
    if type(recipe.preprocess) not in (Scale, ByType):
        return "the preprocessing is a function of its own"
    if recipe.beyond_plain_steps:
        return f"the recipe has {', '.join(recipe.beyond_plain_steps)}"
    try:
        sizes = read_architecture(model).sizes
    except UnfitNetworkError as error:
        return str(error)
    if sizes[-1] > MAX_CLASSES:
        return f"it has {sizes[-1]} classes, more than {MAX_CLASSES}"
    return None
