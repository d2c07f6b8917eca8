"""Samples from files: tables, JSON, arrays and images, some at a time."""

from tarmac.inference.reading.arrays import cut_samples
from tarmac.inference.reading.files import read_samples

__all__ = ["cut_samples", "read_samples"]
