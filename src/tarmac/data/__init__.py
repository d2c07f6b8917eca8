"""Datasets: named, checksummed data that load as arrays.

Example:
    >>> from tarmac import data
    >>> data.load("digits").train.inputs.shape
    (1438, 8, 8)
"""

from tarmac.data.acquire import add, fetch
from tarmac.data.base import (
    Column,
    Columns,
    Dataset,
    Loaded,
    Loader,
    Progress,
    SampleShape,
    Split,
    columns_of,
    samples_from,
    slice_columns,
)
from tarmac.data.held_out import (
    VALIDATION_SPLITS,
    HoldOut,
    Subset,
    ValidationSplit,
    default_validation_size,
    hold_out,
)
from tarmac.data.included import INCLUDED
from tarmac.data.loading import Loading, as_array, in_one_line
from tarmac.data.naming import Naming
from tarmac.data.numpy_files import numpy_errors
from tarmac.data.own import OwnRecord, TableColumns, Taking, read_image, take_over
from tarmac.data.registry import DatasetStatus, FileStatus, describe, load, load_text, names, verify
from tarmac.data.sources import SOURCES
from tarmac.data.store import data_root
from tarmac.data.text import Text
from tarmac.data.token_files import load_tokens
from tarmac.data.token_windows import windows

__all__ = [
    "INCLUDED",
    "SOURCES",
    "VALIDATION_SPLITS",
    "Column",
    "Columns",
    "Dataset",
    "DatasetStatus",
    "FileStatus",
    "HoldOut",
    "Loaded",
    "Loader",
    "Loading",
    "Naming",
    "OwnRecord",
    "Progress",
    "SampleShape",
    "Split",
    "Subset",
    "TableColumns",
    "Taking",
    "Text",
    "ValidationSplit",
    "add",
    "as_array",
    "columns_of",
    "data_root",
    "default_validation_size",
    "describe",
    "fetch",
    "hold_out",
    "in_one_line",
    "load",
    "load_text",
    "load_tokens",
    "names",
    "numpy_errors",
    "read_image",
    "samples_from",
    "slice_columns",
    "take_over",
    "verify",
    "windows",
]
