"""Recorded failures of ``failures/hardware.toml``, by code."""

from __future__ import annotations

from recorded.evidence import DRIVER, done, gpu, machine, said, text, with_gpu
from tarmac.checks.evidence import Evidence
from tarmac.machine import Gpu, GpuProcess

RECORDED: dict[str, list[Evidence]] = {
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
    "ecc": [
        gpu(uncorrected_errors=2),
        gpu(remap_failed=True),
        gpu(retired_pages_pending=True),
    ],
    "throttle-thermal": [gpu(slowdowns=("sw_thermal",), temperature_c=88)],
    "throttle-power": [gpu(slowdowns=("sw_power_cap",), power_watts={"now": 70, "limit": 70})],
    "throttle-hardware": [gpu(slowdowns=("hw_slowdown", "hw_power_brake"))],
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
}
