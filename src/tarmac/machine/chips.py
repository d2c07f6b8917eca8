"""What GPUs can do at most, by their makers' datasheets."""

from __future__ import annotations

import dataclasses
import re

__all__ = ["CHIPS", "Chip", "find_chip"]


@dataclasses.dataclass(frozen=True)
class Chip:
    """Nominal rates, dense, in TFLOP/s and GB/s; None is unsupported or unknown.

    Attributes:
        pattern: What the driver's name for it matches.
        fp32: On the ordinary units.
        bf16: On the matrix units, with fp32 accumulation.
        fp16: On the matrix units, with fp32 accumulation.
        bandwidth: Its memory's.
        source: The maker's datasheet.
    """

    name: str
    pattern: str
    fp32: float
    bf16: float | None
    fp16: float | None
    bandwidth: float
    source: str


_NVIDIA = "https://www.nvidia.com/en-us/data-center"

# MIG slices "NVIDIA H200 MIG 1g.18gb", virtual GPUs "NVIDIA A10-24Q" and "GRID T4-16C", laptops'.
_OTHERS = r"\bMIG\b|\bGRID\b|-\d+[A-Z]$|Laptop|Max-Q"

# The first that matches counts. NVIDIA's datasheets give matrix rates with sparsity, which are
# twice the dense ones that stand here.
CHIPS = (
    Chip("P100 SXM2", "P100-SXM2", 10.6, None, 21.2, 732, f"{_NVIDIA}/tesla-p100/"),
    Chip("V100 SXM2", "V100-SXM2", 15.7, None, 125, 900, f"{_NVIDIA}/v100/"),
    Chip("T4", r"\bT4\b", 8.1, None, 65, 320, f"{_NVIDIA}/tesla-t4/"),
    Chip("A100 SXM 80 GB", "A100-SXM4-80GB", 19.5, 312, 312, 2039, f"{_NVIDIA}/a100/"),
    Chip("A100 SXM 40 GB", "A100-SXM4-40GB", 19.5, 312, 312, 1555, f"{_NVIDIA}/a100/"),
    Chip(
        "A100 PCIe 80 GB",
        "A100.*80GB.*PCIe|A100-PCIE-80GB",
        19.5,
        312,
        312,
        1935,
        f"{_NVIDIA}/a100/",
    ),
    Chip("A10G", r"\bA10G\b", 31.5, 70, 70, 600, "https://aws.amazon.com/ec2/instance-types/g5/"),
    Chip("A10", r"\bA10\b", 31.2, 125, 125, 600, f"{_NVIDIA}/products/a10-gpu/"),
    Chip("L40S", r"\bL40S\b", 91.6, 362, 362, 864, f"{_NVIDIA}/l40s/"),
    Chip("L4", r"\bL4\b", 30.3, 121, 121, 300, f"{_NVIDIA}/l4/"),
    Chip(
        "RTX 3090",
        r"RTX 3090(?! Ti)",
        35.6,
        71,
        71,
        936,
        "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf",
    ),
    Chip(
        "RTX 4090",
        r"RTX 4090(?! D)",
        82.6,
        165,
        165,
        1008,
        "https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf",
    ),
    Chip(
        "RTX 5090",
        r"RTX 5090(?! D)",
        105,
        210,
        210,
        1792,
        "https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf",
    ),
    Chip("H100 PCIe", r"H100 PCIe", 51, 756, 756, 2000, f"{_NVIDIA}/h100/"),
    Chip("H100 SXM", r"H100 80GB HBM3|H100 SXM", 67, 989, 989, 3350, f"{_NVIDIA}/h100/"),
    Chip("H200 SXM", r"\bH200\b(?! NVL)", 67, 989, 989, 4800, f"{_NVIDIA}/h200/"),
    Chip("B200", r"\bB200\b", 75, 2250, 2250, 8000, f"{_NVIDIA}/dgx-b200/"),
)


def find_chip(name: str | None) -> Chip | None:
    """Return the chip that the driver's name stands for; None for one that is not listed.

    A part of a chip has a part of its rates, and a laptop's chip has others: neither is listed.
    """
    if name and re.search(_OTHERS, name):
        return None
    return next((chip for chip in CHIPS if name and re.search(chip.pattern, name)), None)
