"""Azure machine sizes with GPUs: their GPUs, the unavailable sizes, and their successors.

Sources, all read in November 2026:

- GPUs of a size: the pages of the series below learn.microsoft.com/azure/virtual-machines/sizes/
  gpu-accelerated, and for sizes before those ``_VM_GPU_COUNT`` of Batch Shipyard 3.9.1.
- Names of GPUs: ``FAMILY_NAME_TO_SKYPILOT_GPU_NAME`` and
  ``AZURE_FRACTIONAL_A10_INS_TYPE_TO_NUM_GPUS`` in SkyPilot 0.14.1, catalog/data_fetchers/
  fetch_azure.py. SkyPilot opens a size of any other family by its name alone.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Size(NamedTuple):
    """A machine size.

    Attributes:
        name: Name of the size, as Azure and SkyPilot spell it.
        gpus: Number of GPUs, may be a fraction.
        gpu: SkyPilot's name of the GPU. Empty if SkyPilot has none for the family.
    """

    name: str
    gpus: float
    gpu: str = ""


class Successor(NamedTuple):
    """The replacement of a size that is no longer available.

    Attributes:
        had: GPUs of the old size, such as ``1 K80``.
        why: Reason as the start of a sentence, such as ``Azure retired {} on 2023-08-31``.
        size: Size to open instead, with as many GPUs or more.
    """

    had: str
    why: str
    size: Size


_SIZES = (
    *(Size(f"Standard_NC{cpus}as_T4_v3", 1, "T4") for cpus in (4, 8, 16)),
    Size("Standard_NC64as_T4_v3", 4, "T4"),
    Size("Standard_NC24ads_A100_v4", 1, "A100-80GB"),
    Size("Standard_NC48ads_A100_v4", 2, "A100-80GB"),
    Size("Standard_NC96ads_A100_v4", 4, "A100-80GB"),
    Size("Standard_NC40ads_H100_v5", 1, "H100"),
    Size("Standard_NC80adis_H100_v5", 2, "H100"),
    # No retirement is announced in "Retired Azure VM size series".
    Size("Standard_ND40rs_v2", 8, "V100-32GB"),
    Size("Standard_ND96asr_v4", 8, "A100"),
    Size("Standard_ND96amsr_A100_v4", 8, "A100-80GB"),
    Size("Standard_ND96isr_H100_v5", 8, "H100"),
    Size("Standard_ND96isr_H200_v5", 8),
    Size("Standard_ND96isr_MI300X_v5", 8),
    Size("Standard_NV6ads_A10_v5", 0.167, "A10"),
    Size("Standard_NV12ads_A10_v5", 0.333, "A10"),
    Size("Standard_NV18ads_A10_v5", 0.5, "A10"),
    *(Size(f"Standard_NV36ad{kind}_A10_v5", 1, "A10") for kind in ("s", "ms")),
    Size("Standard_NV72ads_A10_v5", 2, "A10"),
)
_BY_NAME = {size.name.lower(): size for size in _SIZES}

# "Migration Guide for GPU Compute Workloads in Azure" (MicrosoftDocs/azure-docs,
# articles/virtual-machines/n-series-migration.md): NC, NCv2 and ND. Some sizes in the guide have
# too few GPUs for the job. They are replaced by the smallest of the same series with enough GPUs.
_GUIDE = "Azure retired {} on 2023-08-31"
# "NV series retirement" (sizes/migration-guides/nv-series-retirement.md there) names no other size,
# so this is the size in NVv3's guide.
_NV = "Azure retired {} on 2023-09-06"
# "Retired Azure VM size series" and its migration guides: NCv3.
_NCV3 = "Azure retired {} on 2025-09-30"
# "Migrate your NVv3-series virtual machines": NVadsA10_v5, or NCasT4_v3.
_NVV3 = "Azure retired {} on 2026-09-30"

# SkyPilot says (`DEPRECATED_FAMILIES` in the file above) that Azure lists NVv2 but does not provide
# it. The date of its end is unknown. NVv2 has NVv3's GPUs.
_NVV2 = "SkyPilot opens no {}, which Azure lists and does not give"
# "NVv4-series" (articles/virtual-machines/nvv4-series.md in azure-docs), with fractions of GPUs.
_NVV4 = "{} is for Windows alone"

# By old name: the GPUs, the reason for the end, and the size to open instead.
_GONE = {
    **{
        f"nc{cpus}{promo}": (f"{count} K80", _GUIDE, new)
        for promo in ("", "_promo")
        for cpus, count, new in (
            ("6", 1, "Standard_NC4as_T4_v3"),
            ("12", 2, "Standard_NC64as_T4_v3"),
            ("24", 4, "Standard_NC64as_T4_v3"),
            ("24r", 4, "Standard_NC64as_T4_v3"),
        )
    },
    **{
        f"nc{cpus}_{version}": (f"{count} {gpu}", why, f"Standard_NC{24 * count}ads_A100_v4")
        for version, gpu, why in (("v2", "P100", _GUIDE), ("v3", "V100", _NCV3))
        for cpus, count in (("6s", 1), ("12s", 2), ("24s", 4), ("24rs", 4))
    },
    "nd6s": ("1 P40", _GUIDE, "Standard_NC4as_T4_v3"),
    "nd12s": ("2 P40", _GUIDE, "Standard_NC64as_T4_v3"),
    "nd24s": ("4 P40", _GUIDE, "Standard_NC64as_T4_v3"),
    "nd24rs": ("4 P40", _GUIDE, "Standard_ND96amsr_A100_v4"),
    **{
        f"nv{cpus}{promo}": (f"{count} M60", _NV, new)
        for promo in ("", "_promo")
        for cpus, count, new in (
            ("6", 1, "Standard_NV36ads_A10_v5"),
            ("12", 2, "Standard_NV72ads_A10_v5"),
            ("24", 4, "Standard_NC64as_T4_v3"),
        )
    },
    "nv12s_v3": ("1 M60", _NVV3, "Standard_NV36ads_A10_v5"),
    "nv24s_v3": ("2 M60", _NVV3, "Standard_NV72ads_A10_v5"),
    "nv48s_v3": ("4 M60", _NVV3, "Standard_NC64as_T4_v3"),
    "nv6s_v2": ("1 M60", _NVV2, "Standard_NV36ads_A10_v5"),
    "nv12s_v2": ("2 M60", _NVV2, "Standard_NV72ads_A10_v5"),
    "nv24s_v2": ("4 M60", _NVV2, "Standard_NC64as_T4_v3"),
    "nv4as_v4": ("1/8 MI25", _NVV4, "Standard_NV6ads_A10_v5"),
    "nv8as_v4": ("1/4 MI25", _NVV4, "Standard_NV12ads_A10_v5"),
    "nv16as_v4": ("1/2 MI25", _NVV4, "Standard_NV18ads_A10_v5"),
    "nv32as_v4": ("1 MI25", _NVV4, "Standard_NV36ads_A10_v5"),
}

_PARTS = re.compile(r"standard_([a-z]+)(\d+)([a-z]*)((?:_[a-z0-9]+)*)")


def find_size(name: str) -> Size | None:
    """Return an available size with GPUs, or None if the table has none of that name.

    Args:
        name: Name of an Azure size, in any case.
    """
    return _BY_NAME.get(name.lower())


def successor_of(name: str) -> Successor | None:
    """Return the successor of an unavailable size, or None for any other size.

    Args:
        name: Name of an Azure size, in any case, with or without ``Standard_``.
    """
    entry = _GONE.get(name.lower().removeprefix("standard_"))
    return Successor(entry[0], entry[1], _BY_NAME[entry[2].lower()]) if entry else None


def spelled(name: str) -> str:
    """Return a size as spelled in Azure's list, which SkyPilot compares with.

    The family is in capitals. The letters after the number and the version are in lower case:
    ``Standard_D4s_v3``. A name of another form stays unchanged.
    """
    match = _PARTS.fullmatch(name.lower())
    if match is None:
        return name
    family, cpus, kind, rest = match.groups()
    parts = rest.split("_")[1:]
    tail = "".join(f"_{p if re.fullmatch(r'v[0-9]+', p) else p.upper()}" for p in parts)
    return f"Standard_{family.upper()}{cpus}{kind}{tail}"
