"""The obstacles that keep PyTorch from computing on GPUs, by facts about driver and build.

This module queries nothing, so that a check, a training and a job conclude the same from the same
facts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tarmac.machine.builds import BuildChoice, choose_build, is_driver_too_old, runs_on
from tarmac.machine.gpu import Gpu
from tarmac.machine.visible import names_nothing
from tarmac.wording import counted

_LOOK = "Find the cause: tarmac check"
_INSTALL = "pip install --force-reinstall"
_INDEX = "https://download.pytorch.org/whl"


@dataclasses.dataclass(frozen=True)
class CudaBuild:
    """The build of a PyTorch installation.

    Attributes:
        version: Version of PyTorch, such as ``2.13.0``.
        cuda: CUDA version of the build, ``13.0``; None for a build without CUDA.
        architectures: Architectures with code, ``sm_90`` or ``compute_120``; empty if unknown.
    """

    version: str
    cuda: str | None
    architectures: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name of the build in messages: ``PyTorch 2.13.0 (CUDA 13.0)``."""
        return f"PyTorch {self.version} (CUDA {self.cuda})"


@dataclasses.dataclass(frozen=True)
class Obstacle:
    """The reason why a GPU, or every GPU, is unusable.

    Attributes:
        text: Description of the problem, to follow a comma.
        hint: Advice for the user, such as a command to run.
    """

    text: str
    hint: str


def find_obstacle(
    gpu: Gpu, build: CudaBuild, *, driver: str | None = None, shares: bool = False
) -> Obstacle | None:
    """Return the obstacle to computing on a GPU; None if none is known.

    Args:
        gpu: Current description of the GPU by the driver.
        build: Build of the PyTorch that would compute.
        driver: Newest CUDA version that the driver supports.
        shares: Whether this process, or others that it computes with, may use the GPU already.
    """
    name = gpu.name or gpu.label
    if gpu.error is not None:
        return Obstacle(f"{name} does not answer: {gpu.error}", _LOOK)
    if gpu.capability is not None and not runs_on(build.architectures, gpu.capability):
        return Obstacle(
            f"{name} is sm_{gpu.capability[0]}{gpu.capability[1]}, and {build.label} has code for "
            f"{' '.join(build.architectures)}",
            _how_to_install(choose_build(driver, [gpu.capability])),
        )
    if gpu.compute_mode == "prohibited":
        return _prohibited(gpu)
    if gpu.is_exclusive and gpu.processes and not shares:
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
    """Return why GPUs of the driver cannot be given to programs; None if all can.

    Args:
        gpus: GPUs in the order of the bus.
        visible: Value of ``CUDA_VISIBLE_DEVICES``; None if unset.
    """
    hidden = why_hidden(gpus, visible)
    if hidden is not None:
        return hidden
    return next((_prohibited(gpu) for gpu in gpus if gpu.compute_mode == "prohibited"), None)


def name_holders(gpu: Gpu) -> str:
    """Return the processes that hold memory of a GPU, with sizes, in words; empty if unknown."""
    words = []
    for process in gpu.processes:
        name = f"{process.name} ({process.pid})" if process.name else f"process {process.pid}"
        held = process.memory_bytes
        words.append(f"{name} holds it" if held is None else f"{name} holds {held / 2**30:.1f} GiB")
    return ", ".join(words)


def why_hidden(gpus: Sequence[Gpu], visible: str | None) -> Obstacle | None:
    """Return how ``CUDA_VISIBLE_DEVICES`` hides GPUs by mistake; None if it does not.

    Args:
        gpus: GPUs in the order of the bus.
        visible: Value of the variable; None if unset.
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
    """Return why PyTorch sees no GPU; None if the machine has none.

    Args:
        build: Build of the PyTorch that sees none.
        gpus: GPUs that the driver has.
        driver: Newest CUDA version that the driver supports.
        problem: Reason why the driver does not answer; None if it does.
        visible: Value of ``CUDA_VISIBLE_DEVICES``; None if unset.
    """
    if problem is not None:
        return Obstacle(f"NVIDIA's driver does not answer: {problem}", _LOOK)
    if not gpus:
        return None
    choice = choose_build(driver, [gpu.capability for gpu in gpus if gpu.capability is not None])
    if build.cuda is None:
        return Obstacle(f"PyTorch {build.version} is built without CUDA", _how_to_install(choice))
    hidden = why_hidden(gpus, visible)
    if hidden is not None:
        return hidden
    if is_driver_too_old(build.cuda, driver):
        return Obstacle(
            f"{build.label} needs a newer driver: this one runs CUDA {driver} at most",
            f"Install a newer driver, or a build for this one: {_how_to_install(choice)}"
            if choice.needs_driver is None
            else _how_to_install(choice),
        )
    return Obstacle(
        f"{build.label} sees none of {counted(len(gpus), 'GPU')} that the driver has", _LOOK
    )


def _how_to_install(choice: BuildChoice) -> str:
    if choice.index is None:
        return "No release of PyTorch has code for it: use another GPU, or the CPU"
    torch = "torch" if choice.release is None else f"torch=={choice.release}"
    command = f"{_INSTALL} {torch} --index-url {_INDEX}/{choice.index}"
    if choice.needs_driver is None:
        return command
    return f"Install a driver for CUDA {choice.needs_driver} or newer, then: {command}"
