"""The end of ``tarmac train --steps N``: its speed, compared with the chip's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.runs import RunRecord


def trial_lines(record: RunRecord) -> Iterator[str]:
    """Yield the lines at the end of a trial.

    Args:
        record: Record of a completed run that had a limit of steps.
    """
    metrics, configuration = record.metrics, record.configuration
    yield f"{record.stopped_early}: nothing was scored, judged or kept, and it cannot be resumed"
    speed = f"{metrics['samples_per_s']:,.4g} samples/s"
    if "tokens_per_s" in metrics:
        speed = f"{metrics['tokens_per_s']:,.0f} tokens/s ({speed})"
    yield f"{speed}, {_flops(metrics['flops_per_s'])} in products of matrices"
    if record.dataset.get("note"):
        yield f"data: {record.dataset['note']}"
    known = _known(record)
    if record.mfu is None:
        yield f"MFU unknown: {known}"
    else:
        yield f"MFU {record.mfu:.1%} of {configuration['precision']}: {known}"


def _flops(rate: float) -> str:
    return f"{rate / 1e12:,.1f} TFLOP/s" if rate >= 1e12 else f"{rate / 1e9:,.2f} GFLOP/s"


def _known(record: RunRecord) -> str:
    """Return the known speed of a chip, or why none is known."""
    from tarmac.machine import find_chip

    device, precision = record.device, str(record.configuration["precision"])
    if device["type"] == "cpu":
        return "the peak rate of this CPU is not known"
    chip = find_chip(device["name"], memory_bytes=device.get("memory_bytes"))
    nominal = getattr(chip, precision, None)
    if chip is None or nominal is None:
        return f"the peak rate of {device['name']} in {precision} is not known"
    known = f"one {chip.name} can do {nominal:,.0f} TFLOP/s"
    if chip.attainable is not None and precision in ("bf16", "fp16"):
        known += f", and reaches {chip.attainable:.0%} in large products"
    return known
