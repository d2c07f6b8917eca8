"""Recorded failures of ``failures/speed.toml``, by code."""

from __future__ import annotations

from recorded.evidence import on_gpu
from tarmac.checks.evidence import Evidence

RECORDED: dict[str, list[Evidence]] = {
    "very-slow-compute": [on_gpu("torch", flops={"bf16": 200e12})],
    "slow-compute": [on_gpu("torch", flops={"bf16": 500e12})],
    "slow-memory": [on_gpu("torch", copies={"memory": 2000e9})],
    "slow-copies": [on_gpu("torch", copies={"to_device": 2e9, "from_device": 2.1e9})],
}

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "very-slow-compute": [on_gpu("torch", flops={"bf16": 310e12})],
    "slow-compute": [on_gpu("torch", flops={"bf16": 620e12})],
    "slow-memory": [on_gpu("torch", copies={"memory": 3000e9})],
    "slow-copies": [
        on_gpu("torch", copies={"to_device": 6.5e9, "from_device": 6.5e9}),
        on_gpu("jax", copies={"to_device": 4e9, "from_device": 4e9, "pinned": False}),
    ],
}
