"""Recorded failures of ``failures/programs.toml``, by code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recorded.evidence import text

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence

RECORDED: dict[str, list[Evidence]] = {
    "torch-abi": [
        text(
            "ImportError: /venv/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so: "
            "undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationE"
        ),
        text("RuntimeError: operator torchvision::nms does not exist"),
        text(
            "RuntimeError: Couldn't load custom C++ ops. This can happen if your PyTorch "
            "and torchvision versions are incompatible"
        ),
    ],
    "nccl-symbol": [
        text("ImportError: /venv/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister")
    ],
    "python-headers": [
        text("/tmp/tmpab12/main.c:5:10: fatal error: Python.h: No such file or directory"),
        text("/tmp/cuda_utils.c:14: error: include file 'Python.h' not found"),
    ],
    "no-compiler": [
        text(
            "RuntimeError: Failed to find C compiler. Please specify via CC environment variable."
        ),
        text(
            "torch._inductor.exc.InvalidCxxCompiler: No working C++ compiler found in "
            "torch._inductor.config.cpp.cxx"
        ),
        text("error: command 'x86_64-linux-gnu-gcc' failed: No such file or directory"),
        text(
            "RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)"
        ),
    ],
    "nvcc-missing": [
        text(
            "OSError: CUDA_HOME environment variable is not set. Please set it to your "
            "CUDA install root."
        ),
        text("FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'"),
        text(
            "RuntimeError: apex: nvcc was not found. Are you sure your environment has "
            "nvcc available?"
        ),
        text("CMake Error: Failed to find nvcc."),
    ],
    "nvcc-version": [
        text(
            "RuntimeError: The detected CUDA version (11.8) mismatches the version that "
            "was used to compile PyTorch (12.4)."
        ),
        text(
            "deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: "
            "Installed CUDA version 12.2 does not match the version torch was compiled with 11.7, "
            "unable to compile cuda/cpp extensions without a matching cuda version."
        ),
        text(
            "host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions "
            "later than 12 are not supported!"
        ),
    ],
    "linker-cuda": [text("/usr/bin/ld: cannot find -lcuda: No such file or directory")],
    "chip-unknown": [
        text("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'"),
        text("nvcc fatal   : Unsupported gpu architecture 'compute_120'"),
        text("'sm_120' is not a recognized processor for this target (ignoring processor)"),
        text("ValueError: Unknown CUDA arch (12.0) or GPU not supported"),
    ],
    "ptxas-missing": [
        text("INTERNAL: Couldn't get ptxas version : Couldn't invoke ptxas --version"),
        text("INTERNAL: ptxas exited with non-zero error code 65280, output: "),
        text(
            "UNAVAILABLE: No PTX compilation provider is available. Neither ptxas/nvlink "
            "nor nvjtlink is available."
        ),
    ],
    "bitsandbytes": [
        text(
            "CUDA Setup failed despite CUDA being available. Please run the following "
            "command to get more information:"
        ),
        text(
            "Could not find the bitsandbytes CUDA binary at "
            "PosixPath('/venv/libbitsandbytes_cuda124.so')"
        ),
        text("RuntimeError: Configured CUDA binary not found at /venv/libbitsandbytes_cuda130.so"),
        text("AttributeError: /venv/libbitsandbytes_cpu.so: undefined symbol: cget_managed_ptr"),
    ],
    "glibc-old": [
        text(
            "ImportError: /lib/x86_64-linux-gnu/libm.so.6: version `GLIBC_2.38' not found "
            "(required by /venv/x.so)"
        ),
        text("OSError: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.32' not found"),
    ],
    "static-tls": [
        text(
            "OSError: /usr/lib/aarch64-linux-gnu/libgomp.so.1: cannot allocate memory in "
            "static TLS block"
        ),
        text("ImportError: dlopen: cannot load any more object with static TLS"),
    ],
    "memory-limit": [
        text("OSError: /venv/torch/lib/libtorch_cpu.so: failed to map segment from shared object")
    ],
    "openmp-twice": [
        text("OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.")
    ],
    "cuda-headers": [
        text("/tmp/tmp_itxw3hv/main.c:1:10: fatal error: cuda.h: No such file or directory"),
        text("csrc/ops.cu:3:10: fatal error: cuda_runtime.h: No such file or directory"),
        text("/usr/bin/tcc: error: include file 'cuda.h' not found"),
    ],
    "dtensor-mixed": [
        text(
            "[rank1]: RuntimeError: aten.embedding.default: got mixed torch.Tensor and DTensor, "
            "need to convert all torch.Tensor to DTensor before calling distributed operators!"
        ),
    ],
    "request-slots": [
        text(
            "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for "
            "`--max-running-requests`."
        ),
        text("RuntimeError: Out of request slots."),
    ],
    "go-panic": [
        text(
            "stderr F panic: runtime error: invalid memory address or nil pointer dereference\n"
            "stderr F [signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x1092953]"
        ),
    ],
    "package-missing": [
        text("ModuleNotFoundError: No module named 'deepspeed'"),
        text("torch._inductor.exc.TritonMissing: Cannot find a working triton installation."),
        text(
            "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the "
            "following error: the package flash_attn seems to be not installed."
        ),
    ],
    "protobuf": [text("TypeError: Descriptors cannot be created directly.")],
    "chip-too-old": [
        text("ptxas /tmp/tmp.ptx, line 90; error   : Feature '.bf16' requires .target sm_80"),
        text("RuntimeError: FlashAttention only supports Ampere GPUs or newer."),
        text(
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at "
            "least 8.0. Your Tesla T4 GPU has compute capability 7.5."
        ),
        text("ValueError: Your setup doesn't support bf16/gpu."),
        text(
            "error: type fp8e4nv not supported in this architecture. The supported fp8 "
            "dtypes are (fp8e4b15, fp8e5)"
        ),
        text(
            "ValueError: torch.float8 is only supported on CUDA devices with compute "
            "capability >= 9.0"
        ),
        text(
            "NotImplementedError: requires device with capability > (9, 0) but your GPU "
            "has capability (8, 0)"
        ),
    ],
    "attention-kernel": [
        text(
            "NotImplementedError: No operator found for "
            "`memory_efficient_attention_forward` with inputs:"
        ),
        text("RuntimeError: No available kernel. Aborting execution."),
        text(
            "RuntimeError: cuDNN Frontend error: No valid engine configs for "
            "Matmul_MUL_Reduction_SUB_EXP_Reduction_LOG_ADD_DIV_Matmul_"
        ),
        text("RuntimeError: [cudnn_frontend] Error: No execution plans support the graph."),
    ],
    "devices-mixed": [
        text("RuntimeError: No backend type associated with device type cpu"),
        text(
            "RuntimeError: Expected all tensors to be on the same device, but found at "
            "least two devices, cuda:0 and cpu!"
        ),
        text(
            "RuntimeError: Input type (torch.FloatTensor) and weight type "
            "(torch.cuda.FloatTensor) should be the same"
        ),
    ],
    "weights-only": [
        text(
            "_pickle.UnpicklingError: Weights only load failed. This file can still be "
            "loaded, to do so you have two options"
        )
    ],
    "weights-incomplete": [
        text(
            "safetensors_rust.SafetensorError: Error while deserializing header: "
            "MetadataIncompleteBuffer"
        ),
        text(
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding "
            "central directory"
        ),
        text("_pickle.UnpicklingError: invalid load key, 'v'."),
        text("RuntimeError: unexpected EOF, expected 40 more bytes. The file might be corrupted."),
    ],
    "keys-differ": [
        text("RuntimeError: Error(s) in loading state_dict for ResNet:"),
        text(
            "size mismatch for fc.weight: copying a param with shape torch.Size([1000, "
            "512]) from checkpoint"
        ),
    ],
    "hub-denied": [
        text("huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-67)"),
        text(
            "Cannot access gated repo for url https://huggingface.co/a/b/resolve/main/config.json."
        ),
        text(
            "Access to model a/b is restricted. You must have access to it and be "
            "authenticated to access it."
        ),
        text(
            "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: "
            "https://hub.example/a"
        ),
        text("wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])"),
        text("OSError: Invalid user token."),
    ],
    "hub-limited": [
        text(
            "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests "
            "for url: https://huggingface.co/a"
        ),
        text("toomanyrequests: You have reached your pull rate limit."),
        text("urllib.error.HTTPError: HTTP Error 429: Too Many Requests"),
    ],
    "no-network": [
        text("socket.gaierror: [Errno -3] Temporary failure in name resolution"),
        text("socket.gaierror: [Errno -2] Name or service not known"),
        text("OSError: We couldn't connect to 'https://huggingface.co' to load this file"),
        text(
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host=x, port=443): "
            "Max retries exceeded with url: /a"
        ),
        text(
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested "
            "files in the disk cache"
        ),
        text(
            "OfflineModeIsEnabled: Cannot reach https://huggingface.co/a: offline mode is enabled."
        ),
        text("OSError: [Errno 101] Network is unreachable"),
        text(
            "NewConnectionError: <urllib3 object>: Failed to establish a new connection: "
            "[Errno 111] Connection refused"
        ),
    ],
    "certificate": [
        text(
            "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate "
            "verify failed: self-signed certificate in certificate chain (_ssl.c:1000)"
        ),
        text("x509: certificate signed by unknown authority"),
    ],
    "kv-cache-small": [
        text(
            "ValueError: No available memory for the cache blocks. Try increasing "
            "`gpu_memory_utilization`"
        ),
        text(
            "ValueError: The model's max seq len (8192) is larger than the maximum number "
            "of tokens that can be stored in KV cache (6048)."
        ),
        text(
            "ValueError: To serve at least one request with the models's max seq len "
            "(32768), (4.00 GiB KV cache is needed, which is larger than the available KV "
            "cache memory (1.2 GiB)."
        ),
        text("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
    ],
    "host-memory": [
        text(
            "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. "
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 80000000000 "
            "bytes."
        ),
        text(
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 56.8 GiB for an "
            "array with shape (4, 5)"
        ),
        text("OSError: [Errno 12] Cannot allocate memory"),
        text("terminate called after throwing an instance of 'std::bad_alloc'"),
        text("MemoryError"),
    ],
    "processes-limit": [
        text("RuntimeError: can't start new thread"),
        text(
            "OpenBLAS blas_thread_init: pthread_create failed for thread 2 of 64: Resource "
            "temporarily unavailable"
        ),
        text("bash: fork: retry: Resource temporarily unavailable"),
        text("BlockingIOError: [Errno 11] Resource temporarily unavailable"),
        text("libgomp: Thread creation failed: Resource temporarily unavailable"),
    ],
    "crashed": [
        text("Segmentation fault (core dumped)"),
        text("Fatal Python error: Aborted"),
        text("traceback : Signal 11 (SIGSEGV) received by PID 14677"),
        text("double free or corruption (!prev)"),
        text("Bus error (core dumped)"),
        text("*** stack smashing detected ***: terminated"),
    ],
    "workers-main": [
        text(
            "An attempt has been made to start a new process before the current process "
            "has finished its bootstrapping phase."
        )
    ],
    "worker-lost": [
        text("RuntimeError: DataLoader worker (pid(s) 2155, 2156) exited unexpectedly"),
        text("RuntimeError: DataLoader worker (pid 2155) is killed by signal: Segmentation fault."),
        text(
            "concurrent.futures.process.BrokenProcessPool: A process in the process pool "
            "was terminated abruptly while the future was running"
        ),
    ],
    "unused-parameters": [
        text(
            "RuntimeError: Expected to have finished reduction in the prior iteration "
            "before starting a new one."
        )
    ],
    "loss-scale": [
        text(
            "Exception: Current loss scale already at minimum - cannot decrease scale "
            "anymore. Exiting run."
        ),
        text("FloatingPointError: Minimum loss scale reached (0.0001)."),
    ],
    "jit-cache": [
        text("torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print)"),
        text("torch._inductor.exc.InductorError: LoweringException"),
        text("torch._dynamo.exc.BackendCompilerFailed: backend=inductor raised:"),
        text("RuntimeError: PassManager::run failed"),
    ],
    "extension-build": [
        text("RuntimeError: Error building extension 'cpu_adam'"),
        text("RuntimeError: Error compiling objects for extension"),
        text("ninja: build stopped: subcommand failed."),
        text("      error: command '/opt/conda/bin/nvcc' failed with exit code 255"),
    ],
    "heads-undivided": [
        text(
            "ValueError: Total number of attention heads (52) must be divisible by tensor parallel "
            "size (3)."
        )
    ],
    "model-unknown": [
        text(
            "ValueError: The checkpoint you are trying to load has model type `qwen3_vl` but "
            "Transformers does not recognize this architecture. This could be because of an issue "
            "with the checkpoint, or because your version of Transformers is out of date."
        )
    ],
    "sampled-not-finite": [
        text("RuntimeError: probability tensor contains either `inf`, `nan` or element < 0"),
        text("RuntimeError: probability tensor contains either inf, nan or element < 0"),
    ],
    "process-lost": [
        text(
            "F0929 17:42:48.594200 1044529 client.h:77] Terminating process because the JAX "
            "distributed service detected fatal errors. This most likely indicates that another "
            "task died; see the other task logs for more details."
        ),
        text(
            "absl::Status: UNAVAILABLE: Failed to send RPC to coordination service. Either the "
            "leader task was preempted/died/restarted unexpectedly"
        ),
        text(
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core "
            "proc(s): {}"
        ),
        text(
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."
        ),
        text(
            "The actor is dead because its worker process has died. Worker exit detail: Worker "
            "unexpectedly exits with a connection error code 2. There are some potential root "
            "causes. (3) The worker is crashed unexpectedly due to SIGSEGV or other unexpected "
            "errors."
        ),
        text("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "),
        text(
            "[rank: 1] Child process with PID 12 terminated with code 1. Forcefully terminating "
            "all other processes to avoid zombies"
        ),
        text("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."),
        text(
            "UNAVAILABLE: Task /job:jax_worker/replica:0/task:0 heartbeat timeout. This indicates "
            "that the remote task has failed, got preempted, or crashed unexpectedly."
        ),
        text("[2025-02-21 22:59:28] Rank 0 scheduler is dead. Please check if there are any."),
        text("A worker died or was killed while executing a task by an unexpected system error."),
        text("Aborted (core dumped)"),
        text(
            "torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -6) "
            "local_rank: 0 (pid: 223) of binary: /usr/bin/python3"
        ),
        text("srun: error: n1: task 0: Exited with exit code 1"),
        text(
            "mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal 6 (Aborted)."
        ),
    ],
    "killed": [
        text("  exitcode  : -9 (pid: 14677)"),
        text("  traceback : Signal 9 (SIGKILL) received by PID 14677"),
        text("worker process exited with code -9"),
        text("[rank: 1] Child process with PID 12 terminated with code -9. Forcefully terminating"),
        text("srun: error: node1: tasks 0-7: Killed"),
        text("/var/spool/slurmd/job77/slurm_script: line 12: 41077 Killed    python train.py"),
    ],
}

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "cuda-headers": [text('#include "cuda.h" (CUDA 13.0), -- found: /usr/local/cuda/include')],
    "dtensor-mixed": [text("INFO converted 12 torch.Tensor to DTensor")],
    "request-slots": [text("INFO max_running_requests=48, req_to_token_pool of 2048")],
    "go-panic": [text("INFO recovered from a panic of the plugin's health check")],
    "nvcc-version": [
        text(
            "[WARNING]  DeepSpeed Op Builder: Installed CUDA version 12.1 does not match the "
            "version torch was compiled with 11.8.Detected `DS_SKIP_CUDA_CHECK=1`: Allowing this "
            "combination of CUDA, but it may result in unexpected behavior."
        ),
    ],
}
