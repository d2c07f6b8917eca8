"""The devices that a user requests, such as ``auto``, ``cuda:0,2`` or ``cpu:2``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tarmac.errors import RequestError
from tarmac.machine.cuda import look_at_gpus, read_build
from tarmac.machine.device import Device, find_cpu
from tarmac.machine.obstacles import Obstacle

# Reasons why `auto` selects the CPU.
_NO_GPU = "no GPU is here"
UNUSABLE = "the GPUs here cannot be used"


def find_devices(request: str = "auto", *, shared: bool = False) -> tuple[Device, ...]:
    """Find the devices that a user requested.

    No CUDA context is created if the driver's library answers.

    Args:
        request: ``"auto"`` or ``"all"`` (every usable GPU, else the CPU), a number of usable GPUs
            (``"2"``), indices (``"0,2"``, ``"cuda:1"``, ``"cuda:0,2"``), ``"cuda"`` (the first
            GPU), ``"cpu"``, or ``"cpu:2"`` to divide the CPU's cores between two replicas.
        shared: Whether other processes of the same training may use the GPUs already, so that an
            exclusive GPU does not count as another program's.

    Raises:
        RequestError: The text names no devices, the same device twice, or a missing or unusable
            device.
    """
    kind, separator, rest = request.partition(":")
    if kind == "cpu":
        return _cpu_replicas(request, rest if separator else "1")
    selection = _cuda_request(request)
    gpus, why_none = look_at_gpus(shared=shared)
    if isinstance(selection, tuple):
        return _named(gpus, selection, request, why_none)
    usable = [gpu for gpu in gpus if gpu.obstacle is None]
    if not usable and selection in (None, 1):
        return (find_cpu(),)
    if selection is not None and selection > len(usable):
        raise _too_few(request, gpus, why_none)
    return tuple(usable[:selection])


def why_on_cpu() -> str:
    """Return why ``auto`` selects the CPU: there is no GPU, or the problem and its remedy."""
    gpus, why_none = look_at_gpus()
    obstacles = [gpu.obstacle for gpu in gpus if gpu.obstacle is not None]
    if why_none is not None:
        obstacles.append(why_none)
    texts = dict.fromkeys(f"{obstacle.text}. {obstacle.hint}" for obstacle in obstacles)
    return f"{UNUSABLE}: {'; '.join(texts)}" if texts else _NO_GPU


def name_left_out(*, shared: bool = False) -> str:
    """Return the unusable GPUs with the reasons, in words; empty if all are usable.

    Args:
        shared: Whether other processes of the same training may use the GPUs already, as for
            `find_devices`.
    """
    gpus, _ = look_at_gpus(shared=shared)
    words = [f"cuda:{g.index}: {g.obstacle.text}" for g in gpus if g.obstacle is not None]
    return f"without {'; without '.join(words)}" if words else ""


def name_devices(devices: Sequence[Device]) -> str:
    """Return the request that finds these devices again: ``cpu:2``, ``cuda:0``, ``cuda:0,2``."""
    if devices[0].type == "cpu":
        return "cpu" if len(devices) == 1 else f"cpu:{len(devices)}"
    # Processes that see one GPU each may all have the same index: name it once.
    return "cuda:" + ",".join(dict.fromkeys(str(device.index) for device in devices))


_FORMS = "expected auto, all, a number of GPUs, their indices (0,2), cuda:INDEX, cpu or cpu:NUMBER"

_NO_CUDA_HINT = "Use cpu, or cpu:2 to train two replicas; auto takes a GPU where one is."


def _cuda_request(request: str) -> int | tuple[int, ...] | None:
    """Parse a request for GPUs: their number or their indices; None stands for all GPUs."""
    if request in ("auto", "all"):
        return None
    if request == "cuda":
        return (0,)
    kind, separator, rest = request.partition(":")
    if separator and kind != "cuda":
        raise RequestError(f"devices is {request!r}, {_FORMS}")
    words = (rest if separator else request).split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise RequestError(f"devices is {request!r}, {_FORMS}")
    numbers = tuple(int(word) for word in words)
    if not separator and len(numbers) == 1:
        if numbers[0] < 1:
            raise RequestError(
                f"devices is {request!r}, expected at least 1",
                hint="A number is a count of GPUs; for the first GPU alone, use cuda:0.",
            )
        return numbers[0]
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise RequestError(f"devices is {request!r}, which names cuda:{twice} twice")
    return numbers


def _named(
    gpus: Sequence[Device], indices: Sequence[int], request: str, why_none: Obstacle | None
) -> tuple[Device, ...]:
    """Return the GPUs of some indices; raise an error if one of them is unusable."""
    if not gpus or max(indices) >= len(gpus):
        raise _too_few(request, gpus, why_none)
    for gpu in (gpus[index] for index in indices):
        if gpu.obstacle is not None:
            raise RequestError(
                f"devices is {request!r}, but cuda:{gpu.index} cannot be computed on: "
                f"{gpu.obstacle.text}",
                hint=gpu.obstacle.hint,
            )
    return tuple(gpus[index] for index in indices)


def _too_few(request: str, gpus: Sequence[Device], why_none: Obstacle | None) -> RequestError:
    if gpus:
        here = ", ".join(f"cuda:{gpu.index} ({gpu.name})" for gpu in gpus)
        text = f"devices is {request!r}, but this machine has {len(gpus)}: {here}"
        obstacles = {gpu.index: gpu.obstacle for gpu in gpus if gpu.obstacle is not None}
        if not obstacles:
            return RequestError(text)
        words = "; ".join(f"not cuda:{index}: {o.text}" for index, o in obstacles.items())
        return RequestError(f"{text}; {words}", hint=next(iter(obstacles.values())).hint)
    if why_none is not None:
        hint = f"{why_none.hint}. {_NO_CUDA_HINT}"
        return RequestError(f"devices is {request!r}, but {why_none.text}", hint=hint)
    build = read_build()
    if build.cuda is None:
        why = f"this PyTorch ({build.version}) is built without CUDA"
    else:
        why = f"{build.label} sees no GPU here"
    return RequestError(f"devices is {request!r}, but {why}", hint=_NO_CUDA_HINT)


def _cpu_replicas(request: str, text: str) -> tuple[Device, ...]:
    if not text.isdecimal() or int(text) < 1:
        raise RequestError(f"devices is {request!r}, expected cpu or cpu:NUMBER from 1")
    cpu, count = find_cpu(), int(text)
    share = dataclasses.replace(
        cpu,
        num_threads=max(1, cpu.num_threads // count),
        available_bytes=cpu.available_bytes // count,
    )
    return (share,) * count
