"""The reasons why NVIDIA's management library does not start."""

from __future__ import annotations

import dataclasses

import pynvml


@dataclasses.dataclass(frozen=True)
class NvmlProblem:
    """The reason why the library does not start.

    Attributes:
        text: Error message of the library.
        is_absence: Whether there is no driver at all, and so no usable GPU.
    """

    text: str
    is_absence: bool


def problem_of(error: pynvml.NVMLError) -> NvmlProblem:
    """Return the problem of an error at the library's start."""
    absences = (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded)
    return NvmlProblem(f"NVML: {error}", is_absence=isinstance(error, absences))
