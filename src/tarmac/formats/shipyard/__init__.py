"""Azure Batch Shipyard's configurations, of before 3.0 and since."""

from tarmac.formats.shipyard.reader import ShipyardReading, read_shipyard
from tarmac.formats.shipyard.reading.files import (
    find_jobs_files,
    looks_like_shipyard,
    read_part,
    read_siblings,
)
from tarmac.formats.shipyard.writing import write_shipyard

__all__ = [
    "ShipyardReading",
    "find_jobs_files",
    "looks_like_shipyard",
    "read_part",
    "read_shipyard",
    "read_siblings",
    "write_shipyard",
]
