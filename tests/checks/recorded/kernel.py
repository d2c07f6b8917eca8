"""Recorded failures of ``failures/kernel.toml``, by code."""

from __future__ import annotations

import datetime
from typing import Any

from recorded.evidence import ABSENT, CARD, DOCKER, DRIVER, H200, machine, text, with_gpu
from tarmac.checks.evidence import Driver, Evidence
from tarmac.checks.kernel_reading import KernelLog
from tarmac.checks.kernel_time import Clock

# An hour after the machine's start.
CLOCK = Clock(now=datetime.datetime(2026, 11, 22, 3, 0, tzinfo=datetime.UTC), uptime_s=3600.0)
READ = KernelLog(source="dmesg", clock=CLOCK)
_CARD_GPU = H200.model_copy(update={"address": CARD.address})


def log(*lines: str, **facts: Any) -> Evidence:
    """Return a machine whose one GPU is at 0000:19:00, and what its kernel has logged."""
    facts = {"cards": (CARD,), "driver": DRIVER, "kernel": READ, "kernel_log": lines} | facts
    return Evidence(inventory=machine((_CARD_GPU,), **facts))


def well(*lines: str) -> Evidence:
    """Return the same machine, whose driver says that its GPU needs no recovery."""
    gpu = _CARD_GPU.model_copy(update={"recovery_action": "none"})
    return Evidence(
        inventory=machine((gpu,), cards=(CARD,), driver=DRIVER, kernel=READ, kernel_log=lines)
    )


def unused(*lines: str, **facts: Any) -> Evidence:
    """Return a machine with a card that has no driver."""
    facts = {"cards": (CARD,), "driver": ABSENT, "kernel": READ, "kernel_log": lines} | facts
    return Evidence(inventory=machine(**facts))


def xid(number: int, rest: str = "pid=7194, name=python, Ch 00000008") -> str:
    return f"[ 3359.500000] NVRM: Xid (PCI:0000:19:00): {number}, {rest}"


_GSP_LESS = (
    "[    7.1] NVRM: The NVIDIA GPU 0000:19:00.0 (PCI ID: 10de:1b80)",
    "          NVRM: installed in this system is not supported by open",
    "          NVRM: nvidia.ko because it does not include the required GPU",
    "          NVRM: System Processor (GSP).",
)
_OPEN_NEEDED = (
    "[    7.1] NVRM: The NVIDIA GPU 0000:19:00.0 (PCI ID: 10de:2b85)",
    "          NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
)
_KILL = (
    "[ 3000.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/docker/abc123,task_memcg=/docker/abc123,task=python,pid=8210,uid=1000",
    "[ 3000.2] Memory cgroup out of memory: Killed process 8210 (python) total-vm:58310452kB, "
    "anon-rss:25480200kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:50212kB oom_score_adj:0",
)
_CORRECTED = "PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
_UNCORRECTED = "PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer"

RECORDED: dict[str, list[Evidence]] = {
    "secure-boot": [
        text("modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"),
        text("modprobe: ERROR: could not insert 'nvidia_uvm': Required key not available"),
        unused("[ 4.2] Lockdown: modprobe: Loading of unsigned module is rejected"),
        unused("[ 4.2] Loading of module with unavailable key is rejected"),
        unused(
            kernel=KernelLog(source="dmesg", clock=CLOCK, secure_boot=True),
            driver=Driver(nvml_error="NVML: Driver Not Loaded", library="libcuda.so.1"),
        ),
    ],
    "open-module-needed": [
        text("NVRM: installed in this system requires use of the NVIDIA open kernel modules."),
        unused(*_OPEN_NEEDED),
    ],
    "driver-too-new": [
        unused(*_GSP_LESS),
        unused(
            "[    7.1] NVRM: The NVIDIA GPU 0000:19:00.0 (PCI ID: 10de:1b80)",
            "          NVRM: installed in this system is not supported by the",
            "          NVRM: NVIDIA 590.44.01 driver release.",
        ),
        unused("NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please"),
        text("the GPU is not supported by the NVIDIA 590.44.01 driver release"),
    ],
    "adapter-init-failed": [
        unused("[   12.5] NVRM: GPU 0000:19:00.0: RmInitAdapter failed! (0x26:0x56:1482)"),
        unused("[    3.1] NVRM: BAR1 is 0M @ 0x0 (PCI:0000:19:00.0)"),
        text("NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x25:0xffff:1480)"),
    ],
    "xid-reboot": [
        log(xid(167, "PCIe fatal timeout")),
        log(
            xid(
                154,
                "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            )
        ),
    ],
    "xid-reset": [
        log(xid(48, "pid='<unknown>', name=<unknown>, An uncorrectable double bit error")),
        log(xid(95, "pid=7062, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No")),
        log(
            xid(
                119,
                "pid=2024380, name=nvidia-smi, Timeout after 6s of waiting for RPC response from "
                "GPU4 GSP! Expected function 103 (GSP_RM_ALLOC) (0x2081 0x4).",
            )
        ),
        log(
            xid(154, "GPU recovery action changed from 0x4 (Drain and Reset) to 0x1 (GPU Reset R")[
                :-1
            ]
            + "Required)"
        ),
    ],
    "xid-support": [log(xid(157, "Resource retirement failed"))],
    "xid-cables": [log(xid(54, "Auxiliary power is not connected"))],
    "xid-update": [log(xid(78, "vGPU start failed"))],
    "xid-nvlink-fatal": [
        log(xid(149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000)"))
    ],
    "sxid-fatal": [
        log(
            "[131453.740743] nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 "
            "LTSSM Fault Up",
            kernel=KernelLog(source="dmesg", clock=CLOCK.model_copy(update={"uptime_s": 131460})),
        )
    ],
    "xid-contained": [
        well(xid(94, "pid=7194, name=python, Contained: SM (0x1). RST: No, D-RST: No")),
        log(xid(94, "pid=7194, name=python, Contained: SM (0x1). RST: No, D-RST: No")),
        log(
            "[ 3360.1] NVRM: Xid (PCI:0000:19:00 GPU-I:05): 94, pid=7194, Contained: CE User "
            "Channel (0x9). RST: No, D-RST: No"
        ),
    ],
    "xid-nvlink": [
        log(xid(45, "pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149")),
        log(xid(74, "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6")),
        log(xid(145, "RLW_CTRL Nonfatal XC0 i0 Link 00 (0x00000003 0x80000000)")),
    ],
    "xid-reset-soon": [log(xid(156, "Resource retirement event"))],
    "xid-unknown": [log(xid(999, "something new"))],
    "sxid": [
        log(
            "[ 3100.1] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress "
            "non-posted PRIV error (First)"
        )
    ],
    "pcie-uncorrected": [log(f"[ 3300.1] nvidia 0000:19:00.0: {_UNCORRECTED}, (Requester ID)")],
    "pcie-corrected": [log(f"[ 3300.1] nvidia 0000:19:00.0: AER: {_CORRECTED}")],
    "xid-restart-program": [log(xid(31)), log(xid(13, "Graphics SM Warp Exception"))],
    "xid-watch": [log(xid(63, "Row Remapper: New row (0x0) remapped")), log(xid(43))],
    "oom-killed": [log(*_KILL), log(*_KILL[1:])],
    "kernel-log-unreadable": [
        log(
            kernel=KernelLog(
                problem="dmesg: read kernel buffer failed: Operation not permitted; journalctl: "
                "No journal files were opened due to insufficient permissions."
            )
        ),
        log(
            container=DOCKER,
            kernel=KernelLog(problem="dmesg is not installed; journalctl is not installed"),
        ),
        log(kernel=KernelLog(source="dmesg", clock=CLOCK, problem="dmesg reaches back 0.4 h only")),
    ],
}

_READING = (
    log("[ 3360.1] RPC: Xid (PCI:0000:19:00): 79, of another driver"),
    log("[ 3360.1] NVRM: Xid (PCI:0000:19:00): 9"),
    log("[    3.2] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.126.20"),
)

RECORDED["xid-nvlink-fatal"] += [
    text("CUDA error: uncorrectable NVLink error detected during the execution")
]

RECORDED["oom-killed"] += [
    text(
        "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the "
        "step tasks have been OOM Killed."
    ),
    text("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=14.batch cgroup."),
    text("srun: error: o0616: task 0: Out Of Memory"),
    text("RuntimeError: DataLoader worker (pid 2155) is killed by signal: Killed. "),
    text("      Reason:       OOMKilled"),
    text("slurmstepd: error: Exceeded job memory limit"),
    text("slurmstepd: error: StepId=9.0 exceeded memory limit (1000 > 900), being killed"),
    text("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."),
    text("slurmstepd: error: One or more tasks have been OOM Killed."),
]
RECORDED["xid-reset"] += [
    text("[9.1] NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out"),
    text("[9.1] NVRM: _kgspLogRpcTimeout: ********* GSP Timeout *********"),
    text("NVRM: GSP RM heartbeat timed out"),
]

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "secure-boot": [
        # Another maker's module was refused; this driver's is loaded.
        log("[ 4.2] Loading of unsigned module is rejected"),
        log(kernel=KernelLog(source="dmesg", clock=CLOCK, secure_boot=True)),
        # No card of NVIDIA's is here.
        Evidence(
            inventory=machine(
                driver=ABSENT,
                kernel=READ,
                kernel_log=("[ 4.2] Loading of unsigned module is rejected",),
            )
        ),
        text("modprobe: ERROR: could not insert 'vboxdrv': Key was rejected by service"),
    ],
    # The driver was mended, and the GPU is used.
    "open-module-needed": [log(*_OPEN_NEEDED)],
    "driver-too-new": [log(*_GSP_LESS), text("see the README of this driver release")],
    "adapter-init-failed": [
        log("[   12.5] NVRM: GPU 0000:19:00.0: RmInitAdapter failed! (0x26:0x56:1482)"),
        unused("[    3.1] NVRM: BAR1 is 32768M @ 0x0 (PCI:0000:19:00.0)"),
    ],
    "xid-reboot": [*_READING, log(xid(63))],
    "xid-reset": [
        *_READING,
        log(xid(94)),
        log(xid(43)),
        # The GPU was reset since, and its driver wants nothing any more.
        well(xid(48)),
        well(xid(95)),
    ],
    "xid-support": [log(xid(156))],
    "xid-cables": [log(xid(45))],
    "xid-update": [log(xid(80))],
    "xid-nvlink-fatal": [log(xid(145, "RLW_CTRL Nonfatal XC0 i0 Link 00 (0x00000003)"))],
    "sxid-fatal": [
        log("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 12028, Non-fatal, Link 32 egress"),
        log("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Data {0x50610002, 0x10100030}"),
    ],
    "xid-contained": [log(xid(95))],
    "xid-nvlink": [log(xid(121)), log("[ 3.1] nvidia-nvlink: registered device")],
    "xid-reset-soon": [log(xid(157))],
    "xid-unknown": [*_READING, *(log(xid(number)) for number in (13, 63, 79, 94, 154))],
    "sxid": [log("[ 3100.1] nvidia-nvswitch3: registered device")],
    # A disk's, not a GPU's.
    "pcie-uncorrected": [log(f"[ 3300.1] nvme 0000:05:00.0: {_UNCORRECTED}, (Requester ID)")],
    "pcie-corrected": [log(f"[ 3300.1] nvme 0000:05:00.0: AER: {_CORRECTED}")],
    "xid-restart-program": [*_READING, log(xid(48))],
    "xid-watch": [*_READING, log(xid(64))],
    "oom-killed": [
        log("[ 3000.1] systemd[1]: Started Userspace Out-Of-Memory (OOM) Killer."),
        log("[ 3000.1] Killed process groups are counted"),
        # No GPU is here that a program could have computed on.
        Evidence(inventory=machine(kernel_log=_KILL, kernel=READ)),
    ],
    "kernel-log-unreadable": [
        log(),
        # No GPU is here whose errors could be missed.
        Evidence(inventory=machine(kernel=KernelLog(problem="dmesg is not installed"))),
        Evidence(inventory=with_gpu()),
    ],
}
