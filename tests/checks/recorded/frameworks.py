"""Recorded failures of ``failures/frameworks.toml``, by code."""

from __future__ import annotations

from recorded.evidence import DRIVER, H200, done, machine, on_gpu, said, with_gpu
from tarmac.checks.evidence import Driver, Evidence

RECORDED: dict[str, list[Evidence]] = {
    "torch-cpu-build": [
        said("torch", 'raise AssertionError("Torch not compiled with CUDA enabled")'),
        done("torch", build={"cuda": None, "hip": None}),
    ],
    "torch-driver-missing": [
        said(
            "torch",
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an "
            "NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx",
            machine(),
        )
    ],
    "driver-old": [
        said(
            "torch",
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). "
            "Please update your GPU driver by downloading and installing a new version from the "
            "URL: http://www.nvidia.com/Download/index.aspx",
        ),
        done(
            "torch",
            machine((H200,), driver=Driver(version="535.1", cuda="12.2")),
            build={"cuda": "13.0"},
        ),
    ],
    "arch-missing": [
        said(
            "torch",
            "NVIDIA A100-PCIE-40GB with CUDA capability sm_80 is not compatible with the current "
            "PyTorch installation.\nThe current PyTorch install supports CUDA capabilities sm_37 "
            "sm_50 sm_60 sm_70 sm_75.",
        ),
        said(
            "torch",
            "RuntimeError('CUDA error: no kernel image is available for execution on the device')",
        ),
        done(
            "torch",
            machine((H200.model_copy(update={"capability": (6, 0)}),), driver=DRIVER),
            build={"cuda": "13.0", "architectures": ["sm_75", "sm_80", "sm_90", "compute_120"]},
            devices=[{"name": "cuda:0", "kind": "gpu"}],
        ),
    ],
    "forward-compat": [
        said(
            "torch",
            "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you "
            "run some cuda functions before calling NumCudaDevices() that might have already set "
            "an error? Error 804: forward compatibility was attempted on non supported HW",
        )
    ],
    "no-visible": [
        done("torch", with_gpu(environment={"CUDA_VISIBLE_DEVICES": value}), build={"cuda": "13.0"})
        for value in ("", "-1", "3", "GPU-ffff", "0,7")
    ],
    "tf-dlopen": [
        said(
            "tensorflow",
            "2022-07-10 15:08:09.276131: W tensorflow/stream_executor/platform/default/"
            "dso_loader.cc:64] Could not load dynamic library 'libcudnn.so.8'; dlerror: "
            "libcudnn.so.8: cannot open shared object file: No such file or directory",
        ),
        said(
            "tensorflow",
            "W tensorflow/core/common_runtime/gpu/gpu_device.cc:1956] Cannot dlopen some GPU "
            "libraries. Please make sure the missing libraries mentioned above are installed "
            "properly if you would like to use GPU.\nSkipping registering GPU devices...",
        ),
    ],
    "tf-cpu-build": [done("tensorflow", build={"with_cuda": False})],
    "tf-memory-all": [on_gpu("tensorflow")],
    "jax-cpu": [
        said(
            "jax",
            "WARNING:2025-06-15 17:04:55,449:jax._src.xla_bridge:791: An NVIDIA GPU may be present "
            "on this machine, but a CUDA-enabled jaxlib is not installed. Falling back to cpu.",
        ),
        done("jax", build={"plugins": {}}),
    ],
    "jax-preallocate": [on_gpu("jax")],
    "cudnn-version": [
        said(
            "tensorflow",
            "E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:447] Loaded runtime CuDNN "
            "library: 8.7.0 but source was compiled with: 8.9.4.  CuDNN library needs to have "
            "matching major version and equal or higher minor version.",
        ),
        said(
            "tensorflow",
            "E tensorflow/stream_executor/cuda/cuda_dnn.cc:378] Loaded runtime CuDNN library: 7201 "
            "(compatibility version 7200) but source was compiled with 7004 (compatibility "
            "version 7000).",
        ),
    ],
    "ld-path-shadow": [
        done(
            "torch",
            with_gpu(environment={"LD_LIBRARY_PATH": "/usr/local/cuda-11.8/lib64/:/opt/x"}),
            build={"cuda": "13.0"},
            devices=[{"name": "cuda:0", "kind": "gpu"}],
            libraries=["/usr/local/cuda-11.8/lib64/libcudart.so.11.0", "/usr/lib/libcuda.so.1"],
        )
    ],
    "cublas-init": [
        said(
            "torch",
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
            "`cublasCreate(handle)`",
        )
    ],
    "device-assert": [said("torch", "RuntimeError: CUDA error: device-side assert triggered")],
    "oom": [
        said("torch", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        said("jax", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes."),
        said("tensorflow", "ResourceExhaustedError: OOM when allocating tensor with shape[8192]"),
    ],
    "mxnet-numpy": [
        said(
            "mxnet",
            'File "/usr/local/lib/python3.8/dist-packages/mxnet/numpy/utils.py", line 37, in '
            "<module>\n    bool = onp.bool\nAttributeError: module 'numpy' has no attribute "
            "'bool'.",
        )
    ],
    "mxnet-cpu-build": [done("mxnet", build={"with_cuda": False})],
    "chainer-cupy": [
        said("chainer", "Chainer: CuPy Not Available"),
        done("chainer", build={"cupy": None}),
    ],
    "horovod-not-built": [
        said(
            "horovod",
            "ImportError: Extension horovod.mxnet has not been built.  If this is not expected, "
            "reinstall Horovod with HOROVOD_WITH_MXNET=1 to debug the build error.",
        ),
        said("horovod", "Extension mxnet was NOT built with Gloo."),
        said("horovod", "ValueError: Horovod has not been initialized; use hvd.init()."),
    ],
    "silent-cpu": [
        done("torch", build={"cuda": "13.0", "architectures": ["sm_90"]}),
        on_gpu("tensorflow", placement="/job:localhost/replica:0/task:0/device:CPU:0"),
    ],
    "device-absent": [
        done("torch", machine(), wanted=["cuda"], devices=[]),
        done(
            "torch",
            wanted=["cuda:0", "cuda:1"],
            devices=[{"name": "cuda:0", "kind": "gpu", "placement": "cuda:0"}],
        ),
    ],
}

_WORKS = {"build": {"cuda": "13.0", "hip": None, "architectures": ["sm_80", "sm_90"]}}

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "torch-cpu-build": [
        done("torch", machine(), build={"cuda": None, "hip": None}),
        done("torch", build={"cuda": None, "hip": None}, wanted=["cpu"]),
        done("torch", build={"cuda": None, "hip": "6.4"}),
    ],
    "driver-old": [
        # Builds of a newer minor version run on the drivers of the same major one.
        done(
            "torch",
            machine((H200,), driver=Driver(version="525.60", cuda="12.0")),
            build={"cuda": "12.8"},
        ),
        done("torch", machine(driver=Driver()), build={"cuda": "13.0"}),
    ],
    "arch-missing": [
        # An Orin runs what an A100 does.
        done(
            "torch",
            machine((H200.model_copy(update={"capability": (8, 7)}),), driver=DRIVER),
            **_WORKS,
        ),
    ],
    "no-visible": [
        done("torch", with_gpu(environment={"CUDA_VISIBLE_DEVICES": value}), **_WORKS)
        for value in ("0", "GPU-7d3c132a")
    ],
    "tf-cpu-build": [
        done("tensorflow", machine(), build={"with_cuda": False}),
        done("tensorflow", build={"with_cuda": False}, wanted=["cpu"]),
    ],
    "tf-memory-all": [
        Evidence(
            inventory=with_gpu(environment={"TF_FORCE_GPU_ALLOW_GROWTH": "true"}),
            probes=on_gpu("tensorflow").probes,
        ),
        done("tensorflow", machine()),
    ],
    "jax-cpu": [
        done("jax", machine(), build={"plugins": {}}),
        done("jax", build={"plugins": {"jax-cuda13-plugin": "0.10.2"}}),
    ],
    "jax-preallocate": [
        Evidence(
            inventory=with_gpu(environment={"XLA_PYTHON_CLIENT_MEM_FRACTION": ".5"}),
            probes=on_gpu("jax").probes,
        ),
        done("jax", machine()),
    ],
    "ld-path-shadow": [
        done(
            "torch",
            with_gpu(environment={"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/opt/venv/lib"}),
            libraries=[
                "/usr/local/nvidia/lib64/libcuda.so.1",
                "/opt/venv/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9",
            ],
        )
    ],
    "mxnet-cpu-build": [
        done("mxnet", machine(), build={"with_cuda": False}),
        done("mxnet", build={"with_cuda": True}),
    ],
    "chainer-cupy": [
        done("chainer", machine(), build={"cupy": None}),
        done("chainer", build={"cupy": "11.6.0"}),
    ],
    "silent-cpu": [
        on_gpu("jax", placement="cuda:0"),
        done("torch", machine()),
        done("all-reduce", cpu_because="2 ranks need a GPU each, and 1 can be seen"),
    ],
    "device-absent": [
        done("torch", machine(), wanted=["cpu"]),
        # Ranks have names of their own.
        done("all-reduce", wanted=["cuda:0"]),
    ],
}
