"""Datasets: named, checksummed data that load as arrays.

Example:
    >>> from tarmac import data
    >>> data.load("digits").train.inputs.shape
    (1438, 8, 8)
"""

from tarmac.data._acquire import add, fetch
from tarmac.data._base import Dataset, Progress, Split
from tarmac.data._registry import DatasetStatus, FileStatus, describe, load, names, verify
from tarmac.data._store import data_root

__all__ = [
    "Dataset",
    "DatasetStatus",
    "FileStatus",
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
