"""Recorded failures of ``failures/speed.toml``, by code."""

from __future__ import annotations

from typing import Any

from recorded.evidence import DRIVER, H200, done, gpu, machine, on_gpu
from tarmac.checks.evidence import Evidence


def siblings(chip: str, *facts: dict[str, Any]) -> Evidence:
    """Return what PyTorch's probe says of GPUs of one chip."""
    devices = [
        {"name": f"cuda:{number}", "kind": "gpu", "chip": chip} | found
        for number, found in enumerate(facts)
    ]
    return done("torch", devices=devices)


def bf16(*rates: float) -> list[dict[str, Any]]:
    return [{"flops": {"bf16": rate * 1e12}} for rate in rates]


def both(first: dict[str, Any], second: dict[str, Any]) -> Evidence:
    """Return what PyTorch's and JAX's probes measured on one H100."""
    torch, jax = (
        on_gpu(name, chip="NVIDIA H100 80GB HBM3", **facts)
        for name, facts in (("torch", first), ("jax", second))
    )
    return torch.model_copy(update={"probes": (*torch.probes, *jax.probes)})


RECORDED: dict[str, list[Evidence]] = {
    "very-slow-compute": [
        on_gpu("torch", flops={"bf16": 200e12}),
        on_gpu("torch", chip="Tesla T4", flops={"fp16": 8e12}),
    ],
    "slow-compute": [
        on_gpu("torch", flops={"bf16": 500e12}),
        on_gpu("torch", chip="NVIDIA H100 PCIe", flops={"bf16": 340e12, "fp16": 330e12}),
    ],
    "below-datasheet": [
        # Of this one it is not known what healthy ones reach, of the next the datasheet's figure.
        on_gpu("torch", chip="NVIDIA A10", flops={"bf16": 9e12}),
        on_gpu("torch", chip="NVIDIA A10G", flops={"bf16": 5e12}),
    ],
    "slower-than-siblings": [
        siblings("NVIDIA H200", *bf16(780, 775, 690, 782, 779, 781, 777, 780)),
        # A chip without a row.
        siblings("Fast 9000", *bf16(100, 101, 80)),
        siblings(
            "NVIDIA H200",
            *({"copies": {"memory": rate * 1e9}} for rate in (4300, 4310, 3500, 4290)),
        ),
    ],
    "uneven-siblings": [siblings("NVIDIA GeForce RTX 4090", *bf16(160, 135))],
    "slow-memory": [
        on_gpu("torch", copies={"memory": 2000e9}),
        both({"copies": {"memory": 1900e9}}, {"copies": {"memory": 1800e9}}),
    ],
    "slower-framework": [
        # A healthy H100, whose JAX timed the start of its calls.
        both({"copies": {"memory": 2949e9}}, {"copies": {"memory": 1977e9}}),
        both({"flops": {"bf16": 775e12}}, {"flops": {"bf16": 500e12}}),
    ],
    "memory-missing": [
        # One of five stacks of HBM.
        gpu(name="NVIDIA A100-SXM4-80GB", memory_bytes=64 * 2**30),
        gpu(memory_bytes=117 * 2**30),
    ],
}

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "very-slow-compute": [
        on_gpu("torch", flops={"bf16": 310e12}),
        both({"flops": {"bf16": 775e12}}, {"flops": {"bf16": 300e12}}),
        # Some types are slow in some builds; a slow chip is slow in all.
        on_gpu("torch", flops={"bf16": 770e12, "fp16": 100e12}),
        on_gpu("torch", chip="NVIDIA A10G", flops={"bf16": 1e12}),
    ],
    "slow-compute": [
        on_gpu("torch", flops={"bf16": 620e12}),
        # NVIDIA calls 24 of 65 TFLOP/s expected at 70 W.
        on_gpu("torch", chip="Tesla T4", flops={"fp16": 24e12}),
        on_gpu("torch", chip="NVIDIA L4", flops={"bf16": 55e12, "fp16": 54e12}),
        on_gpu("torch", chip="AMD Instinct MI300X", multiprocessors=304, flops={"bf16": 610e12}),
        on_gpu("torch", chip="NVIDIA GB200", flops={"bf16": 1700e12}),
        on_gpu("torch", chip="NVIDIA H100 PCIe", flops={"bf16": 490e12}),
        # An eighth of an MI300X, under the whole one's name.
        on_gpu("torch", chip="AMD Instinct MI300X", multiprocessors=38, flops={"bf16": 80e12}),
        # The makers' figures were not found again.
        on_gpu("torch", chip="NVIDIA H20", flops={"bf16": 60e12}),
        on_gpu("torch", chip="NVIDIA H200-1-18CME", flops={"bf16": 90e12}),
        on_gpu("torch", chip="NVIDIA L4-12", flops={"bf16": 20e12}),
        on_gpu("torch", chip="NVIDIA A10-24", flops={"bf16": 20e12}),
    ],
    "below-datasheet": [
        on_gpu("torch", chip="NVIDIA A10", flops={"bf16": 60e12}),
        on_gpu("torch", chip="NVIDIA A10-4Q", flops={"bf16": 1e12}),
        on_gpu("torch", chip="Fast 9000", flops={"bf16": 1e12}),
    ],
    "slower-than-siblings": [
        siblings("NVIDIA H200", *bf16(780, 775, 710, 782)),
        # Two do not tell which of them is usual.
        siblings("Fast 9000", *bf16(100, 80)),
        # One that is slow for its chip is told of as such.
        siblings("NVIDIA H200", *bf16(780, 775, 500, 782)),
    ],
    "uneven-siblings": [
        siblings("NVIDIA GeForce RTX 4090", *bf16(160, 150)),
        siblings("Fast 9000", *bf16(100, 80, 100)),
        on_gpu("torch", flops={"bf16": 770e12}),
    ],
    "slow-memory": [
        on_gpu("torch", copies={"memory": 3000e9}),
        # ECC of GDDR takes some of it.
        on_gpu("torch", chip="Tesla T4", copies={"memory": 220e9}),
        both({"copies": {"memory": 2949e9}}, {"copies": {"memory": 1977e9}}),
    ],
    "slower-framework": [
        both(
            {"flops": {"bf16": 775e12, "fp32": 52e12}}, {"flops": {"bf16": 694e12, "fp32": 20e12}}
        ),
        both({"copies": {"memory": 2949e9}}, {}),
    ],
    "memory-missing": [
        gpu(),
        # GDDR with ECC, by an older driver.
        gpu(name="Tesla T4", memory_bytes=15109 * 2**20),
        gpu(name="NVIDIA L4", memory_bytes=23034 * 2**20),
        gpu(name="NVIDIA B200", memory_bytes=183359 * 2**20),
        gpu(name="NVIDIA H100", memory_bytes=65247 * 2**20),
        gpu(name="NVIDIA A10-12Q", memory_bytes=12 * 2**30),
        gpu(name="NVIDIA A100-SXM-64GB", memory_bytes=64 * 2**30),
        gpu(name="NVIDIA GeForce RTX 3060", memory_bytes=8 * 2**30),
        Evidence(
            inventory=machine(
                (H200.model_copy(update={"mig": True, "memory_bytes": 17 * 2**30}),), driver=DRIVER
            )
        ),
    ],
}
