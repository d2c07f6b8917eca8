"""Recorded failures of ``failures/kernel.toml``, by code."""

from __future__ import annotations

from recorded.evidence import with_gpu
from tarmac.checks.evidence import Evidence

RECORDED: dict[str, list[Evidence]] = {
    "xid": [
        Evidence(
            inventory=with_gpu(
                kernel_log=("[12.1] NVRM: Xid (PCI:0000:01:00): 48, pid=1, DBE (double bit error)",)
            )
        )
    ],
}

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "xid": [
        # An application's own fault.
        Evidence(
            inventory=with_gpu(
                kernel_log=(
                    "[12.1] NVRM: Xid (PCI:0000:01:00): 31, pid=7, name=python, MMU Fault",
                    "[12.2] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.126.20",
                )
            )
        )
    ],
}
