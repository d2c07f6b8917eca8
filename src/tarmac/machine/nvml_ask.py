"""Single queries of NVIDIA's management library; None if card or driver does not support them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pynvml

# Reasons for low clocks, with their bits; an idle GPU is not among them.
SLOWDOWNS = {
    "sw_power_cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "sw_thermal": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "hw_slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
    "hw_thermal": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "hw_power_brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
}

# A field's number, or a field's and a link's number.
Field = int | tuple[int, int]

# Members of the union of a field's value, by the library's number of the value's type.
_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


# NVML_VALUE_NOT_AVAILABLE, in 32 and 64 bits.
_NOT_AVAILABLE = (2**32 - 1, 2**64 - 1)


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


def ask_reasons(handle: Any) -> int | None:
    """Return the bits of the reasons for a GPU's current clocks."""
    reasons = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    return None if reasons is None else int(reasons)


def watts(milliwatts: float | None) -> float | None:
    """Convert the library's milliwatts to watts; None for None."""
    return None if milliwatts is None else milliwatts / 1000
