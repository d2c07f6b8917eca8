"""Choose by rule whether cuDNN tries its algorithms, and give the reason."""

from __future__ import annotations

from tarmac.machine import Device

# cuDNN builds and times up to ten plans for each convolution, direction and shape (PyTorch's
# Conv_v8.cpp), which takes from tenths of a second to seconds. A GPU of 100 TFLOP/s takes ten
# seconds for this much work. The limit is arithmetic, not yet a measurement.
_AUTOTUNE_MIN_FLOPS = 1e15


def choose_autotune(device: Device, run_flops: float, *, deterministic: bool) -> tuple[bool, str]:
    """Choose whether cuDNN tries its algorithms to find the fastest.

    Args:
        device: Device on which the training runs.
        run_flops: Matrix work of the whole training, in FLOP.
        deterministic: Whether the user requested bit-identical results. The fastest algorithm may
            differ from run to run, so autotuning cannot give them.

    Returns:
        Whether cuDNN tries its algorithms, and the reason in words.
    """
    if device.type == "cpu":
        return False, "autotuning has no effect on a CPU"
    if deterministic:
        return False, (
            "--deterministic is requested, and the fastest algorithm may change between runs"
        )
    if run_flops < _AUTOTUNE_MIN_FLOPS:
        return False, f"{run_flops:.0e} FLOP are too few for it to save time"
    return True, f"{run_flops:.0e} FLOP are enough for it to save time"
