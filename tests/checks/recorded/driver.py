"""Recorded failures of ``failures/driver.toml``, by code."""

from __future__ import annotations

from recorded.evidence import (
    ABSENT,
    BLACKWELL,
    CARD,
    DOCKER,
    DRIVER,
    H200,
    OTHER_CARD,
    done,
    gpu,
    machine,
    said,
    text,
    with_gpu,
)
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
    "driver-build": [
        text(
            "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol "
            "'rcu_read_unlock_strict'"
        ),
    ],
    "driver-mismatch": [
        text(
            "Failed to initialize NVML: Driver/library version mismatch\n"
            "NVML library version: 550.144"
        ),
        text(
            "2025-01-27 13:52:31.859580: E external/local_xla/xla/stream_executor/cuda/"
            "cuda_diagnostics.cc:262] kernel version 550.120.0 does not match DSO version 560.35.5 "
            "-- cannot find working devices in this configuration"
        ),
        text(
            "[   12.014918] NVRM: API mismatch: the client has the version 570.153.02, but\n"
            "               NVRM: this kernel module has the version 570.144.  Please"
        ),
        text(
            "[    9.424670] NVRM: API mismatch: the client 'kwin_wayland' (pid 1005)\n"
            "               NVRM: has the version 595.84, but this kernel module has"
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
    "driver-combination": [
        text("failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported"),
        said(
            "torch",
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
            "functions before calling NumCudaDevices() that might have already set an error? Error "
            "803: system has unsupported display driver / cuda driver combination",
        ),
        text(
            "CUDA: Check failed: e == cudaSuccess (803 vs. 0) : system has unsupported display "
            "driver / cuda driver combination"
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
        text("Last error: Cuda failure 999 'unknown error'"),
        text("CUDA error 999: unknown error"),
        text("failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error"),
        text(
            "THCudaCheck FAIL file=/pytorch/aten/src/THC/THCGeneral.cpp line=50 error=999 : "
            "unknown error"
        ),
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
    "hmm": [
        said(
            "torch",
            "RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu",
        ),
        text("cu->cuInit(0) failed -> CUDA_ERROR_NOT_INITIALIZED: initialization error"),
        text(
            'level=INFO source=gpu.go:612 msg="Unable to load cudart library '
            "/usr/lib/x86_64-linux-gnu/libcuda.so.575.57.08: cuda driver library init failure: "
            '3"'
        ),
        said(
            "torch",
            "RuntimeError: CUDA error: initialization error",
            machine((BLACKWELL, BLACKWELL.model_copy(update={"index": 1})), driver=DRIVER),
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
        text("failed call to cuInit: CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized"),
    ],
}

RECORDED["driver-mismatch"] += [
    text(
        "nvidia-container-cli: initialization error: nvml error: driver/library "
        "version mismatch: unknown"
    )
]

# What comes close, and is no such failure, by code.
NO_DRIVER = (
    "E0000 00:00:1795921560.093482   10304 cuda_platform.cc:52] failed call to cuInit: INTERNAL: "
    "CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)"
)

CLOSE: dict[str, list[Evidence]] = {
    "no-driver": [
        Evidence(inventory=machine(cards=(OTHER_CARD,), driver=ABSENT)),
        Evidence(inventory=machine(cards=(CARD,), driver=ABSENT, container=DOCKER)),
        Evidence(inventory=with_gpu()),
    ],
    "nouveau-loaded": [
        # The card was given to a virtual machine, or taken out.
        Evidence(inventory=machine(driver=ABSENT.model_copy(update={"modules": ("nouveau",)}))),
        Evidence(inventory=with_gpu()),
    ],
    "driver-build": [text("nvidia: module license 'NVIDIA' taints kernel.")],
    "driver-mismatch": [
        Evidence(
            inventory=machine(
                cards=(CARD,), driver=DRIVER.model_copy(update={"module_version": DRIVER.version})
            )
        ),
        text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.144.03"),
        text(
            "I external/local_xla/xla/stream_executor/cuda/cuda_diagnostics.cc:259] kernel version "
            "seems to match DSO: 550.120.0"
        ),
    ],
    "module-missing": [
        # In WSL the driver is Windows's, and has no module.
        Evidence(inventory=machine((H200,), driver=Driver(version="580.1", library="x"))),
        Evidence(
            inventory=machine(
                cards=(CARD,),
                driver=Driver(nvml_error="NVML: Unknown Error", library="x"),
                container=DOCKER,
            )
        ),
    ],
    "uvm-missing": [
        # CUDA makes the node at its first use since the start.
        Evidence(inventory=with_gpu(container=Container(device_nodes=("nvidia0", "nvidiactl")))),
        Evidence(inventory=with_gpu(container=Container(device_nodes=("nvidia0", "nvidia-uvm")))),
        text("torch.cuda.DeferredCudaCallError: CUDA call failed lazily at initialization"),
        text("RuntimeError: CUDA error: out of memory"),
        # TensorFlow 2.22 on a machine without a driver, where no library has names for errors.
        text(NO_DRIVER),
    ],
    "driver-combination": [
        text("nvidia-smi: unsupported option 'combination'"),
        text("torch.version.cuda 12.8, driver 580.126.20, display attached: no"),
    ],
    "hmm": [
        # One GPU, or older ones: a process that was forked after CUDA's start.
        said("torch", "RuntimeError: CUDA error: initialization error"),
        said(
            "torch",
            "RuntimeError: CUDA error: initialization error",
            machine((BLACKWELL,), driver=DRIVER),
        ),
    ],
    "fabric-manager": [text("nvidia-fabricmanager[2112]: Successfully configured all NVSwitches")],
}
