"""NVIDIA's management library (NVML): its start, and single queries.

A query returns None if card, driver or binding does not support it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pynvml

from tarmac.machine.asking import Asker, NoAnswerError

# Reasons for low clocks, with their bits; an idle GPU is not among them.
SLOWDOWNS = {
    "sw_power_cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "sw_thermal": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "hw_slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
    "hw_thermal": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "hw_power_brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
}

# Policies that lower the clocks, of nvmlDeviceGetViolationStatus.
POLICIES = {
    "power": pynvml.NVML_PERF_POLICY_POWER,
    "thermal": pynvml.NVML_PERF_POLICY_THERMAL,
}

# A field's number, or a field's and a link's number.
Field = int | tuple[int, int]

# Members of the union of a field's value, by the library's number of the value's type.
_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

# NVML_VALUE_NOT_AVAILABLE, in 32 and 64 bits.
_NOT_AVAILABLE = (2**32 - 1, 2**64 - 1)

# Starts that a hung driver has not answered yet.
_late_starts: list[Asker[NvmlStart | NvmlProblem]] = []


@dataclasses.dataclass(frozen=True)
class NvmlProblem:
    """The reason why the library does not start.

    Attributes:
        text: Error message of the library.
        is_absence: Whether there is no driver at all, and so no usable GPU.
    """

    text: str
    is_absence: bool


@dataclasses.dataclass(frozen=True)
class NvmlStart:
    """The started library.

    Attributes:
        version: Version of the driver; None if unknown.
        cuda: Newest CUDA version that the driver supports, ``13.0``; None if unknown.
        num_gpus: Number of GPUs of the driver.
    """

    version: str | None
    cuda: str | None
    num_gpus: int


def start_nvml(timeout_s: float) -> NvmlStart | NvmlProblem:
    """Start the library, which its user shuts down by ``nvmlShutdown``.

    A hung driver is asked once: later callers join the start that it has not answered, and wait
    only for what is left of their time since then.

    Raises:
        NoAnswerError: The driver has not answered in time.
    """
    try:
        asker = _late_starts.pop()
    except IndexError:
        asker = Asker(_start)
    asker.ask()
    try:
        start = asker.answer(timeout_s)
    except NoAnswerError:
        _late_starts.append(asker)
        raise
    asker.close()
    return start


def _start() -> NvmlStart | NvmlProblem:
    try:
        pynvml.nvmlInit()
        num_gpus = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        absences = (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded)
        return NvmlProblem(f"NVML: {error}", is_absence=isinstance(error, absences))
    cuda = ask(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    return NvmlStart(
        ask(pynvml.nvmlSystemGetDriverVersion),
        None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        num_gpus,
    )


def ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the library; return None if card, driver or binding does not support the query."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def ask_fields(handle: Any, fields: Sequence[Field]) -> dict[Field, Any]:
    """Return the values of several fields by one call, without unsupported fields."""
    answers = ask(pynvml.nvmlDeviceGetFieldValues, handle, fields) if fields else None
    values = {
        field: read_field(answer) for field, answer in zip(fields, answers or (), strict=False)
    }
    return {field: value for field, value in values.items() if value is not None}


def read_field(answer: Any) -> Any:
    """Return a field's value; None if it has none."""
    if answer.nvmlReturn != pynvml.NVML_SUCCESS or answer.valueType >= len(_TYPES):
        return None
    value = getattr(answer.value, _TYPES[answer.valueType])
    return None if value in _NOT_AVAILABLE else value


def ask_running(handle: Any, kind: str) -> list[Any] | None:
    """Return the processes of a kind; None if the driver does not report them.

    Args:
        handle: NVML handle of a GPU or slice.
        kind: ``Compute``, ``Graphics`` or ``MPSCompute``.
    """
    # Drivers before 510 have only the second version of this function.
    for version in (3, 2):
        function = getattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses_v{version}", None)
        processes = None if function is None else ask(function, handle)
        if processes is not None:
            return list(processes)
    return None


def pci_address(pci: Any) -> str | None:
    """Return a card's address as the kernel writes it; None for None."""
    if pci is None:
        return None
    text = pci.busId if isinstance(pci.busId, str) else pci.busId.decode()
    # NVML writes the domain with eight digits, the kernel with four.
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def names_of(mask: int, bits: Mapping[str, int] = SLOWDOWNS) -> tuple[str, ...]:
    """Return the names of the bits that a mask has."""
    return tuple(name for name, bit in bits.items() if mask & bit)


def watts(milliwatts: float | None) -> float | None:
    """Convert the library's milliwatts to watts; None for None."""
    return None if milliwatts is None else milliwatts / 1000


def known(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}
