"""The utilization of a GPU's tensor cores, from NVIDIA's GPM counters, which exist since Hopper.

Each reading compares two samples, so the first reading returns None.
"""

from __future__ import annotations

import math
from typing import Any

import pynvml

from tarmac.machine.nvml_calls import ask


class TensorReader:
    """A reader of one GPU's tensor cores.

    Args:
        handle: NVML handle of the GPU.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        support = ask(pynvml.nvmlGpmQueryDeviceSupport, handle)
        self._is_supported = support is not None and bool(support.isSupportedDevice)
        self._last: Any = None
        self._spare: Any = None

    def close(self) -> None:
        """Free the samples that the driver has allocated."""
        samples, self._last, self._spare = (self._last, self._spare), None, None
        for sample in samples:
            if sample is not None:
                ask(pynvml.nvmlGpmSampleFree, sample)

    def read(self) -> float | None:
        """Return the busy share of time since the last reading, 0 to 1; None if unknown."""
        if not self._is_supported:
            return None
        sample = self._spare or ask(pynvml.nvmlGpmSampleAlloc)
        if sample is None or ask(pynvml.nvmlGpmSampleGet, self._handle, sample) is None:
            # For example, the GPU is partitioned, or another program uses the counters.
            self._spare = sample
            return None
        last, self._last, self._spare = self._last, sample, self._last
        if last is None:
            return None
        wanted = pynvml.c_nvmlGpmMetricsGet_t()
        wanted.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        wanted.numMetrics = 1
        wanted.sample1, wanted.sample2 = last, sample
        wanted.metrics[0].metricId = pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL
        if ask(pynvml.nvmlGpmMetricsGet, wanted) is None:
            return None
        metric = wanted.metrics[0]
        is_sound = metric.nvmlReturn == pynvml.NVML_SUCCESS and math.isfinite(metric.value)
        return metric.value / 100 if is_sound and 0 <= metric.value <= 100 else None
