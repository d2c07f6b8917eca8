"""What keeps a PyTorch from computing on GPUs: decided from what was asked of driver and build.

Nothing is looked up here, so that a check, a training and a job conclude the same from the same
facts.

Example:
    >>> runs_on(("sm_80", "sm_90"), (8, 6)), runs_on(("sm_80", "sm_90"), (7, 5))
    (True, False)
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from tarmac.machine.visible import names_nothing

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tarmac.machine.gpu import Gpu

__all__ = [
    "CudaBuild",
    "Obstacle",
    "find_obstacle",
    "is_driver_too_old",
    "name_holders",
    "runs_on",
    "wheel_index",
    "why_hidden",
    "why_none_is_seen",
    "why_withheld",
]

_LOOK = "See what is wrong: tarmac check"
_INSTALL = "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/"


@dataclasses.dataclass(frozen=True)
class CudaBuild:
    """How a PyTorch was built.

    Attributes:
        version: PyTorch's own.
        cuda: The CUDA version that it was built with, ``13.0``; None where it was built without.
        architectures: What it has code for, ``sm_90`` or ``compute_120``; none where that is not
            known.
    """

    version: str
    cuda: str | None
    architectures: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What it is called in messages: ``PyTorch 2.13.0 (CUDA 13.0)``."""
        return f"PyTorch {self.version} (CUDA {self.cuda})"


@dataclasses.dataclass(frozen=True)
class Obstacle:
    """Why a GPU, or any, cannot be computed on.

    Attributes:
        text: What is wrong, in words that follow a comma.
        hint: What to do.
    """

    text: str
    hint: str


def runs_on(architectures: Collection[str], capability: tuple[int, int]) -> bool:
    """Whether a build has code for a chip; True where it does not say what it has.

    Machine code (``sm_80``) runs on chips of its own major version from its minor one on, but with
    a suffix on its own chip (``sm_90a``) or family (``sm_100f``) alone; PTX (``compute_80``) on
    all later chips (CUDA C++ programming guide, "Application compatibility").

    Args:
        architectures: As ``torch.cuda.get_arch_list`` names them.
        capability: The chip's compute capability.
    """
    known = [match for name in architectures if (match := _ARCHITECTURE.fullmatch(name))]
    return not known or any(_suits(match, capability) for match in known)


_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


def _suits(architecture: re.Match[str], capability: tuple[int, int]) -> bool:
    kind, major, minor, suffix = architecture.groups()
    built = int(major), int(minor)
    if suffix == "a":
        return built == capability
    if kind == "sm" or suffix == "f":
        return built[0] == capability[0] and built <= capability
    return built <= capability


def is_driver_too_old(built: str | None, driver: str | None) -> bool:
    """Whether a build's CUDA needs a newer driver; False where either is unknown.

    Within a major version, newer builds run on older drivers (CUDA compatibility guide, "Minor
    version compatibility").

    Args:
        built: The CUDA version that something was built with, ``13.0``.
        driver: The newest that the driver runs.
    """
    wanted, offered = _major(built), _major(driver)
    return wanted is not None and offered is not None and wanted > offered


def _major(version: str | None) -> int | None:
    match = re.match(r"\d+", version or "")
    return None if match is None else int(match[0])


def wheel_index(driver: str | None, lowest: tuple[int, int] | None) -> str:
    """Return PyTorch's index whose builds suit a driver and chips, such as ``cu130``.

    PyTorch 2.9 and later offer cu126, cu128 and cu130; cu126 alone has code for chips before
    Turing, and CUDA 13 needs compute capability 7.5 (https://pytorch.org/get-started/locally/).

    Args:
        driver: The newest CUDA that the driver runs; None where it is unknown.
        lowest: The smallest compute capability among the chips; None where none is known.
    """
    cuda = tuple(map(int, driver.split("."))) if driver else (13, 0)
    if lowest is not None and lowest < (7, 5):
        return "cu126"
    return "cu130" if cuda >= (13, 0) else "cu128" if cuda >= (12, 8) else "cu126"


def find_obstacle(
    gpu: Gpu, build: CudaBuild, *, driver: str | None = None, shares: bool = False
) -> Obstacle | None:
    """Return what keeps a process from computing on a GPU; None where nothing is known to.

    Args:
        gpu: What the driver says of it now.
        build: The PyTorch that would compute.
        driver: The newest CUDA that the driver runs.
        shares: Whether this process, or others that it computes with, may be on the GPU already.
    """
    name = gpu.name or gpu.label
    if gpu.error is not None:
        return Obstacle(f"{name} does not answer: {gpu.error}", _LOOK)
    if gpu.capability is not None and not runs_on(build.architectures, gpu.capability):
        return Obstacle(
            f"{name} is sm_{gpu.capability[0]}{gpu.capability[1]}, and {build.label} has code for "
            f"{' '.join(build.architectures)}",
            f"{_INSTALL}{wheel_index(driver, gpu.capability)}",
        )
    if gpu.compute_mode == "prohibited":
        return _prohibited(gpu)
    if gpu.compute_mode == "exclusive process" and gpu.processes and not shares:
        return Obstacle(
            f"{name} is in compute mode EXCLUSIVE_PROCESS, and {name_holders(gpu)}",
            "Wait for it to end, or let processes share the GPU: "
            f"sudo nvidia-smi -i {gpu.index} -c DEFAULT",
        )
    return None


def _prohibited(gpu: Gpu) -> Obstacle:
    return Obstacle(
        f"{gpu.name or gpu.label} is in compute mode PROHIBITED",
        f"Let programs compute on it: sudo nvidia-smi -i {gpu.index} -c DEFAULT",
    )


def why_withheld(gpus: Sequence[Gpu], visible: str | None) -> Obstacle | None:
    """Return why GPUs of the driver cannot be given to programs; None where all can be.

    Args:
        gpus: In the order of the bus.
        visible: The value of ``CUDA_VISIBLE_DEVICES``; None where it is not set.
    """
    hidden = why_hidden(gpus, visible)
    if hidden is not None:
        return hidden
    return next((_prohibited(gpu) for gpu in gpus if gpu.compute_mode == "prohibited"), None)


def name_holders(gpu: Gpu) -> str:
    """Return which processes hold memory of a GPU, and how much; empty where none is known."""
    words = []
    for process in gpu.processes:
        name = f"{process.name} ({process.pid})" if process.name else f"process {process.pid}"
        held = process.memory_bytes
        words.append(f"{name} holds it" if held is None else f"{name} holds {held / 2**30:.1f} GiB")
    return ", ".join(words)


def why_hidden(gpus: Sequence[Gpu], visible: str | None) -> Obstacle | None:
    """Return how ``CUDA_VISIBLE_DEVICES`` hides GPUs by mistake; None where it does not.

    Args:
        gpus: In the order of the bus.
        visible: The variable's value; None where it is not set.
    """
    if visible is None or not gpus or not names_nothing(gpus, visible):
        return None
    names = [f"{gpu.index} ({gpu.uuid or gpu.name or gpu.error})" for gpu in gpus]
    names += [part.uuid for gpu in gpus for part in gpu.mig_devices]
    here = ", ".join(names)
    if not visible.strip():
        return Obstacle(
            "CUDA_VISIBLE_DEVICES is empty, which hides all GPUs",
            f"Unset it, or name some of: {here}",
        )
    return Obstacle(
        f"CUDA_VISIBLE_DEVICES is {visible!r}, and the first name in it that no GPU here has hides "
        "all that follow",
        f"Unset it, or name some of: {here}",
    )


def why_none_is_seen(
    build: CudaBuild,
    gpus: Sequence[Gpu],
    *,
    driver: str | None = None,
    problem: str | None = None,
    visible: str | None = None,
) -> Obstacle | None:
    """Return why PyTorch sees no GPU; None where there is none to be seen.

    Args:
        build: The PyTorch that sees none.
        gpus: Those of the driver.
        driver: The newest CUDA that the driver runs.
        problem: Why the driver does not answer, where there is one.
        visible: The value of ``CUDA_VISIBLE_DEVICES``.
    """
    if problem is not None:
        return Obstacle(f"NVIDIA's driver does not answer: {problem}", _LOOK)
    if not gpus:
        return None
    lowest = min((gpu.capability for gpu in gpus if gpu.capability is not None), default=None)
    index = wheel_index(driver, lowest)
    if build.cuda is None:
        return Obstacle(f"PyTorch {build.version} is built without CUDA", f"{_INSTALL}{index}")
    hidden = why_hidden(gpus, visible)
    if hidden is not None:
        return hidden
    if is_driver_too_old(build.cuda, driver):
        return Obstacle(
            f"{build.label} needs a newer driver: this one runs CUDA {driver} at most",
            f"Install a newer driver, or a build for this one: {_INSTALL}{index}",
        )
    return Obstacle(f"{build.label} sees none of {len(gpus)} GPUs that the driver has", _LOOK)
