"""How many GPUs an algorithm's definition asked for, which then must be there."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.machine import find_devices, name_left_out, why_on_cpu

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.machine import Device

# What these variables say where they name no GPU. An image of CUDA's own says `all`, whatever is
# asked for (NVIDIA Container Toolkit, "Environment variables"; CUDA C++ programming guide).
_NO_NAMES = frozenset({"", "all", "none", "void", "-1", "nodevfiles"})
# The first that is set counts: CUDA's narrows what a container was given.
_NAMES_OF_GPUS = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")

_ASKED = "TARMAC_GPUS"


@dataclasses.dataclass(frozen=True)
class Asked:
    """That GPUs were asked for.

    Attributes:
        number: Number of GPUs, at least 1. A fraction is rounded up.
        why: Variable and value that ask for the GPUs, such as ``TARMAC_GPUS is 2``.
    """

    number: int
    why: str


def read_asked(environment: Mapping[str, str]) -> Asked | None:
    """Return how many GPUs were asked for; None where nothing says that any were.

    Args:
        environment: ``TARMAC_GPUS`` is the definition's ``gpu``, which HKube passes on to no
            container; where it is not set, HKube's device plug-in and Tarmac name the GPUs that a
            process was given.

    Raises:
        RequestError: ``TARMAC_GPUS`` is no number of GPUs.
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


def why_too_few(asked: Asked, request: str, found: Sequence[Device]) -> str:
    """Return in which way devices are fewer than was asked for; empty where they are not.

    Args:
        asked: Number of GPUs that the definition asks for, with the reason.
        request: What the input says of devices, ``auto`` where it says nothing. Devices that it
            names are taken as they are, but for a CPU in the place of a GPU.
        found: The devices that it stands for.
    """
    if request.startswith("cpu"):
        return ""
    many = (
        "a GPU was" if asked.number == 1 or found[0].type == "cpu" else f"{asked.number} GPUs were"
    )
    if found[0].type == "cpu":
        return f"{many} asked for ({asked.why}), and there is none to compute on"
    if request in ("auto", "all") and len(found) < asked.number:
        here = "there is 1" if len(found) == 1 else f"there are {len(found)}"
        return f"{many} asked for ({asked.why}), and {here} to compute on"
    return ""


def refuse_fewer_gpus(devices: str, environment: Mapping[str, str]) -> None:
    """Refuse to compute on a CPU, or on fewer GPUs than were asked for, where nobody named them.

    Args:
        devices: What the input asks for, ``auto`` where it says nothing.
        environment: Environment variables of the process, for `read_asked`.

    Raises:
        RequestError: There are too few GPUs that can be computed on.
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
    choice = "a CPU all the same" if is_cpu else "those that are here"
    value = '"cpu"' if is_cpu else f'"{len(available_devices)}"'
    raise RequestError(
        f"{message}: {reason}" if reason else message,
        hint=f'Find out why: tarmac check. To train on {choice}: "devices": {value}',
    )
