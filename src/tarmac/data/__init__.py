"""Datasets: named, checksummed data that load as arrays.

Example:
    >>> from tarmac import data
    >>> data.load("digits").train.inputs.shape
    (1438, 8, 8)
"""

from tarmac.data.acquire import add, fetch
from tarmac.data.base import Dataset, Loader, Progress, Split
from tarmac.data.registry import DatasetStatus, FileStatus, describe, load, names, verify
from tarmac.data.store import data_root

__all__ = [
    "Dataset",
    "DatasetStatus",
    "FileStatus",
    "Loader",
    "Progress",
    "Split",
    "add",
    "data_root",
    "describe",
    "fetch",
    "load",
    "names",
    "verify",
]
