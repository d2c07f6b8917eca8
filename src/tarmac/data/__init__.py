"""Datasets: named, checksummed data that load as arrays.

Example:
    >>> from tarmac import data
    >>> data.load("digits").train.inputs.shape
    (1438, 8, 8)
"""

from tarmac.data.acquire import add as add
from tarmac.data.acquire import fetch as fetch
from tarmac.data.base import Column as Column
from tarmac.data.base import Columns as Columns
from tarmac.data.base import Dataset as Dataset
from tarmac.data.base import Loaded as Loaded
from tarmac.data.base import Loader as Loader
from tarmac.data.base import Progress as Progress
from tarmac.data.base import SampleShape as SampleShape
from tarmac.data.base import Split as Split
from tarmac.data.base import columns_of as columns_of
from tarmac.data.base import samples_from as samples_from
from tarmac.data.base import slice_columns as slice_columns
from tarmac.data.held_out import VALIDATION_SPLITS as VALIDATION_SPLITS
from tarmac.data.held_out import HoldOut as HoldOut
from tarmac.data.held_out import Subset as Subset
from tarmac.data.held_out import ValidationSplit as ValidationSplit
from tarmac.data.held_out import default_validation_size as default_validation_size
from tarmac.data.held_out import hold_out as hold_out
from tarmac.data.included import INCLUDED as INCLUDED
from tarmac.data.loading import Loading as Loading
from tarmac.data.loading import as_array as as_array
from tarmac.data.loading import in_one_line as in_one_line
from tarmac.data.naming import Naming as Naming
from tarmac.data.numpy_files import numpy_errors as numpy_errors
from tarmac.data.own import OwnRecord as OwnRecord
from tarmac.data.own import TableColumns as TableColumns
from tarmac.data.own import Taking as Taking
from tarmac.data.own import read_image as read_image
from tarmac.data.own import take_over as take_over
from tarmac.data.registry import DatasetStatus as DatasetStatus
from tarmac.data.registry import FileStatus as FileStatus
from tarmac.data.registry import describe as describe
from tarmac.data.registry import load as load
from tarmac.data.registry import load_text as load_text
from tarmac.data.registry import names as names
from tarmac.data.registry import verify as verify
from tarmac.data.sources import SOURCES as SOURCES
from tarmac.data.store import data_root as data_root
from tarmac.data.text import Text as Text
from tarmac.data.token_files import load_tokens as load_tokens
from tarmac.data.token_windows import windows as windows
