"""How a line tells of a failure: raised, warned of, or only spoken of; and waits that ended."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tarmac.checks import read_log

LOGS = Path(__file__).parent / "logs"
WARNED = (
    "/venv/torch/cuda/__init__.py:118: UserWarning: CUDA initialization: Unexpected error from "
    "cudaGetDeviceCount(). Error 802: system not yet initialized"
)


def levels(log: str) -> dict[str, str]:
    return {f.code: f.level for f in read_log(io.BytesIO(log.encode())).findings}


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ("RuntimeError: No CUDA GPUs are available", {"no-gpu-seen": "failure"}),
        (
            "Traceback (most recent call last):\n  File a\nImportError: libcudnn.so.9: cannot open "
            "shared object file: No such file or directory",
            {"library-missing": "failure"},
        ),
        (
            "[9.1] Memory cgroup out of memory: Killed process 4321 (python3) total-vm:1kB",
            {"oom-killed": "failure"},
        ),
        (
            "W tensorflow/dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; "
            "dlerror: libcudart.so.11.0: cannot open shared object file",
            {"tf-dlopen": "note"},
        ),
        (
            "WARNING:jax._src.xla_bridge:791: An NVIDIA GPU may be present on this machine, but a "
            "CUDA-enabled jaxlib is not installed. Falling back to cpu.",
            {"jax-cpu": "note"},
        ),
        (WARNED, {"fabric-manager": "note"}),
        ("Skipping batch 7: CUDA out of memory. Tried 2 GiB", {"oom": "note"}),
        (f"{WARNED}\nRuntimeError: No CUDA GPUs are available", {"fabric-manager": "failure"}),
        ("  | RuntimeError: CUDA out of memory.", {"oom": "failure"}),
        ("RuntimeError('CUDA out of memory')", {"oom": "failure"}),
        ('time="2026-05-01" level=error msg="CUDA error: out of memory"', {"oom": "failure"}),
        ('{"error": "CUDA out of memory", "code": 500}', {"oom": "failure"}),
        ("step(3) failed: 'CUDA out of memory'", {"oom": "failure"}),
        ("ErrorResponse(object='error', message='CUDA out of memory')", {"oom": "failure"}),
        (
            "import error: libcudnn.so.9: cannot open shared object file",
            {"library-missing": "failure"},
        ),
        ("died with <Signals.SIGSEGV: 11>.", {"crashed": "failure"}),
        (
            "lib: version `GLIBC_2.38' not found; CUDA out of memory",
            {"glibc-old": "failure", "oom": "failure"},
        ),
    ],
)
def test_what_is_raised_is_a_failure_and_what_is_warned_of_a_note(log, found):
    assert levels(log) == found


@pytest.mark.parametrize(
    "line",
    [
        '* 0000001 Fix "RuntimeError: CUDA out of memory" in eval loop (#1)',
        "a1b2c3d (HEAD -> main) Retry on CUDA error: an illegal memory access was encountered",
        "- fix(loader): CUDA out of memory with large batches",
        "retry_on: ['CUDA error: device-side assert triggered', 'CUDA out of memory']",
        "  - 'CUDA error: an illegal memory access was encountered'",
        '- "CUDA out of memory"',
        '- "CUDA out of memory": lower the batch size',
        'INFO retry_on=["NCCL WARN Call to recv from 10.0.0.1 failed : Broken pipe"]',
        '# FAQ: If you see "CUDA out of memory", lower the batch size.',
        "This can raise CUDA out of memory on small cards.",
        "README.md:12:RuntimeError: CUDA out of memory",
        "NVML_ERROR_DRIVER_NOT_LOADED         = 9",
        "    cudaErrorSystemNotReady               =     802,",
        "    HIPBLAS_STATUS_ARCH_MISMATCH     = 8, /**< architecture mismatch */",
        "    SIGSEGV = 11",
        "MAX_JOBS=4 pip install flash-attn  # else ninja: build stopped: subcommand failed",
        "INFO: will restart workers on ChildFailedError up to 3 times (max_restarts=3)",
        '    NVML_ERROR_DRIVER_NOT_LOADED:   "Driver Not Loaded",',
        "    GatedRepoError: lambda error: str(error),",
        "    GatedRepoError,  # noqa: F401",
        "        } catch (const std::bad_alloc &e) {",
        'train.py:88:    raise RuntimeError("CUDA out of memory")',
        '    if "CUDA out of memory" in str(error):',
        '>>> line = "RuntimeError: CUDA out of memory"',
        '        text("NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x38:629)"),',
        "+ grep -q 'CUDA out of memory' train.log",
        "me@host:~/run$ grep 'CUDA out of memory' train.log",
        'echo "CUDA error: device-side assert triggered"',
        "| `CUDA out of memory` | [out of GPU memory](failures.md#oom) |",
        "| fell-off-bus | GPU is lost, NVML error 15 |",
        f"Printed as: {'`CUDA error: x`, ' * 40}`CUDA out of memory`, `HIP out of memory`",
        "    error: Why it could not be asked, e.g. ``GPU is lost``.",
        "Source: <https://kubernetes.io/docs/concepts/containers/images/#imagepullbackoff>",
        "ENOSPC          No space left on device (POSIX.1-2001).",
        '+        "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the "',
        '{number = 35, words = "CUDA driver version is insufficient for CUDA runtime version"},',
        '    nvml_error="NVML: Unknown Error", library="x",',
        'Evidence(inventory=machine((Gpu(index=0, error="GPU is lost"),), driver=DRIVER)),',
        'silent = Evidence(inventory=machine(driver=Driver(nvml_error="NVML: Timeout")))',
        '({"outcome": "failed", "detail": "RuntimeError: CUDA error: out of memory"}, True),',
        "    os.kill(os.getpid(), signal.SIGSEGV)",
        "from torch._dynamo.exc import BackendCompilerFailed",
        "    RendezvousTimeoutError,",
        "C10_CUDA_CHECK(hipErrorStreamCaptureUnsupported);",
        "cudaErrorCallRequiresNewerDriver means that the driver is older than the call.",
        "{} with CUDA capability sm_{} is not compatible with the current PyTorch installation.",
        "command: [sh, -c, 'cat log; echo CUDA out of memory; exit 3']",
        "As the runtime says it: Completed, Error, OOMKilled, StartError.",
        "688:| `NVML error: GPU is lost` | [a GPU has fallen off the bus](f.md#fell-off-bus) |",
        "**A GPU has fallen off the bus** (does not work).",
        'not seen Xid 79 ("GPU has fallen off the bus") since the power supplies were changed.',
        "- No longer raises ModuleNotFoundError: No module named 'apex' without apex (#840)",
    ],
)
def test_a_text_that_only_speaks_of_a_failure_is_none(line):
    assert levels(f"a\n{line}\nb\n") == {}


@pytest.mark.parametrize(
    "line",
    [
        "We then saw CUDA out of memory in the old version, which held two copies of the weights.",
        "On two nodes I get NCCL WARN Call to recv from 10.0.0.4 failed : Connection refused.",
        "- The trainer no longer dies with RuntimeError: CUDA out of memory after an epoch (#812).",
        "Since then our job has been failing with 'CUDA error: device-side assert triggered'.",
        "hey, anyone seen RuntimeError: CUDA error: device-side assert triggered at step 300?",
        "Yes, that is the usual CUDNN_STATUS_NOT_INITIALIZED; in my case the card was full.",
        "On WSL 2 the first call fails with CUDA error: unknown error until Windows is restarted.",
        "2.3 was fine, but 2.4 gives me ImportError: libcudnn.so.9: cannot open shared object "
        "file and I stay with 2.3.",
        "The release also removes the cause of CUDA error: misaligned address on new cards.",
        "The step is then killed, and sacct shows slurmstepd: error: Detected 1 oom_kill event.",
        "That was the reason for the many CUDA out of memory reports in the forum.",
        "Both machines report No CUDA GPUs are available although they have four.",
        "1.4.2: the worker does not stop any more with CUDA error: device-side assert triggered.",
        "In this chapter the kernel ends with an illegal memory access was encountered.",
        "Before this change a full disk led to OSError: [Errno 28] No space left on device.",
    ],
)
def test_a_sentence_that_an_error_is_part_of_is_no_failure(line):
    assert levels(f"a\n{line}\nb\n") == {}


@pytest.mark.parametrize(
    "line",
    [
        "Worker 3 died with CUDA out of memory. Tried to allocate 2 GiB",
        "Oops: training failed with CUDA error: out of memory",
        "trainer: epoch 3 stopped with RuntimeError: CUDA out of memory",
        "Process 12 terminated because of CUDA out of memory",
        "Trial 7 failed again with CUDA error: out of memory",
        "Failed to run the model, got CUDA out of memory",
        "I get this: RuntimeError: CUDA out of memory.",
        "Our job ended with this error: CUDA out of memory",
        "We hit an error: CUDA out of memory",
        "Oops, we got an exception: CUDA out of memory",
        "trainer: our step failed: CUDA out of memory",
        "Sorry, we could not load the model: RuntimeError: CUDA out of memory",
        "[rank0]: ERROR: we ran into CUDA out of memory",
        "queue wait 8 us and then CUDA out of memory",
        "2026-05-01T12:00:00.1234567Z ##[error]RuntimeError: CUDA out of memory",
    ],
)
def test_what_a_program_says_of_its_own_end_is_a_failure(line):
    assert levels(f"a\n{line}\nb\n") == {"oom": "failure"}


def test_a_wait_that_a_later_line_ends_is_none():
    waits = (
        "Warning  FailedScheduling  2m  default-scheduler  0/1 nodes are available: 1 Insufficient "
        "nvidia.com/gpu.\n"
    )
    scheduled = "Normal  Scheduled  1m  default-scheduler  Successfully assigned a/b to n1\n"
    assert levels(waits) == {"k8s-no-plugin": "failure"}
    assert levels(waits + scheduled) == {}
    assert levels(scheduled + waits) == {"k8s-no-plugin": "failure"}


def test_where_nccl_tells_the_reason_it_is_shown_with_its_line():
    reason = "n1:9:9 [0] init.cc:1 NCCL WARN Attempt to use communicator too early\n"
    generic = "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO)\n"
    (finding,) = read_log(io.BytesIO((reason + generic).encode())).findings
    assert (finding.code, finding.first_line) == ("nccl-warn", 1)
    assert levels(generic) == {"nccl-generic": "failure"}
    assert levels(reason) == {}
    nvls = "n1:9:9 [0] transport/nvls.cc:254 NCCL WARN Cuda failure 1 'invalid argument'\n"
    assert levels(nvls + generic) == {"nccl-nvls": "failure"}


def test_an_error_that_says_little_gives_way_to_one_that_says_more_in_the_same_line():
    assert levels("RuntimeError: CUDA error: invalid argument") == {"cuda-error": "failure"}
    assert levels("CUDA_ERROR_INVALID_VALUE: CUDA out of memory") == {"oom": "failure"}


def test_a_crash_of_a_real_run_is_found():
    report = read_log(LOGS / "torchrun-crash.log")
    assert [(f.code, f.level) for f in report.findings] == [("crashed", "failure")]
