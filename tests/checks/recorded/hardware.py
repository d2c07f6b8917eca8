"""Recorded failures of ``failures/hardware.toml``, by code."""

from __future__ import annotations

from typing import Any

from recorded.evidence import DRIVER, H200, done, gpu, machine, said, text, with_gpu
from tarmac.checks.evidence import Evidence
from tarmac.checks.under_load import UnderLoad
from tarmac.machine import Fabric, Gpu, GpuProcess, MigDevice


def loaded(idle: dict[str, Any] | None = None, **readings: Any) -> Evidence:
    """Return a GPU as it is when idle, and what was read of it under load."""
    load = UnderLoad(index=0, **({"samples": 20, "seconds": 9.0} | readings))
    return gpu(**(idle or {})).model_copy(update={"under_load": (load,)})


def pair(**second: Any) -> Evidence:
    """Return two GPUs of one maker, and what differs in the second."""
    first = H200.model_copy(
        update={"board": "0x16c110de", "vbios": "96.00.A5.00.01", "ecc": True}
        | {"power_watts": {"limit": 700.0}}
    )
    other = first.model_copy(update={"index": 1, "uuid": "GPU-9c1f0d2e"} | second)
    return Evidence(inventory=machine((first, other), driver=DRIVER))


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
        said("torch", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
        text(
            "F tensorflow/stream_executor/lib/statusor.cc:34] Attempting to fetch value instead of "
            "handling error Internal: failed initializing StreamExecutor for CUDA device ordinal "
            "0: Internal: failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_ECC_UNCORRECTABLE: "
            "uncorrectable ECC error encountered"
        ),
        gpu(uncorrected_errors=2),
        gpu(remap_failed=True),
        gpu(retired_pages_pending=True),
        loaded(grown={"uncorrected_errors": 1}),
    ],
    "throttle-thermal": [
        gpu(slowdowns=("sw_thermal",), temperature_c=88),
        loaded(reasons={"sw_thermal": 0.62}, temperature_c=91),
    ],
    "throttle-power": [
        loaded({"power_watts": {"limit": 70.0}}, reasons={"sw_power_cap": 0.96}, power_watts=70.4)
    ],
    "throttle-hardware": [
        gpu(slowdowns=("hw_slowdown", "hw_power_brake")),
        loaded(reasons={"hw_slowdown": 0.3}),
    ],
    "exclusive-mode": [
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
    "reset-required": [
        # The library's words for its code 16, and those of its package for Python.
        gpu(error="GPU requires reset"),
        gpu(error="GPU requires restart"),
        gpu(recovery_action="reset"),
        gpu(recovery_action="drain and reset"),
    ],
    "reboot-required": [gpu(recovery_action="reboot")],
    "drain-required": [gpu(recovery_action="drain P2P")],
    "fabric-degraded": [gpu(fabric=Fabric(state="completed", troubles=("degraded bandwidth",)))],
    "sram-errors": [gpu(sram_threshold_exceeded=True)],
    "memory-worn": [
        gpu(remapped_rows={"corrected": 0, "uncorrected": 512}, remap_failed=True),
        gpu(retired_pages=61),
    ],
    "inforom-corrupt": [gpu(inforom_valid=False)],
    "too-hot": [
        loaded({"temperature_limits_c": {"operating": 85}}, temperature_c=88),
        loaded({"temperature_limits_c": {"memory": 95}}, memory_temperature_c=99),
        loaded(temperature_margin_c=-3),
    ],
    "power-limited": [gpu(power_watts={"now": 70, "limit": 400}, default_power_watts=700)],
    "clocks-lowered": [gpu(application_clocks_mhz={"now": 1200, "default": 1980})],
    "pcie-generation": [loaded({"pcie": {"max_generation": 5}}, pcie={"generation": 3})],
    "pcie-replays": [loaded(grown={"pcie_replays": 900})],
    "nvlink-errors": [gpu(nvlink_errors={"crc": 12, "replay": 3, "recovery": 2})],
    "vgpu-unlicensed": [gpu(virtualization="vgpu", licensed=False)],
    "mem-held-unseen": [gpu(unseen_bytes=30 * 2**30)],
    "gpus-differ": [
        pair(vbios="96.00.99.00.01"),
        pair(ecc=False),
        pair(power_watts={"limit": 500.0}),
    ],
    "p2p-broken": [
        done("all-reduce", notes=["peer copy from cuda:0 to cuda:1 is wrong"]),
        text("the all-reduce self-test gave a wrong sum between a (rank 0) and b (rank 1)"),
    ],
}

RECORDED["mem-held"] += [
    text(
        "ValueError: Free memory on device (31.2/79.1 GiB) on startup is less than desired GPU "
        "memory utilization (0.9, 71.2 GiB)."
    )
]

RECORDED["vgpu-unlicensed"] += [text("CUDA error: device doesn't have valid Grid license")]

RECORDED["mig-empty"] += [
    text(
        "RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "
        '"CUDAContext.cpp":49, please report a bug to PyTorch.'
    ),
    text("No MIG devices found."),
]

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "fell-off-bus": [
        Evidence(inventory=machine((Gpu(index=0, error="Insufficient Permissions"),))),
        gpu(),
    ],
    "ecc": [
        text("    ECC Errors: Volatile: SRAM Uncorrectable : 0, DRAM Uncorrectable : 0"),
        gpu(corrected_errors=12, uncorrected_errors=0, retired_pages=3),
        gpu(ecc=False, remap_failed=False, retired_pages_pending=False),
        loaded(grown={"corrected_errors": 40}),
        # A reset has set it to 0.
        loaded(grown={"uncorrected_errors": -3}),
    ],
    "throttle-thermal": [
        gpu(slowdowns=("sw_power_cap",), temperature_c=84),
        # One reading in ten, and too few of them.
        loaded(samples=10, reasons={"sw_thermal": 0.1}),
        loaded(samples=3, reasons={"sw_thermal": 1.0}, temperature_c=90),
    ],
    "throttle-power": [
        gpu(power_watts={"now": 690, "limit": 700}),
        # When idle it says nothing.
        gpu(slowdowns=("sw_power_cap",)),
    ],
    "throttle-hardware": [
        gpu(slowdowns=("hw_slowdown", "hw_thermal")),
        # It is set while clocks change, too.
        gpu(slowdowns=("hw_slowdown",)),
        loaded(reasons={"hw_slowdown": 0.05}),
    ],
    "exclusive-mode": [
        gpu(compute_mode="exclusive process"),
        gpu(processes=(GpuProcess(pid=7, name="train", memory_bytes=2**28),)),
    ],
    "compute-prohibited": [gpu(compute_mode="exclusive process"), gpu(compute_mode="default")],
    "mig-empty": [gpu(mig=True, mig_devices=(MigDevice(uuid="MIG-1000"),)), gpu(mig=False)],
    "mem-held": [gpu(processes=(GpuProcess(pid=7, name="Xorg", memory_bytes=2**28),))],
    "persistence-off": [
        # A process keeps the driver loaded.
        gpu(persistence=False, processes=(GpuProcess(pid=7, name="train", memory_bytes=2**20),)),
        gpu(persistence=None),
    ],
    "p2p-broken": [done("all-reduce", notes=["peer copies agree"])],
    "too-hot": [
        loaded({"temperature_limits_c": {"operating": 87, "memory": 95}}, temperature_c=87),
        loaded(temperature_margin_c=0),
        # A threshold that is no longer kept up: the margin is what counts.
        loaded(
            {"temperature_limits_c": {"operating": 60}}, temperature_c=80, temperature_margin_c=7
        ),
    ],
    "pcie-generation": [gpu(pcie={"generation": 1, "max_generation": 5})],
    "pcie-replays": [loaded(grown={"pcie_replays": 8})],
    "power-limited": [
        gpu(power_watts={"limit": 450.0}, default_power_watts=420.0),
        # Limits are rounded.
        gpu(power_watts={"limit": 69.99}, default_power_watts=70.0),
        gpu(power_watts={"limit": 70.0}),
    ],
    "clocks-lowered": [
        # Some chips' default is under the highest.
        gpu(sm_clock_mhz={"max": 1590}, application_clocks_mhz={"now": 585, "default": 585}),
    ],
    "memory-worn": [
        gpu(remapped_rows={"corrected": 300, "uncorrected": 300}),
        gpu(remapped_rows={"corrected": 70, "uncorrected": 0}),
        gpu(retired_pages=15),
    ],
    "sram-errors": [gpu(sram_threshold_exceeded=False), gpu(sram_threshold_exceeded=None)],
    "inforom-corrupt": [gpu(inforom_valid=True), gpu(inforom_valid=None)],
    "nvlink-errors": [gpu(nvlink_errors={"crc": 90, "replay": 7})],
    "mem-held-unseen": [
        # Of a context that ends, of partitions, of virtual machines.
        gpu(unseen_bytes=500 * 2**20),
        gpu(mig=True, mig_devices=(), unseen_bytes=2**36, name="x"),
        gpu(virtualization="vgpu host", unseen_bytes=2**36),
    ],
    "vgpu-unlicensed": [
        gpu(virtualization="passthrough", licensed=None),
        gpu(virtualization="vgpu", licensed=True),
    ],
    "reset-required": [gpu(recovery_action="none"), gpu(recovery_action="reboot")],
    "reboot-required": [gpu(recovery_action="none"), gpu(recovery_action="reset")],
    "drain-required": [gpu(recovery_action="none")],
    "fabric-degraded": [gpu(fabric=Fabric(state="completed"))],
    "gpus-differ": [
        pair(),
        # Another maker's card has firmware of its own.
        pair(board="0x17c110de", vbios="96.00.B1.00.02"),
    ],
}
