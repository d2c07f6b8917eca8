"""Search for the step in which a training diverged, by repeating the epoch with a check per step.

A training itself does not check each loss: reading a loss waits for the device.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tarmac.data import Loaded
from tarmac.errors import TarmacError
from tarmac.training.engine.columns import Arrangement, num_samples_of, view
from tarmac.training.engine.engine import Engine
from tarmac.training.engine.feeds import rows_tensor
from tarmac.training.engine.prediction import call_model
from tarmac.training.engine.scoring import in_precision
from tarmac.training.plan import Plan
from tarmac.training.shares import order_of

_MAX_NAMED = 5

# fairseq's limit to stop a training (`--min-loss-scale`), after thirty skipped steps in a row.
_LEAST_LOSS_SCALE = 1e-4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Divergence:
    """The first place where a training's loss is not finite.

    Attributes:
        place: The step in words, with the samples and the layer if they are known.
        is_first_step: Whether it is the first step of the training.
    """

    place: str
    is_first_step: bool


def check_finite(
    loss: float, epoch: int, precision: str, find: Callable[[], Divergence | None]
) -> None:
    """Raise a TarmacError if a training has diverged.

    Args:
        loss: Mean loss over the training set in this epoch.
        epoch: Number of the epoch, from 1, for the message.
        precision: Precision of the matrix products, such as ``fp16``; the hint depends on it.
        find: Called after a divergence; returns its place, or None if that is unknown.
    """
    if math.isfinite(loss):
        return
    first = find()
    other = "" if precision in {"fp32", "fp64"} else ", or --precision fp32"
    hint = f"Try a lower --lr{other}."
    if first is not None and first.is_first_step:
        hint = (
            "No step was taken before, so the learning rate is not the cause: look at the "
            f"layer and the data{other}."
        )
    raise TarmacError(
        f"the loss is {loss} in epoch {epoch}: the training has diverged"
        + (f" ({first.place})" if first is not None else ""),
        hint=hint,
    )


def check_loss_scale(scale: float | None, epoch: int, *, are_all_skipped: bool) -> None:
    """Raise a TarmacError if fp16 training skips its steps even with a small loss scale.

    Args:
        scale: Loss scale after an epoch; None in other precisions.
        epoch: Number of the epoch, from 1, for the message.
        are_all_skipped: Whether the training has ended with every step skipped.
    """
    if scale is None or not (are_all_skipped or scale < _LEAST_LOSS_SCALE):
        return
    raise TarmacError(
        f"the steps of epoch {epoch} are skipped: their gradients in fp16 are not finite, even "
        f"with a loss scale of {scale:.1g}",
        hint="Use --precision fp32: if fp16 is not the cause, it reports where they are not "
        "finite.",
    )


def find_divergence(
    engine: Engine, plan: Plan, *, position: tuple[int, int], epoch: int, limit_s: float
) -> Divergence | None:
    """Find the first step whose loss is not finite, its samples, and the layer that caused it.

    Args:
        engine: Engine of a single process, at ``position``; the search trains it further.
        plan: Plan of the engine, with one step per call.
        position: The epoch and step that the engine is at.
        epoch: Index of the epoch that diverged, from 0.
        limit_s: Longest time to search, in seconds.

    Returns:
        The divergence; None if the search did not find it in time.
    """
    end = time.monotonic() + limit_s
    first_epoch, first_step = position
    before: dict[str, torch.Tensor] = {}

    def keep() -> None:
        before.update({name: value.clone() for name, value in engine.weights().items()})

    def is_over(_step: int) -> bool:
        if not math.isfinite(engine.score_so_far().loss):
            return True
        keep()
        return time.monotonic() > end

    for number in range(first_epoch, epoch + 1):
        keep()
        done = engine.train_epoch(number, first_step if number == first_epoch else 0, is_over)
        if not math.isfinite(done.score.loss):
            step = done.num_steps - 1
            return Divergence(
                place=_describe(engine, plan, before, number, step),
                is_first_step=number == step == 0,
            )
        if time.monotonic() > end:
            return None
    return None


@torch.no_grad()
def _describe(
    engine: Engine, plan: Plan, weights: dict[str, torch.Tensor], epoch: int, step: int
) -> str:
    text = f"the loss is not finite first in step {step + 1} of epoch {epoch + 1}"
    broken = [name for name, value in weights.items() if not value.isfinite().all()]
    if broken:
        return f"{text}: {broken[0]} is not finite before it, the step before is too large"
    engine.load(weights)
    start = step * plan.shares.batch_size
    order = order_of(plan.seed, epoch, plan.train_size)
    index = order[start : start + plan.shares.global_size(step)]
    split = plan.dataset.train
    if isinstance(split, Loaded) and split.loading.is_stream:
        # A stream's samples are numbered in the order of arrival.
        index = torch.arange(start, start + len(index))
    layer, samples = _inspect(engine, plan, index, epoch)
    if samples:
        named = ", ".join(map(str, samples[:_MAX_NAMED]))
        more = f" and {len(samples) - _MAX_NAMED} more" if len(samples) > _MAX_NAMED else ""
        text += f", for sample{'s' * (len(samples) > 1)} {named}{more} of train (from 0)"
    return f"{text}; the first layer whose output is not is {layer}" if layer else text


def _inspect(
    engine: Engine, plan: Plan, index: torch.Tensor, epoch: int
) -> tuple[str | None, list[int]]:
    """Return the first layer whose output is not finite, and the samples whose loss is not."""
    replica, split = engine.first_replica, plan.dataset.train
    layers: list[str] = []

    def look(name: str, layer: nn.Module, output: Any) -> None:
        is_float = isinstance(output, torch.Tensor) and output.is_floating_point()
        if not layers and is_float and not output.isfinite().all():
            layers.append(f"{name or 'the model'} ({type(layer).__name__})")

    hooks = [
        layer.register_forward_hook(
            lambda layer, _inputs, output, name=name: look(name, layer, output)
        )
        for name, layer in replica.model.named_modules()
    ]
    if replica.loader is not None:
        replica.loader.start_epoch(epoch)
        positions, first = index, 0
        if isinstance(split, Loaded) and split.loading.is_stream:
            first = int(index[0])
        span = (first, first + len(index))
        raw, targets = replica.loader.samples(*next(replica.loader.batches(positions, [span])))
    else:
        rows = rows_tensor(plan.held.train)[index].numpy()
        tensors = [view(column[rows]).to(replica.device) for column in split.columns.values()]
        raw, targets = Arrangement(split).batch(tensors)
    is_bf16 = plan.precision == "bf16"
    dtype = torch.float64 if plan.precision == "fp64" else torch.float32
    preprocess = plan.workload.recipe.preprocess
    inputs = preprocess(raw, training=True, dtype=torch.bfloat16 if is_bf16 else dtype)
    try:
        with torch.autocast(replica.device.type, torch.bfloat16, is_bf16):
            output = in_precision(call_model(replica.model.train(), inputs), dtype)
    finally:
        for hook in hooks:
            hook.remove()
    losses = plan.workload.objective.loss(output, inputs if targets is None else targets)
    is_bad = ~losses.isfinite()
    if losses.shape != (num_samples_of(raw),):
        return next(iter(layers), None), []
    bad = index[is_bad.cpu()]
    if not (isinstance(split, Loaded) and split.loading.is_stream):
        bad = rows_tensor(plan.held.train)[bad]
    return next(iter(layers), None), bad.tolist()
