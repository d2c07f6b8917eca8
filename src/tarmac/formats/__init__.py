"""Other systems' job files, read into Tarmac's `Job` and written back."""

from tarmac.formats.detect import read_any, read_paths
from tarmac.formats.hkube import left_out_for_hkube, notes_for_hkube, read_hkube, write_hkube
from tarmac.formats.reading import Reading
from tarmac.formats.shipyard import read_shipyard, write_shipyard

__all__ = [
    "Reading",
    "left_out_for_hkube",
    "notes_for_hkube",
    "read_any",
    "read_hkube",
    "read_paths",
    "read_shipyard",
    "write_hkube",
    "write_shipyard",
]
