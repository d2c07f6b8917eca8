"""Which share of what its chips can do a training has used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.machine import find_chip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tarmac.machine import Device
    from tarmac.training.plan import Plan

__all__ = ["model_flops_utilization"]

# A backward pass multiplies each matrix twice, for the gradients of weights and of inputs
# (Chowdhery et al., "PaLM", 2022, appendix B).
_PASSES = 3


def model_flops_utilization(plan: Plan, history: Iterable[Mapping[str, float]]) -> float | None:
    """Return the model FLOPs utilisation over all epochs of a training, 0 to 1.

    Of linear and convolution layers alone, which is what `Plan.sample_flops` counts.

    Args:
        plan: Of the training.
        history: The lines of its ``metrics.jsonl``.

    Returns:
        The share; None before the first epoch, on CPUs, where a chip or its nominal rate in the
        training's precision is not known, and where a GPU is a slice of one.
    """
    rates = [_nominal_flops(device, plan.precision) for device in plan.devices]
    seconds = samples = 0.0
    for row in history:
        seconds += row["seconds"]
        samples += row["samples_per_s"] * row["seconds"]
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(rates) or seconds <= 0:
        return None
    # Those of other machines are taken to be as these.
    available = sum(known) * plan.world_size / len(known)
    return _PASSES * plan.sample_flops * samples / seconds / available


def _nominal_flops(device: Device, precision: str) -> float | None:
    if device.type != "cuda" or (device.uuid or "").startswith("MIG"):
        return None
    chip = find_chip(device.name, memory_bytes=device.memory_bytes)
    # TF32's and fp64's rates are not in the table.
    if chip is None or precision not in ("fp32", "bf16") or not chip.is_verified(precision):
        return None
    return float(getattr(chip, precision)) * 1e12
