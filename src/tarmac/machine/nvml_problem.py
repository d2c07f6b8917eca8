"""Why NVIDIA's management library does not start."""

from __future__ import annotations

import dataclasses

import pynvml


@dataclasses.dataclass(frozen=True)
class NvmlProblem:
    """Why the library does not start.

    Attributes:
        text: In its own words.
        is_absence: Whether there is no driver at all, and so no GPU that could be used.
    """

    text: str
    is_absence: bool


def problem_of(error: pynvml.NVMLError) -> NvmlProblem:
    """Return what an error that the library starts with stands for."""
    absences = (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded)
    return NvmlProblem(f"NVML: {error}", is_absence=isinstance(error, absences))
