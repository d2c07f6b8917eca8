"""The table of errors: every error in every frame in which programs print it."""

from __future__ import annotations

import pytest
from test_patterns import growth_of_steps

from tarmac.checks import read_catalogue
from tarmac.checks.rules.errors import forms_of, read_apis
from tarmac.checks.rules.patterns import ErrorPattern, find_in

APIS = read_apis()

# How programs print an error of CUDA; by the program that does, as its source has it.
CUDA = {
    "PyTorch": "RuntimeError: CUDA error: {words}",
    "PyTorch from 2.8": "torch.AcceleratorError: CUDA error: {words}\nSearch for `{name}' in https",
    "PyTorch of the driver": "RuntimeError: CUDA driver error: {words}",
    "PyTorch before 1.8": "RuntimeError: cuda runtime error ({number}) : {words} at THC.cu:9",
    "PyTorch before 1.5": "THCudaCheck FAIL file=THCGeneral.cpp line=50 error={number} : {words}",
    "PyTorch at its start": "Unexpected error from cudaGetDeviceCount(). Error {number}: {words}",
    "NCCL": "node1:9:9 [0] transport/p2p.cc:240 NCCL WARN Cuda failure '{words}'",
    "NCCL from 2.19": "node1:9:9 [0] enqueue.cc:47 NCCL WARN Cuda failure {number} '{words}'",
    "nccl-tests": "node1: Test CUDA failure common.cu:941 '{words}'",
    "gpu-burn": "Couldn't init a GPU test: Error in load module (gpu_burn-drv.cpp:239): {words}",
    "vLLM": "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:364 '{words}'",
    "llama.cpp": "ggml-cuda.cu:71: CUDA error\nCUDA error: {words}",
    "llama.cpp of 2023": "CUDA error {number} at /src/ggml-cuda.cu:420: {words}",
    "ONNX Runtime": "CUDA failure {number}: {words} ; GPU=0 ; hostname=n1 ; expr=cudaSetDevice(0);",
    "Triton": "RuntimeError: Triton Error [CUDA]: {words}",
    "TensorFlow": "InternalError: cudaSetDevice() on GPU:0 failed. Status: {words}",
    "XLA": "failed call to cuInit: {driver}: {words}",
    "JAX": "INTERNAL: jaxlib/gpu/solver.cc:9: operation gpuGetLastError() failed: {words}",
    "CuPy": "cupy_backends.cuda.api.runtime.CUDARuntimeError: {name}: {words}",
    "Numba": "CudaAPIError: [{number}] Call to cuLaunchKernel results in {driver}",
    "PyCUDA": "pycuda._driver.LogicError: cuCtxCreate failed: {words}",
    "CUDA's samples": 'CUDA error at a.cu:9 code={number}({name}) "cudaMalloc(&p, n)"',
    "deviceQuery": "cudaGetDeviceCount returned {number}\n-> {words}\nResult = FAIL",
    "Thrust": "  what():  parallel_for failed: {name}: {words}",
    "RMM": "std::bad_alloc: CUDA error at: /src/rmm/mr.hpp:70: {name} {words}",
    "MXNet": "Check failed: e == cudaSuccess ({number} vs. 0) : CUDA: {words}",
    "Paddle": "OSError: (External) CUDA error({number}), {words}.",
    "CTranslate2": "RuntimeError: CUDA failed with error {words}",
    "bitsandbytes": "Error {words} at line 119 in file /src/csrc/ops.cu",
    "TensorRT": "[E] [allocator.cpp::allocate::19] Error Code 1: Cuda Runtime ({words})",
    "a number alone": "CUDA error: {number}",
    "Ollama": "Unable to load cudart library: cuda driver library init failure: {number}",
}


def frames_that_are_missed(frame: str) -> dict[str, object]:
    missed = {}
    for error in APIS["cuda"].errors:
        driver = next((name for name in error.names if name.startswith("CUDA_")), error.names[0])
        text = frame.format(
            number=error.number, name=error.names[0], driver=driver, words=error.words
        )
        code = error.code or APIS["cuda"].code
        for said in (text, text.upper(), text.lower()):
            found = find_in(said)
            # The driver's own start has an entry of its own.
            if not {code, "hmm"} & found.keys() and not (error.unless and error.unless in text):
                missed[said] = [*found]
    return missed


@pytest.mark.parametrize("program", CUDA)
def test_every_error_of_cuda_is_found_in_the_frame_of_a_program_whatever_its_case(program):
    assert frames_that_are_missed(CUDA[program]) == {}


@pytest.mark.parametrize(
    ("api", "frame"),
    [
        ("hip", "RuntimeError: HIP error: {words}"),
        ("hip", "ROCm error: {words}\n  current device: 0"),
        ("hip", "RuntimeError: Triton Error [HIP]: {words}"),
        ("hip", "{name}"),
        (
            "nccl",
            "DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1275, {words}, NCCL version",
        ),
        ("nccl", "RuntimeError: NCCL error: {words}"),
        ("nccl", "node1: Test NCCL failure common.cu:1023 '{words} / '"),
        ("nccl", "horovod: ncclCommInitRank failed: {words}"),
        ("nccl", "{name}: Call to a function failed."),
        ("cublas", "CUDA error: {words}\n  current device: 0, in function f at ggml-cuda.cu:12"),
        ("cublas", "failed to create cublas handle: {words}"),
        ("cublas", "RuntimeError: CUDA error: {name} when calling `cublasCreate(handle)`"),
        ("cudnn", "RuntimeError: cuDNN error: {name}"),
        ("cudnn", "CUDNN failure 4: {name} ; GPU=0"),
        ("libraries", "RuntimeError: cuFFT error: {name}"),
    ],
)
def test_every_error_of_an_api_is_found_in_its_frames(api, frame):
    for error in APIS[api].errors:
        for name in error.names:
            text = frame.format(name=name, words=error.words)
            assert error.code or APIS[api].code in find_in(text), text


@pytest.mark.parametrize(
    "line",
    [
        "Error 2: CUDA error: no error",
        "make: *** [Makefile:9: all] Error 2",
        "error=30 : out of memory",
        "cudaErrorNotReady is returned while work is pending",
        "CUDA error 12.8 toolkit",
        "exit status: out of memory handler installed",
    ],
)
def test_what_looks_like_an_error_of_cuda_is_none(line):
    assert not {*find_in(line)} - {"oom"}


def test_what_an_error_is_stands_in_the_finding():
    (said,) = (
        sight.words
        for form in forms_of(APIS["cuda"])
        for sight in ErrorPattern(form).sights(
            "CUDA failure 400: x; cudaErrorInvalidResourceHandle"
        )
        if sight.match["value"].startswith("cuda")
    )
    assert said == "error 400, cudaErrorInvalidResourceHandle: invalid resource handle"


def test_every_error_belongs_to_a_failure_of_the_catalogue():
    codes = {error.code or api.code for api in APIS.values() for error in api.errors}
    assert codes <= read_catalogue().keys()


@pytest.mark.parametrize("name", APIS)
def test_each_frame_takes_a_time_that_grows_with_a_lines_length_and_no_faster(name):
    # Words are plain text, so two of them show what a frame does.
    short = APIS[name].model_copy(update={"errors": APIS[name].errors[:2]})
    for form in forms_of(short):
        assert growth_of_steps(ErrorPattern(form).regex.pattern, 500) <= 2.7
