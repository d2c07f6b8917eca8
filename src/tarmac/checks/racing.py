"""The speed of each GPU relative to the CPU, from one training with PyTorch on each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tarmac.checks.evidence import Probe
from tarmac.checks.frameworks import RACE
from tarmac.checks.run_probe import run_probe
from tarmac.checks.targets import (
    THIS_PYTHON,
    container_target,
    python_target,
    refuse_unknown_devices,
)
from tarmac.distribution import install_hint
from tarmac.errors import RequestError, TarmacError
from tarmac.machine import name_cpu

# Long enough for clocks to rise, and for the CPU of a small machine to make some steps.
_SECONDS = 3.0

# Relative difference of the first step's losses that is allowed: a GPU convolves in TF32, whose
# mantissa has ten bits.
_TOLERANCE = 0.01


@dataclasses.dataclass(frozen=True)
class Racer:
    """A device in a race.

    Attributes:
        device: Device as PyTorch names it: ``cpu``, ``cuda:0``.
        chip: Vendor's name of the chip.
        images_per_s: Training throughput, in images per second.
        times: Throughput divided by the CPU's; 1 for the CPU itself.
        is_right: Whether its first loss was the CPU's, up to rounding.
    """

    device: str
    chip: str
    images_per_s: float
    times: float
    is_right: bool


@dataclasses.dataclass(frozen=True)
class Race:
    """One training on several devices.

    Attributes:
        version: Version of PyTorch that trained on all devices.
        where: Interpreter or image that has this PyTorch.
        seconds: Seconds that each device trained, after some first steps.
        threads: Number of threads that the CPU trained with.
        racers: Results of the CPU first, then of the GPUs.
    """

    version: str
    where: str
    seconds: float
    threads: int
    racers: tuple[Racer, ...]


def race(
    *,
    python: str | Path | None = None,
    image: str | None = None,
    devices: Sequence[str] = (),
    seconds: float = _SECONDS,
    timeout_s: float = 120.0,
) -> Race:
    """Train one small network on the CPU and on each GPU, one after another, and compare.

    The network is that of Keras's example for MNIST (keras-team/keras, mnist_cnn.py). It trains on
    random images in batches of 256, with SGD in fp32 and PyTorch's default settings.

    Args:
        python: Interpreter whose PyTorch computes. Default: this one.
        image: Container image whose PyTorch computes instead.
        devices: GPUs to take part, such as ``cuda:0``. Default: all. The CPU always takes part.
        seconds: Seconds that each device trains, above 0. Default 3.
        timeout_s: Time limit of the whole race in seconds, above 0. Default 120.

    Raises:
        RequestError: The interpreter, image or GPU does not exist, or PyTorch is not installed.
        TarmacError: A device failed, or the race took longer than ``timeout_s``.
    """
    if not seconds > 0:
        raise RequestError(f"seconds is {seconds:g}, expected above 0")
    if not timeout_s > 0:
        raise RequestError(f"timeout is {timeout_s:g}, expected above 0 seconds")
    refuse_unknown_devices(devices)
    if image is not None:
        target = container_target(image)
    else:
        target = THIS_PYTHON if python is None else python_target(python)
    probe = run_probe(
        RACE,
        target,
        depth="normal",
        devices=devices,
        timeout_s=timeout_s,
        environment={"TARMAC_PROBE_RACE_S": f"{seconds:g}"},
    )
    if probe.outcome == "not installed":
        brings = install_hint("train") if target == THIS_PYTHON else "Install it there"
        raise RequestError(
            f"PyTorch is not installed in {target.name}, which a race needs",
            hint=f"{brings}, or name one that has it: --python PATH",
        )
    if probe.outcome == "hung":
        raise TarmacError(
            f"the race took more than {timeout_s:g} s in {target.name}, {_where(probe)}",
            hint="Give it more time: --timeout SECONDS",
        )
    if probe.outcome != "done":
        raise TarmacError(
            f"the race failed in {target.name}: {_reason(probe)}",
            hint="Find the cause: tarmac check torch, with the same --python or --image",
        )
    seen = [device["name"] for device in probe.result["devices"]]
    for device in devices:
        if device not in seen and (device != "cuda" or len(seen) == 1):
            raise RequestError(
                f"{device} took no part: PyTorch does not see it in {target.name}",
                hint="Find the cause: tarmac check torch, with the same --python or --image",
            )
    return Race(
        version=str(probe.result["version"]),
        where=target.name,
        seconds=seconds,
        threads=int(probe.result["threads"]),
        racers=tuple(_racers(probe)),
    )


def _racers(probe: Probe) -> list[Racer]:
    devices = probe.result["devices"]
    first = devices[0]
    return [
        Racer(
            device=device["name"],
            chip=device.get("chip") or name_cpu(),
            images_per_s=device["images_per_s"],
            times=device["images_per_s"] / first["images_per_s"],
            is_right=abs(device["first_loss"] - first["first_loss"])
            <= _TOLERANCE * abs(first["first_loss"]),
        )
        for device in devices
    ]


def _reason(probe: Probe) -> str:
    error = probe.result.get("error")
    if error:
        return f"{error['type']}: {error['message']}, {_where(probe)}"
    return probe.detail or probe.outcome


def _where(probe: Probe) -> str:
    return f"during {probe.result.get('stage', 'start')}"
