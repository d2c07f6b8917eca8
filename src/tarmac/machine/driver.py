"""NVIDIA's driver: the version of its module, and its start before PyTorch needs it.

PyTorch computes in a GPU's primary context, which the driver creates once per process. This takes
some tenths of a second and needs neither Python nor PyTorch; ctypes lets other threads run
meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

from tarmac.machine.amd_files import text_of

_SUCCESS = 0
# CUdevice_attribute CU_DEVICE_ATTRIBUTE_COMPUTE_MODE and CUcomputemode (cuda.h).
_COMPUTE_MODE, _DEFAULT_MODE = 20, 0


def wake_driver(*, with_context: bool) -> bool:
    """Start the driver's library in this process.

    Without a driver, or if it fails, nothing happens: the code that needs it raises the error.

    Args:
        with_context: Whether to create the context too, if this process sees exactly one GPU. A
            process that only plans must not: a context takes some hundred MiB, and among several
            GPUs the choice is not made yet. A GPU in an exclusive mode is skipped, because the
            check beside a training computes there too.

    Returns:
        Whether a context was created.
    """
    # PyTorch sets this before its own start, because drivers before 12.2 have another default.
    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count, device, mode = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) != _SUCCESS or not with_context:
        return False
    if cuda.cuDeviceGetCount(ctypes.byref(count)) != _SUCCESS or count.value != 1:
        return False
    if cuda.cuDeviceGet(ctypes.byref(device), 0) != _SUCCESS:
        return False
    status = cuda.cuDeviceGetAttribute(ctypes.byref(mode), _COMPUTE_MODE, device)
    if status != _SUCCESS or mode.value != _DEFAULT_MODE:
        return False
    # The context is never released: it is in use until the process ends.
    context = ctypes.c_void_p()
    return bool(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == _SUCCESS)


def read_module_version(root: Path = Path("/")) -> str | None:
    """Return the version of the loaded kernel module; None where none is loaded.

    Args:
        root: Directory that has ``proc`` and ``sys``; for tests. Default: ``/``.
    """
    loaded = text_of(root / "sys/module/nvidia/version")
    if loaded is not None:
        return loaded
    described = re.search(
        r"\s(\d+\.\d+(?:\.\d+)?)\s", text_of(root / "proc/driver/nvidia/version") or ""
    )
    return described[1] if described else None
