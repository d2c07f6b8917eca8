"""The GPUs that an algorithm's definition asks for, which must be available."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tarmac.errors import RequestError
from tarmac.machine import Device, find_devices, name_left_out, why_on_cpu

# Values that name no GPU. CUDA's own images set `all`, whatever the definition asks for (NVIDIA
# Container Toolkit, "Environment variables"; CUDA C++ programming guide).
_NO_NAMES = frozenset({"", "all", "none", "void", "-1", "nodevfiles"})
# The first variable that is set counts: CUDA's variable narrows a container's GPUs.
_NAMES_OF_GPUS = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")

_ASKED = "TARMAC_GPUS"


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request for GPUs.

    Attributes:
        number: Number of GPUs, at least 1. A fraction is rounded up.
        why: Variable and value that ask for the GPUs, such as ``TARMAC_GPUS is 2``.
    """

    number: int
    why: str


def read_asked(environment: Mapping[str, str]) -> Asked | None:
    """Return the number of GPUs that were asked for; None if no variable asks for GPUs.

    Args:
        environment: Environment variables. ``TARMAC_GPUS`` is the definition's ``gpu``, which HKube
            itself does not pass on to containers. Otherwise the variables count in which HKube's
            device plug-in and Tarmac name a process's GPUs.

    Raises:
        RequestError: ``TARMAC_GPUS`` is not a number of GPUs.
    """
    text = environment.get(_ASKED, "").strip()
    if text:
        try:
            number = math.ceil(float(text))
        except (ValueError, OverflowError):
            number = -1
        if number < 0:
            raise RequestError(f"{_ASKED} is {text!r}, expected a number of GPUs, such as 1")
        return Asked(number, f"{_ASKED} is {text}") if number else None
    name = next((name for name in _NAMES_OF_GPUS if name in environment), None)
    value = "" if name is None else environment[name].strip()
    if value.lower() in _NO_NAMES:
        return None
    return Asked(len(value.split(",")), f"{name} is {value}")


def why_too_few(requested: Asked, request: str, devices: Sequence[Device]) -> str:
    """Return why devices are too few for the request; empty if they are not.

    Args:
        requested: Number of GPUs that the definition asks for, with the reason.
        request: Value of ``devices`` in the input. Default ``auto``. Named devices are accepted,
            except a CPU in place of a GPU.
        devices: Devices that the request stands for.
    """
    if request.startswith("cpu"):
        return ""
    many = (
        "a GPU was"
        if requested.number == 1 or devices[0].type == "cpu"
        else f"{requested.number} GPUs were"
    )
    if devices[0].type == "cpu":
        return f"{many} requested ({requested.why}), but none is usable"
    if request in ("auto", "all") and len(devices) < requested.number:
        here = "there is 1" if len(devices) == 1 else f"there are {len(devices)}"
        return f"{many} requested ({requested.why}), but {here}"
    return ""


def refuse_fewer_gpus(devices: str, environment: Mapping[str, str]) -> None:
    """Refuse a CPU, or fewer GPUs than the definition asks for, unless the input names devices.

    Args:
        devices: Value of ``devices`` in the input. Default ``auto``.
        environment: Environment variables of the process, for `read_asked`.

    Raises:
        RequestError: There are too few usable GPUs.
    """
    request = read_asked(environment)
    if request is None:
        return
    available_devices = find_devices(devices)
    message = why_too_few(request, devices, available_devices)
    if not message:
        return
    is_cpu = available_devices[0].type == "cpu"
    reason = why_on_cpu() if is_cpu else name_left_out()
    choice = "a CPU anyway" if is_cpu else "the GPUs that are here"
    value = '"cpu"' if is_cpu else f'"{len(available_devices)}"'
    raise RequestError(
        f"{message}: {reason}" if reason else message,
        hint=f'Find the cause: tarmac check. To train on {choice}: "devices": {value}',
    )
