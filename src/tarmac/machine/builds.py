"""The choice of the PyTorch build that suits a machine: its driver, and every GPU in it.

Example:
    >>> choose_build("13.0", [(9, 0)]).index, choose_build("13.0", [(7, 0), (9, 0)]).index
    ('cu132', 'cu126')
    >>> choose_build("12.4", [(12, 0)]).needs_driver
    '12.8'
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

Capability: TypeAlias = tuple[int, int]

# Architectures of a build by CUDA version and processor, 90 for sm_90.
Releases: TypeAlias = "Mapping[str, Mapping[str, Collection[int]]]"

# `torch.cuda.PYTORCH_RELEASES_CODE_CC` of PyTorch 2.13.0, for releases without that table.
RELEASES: Releases = {
    "12.6": {"x86_64": (50, 60, 70, 75, 80, 86, 90), "aarch64": (80, 90)},
    "12.9": {"x86_64": (75, 80, 86, 90, 100, 120), "aarch64": (80, 90, 100, 120)},
    "13.0": {"x86_64": (75, 80, 86, 90, 100, 120), "aarch64": (80, 90, 100, 110, 120)},
    "13.2": {"x86_64": (75, 80, 86, 90, 100, 120), "aarch64": (80, 90, 100, 110, 120)},
}

# The first CUDA version, and so the oldest driver, that supports a chip's generation: release notes
# of CUDA's toolkit (https://docs.nvidia.com/cuda/archive/12.8.0/cuda-toolkit-release-notes/).
_FIRST_CUDA = {(10, 0): "12.8", (10, 3): "12.9", (11, 0): "13.0", (12, 0): "12.8", (12, 1): "12.9"}

# The last release with code for Kepler, which no current build has. Its list is printed in
# https://github.com/pBFSLab/DeepPrep (2.0.1+cu118: sm_37 to sm_90).
_LAST_WITH_KEPLER = "2.0.1", "cu118"
_KEPLER = (3, 7)

# The last release for drivers of CUDA 11, and its code (https://github.com/pytorch/pytorch/issues/144071,
# 2.8.0 has none: https://github.com/pytorch/pytorch/releases/tag/v2.8.0).
_LAST_FOR_CUDA_11 = "2.7.1", "cu118"
_CODE_FOR_CUDA_11 = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")

_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


@dataclasses.dataclass(frozen=True)
class BuildChoice:
    """The build of PyTorch for a machine.

    Attributes:
        index: PyTorch's package index, ``cu130``; None if no release has code for any GPU here.
        release: Version of the release, if it is not the newest.
        needs_driver: CUDA version that a newer driver must support; None if this driver suffices.
        left_out: Compute capabilities of GPUs here without code in the build.
        is_mix: Whether other builds have code for the GPUs left out, but none for all GPUs.
        meanwhile: Build for this driver, if ``index`` needs a newer one.
    """

    index: str | None
    release: str | None = None
    needs_driver: str | None = None
    left_out: tuple[Capability, ...] = ()
    is_mix: bool = False
    meanwhile: BuildChoice | None = None


def choose_build(
    driver: str | None,
    capabilities: Collection[Capability],
    *,
    releases: Releases = RELEASES,
    processor: str = "x86_64",
) -> BuildChoice:
    """Return the newest build that the driver supports and that has code for every GPU.

    Args:
        driver: Newest CUDA version that the driver supports; None if unknown.
        capabilities: Compute capabilities of all GPUs, as (major, minor). Empty if unknown.
        releases: Available builds, in the form of PyTorch's own table.
        processor: Processor architecture: ``x86_64`` or ``aarch64``. Default ``x86_64``.
    """
    builds = {
        cuda: tuple(f"sm_{code}" for code in by_processor[processor])
        for cuda, by_processor in sorted(releases.items(), key=lambda row: _numbers(row[0]))
        if processor in by_processor
    }
    chips = sorted(set(capabilities))
    known = [chip for chip in chips if any(runs_on(has, chip) for has in builds.values())]
    if chips and not known:
        # Current drivers do not support these chips either, so keep the installed driver.
        is_there = all(chip == _KEPLER for chip in chips)
        release, index = _LAST_WITH_KEPLER if is_there else (None, None)
        return BuildChoice(index, release, left_out=() if is_there else tuple(chips))
    # Prefer the builds for the most GPUs, then the newest.
    covered = {cuda: [chip for chip in known if runs_on(has, chip)] for cuda, has in builds.items()}
    most = max(map(len, covered.values()))
    suited = [cuda for cuda in builds if len(covered[cuda]) == most]
    needed = max((_FIRST_CUDA[c] for c in known if c in _FIRST_CUDA), key=_numbers, default=None)
    runnable = [cuda for cuda in suited if not is_driver_too_old(cuda, driver)]
    is_too_old = driver is not None and needed is not None and _numbers(driver) < _numbers(needed)
    if runnable and not is_too_old:
        return _choice(runnable[-1], chips, covered)
    first = max(suited[0], needed or suited[0], key=_numbers)
    wanted = needed or f"{_numbers(suited[0])[0]}.0"
    # Builds that every new enough driver supports.
    later = [cuda for cuda in suited if not is_driver_too_old(cuda, first)]
    choice = _choice(later[-1], chips, covered)
    return dataclasses.replace(choice, needs_driver=wanted, meanwhile=_meanwhile(driver, chips))


def _meanwhile(driver: str | None, chips: Sequence[Capability]) -> BuildChoice | None:
    has_code = all(runs_on(_CODE_FOR_CUDA_11, chip) for chip in chips)
    if _numbers(driver)[:1] != (11,) or not has_code:
        return None
    release, index = _LAST_FOR_CUDA_11
    return BuildChoice(index, release)


def _choice(
    cuda: str, chips: Sequence[Capability], covered: Mapping[str, Sequence[Capability]]
) -> BuildChoice:
    left_out = tuple(chip for chip in chips if chip not in covered[cuda])
    return BuildChoice(
        "cu" + cuda.replace(".", ""),
        left_out=left_out,
        is_mix=any(chip in has for chip in left_out for has in covered.values()),
    )


def runs_on(architectures: Collection[str], capability: Capability) -> bool:
    """Return whether a build has code for a chip; True if its architectures are unknown.

    Machine code (``sm_80``) runs on chips of the same major and an equal or higher minor version.
    With a suffix it runs only on its own chip (``sm_90a``) or family (``sm_100f``). PTX
    (``compute_80``) runs on all later chips (CUDA C++ programming guide, "Application
    compatibility").

    Args:
        architectures: Architectures as in ``torch.cuda.get_arch_list``.
        capability: The chip's compute capability, (major, minor).
    """
    known = [match for name in architectures if (match := _ARCHITECTURE.fullmatch(name))]
    return not known or any(_suits(match, capability) for match in known)


def _suits(architecture: re.Match[str], capability: Capability) -> bool:
    kind, major, minor, suffix = architecture.groups()
    built = int(major), int(minor)
    if suffix == "a":
        return built == capability
    if kind == "sm" or suffix == "f":
        return built[0] == capability[0] and built <= capability
    return built <= capability


def is_driver_too_old(built: str | None, driver: str | None) -> bool:
    """Return whether a build's CUDA needs a newer driver; False if either is unknown.

    Within a major version, newer builds run on older drivers (CUDA compatibility guide, "Minor
    version compatibility").

    Args:
        built: CUDA version of the build, ``13.0``.
        driver: Newest CUDA version that the driver supports.
    """
    wanted, offered = _numbers(built)[:1], _numbers(driver)[:1]
    return bool(wanted) and bool(offered) and wanted > offered


def _numbers(version: str | None) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", version or "")
    return tuple(map(int, match[0].split("."))) if match else ()
