"""One question to NVIDIA's management library; None where card or driver do not know the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pynvml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["SLOWDOWNS", "Field", "ask", "ask_fields", "ask_reasons", "watts"]

# What lowers clocks, by its bit. That nothing computes is no reason of these.
SLOWDOWNS = {
    "sw_power_cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "sw_thermal": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "hw_slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
    "hw_thermal": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "hw_power_brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
}

# A field's number, or that and the link's it is asked of.
Field = int | tuple[int, int]

# The members of the union that a field's value is, by the number that the library gives its type.
_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


# NVML_VALUE_NOT_AVAILABLE, in 32 and 64 bits.
_NOT_AVAILABLE = (2**32 - 1, 2**64 - 1)


def ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the library; None where the card, the driver or the binding does not know the answer."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def ask_fields(handle: Any, fields: Sequence[Field]) -> dict[Field, Any]:
    """Return the values of several fields by one call, without those that are not supported."""
    answers = ask(pynvml.nvmlDeviceGetFieldValues, handle, fields) if fields else None
    values = {
        field: getattr(answer.value, _TYPES[answer.valueType])
        for field, answer in zip(fields, answers or (), strict=False)
        if answer.nvmlReturn == pynvml.NVML_SUCCESS and answer.valueType < len(_TYPES)
    }
    return {field: value for field, value in values.items() if value not in _NOT_AVAILABLE}


def ask_reasons(handle: Any) -> int | None:
    """Return the bits of the reasons for a GPU's clocks of now."""
    found = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    return None if found is None else int(found)


def watts(milliwatts: float | None) -> float | None:
    """Return watts for what the library says in milliwatts."""
    return None if milliwatts is None else milliwatts / 1000
