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
