"""Every failure of the catalogue is found in evidence as it was recorded.

Texts are quoted from the thread that the catalogue gives as the failure's source, from the
programs' own sources, or from this project's probes.
"""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.checks.evidence import (
    Container,
    Driver,
    Evidence,
    Host,
    Inventory,
    Limits,
    PciCard,
    Probe,
)
from tarmac.checks.report.make import make_report
from tarmac.checks.rules.catalogue import read_catalogue
from tarmac.checks.rules.findings import find
from tarmac.checks.rules.table import RULES
from tarmac.machine import Gpu, GpuProcess, MigDevice

HOST = Host(
    cpu="a CPU", cores=8, memory_bytes=2**36, disk_free_bytes=2**36, kernel="6.1", system="Linux"
)
H200 = Gpu(
    index=0,
    name="NVIDIA H200",
    uuid="GPU-7d3c132a",
    memory_bytes=150754820096,
    capability=(9, 0),
    persistence=True,
)
DRIVER = Driver(version="580.126.20", cuda="13.0", modules=("nvidia", "nvidia_uvm"), library="x")
CARD = PciCard(address="0000:19:00.0", vendor="nvidia", device="0x2335")


def machine(gpus: tuple[Gpu, ...] = (), **facts: Any) -> Inventory:
    return Inventory(host=HOST, gpus=gpus, **facts)


def with_gpu(**facts: Any) -> Inventory:
    return machine((H200,), driver=DRIVER, cards=(CARD,), **facts)


def gpu(**facts: Any) -> Evidence:
    return Evidence(inventory=machine((H200.model_copy(update=facts),), driver=DRIVER))


def said(framework: str, text: str, inventory: Inventory | None = None) -> Evidence:
    """Return what a failed probe leaves whose error is a text."""
    error = {"type": "RuntimeError", "message": text, "traceback": text}
    probe = Probe(
        framework=framework,
        where="this Python",
        outcome="failed",
        detail="RuntimeError",
        result={"stage": "devices", "error": error},
    )
    return Evidence(inventory=inventory or with_gpu(), probes=(probe,))


def done(framework: str, inventory: Inventory | None = None, **result: Any) -> Evidence:
    cpu = {"name": "cpu", "kind": "cpu"}
    probe = Probe(
        framework=framework,
        where="this Python",
        outcome="done",
        result={"stage": "done", "version": "1.0", "devices": [cpu]} | result,
    )
    return Evidence(inventory=inventory or with_gpu(), probes=(probe,))


def on_gpu(framework: str, **facts: Any) -> Evidence:
    device = {"name": "cuda:0", "kind": "gpu", "chip": "NVIDIA H200"} | facts
    return done(framework, devices=[device])


def ended(outcome: Any, detail: str, stage: str = "devices") -> Evidence:
    result = {"stage": stage}
    probe = Probe(
        framework="torch", where="this Python", outcome=outcome, detail=detail, result=result
    )
    return Evidence(inventory=machine(), probes=(probe,))


def text(line: str) -> Evidence:
    return Evidence(inventory=machine(), texts=(line,))


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
    "fell-off-bus": [
        Evidence(inventory=machine((Gpu(index=0, error="GPU is lost"),), driver=DRIVER)),
        Evidence(
            inventory=with_gpu(
                kernel_log=("NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus",)
            )
        ),
        Evidence(
            inventory=with_gpu(
                kernel_log=(
                    "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0",
                    "NVRM: fallen off the bus and is not responding to commands.",
                )
            )
        ),
    ],
    "xid": [
        Evidence(
            inventory=with_gpu(
                kernel_log=("[12.1] NVRM: Xid (PCI:0000:01:00): 48, pid=1, DBE (double bit error)",)
            )
        )
    ],
    "ecc": [
        gpu(uncorrected_errors=2),
        gpu(remap_failed=True),
        gpu(retired_pages_pending=True),
    ],
    "throttle-thermal": [gpu(slowdowns=("sw_thermal",), temperature_c=88)],
    "throttle-power": [gpu(slowdowns=("sw_power_cap",), power_watts={"now": 70, "limit": 70})],
    "throttle-hardware": [gpu(slowdowns=("hw_slowdown", "hw_power_brake"))],
    "pcie-narrow": [gpu(pcie={"width": 4, "max_width": 16})],
    "nvlink-down": [gpu(nvlinks=(True, False, True))],
    "exclusive-mode": [
        said(
            "torch",
            "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        ),
        said(
            "torch",
            "RuntimeError: cuda runtime error (46) : all CUDA-capable devices are busy or "
            "unavailable at /opt/conda/conda-bld/pytorch/torch/lib/THC/generic/THCStorage.cu:66",
        ),
        gpu(
            compute_mode="exclusive process",
            processes=(GpuProcess(pid=7, name="train", memory_bytes=2**28),),
        ),
    ],
    "compute-prohibited": [gpu(compute_mode="prohibited")],
    "mig-empty": [gpu(mig=True)],
    "mem-held": [
        gpu(processes=(GpuProcess(pid=7, name="train", memory_bytes=2**36),)),
        said("torch", "Process 1234 has 38.21 GiB memory in use. Of the allocated memory"),
    ],
    "persistence-off": [gpu(persistence=False)],
    "p2p-broken": [
        done("all-reduce", notes=["peer copy from cuda:0 to cuda:1 is wrong"]),
        text("the all-reduce self-test gave a wrong sum between a (rank 0) and b (rank 1)"),
    ],
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
    "wrong-result": [
        on_gpu("torch", matmul={"error": 0.2, "tolerance": 1e-3, "ok": False}),
        on_gpu("torch", training={"losses": [1.0, 2.0, 3.0], "ok": False}),
    ],
    "very-slow-compute": [on_gpu("torch", flops={"bf16": 200e12})],
    "slow-compute": [on_gpu("torch", flops={"bf16": 500e12})],
    "slow-memory": [on_gpu("torch", copies={"memory": 2000e9})],
    "slow-copies": [on_gpu("torch", copies={"to_device": 2e9, "from_device": 2.1e9})],
    "probe-crashed": [ended("crashed", "SIGSEGV, during product on cuda:0")],
    "probe-hung": [ended("hung", "its limit of 120 s")],
    "probe-no-result": [ended("no result", "it wrote no result and ended with exit code 0")],
    "probe-left-processes": [
        Evidence(
            inventory=machine(),
            probes=(Probe(framework="odd", where="this Python", outcome="done", left_behind=2),),
        )
    ],
    "probe-flood": [
        Evidence(
            inventory=machine(),
            probes=(
                Probe(
                    framework="odd", where="this Python", outcome="done", printed_bytes=100 * 2**20
                ),
            ),
        )
    ],
    "import-failed": [
        ended("failed", "ImportError: libcupti.so.13: cannot open shared object file", "import")
    ],
    "probe-failed": [ended("failed", "RuntimeError during product on cpu: something else")],
    "no-gpus-flag": [
        Evidence(
            inventory=machine(
                container=Container(kind="docker"),
                driver=Driver(
                    nvml_error="NVML: NVML Shared Library Not Found", modules=("nvidia",)
                ),
                cards=(CARD,),
            )
        )
    ],
    "toolkit-missing": [
        text(
            "docker: Error response from daemon: could not select device driver "
            '"" with capabilities: [[gpu]].'
        ),
        text('could not select device driver "nvidia" with capabilities: [[gpu]]'),
    ],
    "nvml-unknown": [
        text("Failed to initialize NVML: Unknown Error"),
        Evidence(inventory=machine(driver=Driver(nvml_error="NVML: Unknown Error"))),
    ],
    "driver-caps": [
        Evidence(
            inventory=machine(
                container=Container(kind="docker", device_nodes=("nvidia0", "nvidiactl")),
                driver=Driver(
                    nvml_error="NVML: NVML Shared Library Not Found", modules=("nvidia",)
                ),
                environment={"NVIDIA_DRIVER_CAPABILITIES": "graphics"},
            )
        )
    ],
    "k8s-no-plugin": [
        text("0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes")
    ],
    "shm-small": [
        text(
            "RuntimeError: DataLoader worker (pid 11011) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory."
        ),
        text(
            "include/shm.h:48 NCCL WARN Error while creating shared memory segment "
            "nccl-shm-recv-1462445a6f01cbfc-1-2-3 (size 9637888)"
        ),
        Evidence(inventory=machine(limits=Limits(shm_bytes=64 * 2**20))),
    ],
    "memlock": [
        text(
            "misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot "
            "allocate memory"
        ),
        Evidence(inventory=machine(limits=Limits(memlock_bytes=65536, infiniband=True))),
    ],
    "nccl-version": [
        text("NCCL WARN NCCL version mismatch: rank 0 has 2.19.3, rank 1 has 2.21.5"),
    ],
    "nccl-interface": [
        text("include/socket.h:409 NCCL WARN Connect to 172.17.0.1<41235> failed"),
        text("misc/socket.cc:484 NCCL WARN Connect to node7<41235> failed : Connection refused"),
    ],
    "duplicate-gpu": [
        text("NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000")
    ],
    "nccl-timeout": [
        text(
            "[rank1]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9801523, "
            "NumelOut=9801523, Timeout(ms)=600000) ran for 600020 milliseconds before timing out."
        )
    ],
    "port-in-use": [
        text(
            "The server socket has failed to listen on any local network address. port: 29500, "
            "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
        )
    ],
    "wsl-libcuda": [
        Evidence(
            inventory=machine(
                container=Container(kind="wsl", device_nodes=("dxg",)),
                driver=Driver(nvml_error="NVML: NVML Shared Library Not Found"),
            )
        )
    ],
    "cgroup-cpu": [Evidence(inventory=with_gpu(limits=Limits(cpus=1.0)))],
    "all-reduce-wrong": [
        done("all-reduce", all_reduce={"problem": "wrong", "detail": "on rank 1"}),
    ],
    "all-reduce-hung": [
        done(
            "all-reduce",
            all_reduce={"problem": "hung", "detail": "rank 1 at: all-reduce, after 96 s"},
        )
    ],
}


def test_there_are_at_least_40_failures_each_with_recorded_evidence():
    assert len(read_catalogue()) >= 40
    assert read_catalogue().keys() == RECORDED.keys()


def test_every_rule_belongs_to_a_failure_that_asks_for_it():
    assert RULES.keys() == {code for code, f in read_catalogue().items() if f.rule}


@pytest.mark.parametrize("failure", read_catalogue().values(), ids=lambda f: f.code)
def test_an_entry_is_whole(failure):
    assert failure.text or failure.rule
    assert failure.cause.endswith(".")
    assert failure.fix
    assert failure.source.startswith("https://")
    assert set(failure.hides) <= read_catalogue().keys()
    assert failure.code not in failure.hides


@pytest.mark.parametrize(
    ("code", "evidence"),
    [(code, evidence) for code, cases in RECORDED.items() for evidence in cases],
    ids=[f"{code}-{n}" for code, cases in RECORDED.items() for n in range(len(cases))],
)
def test_a_recorded_failure_is_found(code, evidence):
    found = {finding.code: finding for finding in find(evidence)}
    assert code in found, f"found {list(found)}"
    finding = found[code]
    assert finding.evidence
    assert "{" not in finding.cause
    assert not any("{" in line for line in finding.fix if "awk" not in line)


def test_a_healthy_machine_has_no_findings():
    healthy = on_gpu(
        "torch",
        matmul={"error": 1e-7, "tolerance": 1e-3, "ok": True},
        flops={"bf16": 780e12},
        copies={"to_device": 52e9, "from_device": 52e9, "memory": 4300e9},
    )
    assert find(healthy) == ()
    assert find(Evidence(inventory=machine())) == ()


def test_a_chip_that_is_not_known_is_measured_without_a_verdict():
    device = {"name": "cuda:0", "kind": "gpu", "chip": "Fast 9000", "flops": {"bf16": 1e9}}
    assert find(done("torch", devices=[device])) == ()


def test_causes_come_before_their_consequences_and_hide_them():
    evidence = done(
        "torch",
        machine(
            (H200,),
            driver=DRIVER,
            environment={"CUDA_VISIBLE_DEVICES": ""},
            limits=Limits(shm_bytes=2**26),
        ),
        build={"cuda": "13.0", "architectures": ["sm_90"]},
    )
    assert [finding.code for finding in find(evidence)] == ["no-visible", "shm-small"]


def test_one_cause_at_several_places_is_one_finding():
    hot = [
        H200.model_copy(update={"index": n, "slowdowns": ("sw_thermal",), "temperature_c": 88})
        for n in range(8)
    ]
    (finding,) = find(Evidence(inventory=machine(tuple(hot), driver=DRIVER)))
    assert finding.where == tuple(f"GPU {n}" for n in range(8))
    assert finding.evidence == "sw_thermal at 88 °C"
    words = "CUDA unknown error"
    both = [said(name, words).probes[0] for name in ("torch", "chainer")]
    (finding,) = find(Evidence(inventory=with_gpu(), probes=tuple(both)))
    assert (finding.code, finding.where) == ("uvm-missing", ("torch", "chainer"))


def test_a_fault_of_one_framework_does_not_hide_that_of_another():
    torch = done("torch", build={"cuda": None, "hip": None}).probes[0]
    jax = done("jax", build={"plugins": {"jax-cuda13-plugin": "0.10.2"}, "cuda": "13"}).probes[0]
    found = find(Evidence(inventory=with_gpu(), probes=(torch, jax)))
    assert [(f.code, f.where) for f in found] == [
        ("torch-cpu-build", ("torch",)),
        ("silent-cpu", ("jax",)),
    ]


def test_each_place_of_a_framework_has_its_own_finding():
    bad = done("torch", build={"cuda": None, "hip": None}).probes[0]
    other = {"where": "/opt/a/bin/python", "result": on_gpu("torch").probes[0].result}
    evidence = Evidence(inventory=with_gpu(), probes=(bad, bad.model_copy(update=other)))
    report = make_report(evidence, seconds=1)
    assert [(v.name, v.answer) for v in report.frameworks] == [
        ("torch", "failure"),
        ("torch (/opt/a/bin/python)", "ok"),
    ]


def test_a_hint_does_not_stand_for_a_failure():
    probe = Probe(
        framework="tensorflow",
        where="this Python",
        outcome="failed",
        detail="InternalError during training on cuda:0: something else",
        result={"stage": "training on cuda:0", "devices": [{"name": "cuda:0", "kind": "gpu"}]},
    )
    found = find(Evidence(inventory=with_gpu(), probes=(probe,)))
    assert {finding.code for finding in found} == {"probe-failed", "tf-memory-all"}


def test_why_no_gpu_was_used_is_said_where_one_is_here():
    evidence = done(
        "torch",
        with_gpu(environment={"CUDA_VISIBLE_DEVICES": ""}),
        build={"cuda": "13.0", "architectures": ["sm_90"]},
    )
    (verdict,) = make_report(evidence, seconds=1).frameworks
    assert verdict.answer == "cpu only"
    assert "no GPU was used, because CUDA_VISIBLE_DEVICES hides the GPUs" in verdict.text


def test_ranks_that_are_more_than_gpus_are_no_failure():
    why = "2 ranks need a GPU each, and 1 can be seen"
    evidence = done("all-reduce", cpu_because=why)
    report = make_report(evidence, seconds=1)
    assert report.findings == ()
    assert why in report.frameworks[0].text


def test_another_makers_driver_does_not_stand_for_nvidias():
    driver = Driver(nvml_error="NVML: NVML Shared Library Not Found", modules=("amdgpu",))
    found = find(Evidence(inventory=machine(cards=(CARD,), driver=driver)))
    assert [finding.code for finding in found] == ["no-driver"]


def test_a_node_that_cuda_makes_at_its_first_use_is_not_missed():
    nodes = Container(device_nodes=("nvidia0", "nvidiactl"))
    assert find(Evidence(inventory=with_gpu(container=nodes))) == ()


@pytest.mark.parametrize(
    ("built", "is_newer"),
    [("13.0", False), ("14", True), (True, False), ("64_112", True), ("", False), (None, False)],
)
def test_a_builds_version_is_read_whatever_its_form(built, is_newer):
    found = find(done("odd", build={"cuda": built}))
    assert ("driver-old" in {finding.code for finding in found}) == is_newer


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H200 MIG 1g.18gb",
        "NVIDIA A10-24Q",
        "GRID T4-16C",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
    ],
)
def test_parts_of_chips_are_not_measured_against_the_whole(name):
    device = {"name": "cuda:0", "kind": "gpu", "chip": name, "flops": {"bf16": 1e12}}
    assert find(done("torch", devices=[device])) == ()


def test_copies_of_ordinary_memory_are_not_judged_as_pinned():
    copies = {"to_device": 4e9, "from_device": 4e9, "pinned": False}
    assert {f.code for f in find(on_gpu("jax", copies=copies))} == {"jax-preallocate"}


@pytest.mark.parametrize(
    ("value", "is_found"),
    [
        ("MIG-1000", False),
        ("MIG-1001,MIG-1000", False),
        # Drivers before 470 name a partition by its GPU.
        ("MIG-GPU-7d3c132a/1/0", False),
        ("MIG-GPU-ffffffff/1/0", True),
        ("MIG-1002", True),
        ("GPU-7d3c132a", False),
        ("0", False),
    ],
)
def test_partitions_are_known_by_their_names(value, is_found):
    devices = tuple(MigDevice(uuid=uuid) for uuid in ("MIG-1000", "MIG-1001"))
    card = H200.model_copy(update={"mig": True, "mig_devices": devices})
    inventory = machine((card,), driver=DRIVER, environment={"CUDA_VISIBLE_DEVICES": value})
    assert ("no-visible" in {f.code for f in find(Evidence(inventory=inventory))}) == is_found


def test_a_frameworks_own_words_are_better_than_that_it_failed():
    evidence = said("torch", "RuntimeError: CUDA error: device-side assert triggered")
    assert [finding.code for finding in find(evidence)] == ["device-assert"]


@pytest.mark.parametrize(
    ("driver", "capability", "index"),
    [
        ("13.0", (9, 0), "cu130"),
        ("12.8", (9, 0), "cu128"),
        ("12.4", (9, 0), "cu126"),
        ("13.0", (6, 0), "cu126"),
    ],
)
def test_the_advice_names_a_build_that_suits_driver_and_chip(driver, capability, index):
    card = H200.model_copy(update={"capability": capability})
    inventory = machine((card,), driver=DRIVER.model_copy(update={"cuda": driver}))
    (finding,) = find(done("torch", inventory, build={"cuda": None, "hip": None}))
    assert index in finding.fix[0]
