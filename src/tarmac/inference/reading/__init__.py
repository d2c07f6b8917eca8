"""Batches of samples from files: tables, JSON, arrays and images."""

from tarmac.inference.reading.arrays import cut_samples
from tarmac.inference.reading.files import read_samples

__all__ = ["cut_samples", "read_samples"]
