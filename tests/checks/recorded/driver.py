"""Recorded failures of ``failures/driver.toml``, by code."""

from __future__ import annotations

from recorded.evidence import CARD, done, gpu, machine, said, text, with_gpu
from tarmac.checks.evidence import Container, Driver, Evidence
from tarmac.machine import Fabric

RECORDED: dict[str, list[Evidence]] = {
    "no-driver": [
        Evidence(
            inventory=machine(
                cards=(CARD,), driver=Driver(nvml_error="NVML: NVML Shared Library Not Found")
            )
        )
    ],
    "nouveau-loaded": [
        Evidence(
            inventory=machine(
                cards=(CARD,),
                driver=Driver(
                    nvml_error="NVML: NVML Shared Library Not Found", modules=("nouveau",)
                ),
            )
        )
    ],
    "driver-mismatch": [
        text(
            "Failed to initialize NVML: Driver/library version mismatch\n"
            "NVML library version: 550.144"
        ),
        Evidence(
            inventory=machine(
                cards=(CARD,),
                driver=Driver(
                    nvml_error="NVML: RM has detected an NVML/RM version mismatch.",
                    modules=("nvidia",),
                    module_version="550.120",
                ),
            )
        ),
    ],
    "module-missing": [
        text(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
            "sure that the latest NVIDIA driver is installed and running."
        ),
        Evidence(
            inventory=machine(
                cards=(CARD,),
                driver=Driver(nvml_error="NVML: Driver Not Loaded", library="libcuda.so.1"),
            )
        ),
    ],
    "uvm-missing": [
        said(
            "torch",
            "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up "
            "environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start. "
            "Setting the available devices to be zero.",
        ),
        Evidence(
            inventory=with_gpu(
                container=Container(kind="docker", device_nodes=("nvidia0", "nvidiactl"))
            )
        ),
        done(
            "torch",
            with_gpu(container=Container(device_nodes=("nvidia0", "nvidiactl"))),
            build={"cuda": "13.0", "architectures": ["sm_90"]},
        ),
    ],
    "fabric-manager": [
        gpu(fabric=Fabric(state="not started")),
        gpu(fabric=Fabric(state="completed", status=999)),
        said(
            "torch",
            "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you "
            "run some cuda functions before calling NumCudaDevices() that might have already set "
            "an error? Error 802: system not yet initialized (Triggered internally at  "
            "../c10/cuda/CUDAFunctions.cpp:112.)",
        ),
        said(
            "torch",
            "RuntimeError: cuda runtime error (802) : system not yet initialized at "
            ".../THCGeneral.cpp:50",
        ),
    ],
}
