"""Choose batch size and learning rate by rule, and give the reason."""

from __future__ import annotations

import dataclasses
import math

from tarmac.errors import RequestError
from tarmac.workloads import Recipe


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchSize:
    """The global batch size and its learning rate.

    Attributes:
        batch_size: Samples per step, of all devices together.
        learning_rate: Learning rate that goes with the batch size.
    """

    batch_size: int
    learning_rate: float


def choose_batch_size(
    published: Recipe,
    requested: Recipe,
    world_size: int,
    *,
    per_device: int | None,
    accumulate: int,
    scale_lr: str,
) -> tuple[BatchSize, str]:
    """Resolve the global batch size, and scale the learning rate with it on request.

    Args:
        published: The workload's recipe, whose learning rate is for its batch size.
        requested: The same recipe with the user's options.
        world_size: Number of devices that share a batch.
        per_device: Samples per device and step; None to use the recipe's batch size.
        accumulate: Number of micro-batches per device and step.
        scale_lr: ``"none"``, ``"linear"`` or ``"sqrt"``.

    Returns:
        Batch size and learning rate, and the arithmetic in words.

    Raises:
        RequestError: A batch has fewer samples than parts, or ``scale_lr`` is unknown.
    """
    batch_size = requested.batch_size if per_device is None else per_device * world_size
    parts = world_size * accumulate
    if batch_size < parts:
        accumulated = f" with {accumulate} parts each" if accumulate > 1 else ""
        raise RequestError(
            f"batch_size is {batch_size}, which {world_size} devices{accumulated} cannot share"
            if world_size > 1
            else f"batch_size is {batch_size}, which cannot be divided into {accumulate} parts",
            hint=f"Use at least --batch-size {parts}.",
        )
    ratio = batch_size / published.batch_size
    match scale_lr:
        case "none":
            factor = 1.0
        case "linear":
            factor = ratio
        case "sqrt":
            factor = math.sqrt(ratio)
        case _:
            raise RequestError(f"scale_lr is {scale_lr!r}, expected none, linear or sqrt")
    rate = requested.optimizer.learning_rate
    reason = f"{batch_size} samples a step"
    if world_size > 1:
        reason += f", {-(-batch_size // world_size)} on each of {world_size} devices"
    if accumulate > 1:
        reason += f" in {accumulate} parts"
    if scale_lr != "none":
        reason += (
            f"; rate {rate:g} x {factor:.4g} ({scale_lr}, {batch_size} over the recipe's "
            f"{published.batch_size})"
        )
    return BatchSize(batch_size=batch_size, learning_rate=rate * factor), reason
