"""Chooses whether cuDNN tries its algorithms out, by rule, and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.machine import Device

# cuDNN builds and times up to ten plans for each convolution, direction and shape (PyTorch's
# Conv_v8.cpp), which takes from tenths of a second to seconds; this much work takes a GPU of
# 100 TFLOP/s ten seconds. Arithmetic, not yet a measurement.
_AUTOTUNE_MIN_FLOPS = 1e15


def choose_autotune(device: Device, run_flops: float, *, deterministic: bool) -> tuple[bool, str]:
    """Choose whether cuDNN finds the fastest algorithms by trying them out.

    Args:
        device: Device on which the training runs.
        run_flops: Matrix work of the whole training.
        deterministic: Whether the same bits are asked for every time, which what is fastest today
            does not give.

    Returns:
        Whether it does, and the reason in words.
    """
    if device.type == "cpu":
        return False, "a CPU has nothing to try out"
    if deterministic:
        return False, "which algorithm is the fastest may change, and --deterministic is asked for"
    if run_flops < _AUTOTUNE_MIN_FLOPS:
        return False, f"{run_flops:.0e} FLOP are too few to pay for it"
    return True, f"{run_flops:.0e} FLOP pay for it"
