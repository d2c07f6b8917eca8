"""Choose batch size and learning rates by rule, and give the reason."""

from __future__ import annotations

import dataclasses
import math

from tarmac.errors import RequestError
from tarmac.training.planning.options import Options
from tarmac.workloads import Recipe


def choose_batch_size(
    options: Options, published: Recipe, configured: Recipe, world_size: int
) -> tuple[Recipe, str]:
    """Resolve the global batch size, and scale the learning rates with it on request.

    Args:
        options: Options that the user set.
        published: The workload's recipe, whose learning rates are for its batch size.
        configured: The same recipe with the user's options.
        world_size: Number of devices that share a batch.

    Returns:
        The recipe with batch size and learning rates, and the arithmetic in words.

    Raises:
        RequestError: A batch has fewer samples than parts, or ``scale_lr`` is unknown.
    """
    batch_size, accumulate = configured.batch_size, options.accumulate
    if options.batch_size_per_device is not None:
        batch_size = options.batch_size_per_device * world_size
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
    match options.scale_lr:
        case "none":
            factor = 1.0
        case "linear":
            factor = ratio
        case "sqrt":
            factor = math.sqrt(ratio)
        case _:
            raise RequestError(f"scale_lr is {options.scale_lr!r}, expected none, linear or sqrt")
    rate = configured.optimizer.learning_rate
    reason = f"{batch_size} samples a step"
    if world_size > 1:
        reason += f", {-(-batch_size // world_size)} on each of {world_size} devices"
    if accumulate > 1:
        reason += f" in {accumulate} parts"
    if options.scale_lr != "none":
        reason += (
            f"; rate {rate:g} x {factor:.4g} ({options.scale_lr}, {batch_size} over the recipe's "
            f"{published.batch_size})"
        )
    recipe = configured.with_learning_rate(rate * factor, published=published)
    return dataclasses.replace(recipe, batch_size=batch_size), reason
