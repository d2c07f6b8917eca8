"""Recorded failures of ``failures/amd.toml``, by code."""

from __future__ import annotations

from typing import Any

from recorded.evidence import OTHER_CARD, done, machine, said, text
from tarmac.checks.amd import Amd, AmdGpu
from tarmac.checks.evidence import Container, Evidence, Inventory

MI300X = AmdGpu(address=OTHER_CARD.address, gfx="gfx942", uncorrected_errors=0, corrected_errors=3)
_BUILD = {"hip": "6.4.43482", "architectures": ["gfx90a:sramecc+:xnack-", "gfx942", "gfx1100"]}
_OVERRIDE = {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}


def amd(kfd: Any = "open", gpu: AmdGpu = MI300X, **facts: Any) -> Inventory:
    """Return a machine with one GPU of AMD's, a MI300X by default."""
    state = {"gpus": (gpu,), "kfd": kfd, "kfd_group": "render", "numa_balancing": False}
    state |= facts.pop("amd", {})
    return machine(cards=(OTHER_CARD,), amd=Amd(**state), **facts)


RX_6600 = MI300X.model_copy(update={"gfx": "gfx1032", "uncorrected_errors": None})

RECORDED: dict[str, list[Evidence]] = {
    "amd-permission": [
        text("ROCk module is loaded\nUnable to open /dev/kfd read-write: Permission denied"),
        text("Unable to open /dev/kfd read-write: Operation not permitted"),
        Evidence(inventory=amd("denied")),
    ],
    "amd-no-device": [
        done(
            "torch",
            amd("absent", container=Container(kind="docker")),
            build=_BUILD,
        )
    ],
    "amd-arch": [
        text(
            ":0:rocdevice.cpp:2875: Callback: Queue 0x7f80b4a00000 aborting with error : "
            "HSA_STATUS_ERROR_INVALID_ISA: The instruction set architecture is invalid. code: "
            "0x100f"
        ),
        said(
            "torch",
            '"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"',
            amd(),
        ),
        done("torch", amd(gpu=RX_6600), build=_BUILD),
    ],
    "amd-ecc": [
        Evidence(inventory=amd(gpu=MI300X.model_copy(update={"uncorrected_errors": 2}))),
    ],
    "amd-hang": [
        text(
            "[9.1] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring page1 timeout, signaled "
            "seq=2216, emitted seq=2218"
        ),
        text("HW Exception by GPU node-3 (Agent handle: 0x55dd6c8a7c00) reason :GPU Hang"),
        text("[9.2] [drm] VRAM is lost due to GPU reset!"),
        text(
            "[9.3] [drm:mes_v11_0_submit_pkt_and_poll_completion.constprop.0 [amdgpu]] *ERROR* MES "
            "failed to response msg=3"
        ),
    ],
    "amd-override": [Evidence(inventory=amd(gpu=RX_6600, environment=_OVERRIDE))],
    "amd-numa-balancing": [Evidence(inventory=amd(amd={"numa_balancing": True}))],
}

RECORDED["amd-arch"] += [
    text(
        "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: Illegal seek "
        "for GPU arch : gfx1103"
    ),
    text("RuntimeError: HIP error: invalid device function"),
    text('"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"'),
]

RECORDED["amd-ecc"] += [text("HIP error: uncorrectable ECC error encountered")]

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "amd-permission": [
        Evidence(inventory=amd()),
        # Of no use to anybody without a GPU that computes.
        Evidence(inventory=amd("denied", amd={"gpus": ()})),
        text("Unable to open /dev/kfd read-write: Cannot allocate memory"),
    ],
    "amd-no-device": [
        done("torch", amd(), build=_BUILD),
        # A build without ROCm, in a container that was to have no GPU.
        done("torch", amd("absent", container=Container(kind="docker")), build={"cuda": None}),
    ],
    "amd-arch": [
        done("torch", amd(), build=_BUILD),
        done("torch", amd(gpu=MI300X.model_copy(update={"gfx": "gfx90a"})), build=_BUILD),
        done("torch", amd(gpu=RX_6600), build={"hip": "6.4", "architectures": []}),
        done(
            "torch",
            amd(gpu=RX_6600, environment={"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}),
            build=_BUILD,
        ),
    ],
    "amd-ecc": [Evidence(inventory=amd())],
    "amd-override": [
        Evidence(
            inventory=amd(gpu=MI300X.model_copy(update={"gfx": "gfx1030"}), environment=_OVERRIDE)
        ),
        Evidence(inventory=machine(environment=_OVERRIDE)),
    ],
    "amd-numa-balancing": [
        Evidence(inventory=amd()),
        # A desktop's.
        Evidence(inventory=amd(gpu=RX_6600, amd={"numa_balancing": True})),
    ],
}
