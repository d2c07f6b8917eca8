"""The share of its chips' peak FLOP/s that a training has used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tarmac.machine import Device, find_chip
from tarmac.training.plan import Plan
from tarmac.workloads import NextToken


def model_flops_utilization(plan: Plan, history: Iterable[Mapping[str, float]]) -> float | None:
    """Return the model FLOPs utilisation over all epochs of a training, 0 to 1.

    It counts `Plan.sample_flops`, as Chowdhery et al., "PaLM", 2022, appendix B: a backward pass
    multiplies each matrix twice, for the gradients of weights and of inputs.

    Args:
        plan: Training plan, with the devices and the precision.
        history: Lines of the run's ``metrics.jsonl``.

    Returns:
        The share. None before the first epoch, on CPUs, on a slice of a GPU, and if a chip or its
        nominal rate in the training's precision is unknown.
    """
    rates = [_nominal_flops(device, plan.precision) for device in plan.devices]
    seconds, samples = _seconds_and_samples(history)
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(rates) or seconds <= 0:
        return None
    # Assume that devices of other machines have the same rates.
    available = sum(known) * plan.world_size / len(known)
    return plan.sample_flops * samples / seconds / available


def speed_of(plan: Plan, history: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the speed of a training, over all its epochs, as final metrics by name.

    Args:
        plan: Training plan, with the FLOP per sample.
        history: Lines of the run's ``metrics.jsonl``, at least one.

    Returns:
        ``samples_per_s``; ``tokens_per_s`` if the samples are windows of tokens; and
        ``flops_per_s``, the corresponding rate of `Plan.sample_flops`.
    """
    seconds, samples = _seconds_and_samples(history)
    rate = samples / seconds
    speed = {"samples_per_s": rate, "flops_per_s": plan.sample_flops * rate}
    shape = plan.dataset.sample_shape
    if isinstance(plan.workload.objective, NextToken) and isinstance(shape, tuple):
        speed["tokens_per_s"] = rate * math.prod(shape)
    return speed


def _seconds_and_samples(history: Iterable[Mapping[str, float]]) -> tuple[float, float]:
    seconds = samples = 0.0
    for row in history:
        seconds += row["seconds"]
        samples += row["samples_per_s"] * row["seconds"]
    return seconds, samples


def _nominal_flops(device: Device, precision: str) -> float | None:
    if device.type != "cuda" or (device.uuid or "").startswith("MIG"):
        return None
    chip = find_chip(device.name, memory_bytes=device.memory_bytes)
    # The table lacks the rates of TF32 and fp64.
    if chip is None or precision not in ("fp32", "bf16") or not chip.is_verified(precision):
        return None
    return float(getattr(chip, precision)) * 1e12
