"""Recorded failures of ``failures/frameworks.toml``, by code."""

from __future__ import annotations

from recorded.driver import NO_DRIVER
from recorded.evidence import (
    B200,
    DRIVER,
    H200,
    done,
    ended,
    machine,
    on_gpu,
    said,
    text,
    with_gpu,
)
from tarmac.checks.evidence import Driver, Evidence

RECORDED: dict[str, list[Evidence]] = {
    "torch-cpu-build": [
        said("torch", "AssertionError: Torch not compiled with CUDA enabled"),
        done("torch", build={"cuda": None, "hip": None}),
    ],
    "libcuda-missing": [
        text(
            "2024-06-28 00:03:52.493638: I tensorflow/tsl/cuda/cudart_stub.cc:28] Could not find "
            "cuda drivers on your machine, GPU will not be used."
        ),
        done(
            "tensorflow",
            notes=[
                "I external/local_xla/xla/tsl/cuda/cudart_stub.cc:32] Could not find cuda drivers "
                "on your machine, GPU will not be used."
            ],
        ),
        text("OSError: libcuda.so.1: cannot open shared object file: No such file or directory"),
        said(
            "torch",
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an "
            "NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx",
            machine(),
        ),
    ],
    "driver-old": [
        text("CUDA driver version is insufficient for CUDA runtime version"),
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
        text(
            "    Found GPU0 Tesla K20c which is of cuda capability 3.0.\n"
            "    PyTorch no longer supports this GPU because it is too old."
        ),
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
    "ptx-unsupported": [
        text(
            "failed to load PTX text as a module: CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the provided "
            "PTX was compiled with an unsupported toolchain."
        ),
        text(
            "CUDA error 222 at .../llama.cpp/ggml-cuda.cu:420: the provided PTX was compiled with "
            "an unsupported toolchain."
        ),
    ],
    "arch-unlisted": [
        done(
            "torch",
            notes=[
                "Found GPU0 NVIDIA GB10 which is of compute capability (CC) 12.1.\n"
                "Your installed torch==2.13.0+cu130 does not include kernels for this GPU."
            ],
        ),
        text(
            "    Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\n"
            "    Minimum and Maximum cuda capability supported by this version of PyTorch is\n"
            "    (8.0) - (12.0)"
        ),
        text("No published PyTorch CUDA builds for release 2.13.0+cu130 support this GPU."),
        text(
            "W0000 00:00:1753232013.685876   24341 gpu_device.cc:2431] TensorFlow was not built "
            "with CUDA kernel binaries compatible with compute capability 12.0. CUDA kernels will "
            "be jit-compiled from PTX, which could take 30 minutes or longer."
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
    "slurm-no-gpu": [
        Evidence(inventory=machine(environment={"CUDA_VISIBLE_DEVICES": "NoDevFiles"})),
        done(
            "torch",
            with_gpu(environment={"CUDA_VISIBLE_DEVICES": "NoDevFiles"}),
            build={"cuda": "13.0"},
        ),
        text("CUDA_VISIBLE_DEVICES=NoDevFiles"),
    ],
    "no-gpu-seen": [
        said("torch", "RuntimeError: No CUDA GPUs are available"),
        text(
            "RuntimeError: cuda runtime error (38) : no CUDA-capable device is detected at "
            "torch/csrc/cuda/Module.cpp:34"
        ),
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
        text(
            "WARNING:absl:No GPU/TPU found, falling back to CPU. (Set TF_CPP_MIN_LOG_LEVEL=0 and "
            "rerun for more info.)"
        ),
        done("jax", build={"plugins": {}}),
    ],
    "jax-preallocate": [on_gpu("jax")],
    "jax-libraries": [
        text(
            "ERROR:jax._src.xla_bridge:647: Jax plugin configuration error: Exception when calling "
            "jax_plugins.xla_cuda12.initialize()"
        ),
        text(
            "CUDA backend failed to initialize: Unable to load cuDNN. Is it installed? (Set "
            "TF_CPP_MIN_LOG_LEVEL=0 and rerun for more info.)"
        ),
        said(
            "jax",
            "RuntimeError: Unable to use CUDA because of the following issues with CUDA "
            "components:\nOutdated cuDNN installation found.\nVersion JAX was built against: 8907\n"
            "Minimum supported: 9100\nInstalled version: 8907\nThe local installation version must "
            "be no lower than 9100.",
        ),
        said(
            "jax",
            "RuntimeError: jaxlib version 0.4.38 is newer than and incompatible with jax version "
            "0.4.26. Please update your jax and/or jaxlib packages.",
        ),
    ],
    "jax-bad-libraries": [
        text(
            "cuBLAS < 13.2 (130100 found) has a known issue where many kernels free TMEM buffers "
            "multiple times. Executing a cuBLAS kernel concurrently with another kernel (e.g. on "
            "another stream) can lead to silent data corruption."
        ),
        text(
            "RuntimeError: cuDNN 9.10.0 had a binary backward-compatibility issue due to reordered "
            "enum values affecting block-scale datatypes. Found runtime version 91000 and build "
            "version 90800. Please upgrade to 9.10.1 or above."
        ),
        text(
            "RuntimeError: cuDNN < 9.10.0 (90800 found) had an issue that caused some multi-GPU "
            "matmuls, in which the same finalized execution plan is used across different GPUs, to "
            "be functionally incorrect when run with cublasLt >= 12.9 (120900 found). Please "
            "upgrade to 9.10.1 or above."
        ),
        done(
            "jax",
            machine((B200,), driver=DRIVER),
            build={"plugins": {"jax-cuda13-plugin": "0.8.0"}, "cublas": "13.1.0.3"},
        ),
        done(
            "jax",
            machine((H200, H200.model_copy(update={"index": 1})), driver=DRIVER),
            build={
                "plugins": {"jax-cuda12-plugin": "0.6.0"},
                "cublas": "12.9.0.13",
                "cudnn": "9.8.0.87",
            },
        ),
    ],
    "cudnn-version": [
        text("RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"),
        said(
            "torch",
            "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (8, 5, 0) "
            "but found runtime version (8, 4, 1). PyTorch already comes bundled with cuDNN.",
        ),
        text(
            "Could not load library libcudnn_cnn_train.so.8. Error: /usr/local/cuda-11.1/targets/"
            "x86_64-linux/lib/libcudnn_ops_train.so.8: symbol _Z22cudnnGenericOpTensorNdILi3EE13, "
            "version libcudnn_ops_infer.so.8 not defined in file libcudnn_ops_infer.so.8 with link "
            "time reference"
        ),
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
    "cudnn-init": [
        said(
            "jax",
            "2023-09-11 18:02:05.062414: E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:439] "
            "Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED",
        ),
        said(
            "jax",
            "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization "
            "failed. Look at the errors above for more details.",
        ),
        text(
            "2019-01-23 21:21:11.073710: E tensorflow/stream_executor/cuda/cuda_dnn.cc:455] could "
            "not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED"
        ),
    ],
    "nvjitlink": [
        said(
            "torch",
            "ImportError: /opt/conda/lib/python3.10/site-packages/torch/lib/../../nvidia/cusparse/"
            "lib/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version "
            "libnvJitLink.so.12",
        ),
        text(
            "libcusparse.so.12: symbol __nvJitLinkComplete_12_4, version libnvJitLink.so.12 not "
            "defined in file libnvJitLink.so.12 with link time reference"
        ),
    ],
    "library-missing": [
        said(
            "torch",
            "OSError: libcudart.so.12: cannot open shared object file: No such file or directory",
        ),
        text(
            "Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, libcudnn_ops.so.9, "
            "libcudnn_ops.so}\nInvalid handle. Cannot load symbol cudnnCreateTensorDescriptor"
        ),
        text(
            "Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: "
            "cannot open shared object file: No such file or directory"
        ),
    ],
    "libdevice": [
        text("Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice."),
        text("InternalError: libdevice not found at ./libdevice.10.bc [Op:__some_op]"),
    ],
    "numpy-abi": [
        text(
            "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.1.0 as it may "
            "crash. To support both 1.x and 2.x\nversions of NumPy, modules must be compiled with "
            "NumPy 2.0."
        ),
        text("<stdin>:1: UserWarning: Failed to initialize NumPy: _ARRAY_API not found"),
        said("torch", "RuntimeError: Numpy is not available"),
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
        text("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
        said(
            "torch",
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
            "`cublasCreate(handle)`",
        ),
    ],
    "device-unavailable": [
        said(
            "torch",
            "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        ),
        said(
            "torch",
            "RuntimeError: cuda runtime error (46) : all CUDA-capable devices are busy or "
            "unavailable at /opt/conda/conda-bld/pytorch/torch/lib/THC/generic/THCStorage.cu:66",
        ),
    ],
    "bad-ordinal": [
        said("torch", "RuntimeError: CUDA error: invalid device ordinal"),
        text("failed call to cuDeviceGet: CUDA_ERROR_INVALID_DEVICE: invalid device ordinal"),
        text(
            "RuntimeError: cuda runtime error (101) : invalid device ordinal at /pytorch/torch/"
            "csrc/cuda/Module.cpp:59"
        ),
    ],
    "fork": [
        said(
            "torch",
            "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
            "multiprocessing, you must use the 'spawn' start method",
        )
    ],
    "illegal-access": [
        said("torch", "RuntimeError: CUDA error: an illegal memory access was encountered"),
        text("RuntimeError: CUDA error: unspecified launch failure"),
        text(
            "could not synchronize on CUDA event: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory "
            "access was encountered"
        ),
        text("failed to enqueue: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"),
    ],
    "device-assert": [
        said("torch", "RuntimeError: CUDA error: device-side assert triggered"),
        text(
            "Indexing.cu:1515: indexSelectSmallIndex: block: [15,0,0], thread: [49,0,0] Assertion "
            "`srcIndex < srcSelectDimSize` failed."
        ),
    ],
    "peer-access": [
        text(
            "Failed: Cuda error /w/csrc/custom_all_reduce.cuh:307 'peer access is not supported "
            "between these two devices'"
        ),
        text("CUDART error: peer access is not supported between these two devices"),
        text("RuntimeError: Can't enable access between nodes 0 and 1"),
    ],
    "xpu-error": [
        text(
            "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)"
        ),
        text("RuntimeError: Native API failed. Native API returns: -999 (Unknown PI error)"),
    ],
    "xla-compile": [
        text(
            "jax.errors.JaxRuntimeError: INTERNAL: Autotuning failed for HLO: %input_reduce_fusion "
            "= pred[] fusion(...) with error: NOT_FOUND: No valid config found!"
        ),
        text("XlaRuntimeError: INTERNAL: No valid engine configs for Matmul_MUL_GEN_INDEX_"),
        text("nvptx_compiler.cc:614] Check failed: options.is_autotuning_compilation "),
    ],
    "device-map": [
        text(
            "[rank0]: ValueError: You can't train a model that has been loaded with "
            "`device_map='auto'` in any distributed mode. Please rerun your script specifying "
            "`--num_processes=1`."
        ),
    ],
    "hub-transfer": [
        text(
            "[0] [0] RuntimeError: Data processing error: CAS service error : ReqwestMiddleware "
            "Error: Request failed after 5 retries"
        ),
    ],
    "vmm-unsupported": [
        text(
            "GetGlobalCuDriverApi().cuMemGetAllocationGranularity(\n    &granularity, prop, "
            "CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)\nCUDA driver error: CUDA_ERROR_NOT_SUPPORTED. "
            "operation not supported"
        ),
        text("cuMemAddressReserve(&address, size, 0, 0, 0): CUDA_ERROR_NOT_SUPPORTED"),
    ],
    "oom": [
        said("torch", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        text(
            "E external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out "
            "of memory trying to allocate 1.25TiB (rounded to 1374521760000)requested by op"
        ),
        said("torch", "RuntimeError: CUDA error: out of memory"),
        text("RuntimeError: cuda runtime error (2) : out of memory at THCStorage.cu:58"),
        text(
            "torch.AcceleratorError: CUDA error: out of memory\nSearch for "
            "`cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda/cuda-runtime-api/"
            "group__CUDART__TYPES.html for more information."
        ),
        text("torch.OutOfMemoryError: XPU out of memory. Tried to allocate 9.77 GiB."),
        text("NCCL WARN Cuda failure 2 'out of memory'"),
        text("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 3.31 GiB."),
        text(
            "failed to allocate 2.20G (2362232064 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: "
            "out of memory"
        ),
        said("jax", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes."),
        said("tensorflow", "ResourceExhaustedError: OOM when allocating tensor with shape[8192]"),
    ],
    "mxnet-numpy": [
        said(
            "mxnet",
            'File "/usr/local/lib/python3.8/dist-packages/mxnet/numpy/utils.py", line 37, in '
            "<module>\n    bool = onp.bool\nAttributeError: module 'numpy' has no attribute "
            "'bool'.",
        ),
        said(
            "mxnet",
            'File "/opt/venv/lib/python3.11/site-packages/mxnet/numpy/utils.py", line 43, in '
            "<module>\n    PZERO = onp.PZERO\nAttributeError: `np.PZERO` was removed in the NumPy "
            "2.0 release. Use `0.0` instead.",
        ),
    ],
    "mxnet-cpu-build": [done("mxnet", build={"with_cuda": False})],
    "chainer-cupy": [
        said("chainer", "Chainer: CuPy Not Available"),
        text("ImportError: CuPy is not correctly installed."),
        said(
            "chainer",
            "ImportError: \n================================================================\n"
            "Failed to import CuPy.\n\nIf you installed CuPy via wheels (cupy-cudaXXX or "
            "cupy-rocm-X-X), make sure that the package matches with the version of CUDA or ROCm "
            "installed.",
        ),
        text(
            "  CuPy may not function correctly because multiple CuPy packages are installed\n"
            "  in your environment:"
        ),
        done("chainer", build={"cupy": None}),
    ],
    "horovod-not-built": [
        said(
            "horovod",
            "ImportError: Extension horovod.mxnet has not been built.  If this is not expected, "
            "reinstall Horovod with HOROVOD_WITH_MXNET=1 to debug the build error.",
        ),
        said(
            "horovod",
            "ValueError: Gloo support is required to use elastic training, but has not been built. "
            " Ensure CMake is installed and reinstall Horovod with HOROVOD_WITH_GLOO=1 to debug "
            "the build error.",
        ),
        text(
            "ValueError: MPI support has not been built.  If this is not expected, ensure MPI is "
            "installed and reinstall Horovod with HOROVOD_WITH_MPI=1 to debug the build error."
        ),
    ],
    "horovod-not-started": [
        said("horovod", "ValueError: Horovod has not been initialized; use hvd.init()."),
    ],
    "no-avx": [
        said(
            "jax",
            "RuntimeError: This version of jaxlib was built using AVX instructions, which your CPU "
            "and/or operating system do not support. You may be able work around this issue by "
            "building jaxlib from source.",
        ),
        text(
            "2019-04-09 02:01:27.898877: F tensorflow/core/platform/cpu_feature_guard.cc:37] The "
            "TensorFlow library was compiled to use AVX instructions, but these aren't available "
            "on your machine."
        ),
        text("Illegal instruction (core dumped)"),
        text("Fatal Python error: Illegal instruction"),
        Evidence(
            inventory=machine(missing_instructions=("avx", "avx2", "fma")),
            probes=ended("crashed", "SIGILL, during import").probes,
        ),
    ],
    "tf-cpu-instructions": [
        text(
            "2022-06-14 21:22:40.528624: I tensorflow/core/platform/cpu_feature_guard.cc:193] This "
            "TensorFlow binary is optimized with oneAPI Deep Neural Network Library (oneDNN) to "
            "use the following CPU instructions in performance-critical operations:  AVX2 FMA"
        ),
        text(
            "I0000 00:00:1795319099.404376   13959 cpu_feature_guard.cc:227] This TensorFlow "
            "binary is optimized to use available CPU instructions in performance-critical "
            "operations."
        ),
        text(
            "2019-01-09 21:39:35.073563: I tensorflow/core/platform/cpu_feature_guard.cc:141] Your "
            "CPU supports instructions that this TensorFlow binary was not compiled to use: AVX2 "
            "AVX512F FMA"
        ),
        text(
            "The TensorFlow library wasn't compiled to use SSE4.1 instructions, but these are "
            "available on your machine and could speed up CPU computations."
        ),
        text(
            "I0000 00:00:1795319099.298474   13959 port.cc:153] oneDNN custom operations are on. "
            "You may see slightly different numerical results due to floating-point round-off "
            "errors from different computation orders."
        ),
    ],
    "tf-numa-node": [
        text(
            "2021-09-26 15:29:11.893611: I tensorflow/stream_executor/cuda/cuda_gpu_executor.cc:937"
            "] successful NUMA node read from SysFS had negative value (-1), but there must be at "
            "least one NUMA node, so returning NUMA node zero"
        ),
    ],
    "tf-registered-twice": [
        text(
            f"2023-10-09 13:36:23.355516: E tensorflow/compiler/xla/stream_executor/cuda/{file}] "
            f"Unable to register {name} factory: Attempting to register factory for plugin {name} "
            "when one has already been registered"
        )
        for file, name in (
            ("cuda_dnn.cc:9342", "cuDNN"),
            ("cuda_fft.cc:609", "cuFFT"),
            ("cuda_blas.cc:1518", "cuBLAS"),
        )
    ],
    "slow-variables": [
        Evidence(inventory=with_gpu(environment=variables))
        for variables in (
            {"CUDA_LAUNCH_BLOCKING": "1"},
            {"NCCL_DEBUG": "TRACE"},
            {"CUDA_INJECTION64_PATH": "/opt/nvidia/nsight/libToolsInjection64.so"},
        )
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

RECORDED["no-gpu-seen"] += [
    said("torch", "RuntimeError: No HIP GPUs are available"),
    text("Couldn't init CUDA: No CUDA devices"),
    said("jax", "XlaRuntimeError: FAILED_PRECONDITION: No visible GPU devices."),
    text("MisconfigurationException: No supported gpu backend found!"),
    said(
        "torch",
        "RuntimeError: Attempting to deserialize object on a CUDA device but "
        "torch.cuda.is_available() is False.",
    ),
]
RECORDED["driver-old"] += [
    text("init.cc:96 NCCL WARN CUDA Driver version found is 11020. Minimum requirement is 12000")
]
RECORDED["cudnn-init"] += [
    text(
        "UnknownError: Failed to get convolution algorithm. This is probably because cuDNN failed "
        "to initialize"
    )
]
RECORDED["bad-ordinal"] += [
    text("MisconfigurationException: You requested gpu: [0, 1]\\n But your machine only has: [0]")
]
RECORDED["illegal-access"] += [
    text(
        "Memory access fault by GPU node-1 (Agent handle: 0x5fa7) on address (nil). Reason: Page "
        "not present or supervisor privilege."
    )
]
RECORDED["numpy-abi"] += [text("AttributeError: module 'numpy' has no attribute 'bool'.")]
# The frames that PyTorch and others print these in are tried in test_error_tables.py.
RECORDED |= {
    "cuda-stub": [text("failed call to cuInit: UNKNOWN ERROR (34)")],
    "launch-size": [
        text("RuntimeError: CUDA error: too many resources requested for launch"),
        text(
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: "
            "131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help."
        ),
        text(
            "OutOfMemoryError: out of resource: triton_per_fused_add_div_mul_7\n"
            "Required: 327768 Hardware limit:232448 Reducing block sizes or `num_stages` may help."
        ),
    ],
    "launch-timeout": [text("CUDA error: the launch timed out and was terminated")],
    "graph-capture": [
        text("RuntimeError: CUDA error: operation not permitted when stream is capturing"),
        text("CUDA error: operation failed due to a previous error during capture"),
        text(
            "torch._dynamo.exc.InternalTorchDynamoError: RuntimeError: Cannot call "
            "CUDAGeneratorImpl::current_seed during CUDA graph capture."
        ),
    ],
    "mps": [
        text(
            "RuntimeError: CUDA error: MPS client failed to connect to the MPS control daemon or "
            "the MPS server"
        )
    ],
    "cuda-error": [
        text("RuntimeError: CUDA error: invalid argument"),
        text("Error named symbol not found at line 529 in file /src/csrc/ops.cu"),
    ],
    "library-error": [
        text("cuDNN Frontend error: [cudnn_frontend] Error: No valid execution plans built."),
        text("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
        text(
            "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling "
            "`cublasSgemm( handle, opa, opb, m, n, k)`"
        ),
        text("RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR"),
        text("F cuda_dnn.cc:516] Check failed: f(handle) == CUDNN_STATUS_SUCCESS (3 vs. 0)"),
        text("XlaRuntimeError: INTERNAL: cuSolver internal error"),
        text("XlaRuntimeError: INTERNAL: cuSparse execution failed"),
    ],
}

RECORDED["numpy-abi"] += [
    text(
        "ValueError: numpy.dtype size changed, may indicate binary incompatibility. "
        "Expected 96 from C header, got 88"
    )
]

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
    "libcuda-missing": [
        # What TensorFlow says of every machine without a GPU.
        done(
            "tensorflow",
            machine(),
            notes=["Could not find cuda drivers on your machine, GPU will not be used."],
        ),
        text("dso_loader.cc:49] Successfully opened dynamic library libcuda.so.1"),
        text("NCCL INFO NET/Plugin: libnccl-net.so: cannot open shared object file: No such file"),
    ],
    "ptx-unsupported": [text("ptxas info    : Compiling entry function '_Z6kernelPf' for 'sm_90'")],
    "arch-unlisted": [
        text("Found GPU 0: NVIDIA H200, compute capability 9.0"),
        text(
            "Created device /job:localhost/replica:0/task:0/device:GPU:0, compute capability: 9.0"
        ),
    ],
    "forward-compat": [text("CUDA Forward Compatibility mode ENABLED.")],
    "slurm-no-gpu": [
        Evidence(inventory=with_gpu(environment={"CUDA_VISIBLE_DEVICES": "0"})),
        text("SLURM_JOB_GPUS=0 CUDA_VISIBLE_DEVICES=0"),
    ],
    "no-gpu-seen": [
        # What TensorFlow says where GPUs were hidden on purpose.
        text(
            "E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:282] failed call to "
            "cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
        ),
        text("Number of CUDA GPUs: 8"),
    ],
    "tf-dlopen": [
        # TensorRT is an extra; the driver's own library is another failure's.
        text("Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot"),
        text("Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open"),
        text("TF-TRT Warning: Could not find TensorRT"),
        done("tensorflow", machine(), notes=["Skipping registering GPU devices..."]),
    ],
    "jax-libraries": [
        text("jax 0.8.0, jaxlib 0.8.0: CUDA backend initialized"),
        text("Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so"),
    ],
    "jax-bad-libraries": [
        done(
            "jax",
            machine((B200,), driver=DRIVER),
            build={"plugins": {"jax-cuda13-plugin": "0.9.0"}, "cublas": "13.2.0.1"},
        ),
        # Neither of the two concerns one Hopper.
        done(
            "jax",
            build={
                "plugins": {"jax-cuda12-plugin": "0.6.0"},
                "cublas": "12.9.0.13",
                "cudnn": "9.8.0.87",
            },
        ),
        done("jax", machine((B200,), driver=DRIVER), build={"plugins": {}}),
        # The first that does right by several GPUs.
        done(
            "jax",
            machine((H200, H200), driver=DRIVER),
            build={
                "plugins": {"jax-cuda12-plugin": "0.6.0"},
                "cublas": "12.9.0.13",
                "cudnn": "9.10.1.4",
            },
        ),
    ],
    "cudnn-version": [
        text("Loaded cuDNN version 91002"),
        text("cuda_dnn.cc:529] Loaded runtime CuDNN library: 9.10.2"),
    ],
    "cudnn-init": [text("CUDNN_STATUS_SUCCESS"), text("Created cudnn handle")],
    "nvjitlink": [text("Successfully installed nvidia-nvjitlink-cu12-12.8.93")],
    "library-missing": [
        # NCCL looks for plug-ins, and computes without.
        text(
            "NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared "
            "object file: No such file or directory : when loading libnccl-net.so"
        ),
        text("Could not load library libnvinfer.so.8: cannot open shared object file"),
        done(
            "tensorflow",
            machine(),
            notes=["dlerror: libcudart.so.11.0: cannot open shared object file: No such file"],
        ),
    ],
    "libdevice": [text("Using libdevice at /usr/local/cuda/nvvm/libdevice/libdevice.10.bc")],
    # An attempt with one choice of an autotuner, which takes another.
    "device-map": [text("loading with device_map='auto': 8 GPUs")],
    "hub-transfer": [text("INFO hf_xet: CAS service answers, 12 blocks")],
    "vmm-unsupported": [text("cuMemAddressReserve() of 2 MiB: done")],
    "launch-size": [text("Triton autotuning: 12 of 40 configs need more shared memory, left out")],
    "cuda-error": [text("CUDA errors: 0, warnings: 0"), text(NO_DRIVER)],
    "library-error": [text("I1 cudnn: CUDNN_STATUS_SUCCESS after 3 plans")],
    "cuda-stub": [text("-L/usr/local/cuda/lib64/stubs -lcuda")],
    "mps": [text("nvidia-cuda-mps-control started, 2 clients")],
    "graph-capture": [text("Capturing CUDA graph shapes: 100%|##########| 35/35")],
    "launch-timeout": [text("watchdog timeout for kernels: enabled")],
    "numpy-abi": [text("NumPy 2.1.0 is available"), text("NumPy is not available here")],
    "cublas-init": [text("CUBLAS_STATUS_SUCCESS")],
    "device-unavailable": [text("the server is busy or unavailable, please retry")],
    "bad-ordinal": [text("Rank 3 uses CUDA device ordinal 3")],
    "fork": [text("multiprocessing start method: fork")],
    "illegal-access": [
        text("CUDA kernel errors might be asynchronously reported at some other API")
    ],
    "device-assert": [
        # A hint beside every error of CUDA.
        text("Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."),
    ],
    "oom": [
        # A message of gRPC's that is too long.
        text(
            'status = StatusCode.RESOURCE_EXHAUSTED details = "Received message larger than max '
            '(4194330 vs. 4194304)"'
        ),
        # An attempt of TensorFlow's, which goes on with less.
        text(
            "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.11GiB. The caller "
            "indicates that this is not a failure, but may mean that there could be performance "
            "gains if more memory were available."
        ),
    ],
    "mxnet-numpy": [
        text(
            'File "/opt/venv/lib/python3.8/site-packages/mxnet/numpy/utils.py", line 22, in '
            "<module>"
        ),
        text("AttributeError: module 'numpy' has no attribute 'bool'."),
    ],
    "horovod-not-built": [text("Gloo support has been built")],
    "no-avx": [
        # What TensorFlow says of every CPU that has more than its build uses.
        text(
            "This TensorFlow binary is optimized to use available CPU instructions in "
            "performance-critical operations.\nTo enable the following instructions: AVX2 FMA, in "
            "other operations, rebuild TensorFlow with the appropriate compiler flags."
        ),
        text(
            "The TensorFlow library wasn't compiled to use AVX instructions, but these are "
            "available on your machine and could speed up CPU computations."
        ),
        Evidence(inventory=machine(), probes=ended("crashed", "SIGILL, during import").probes),
        Evidence(
            inventory=machine(missing_instructions=("avx2", "fma")),
            probes=ended("crashed", "SIGSEGV, during import").probes,
        ),
    ],
    "slow-variables": [
        Evidence(
            inventory=with_gpu(environment={"CUDA_LAUNCH_BLOCKING": "0", "NCCL_DEBUG": "INFO"})
        ),
        # Nothing here is slowed down.
        Evidence(inventory=machine(environment={"CUDA_LAUNCH_BLOCKING": "1"})),
    ],
}
